//! What the program says about itself.
//!
//! Promised: every help page fits 100 columns, shows examples before options, and is as the snapshots have it,
//! so that a change is seen in review. What the pages say is tested where it is done.

use killcord_testkit::run;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn page(args: &[&str]) -> String {
    // The width is that of a wide pipe, whatever terminal the tests run on.
    let done = run(Command::new(env!("CARGO_BIN_EXE_killcord")).args(args).env("COLUMNS", "100"), SOON);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{args:?}");
    for line in done.stdout.lines() {
        assert!(line.chars().count() <= 100, "{args:?}: {line:?}");
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
