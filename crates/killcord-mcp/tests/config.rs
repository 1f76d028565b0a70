//! The configuration file, and what is said about a wrong one.
//!
//! Promised: everything that is wrong is said at once, each in one line with its place and what would be right; what
//! `killcord config show` prints reads back as the same configuration; every key is in docs/configuration.md.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_mcp::config::{Config, Level, Shown, keys, parse};
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::spec::Leftovers;
use std::path::Path;

fn complaints(text: &str) -> String {
    let wrong = parse(text).unwrap_err();
    wrong.iter().map(|w| w.at(Path::new("config.toml")) + "\n").collect()
}

const FULL: &str = r#"
[run]
timeout_s = 60
yield_s = 10
max_chars = 1_000
leftovers = "keep"
grace_s = 0
boundary = "tree"
require = "group"

[limits]
memory = "512M"
pids = 200
cpu = 0.5

[sessions]
max = 4
idle_s = 60
absolute_s = 600
kept_s = 0
buffer_bytes = 0x10000
columns = 80
rows = 24
shell = "/bin/sh"

[calls]
at_once = 2
max_line_bytes = 65536

[environment]
pass = ["LANG", "CARGO_*"]
set = { EDITOR = "true", A_B = "" }

[policy]
deny = ['\brm\s+-rf\s+/']
read_only = true

[audit]
enabled = false
directory = "/var/log/killcord"
max_bytes = 4096
files = 2
required = true

[log]
level = "debug"
"#;

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(parse("").unwrap(), Config::default());
    assert_eq!(parse("# nothing\n[run]\n").unwrap(), Config::default());
}

#[test]
fn every_key_is_read() {
    let config = parse(FULL).unwrap();
    assert_eq!((config.run.timeout_s, config.run.leftovers), (60, Leftovers::Keep));
    assert_eq!(
        (config.run.boundary, config.run.require),
        (Choice::Exactly(Boundary::Tree), Some(Boundary::Group))
    );
    assert_eq!(
        (config.limits.memory, config.limits.pids, config.limits.cpu),
        (Some(512 << 20), Some(200), Some(500))
    );
    assert_eq!((config.sessions.buffer_bytes, config.sessions.columns), (65_536, 80));
    assert!(
        config.environment.pass[1].covers("CARGO_HOME") && !config.environment.pass[0].covers("LANGUAGE")
    );
    assert_eq!(config.environment.set["EDITOR"], "true");
    assert_eq!(config.policy.denied("sudo rm  -rf /"), Some(r"\brm\s+-rf\s+/"));
    assert_eq!(config.policy.denied("rm -r /tmp/x"), None);
    assert_eq!((config.audit.directory(), config.log.level), ("/var/log/killcord".into(), Level::Debug));
    // Nothing is at its default, so that a key that is not read would be seen.
    let (full, default) = (Shown(&config).to_string(), Shown(&Config::default()).to_string());
    let same: Vec<&str> =
        full.lines().filter(|l| l.contains('=') && default.lines().any(|d| d == *l)).collect();
    assert_eq!(same, [] as [&str; 0]);
}

#[test]
fn what_is_shown_reads_back() {
    for config in [Config::default(), parse(FULL).unwrap()] {
        assert_eq!(parse(&Shown(&config).to_string()).unwrap(), config);
    }
}

#[test]
fn the_defaults() {
    insta::assert_snapshot!(Shown(&Config::default()));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let text = r#"
[run]
timeout_s = 0
yield_s = "30"
max_chars = 1.5
leftovers = "eat"
grace_s = -1
boundary = "group"
require = "cgroup"
timeout = 5

[limits]
memory = "lots"
pids = 0
cpu = true
memroy = "1M"

[sessions]
max = 99999999999999999999999999999999999999999999
columns = 501
shell = "sh"

[calls]
at_once = [1]

[environment]
pass = ["LANG", "a b", 5, "*"]
set = { "1A" = "x", B = 5 }

[policy]
deny = ["(", "", 1]
read_only = "yes"

[audit]
directory = "logs"
files = 1

[log]
level = "loud"

[polcy]
deny = []
"#;
    insta::assert_snapshot!(complaints(text));
}

#[test]
fn a_file_that_is_no_toml_is_said_with_its_places() {
    insta::assert_snapshot!(complaints("[run\ntimeout_s = \n\n[audit]\nenabled = yes\nmax_bytes = 1 2\n"));
    insta::assert_snapshot!(complaints("run = 5\n[audit]\nfiles = 3\nfiles = 4\n"));
}

#[test]
fn columns_are_counted_in_characters() {
    let wrong = parse("[environment]\nset = { A = \"é€\", B = 1 }").unwrap_err();
    assert_eq!((wrong[0].line, wrong[0].column), (2, 23));
}

#[test]
fn no_text_makes_it_panic() {
    for end in 0..FULL.len() {
        let _ = parse(&FULL[..end]);
        let _ = parse(&FULL[end..]);
        let _ = parse(&FULL.replacen(&FULL[end..=end], "]", 1));
    }
}

#[test]
fn every_key_is_documented() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md"))
            .unwrap();
    let missing: Vec<String> =
        keys().into_iter().filter(|key| !page.contains(&format!("| `{key}` |"))).collect();
    assert_eq!(missing, [] as [String; 0]);
    assert_eq!(keys().len(), 30);
    // The page's own example is one.
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(parse(example).is_ok(), "{:?}", parse(example));
}
