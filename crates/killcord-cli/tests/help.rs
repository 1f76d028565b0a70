//! What the program says about itself.
//!
//! Promised: every help page fits 80 columns, shows examples before options, and is as the snapshots have it,
//! so that a change is seen in review. What the pages say is tested where it is done.

use killcord_testkit::run;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn page(args: &[&str]) -> String {
    // The width is that of a usual terminal, whatever the tests run on.
    let done = run(Command::new(env!("CARGO_BIN_EXE_killcord")).args(args).env("COLUMNS", "80"), SOON);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{args:?}");
    for line in done.stdout.lines() {
        assert!(line.chars().count() <= 80, "{args:?}: {line:?}");
    }
    let (examples, options) = (done.stdout.find("Examples:"), done.stdout.find("Options:"));
    assert!(examples.is_some() && examples < options, "{args:?}: {}", done.stdout);
    done.stdout
}

#[test]
fn help() {
    insta::assert_snapshot!(page(&["--help"]));
}

#[test]
fn help_of_run() {
    insta::assert_snapshot!(page(&["run", "--help"]));
}

#[test]
fn help_of_doctor() {
    insta::assert_snapshot!(page(&["doctor", "--help"]));
}

#[test]
fn help_of_demo() {
    insta::assert_snapshot!(page(&["demo", "--help"]));
}

#[test]
fn help_of_sweep() {
    insta::assert_snapshot!(page(&["sweep", "--help"]));
}

#[test]
fn help_of_list() {
    insta::assert_snapshot!(page(&["list", "--help"]));
}

#[test]
fn help_of_logs() {
    insta::assert_snapshot!(page(&["logs", "--help"]));
}

#[test]
fn help_of_wait() {
    insta::assert_snapshot!(page(&["wait", "--help"]));
}

#[test]
fn help_of_stop() {
    insta::assert_snapshot!(page(&["stop", "--help"]));
}

#[test]
fn help_of_mcp_config_and_audit() {
    insta::assert_snapshot!("help_of_mcp", page(&["mcp", "--help"]));
    insta::assert_snapshot!("help_of_mcp_install", page(&["mcp", "install", "--help"]));
    insta::assert_snapshot!("help_of_config", page(&["config", "--help"]));
    insta::assert_snapshot!("help_of_audit", page(&["audit", "--help"]));
    insta::assert_snapshot!("help_of_audit_verify", page(&["audit", "verify", "--help"]));
    insta::assert_snapshot!("help_of_audit_show", page(&["audit", "show", "--help"]));
}
