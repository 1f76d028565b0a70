//! `killcord demo`.
//!
//! Promised: the first half leaves processes and the second none; afterwards none is left at all, also when the
//! demo is interrupted or killed on the way; the exit status is 0 only for that.
//!
//! The demo's own word is not taken for it: the processes are read from its picture and held by pidfds here,
//! and a job around the whole demo must have no leftovers.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that panics has failed the test that called it"
)]

use killcord_testkit::{
    Host, Need, PinnedProcess, Scene, Signal, Terminal, Who, procs, reachable, run, skip,
};
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
/// The promise for a killed owner; the demo's lifeline takes milliseconds.
const BOUND: Duration = Duration::from_secs(2);

const WITHOUT: [&str; 6] = ["owner", "sh", "plain", "setsid", "daemon", "bare"];
const WITH: [&str; 8] =
    ["killcord", "killcord-warden", "killcord-keeper", "sh", "plain", "setsid", "daemon", "bare"];

fn killcord(scene: &Scene, who: Who, args: &[&str]) -> Command {
    let mut command = scene.command(who, reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
    command.args(args);
    command
}

/// The text without colour.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// The (pid, name) of each line of the picture of this half, before or after the kill.
fn picture(text: &str, half: usize, after: bool) -> Vec<(u32, String)> {
    let text = plain(text);
    let title = ["1  without killcord", "2  with killcord"][half - 1];
    let text = text.split_once(title).unwrap_or_else(|| panic!("no half {half} in {text}")).1;
    let text = if half == 1 { text.split("2  with killcord").next().unwrap() } else { text };
    let (before, later) = text.split_once("kill -9").unwrap_or((text, ""));
    let part = if after { later } else { before };
    part.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip_while(|w| ["└─", "├─", "│"].contains(w));
            let pid = words.next()?.parse().ok()?;
            Some((pid, words.next()?.to_owned()))
        })
        .collect()
}

fn names(picture: &[(u32, String)]) -> Vec<&str> {
    picture.iter().map(|(_, name)| name.as_str()).collect()
}

/// The names on the lines of the half that say this.
fn said<'a>(text: &'a str, half: usize, what: &str) -> Vec<&'a str> {
    let halves: Vec<&str> = text.split("2  with killcord").collect();
    let lines = halves[half - 1].lines().filter(|line| line.contains(what));
    lines.map(|line| line.split_ascii_whitespace().nth(1).unwrap()).collect()
}

fn assert_all_gone(picture: &[(u32, String)]) {
    for (pid, name) in picture {
        // A number that was given to another process in the meantime has another name.
        let there = procs::stat(*pid).filter(|found| found.comm == *name && !found.is_dead());
        assert!(there.is_none(), "{name} ({pid}) is left: {there:?}");
    }
}

fn played(who: Who, boundary: &str) {
    let scene = Scene::new();
    let done = run(&mut killcord(&scene, who, &["demo", "--boundary", boundary]), SOON);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{who:?} {boundary}: {}", done.stdout);
    assert!(!done.stdout.contains('\x1b'), "{:?}", done.stdout);
    assert!(done.elapsed < Duration::from_secs(8), "{:?}", done.elapsed);
    assert_eq!(said(&done.stdout, 1, "still runs"), WITHOUT[1..], "{}", done.stdout);
    assert_eq!(said(&done.stdout, 1, "ended after"), WITHOUT[..1], "{}", done.stdout);
    assert_eq!(said(&done.stdout, 2, "still runs"), [""; 0], "{}", done.stdout);
    assert_eq!(said(&done.stdout, 2, "ended after"), WITH, "{}", done.stdout);
    for half in [1, 2] {
        assert_all_gone(&picture(&done.stdout, half, true));
    }
    let last = done.stdout.trim_end().lines().last().unwrap();
    assert!(last.starts_with("Without killcord 5 processes outlived their owner; with it all 8 were gone"));
}

#[test]
fn the_first_half_leaves_processes_and_the_second_none() {
    for (who, boundary) in Host::cells() {
        played(who, boundary);
    }
    for who in Who::here() {
        played(*who, "auto");
    }
}

/// The negative control: a boundary that does not hold escapees is shown as such.
#[test]
fn on_group_it_shows_what_is_left_and_fails() {
    let scene = Scene::new();
    let done = run(&mut killcord(&scene, Who::here()[0], &["demo", "--boundary", "group"]), SOON);
    assert_eq!(done.code(), 1, "{}", done.stdout);
    assert_eq!(said(&done.stdout, 2, "still runs"), ["setsid", "daemon", "bare"], "{}", done.stdout);
    for half in [1, 2] {
        assert_all_gone(&picture(&done.stdout, half, true));
    }
}

#[test]
fn a_boundary_that_cannot_be_had_is_said_in_one_line() {
    let who = Who::User;
    if Host::get().has(Need::Cgroup(who)) {
        skip!(Need::Other("this user has every boundary"));
    }
    let scene = Scene::new();
    let done = run(&mut killcord(&scene, who, &["demo", "--boundary", "cgroup"]), SOON);
    assert_eq!(done.code(), 125, "{}", done.stdout);
    let [line] = done.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{}", done.stderr) };
    assert!(line.starts_with("killcord: no boundary") && line.contains("cgroup"), "{line}");
}

/// A job around the demo counts what it leaves.
#[test]
fn nothing_is_left_when_it_has_ended() {
    for who in Who::here() {
        let scene = Scene::new();
        let exe = reachable(env!("CARGO_BIN_EXE_killcord").as_ref());
        let args = ["run", "--boundary", "tree", "--report", "-", "--", exe.to_str().unwrap(), "demo"];
        let done = run(&mut killcord(&scene, *who, &args), SOON);
        assert_eq!(done.code(), 0, "{done:?}");
        let report = done.stderr.lines().last().unwrap();
        assert!(report.contains(r#""leftovers":{"count":0"#), "{report}");
    }
}

fn start() -> Terminal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_killcord"));
    command.arg("demo").env_remove("NO_COLOR");
    Terminal::start(&command)
}

/// Plays on a terminal up to a half's picture, holds everybody in it, does something, and looks that all end.
fn interrupted(half: usize, by: impl Fn(&mut Terminal)) -> Terminal {
    let mut terminal = start();
    // What comes last in the picture, behind what comes first in the half.
    for text in [if half == 1 { "without killcord" } else { "with killcord:" }, "environment emptied"] {
        terminal.expect(text, SOON).unwrap_or_else(|e| panic!("{e}"));
    }
    let text = terminal.text();
    let seen = picture(&text, half, false);
    let expected: &[&str] = if half == 1 { &WITHOUT } else { &WITH };
    assert_eq!(names(&seen), expected, "{text}");
    let pin = |(pid, name): &(u32, String)| PinnedProcess::open(*pid, |found| found.comm == *name);
    let held: Vec<PinnedProcess> = seen.iter().filter_map(pin).collect();
    assert_eq!(held.len(), seen.len(), "{text}");
    by(&mut terminal);
    for process in &held {
        assert!(process.wait_gone(BOUND), "half {half}: {process:?} is left");
    }
    terminal
}

#[test]
fn on_a_terminal_it_has_colour_and_ends_with_the_sentence() {
    let mut terminal = start();
    let text = terminal.read_to_end(SOON).unwrap();
    assert!(text.contains("\x1b[31m● still runs"), "{text:?}");
    assert!(text.contains("\x1b[32m✓ ended after"), "{text:?}");
    assert!(plain(&text).contains("with it all 8 were gone"), "{text:?}");
    assert_eq!(terminal.wait(SOON).and_then(|status| status.code()), Some(0));
    for half in [1, 2] {
        assert_all_gone(&picture(&text, half, true));
    }
}

#[test]
fn ctrl_c_leaves_nothing() {
    for half in [1, 2] {
        let mut terminal = interrupted(half, |t| t.send(b"\x03"));
        assert_eq!(terminal.wait(SOON).and_then(|status| status.code()), Some(130));
    }
}

#[test]
fn a_signal_leaves_nothing() {
    for half in [1, 2] {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
            let mut terminal = interrupted(half, |t| t.kill(signal));
            assert_eq!(terminal.wait(SOON).and_then(|status| status.code()), Some(code));
        }
    }
}

#[test]
fn sigkill_leaves_nothing() {
    for half in [1, 2] {
        interrupted(half, |t| t.kill(Signal::KILL));
    }
}
