//! Keys send what the terminal's description says that they send.

use std::process::Command;

use killcord_mcp::terminal::keys::keys;
use killcord_testkit::{Need, skip};

/// Names of terminfo and ours.
const KEYS: &[(&str, &str)] = &[
    ("kcuu1", "up"),
    ("kcud1", "down"),
    ("kcub1", "left"),
    ("kcuf1", "right"),
    ("khome", "home"),
    ("kend", "end"),
    ("kich1", "insert"),
    ("kdch1", "delete"),
    ("kpp", "pageup"),
    ("knp", "pagedown"),
    ("kcbt", "shift+tab"),
    ("kf1", "f1"),
    ("kf2", "f2"),
    ("kf3", "f3"),
    ("kf4", "f4"),
    ("kf5", "f5"),
    ("kf6", "f6"),
    ("kf7", "f7"),
    ("kf8", "f8"),
    ("kf9", "f9"),
    ("kf10", "f10"),
    ("kf11", "f11"),
    ("kf12", "f12"),
    ("kf13", "shift+f1"),
    ("kf17", "shift+f5"),
    ("kf25", "ctrl+f1"),
    ("kLFT", "shift+left"),
    ("kRIT", "shift+right"),
    ("kHOM", "shift+home"),
    ("kEND", "shift+end"),
    ("kDC", "shift+delete"),
    ("kPRV", "shift+pageup"),
    ("kLFT5", "ctrl+left"),
    ("kRIT3", "alt+right"),
    ("kUP7", "ctrl+alt+up"),
    ("kDN6", "ctrl+shift+down"),
    ("kDC5", "ctrl+delete"),
    ("kNXT5", "ctrl+pagedown"),
];

#[test]
fn keys_are_those_of_terminfo() {
    let output = Command::new("infocmp").args(["-1", "-x", "xterm-256color"]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        skip!(Need::Program("infocmp with xterm-256color"));
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let described = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('=')?.strip_suffix(','));
        line.map(|line| line.replace("\\E", "\x1b"))
    };
    let mut compared = 0;
    for (name, key) in KEYS {
        // What the program gets after `smkx`, which asks for application cursor keys.
        let sent = String::from_utf8(keys(key, true).unwrap()).unwrap();
        if let Some(described) = described(name) {
            assert_eq!(sent, described, "{name}, {key}");
            compared += 1;
        }
    }
    assert!(compared > 30, "only {compared} of these keys are described");
}
