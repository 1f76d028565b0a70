//! Not our own: whatever becomes of a job, killcord never signals its parent, its parent's group or its siblings.
//!
//! Promised (G5, G12), for every boundary and user: 50 jobs each that end by themselves, by their leftovers' end,
//! by a cancel 0 to 10 ms after the start, by `killcord run` being killed, by a timeout, and 50 starts that fail.
//! The parent and a sibling in the same process group write down every signal that comes (`kc-neighbours`), and
//! none may. Once more on a terminal, where the job is in that very group.
//!
//! Not here: what a terminal itself sends to its foreground group.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails, in its helper functions too"
)]

use std::process::Command;
use std::time::Duration;

use killcord_testkit::{Host, Killcord, Nest, Scene, Terminal, Who, bin, in_every_cell};

const LONG: Duration = Duration::from_secs(50);
/// For a start that has nothing to wait for.
const ROUNDS: &str = "50";

/// `kc-neighbours` as this user, who starts `killcord run --boundary B ARGS...` in every round.
fn neighbours(scene: &Scene, who: Who, boundary: &str, signal: &str, args: &[&str]) -> Command {
    let killcord = Killcord::new(env!("CARGO_BIN_EXE_killcord"));
    let mut command = scene.command(who, bin("kc-neighbours"));
    command
        .args([ROUNDS, signal, "--"])
        .arg(killcord.path())
        .args(["run", "--boundary", boundary])
        .args(args);
    command
}

/// All rounds in every cell; they heard nothing, nobody is left, and the calls ended with these statuses only.
fn nothing_is_heard(signal: &str, args: &[&str], statuses: &[i32]) {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let mut nest = Nest::start(&neighbours(&scene, who, boundary, signal, args));
        let all = nest.wait_empty(LONG).unwrap();
        check(&all.stdout, statuses, &format!("{signal} {args:?} {who:?} {boundary}: {all:?}"));
        assert_eq!(all.code, 0);
        assert_eq!(scene.alive(), []);
    });
}

fn check(stdout: &str, statuses: &[i32], what: &str) {
    let line = |name: &str| {
        let found = stdout.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name:?}: {what}")).trim()
    };
    assert_eq!((line("parent "), line("sibling ")), ("[]", "[]"), "{what}");
    let seen = line("status ").trim_matches(['[', ']', '{', '}']).split(", ");
    for status in seen {
        assert!(statuses.iter().any(|expected| expected.to_string() == status), "{what}");
    }
}

fn leaf() -> String {
    bin("kc-leaf").display().to_string()
}

#[test]
fn a_job_that_ends_by_itself_signals_nobody_else() {
    nothing_is_heard("none", &["--", "true"], &[0]);
}

#[test]
fn ending_leftovers_signals_nobody_else() {
    let script = "\"$0\" left 30 & (setsid \"$0\" away 30 &) ; exit 3";
    // Longer than the drain: TERM is heard.
    nothing_is_heard("none", &["--", "sh", "-c", script, &leaf()], &[3]);
}

#[test]
fn heavy_a_cancel_right_after_the_start_signals_nobody_else() {
    // Before the signals are taken, the signal ends killcord itself, and by then nothing runs.
    nothing_is_heard("TERM", &["--", &leaf(), "job", "30"], &[143]);
    nothing_is_heard("INT", &["--", &leaf(), "job", "30"], &[130]);
}

#[test]
fn heavy_killing_killcord_right_after_the_start_signals_nobody_else() {
    nothing_is_heard("KILL", &["--", &leaf(), "job", "30"], &[137]);
}

#[test]
fn a_timeout_signals_nobody_else() {
    nothing_is_heard("none", &["--timeout", "10ms", "--grace", "10ms", "--", &leaf(), "job", "30"], &[124]);
}

#[test]
fn a_failing_start_signals_nobody_else() {
    nothing_is_heard("none", &["--", "/no/such/program"], &[127]);
    nothing_is_heard("none", &["--", "/etc/passwd"], &[126]);
    nothing_is_heard("TERM", &["--", "/no/such/program"], &[127, 143]);
    nothing_is_heard("none", &["--pass-fd", "777", "--", "true"], &[125]);
}

#[test]
fn heavy_on_a_terminal_a_cancel_signals_only_the_job_in_the_shared_group() {
    for (who, boundary) in Host::cells() {
        for (signal, statuses) in [("TERM", &[143]), ("INT", &[130]), ("KILL", &[137])] {
            let scene = Scene::new();
            let command = neighbours(&scene, who, boundary, signal, &["--", &leaf(), "job", "30"]);
            let mut terminal = Terminal::start(&command);
            let out = terminal
                .expect("status ", LONG)
                .unwrap_or_else(|e| panic!("{signal} {who:?} {boundary}: {e}"));
            terminal.read_to_end(LONG).unwrap();
            let text = terminal.text();
            assert_eq!(terminal.wait(LONG).unwrap().code(), Some(0), "{out}");
            check(&text, statuses, &format!("{signal} {who:?} {boundary}: {text}"));
        }
    }
}

#[test]
fn a_program_that_does_signal_its_group_is_noticed() {
    let scene = Scene::new();
    let mut command = scene.command(Who::here()[0], bin("kc-neighbours"));
    command.args(["2", "none", "--", "sh", "-c", "trap '' USR1; kill -USR1 0; exit 4"]);
    let all = Nest::start(&command).wait_empty(LONG).unwrap();
    assert_eq!(all.stdout, "parent [10]\nsibling [10]\nstatus {4}\n");
}
