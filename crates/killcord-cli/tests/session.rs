//! `killcord run --ack --control-fd N --watch-parent -- ENGINE`: how an SDK starts an engine and knows that it is
//! contained.
//!
//! Promised: the first line on stdout is one JSON object that says what holds the session. It is there before the
//! engine is executed, and only if it is true; where it cannot be written, nothing runs. The streams are the
//! engine's own, and so is the exit status. The starter is back when nothing of the session is left. The session
//! ends with the engine, on TERM, INT and HUP, with the starter's parent, and with the control descriptor.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

mod kit;

use killcord_testkit::{
    Guards, Host, Pinned, PinnedProcess, Running, Scene, Signal, Who, bin, reachable, run,
};
use kit::{SOON, killcord};
use serde_json::{Value, json};
use std::fs::read_link;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// What is promised where the starter's owner goes: the short ladder, and what it takes to see it empty.
const BOUND: Duration = Duration::from_secs(2);

fn session(scene: &Scene, who: Who, boundary: &str, more: &[&str]) -> Command {
    let all = [&["--ack", "--watch-parent", "--grace", "1", "--boundary", boundary], more].concat();
    killcord(scene, who, &all)
}

/// A control descriptor: what the starter inherits, with its number, and the end that the SDK holds.
fn control() -> (PipeReader, String, PipeWriter) {
    let (read, write) = std::io::pipe().unwrap();
    inherit(&read);
    let number = read.as_raw_fd().to_string();
    (read, number, write)
}

fn inherit(fd: impl AsFd) {
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
}

/// The first line that the starter has written.
fn first_line(running: &mut Running) -> Value {
    let text = running.stdout.expect("\n", SOON).unwrap();
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

/// A session whose engine has escapees, all of them up and pinned.
fn with_escapees(command: &mut Command, scene: &Scene) -> (Running, Pinned) {
    let mut running = Running::start(command.arg(bin("kc-payload")));
    assert_eq!(first_line(&mut running)["contained"], true);
    running.stdout.expect("ready\n", SOON).unwrap();
    (running, scene.pin())
}

/// Everything is gone within the bound, and the starter with it: nobody holds its output any more.
fn is_over(running: &mut Running, pinned: &Pinned, begun: Instant, what: &str) {
    let left = || BOUND.saturating_sub(begun.elapsed());
    let gone = pinned.wait_gone(left());
    assert!(gone.is_ok(), "{what}: {gone:?}");
    let ended = running.stdout.read_to_end(left());
    assert!(ended.is_ok(), "{what}: {ended:?}");
}

#[test]
fn the_first_line_says_what_holds_the_session() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "echo out $KILLCORD_JOB; echo err >&2; cat; exit 7";
        let mut running = Running::start(session(&scene, who, boundary, &[]).args(["sh", "-c", script]));
        let said = first_line(&mut running);
        let job = said["job"].as_str().unwrap().to_owned();
        let expected = json!({
            "killcord": "session", "protocol": said["protocol"].as_u64().unwrap(), "contained": true,
            "boundary": boundary, "ends_escapees": true, "job": job,
        });
        assert_eq!(said, expected, "{who:?} {boundary}");
        running.send(b"typed\n");
        running.close_stdin();
        let text = running.stdout.read_to_end(SOON).unwrap();
        let rest = text.split_once('\n').unwrap().1;
        assert_eq!(rest, format!("out {job}\ntyped\n"), "{who:?} {boundary}");
        assert_eq!(running.stderr.read_to_end(SOON).unwrap(), "err\n", "{who:?} {boundary}");
        assert_eq!(running.wait(SOON).unwrap().code(), Some(7), "{who:?} {boundary}");
    }
}

#[test]
fn the_streams_are_the_engines_own() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "for n in 0 1 2; do readlink /proc/$$/fd/$n; done; echo up; read -r wait";
        let mut running = Running::start(session(&scene, who, boundary, &[]).args(["sh", "-c", script]));
        let text = running.stdout.expect("up\n", SOON).unwrap();
        let seen: Vec<&str> = text.lines().skip(1).take(3).collect();
        let own = [0, 1, 2].map(|n| read_link(format!("/proc/{}/fd/{n}", running.pid())).unwrap());
        let own = own.map(|path| path.to_string_lossy().into_owned());
        assert!(seen == own && seen[0].starts_with("pipe:"), "{who:?} {boundary}: {text} {own:?}");
    }
}

#[test]
fn the_exit_status_is_the_engines() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        for (script, expected) in [("exit 0", 0), ("exit 125", 125), ("kill -9 $$", 137)] {
            let done = run(session(&scene, who, boundary, &[]).args(["sh", "-c", script]), SOON);
            assert_eq!((done.code(), done.stdout.lines().count()), (expected, 1), "{who:?} {boundary}");
        }
    }
}

/// A session whose stdout is this pipe; its engine makes the file `mark` first of all.
fn on_pipe(scene: &Scene, who: Who, boundary: &str, stdout: &PipeWriter) -> Running {
    inherit(stdout);
    let mut command = scene.command(who, "bash");
    let script = "n=$1; shift; exec \"$@\" >&\"$n\" {n}>&-";
    command.args(["-c", script, "bash"]).arg(stdout.as_raw_fd().to_string());
    command.arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
    command.args(["run", "--ack", "--grace", "1", "--boundary", boundary, "--"]);
    Running::start(command.args(["sh", "-c", "echo run >mark; echo engine"]))
}

#[test]
fn nothing_runs_where_the_line_cannot_be_written() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let mut running = on_pipe(&scene, who, boundary, &write);
        let said = running.stderr.read_to_end(SOON).unwrap();
        let code = running.wait(SOON).unwrap().code();
        assert!(!scene.path("mark").exists(), "{who:?} {boundary}: it ran");
        let one_line = said.starts_with("killcord: ") && said.lines().count() == 1;
        assert!(code == Some(125) && one_line, "{who:?} {boundary}: {code:?} {said}");
    }
}

/// A pipe that takes no more.
fn full_pipe() -> (PipeReader, PipeWriter, usize) {
    let (read, mut write) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&write).unwrap();
    rustix::fs::fcntl_setfl(&write, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut filled = 0;
    while let Ok(n) = write.write(&[b'x'; 4096]) {
        filled += n;
    }
    rustix::fs::fcntl_setfl(&write, flags).unwrap();
    (read, write, filled)
}

#[test]
fn nothing_runs_before_the_line_is_written_and_the_starter_is_not_deaf_meanwhile() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        // Whoever should read the line does not: the starter is asked to end.
        let (read, write, _) = full_pipe();
        let mut running = on_pipe(&scene, who, boundary, &write);
        let guards = Guards::find(running.pid(), Duration::ZERO);
        let keeper = guards.keeper.or_else(|| keeper_of(&running)).unwrap();
        running.kill(Signal::TERM);
        let ended = running.wait(BOUND);
        assert_eq!(ended.and_then(|status| status.code()), Some(143), "{who:?} {boundary}");
        assert!(keeper.wait_gone(Duration::ZERO), "{who:?} {boundary}");
        assert!(!scene.path("mark").exists(), "{who:?} {boundary}: it ran");
        drop((read, write));

        // It is read at last: first the line, then what the engine prints.
        let (mut read, write, filled) = full_pipe();
        let mut running = on_pipe(&scene, who, boundary, &write);
        drop(write);
        keeper_of(&running).unwrap();
        let mut text = Vec::new();
        read.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text.split_off(filled)).unwrap();
        let (line, rest) = text.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["contained"], true, "{who:?} {boundary}");
        assert_eq!((rest, running.wait(SOON).unwrap().code()), ("engine\n", Some(0)), "{who:?} {boundary}");
    }
}

/// The keeper of a session that is not let go yet.
fn keeper_of(running: &Running) -> Option<PinnedProcess> {
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        if let Some(keeper) = Guards::find(running.pid(), Duration::ZERO).keeper {
            return Some(keeper);
        }
        std::thread::yield_now();
    }
    None
}

#[test]
fn there_is_no_line_where_it_would_not_be_true() {
    for who in Who::here() {
        let scene = Scene::new();
        let run_with = |options: &[&str]| {
            let mut command = scene.command(*who, bin("kc-deny"));
            command.args(["namespaces", "--"]).arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
            run(command.args(["run", "--ack"]).args(options).args(["--", "sh", "-c", "echo run >mark"]), SOON)
        };
        for options in [&["--boundary", "namespace"][..], &["--boundary", "tree", "--require", "cgroup"]] {
            let done = run_with(options);
            let nothing = done.stdout.is_empty() && !scene.path("mark").exists();
            assert!(done.code() == 125 && nothing, "{who:?} {options:?}: {done:?}");
            assert_eq!(done.stderr.lines().count(), 1, "{who:?} {options:?}: {done:?}");
        }
        assert!(run_with(&["--boundary", "tree"]).stdout.contains("\"contained\":true"));
    }
}

#[test]
fn a_control_descriptor_that_is_not_open_is_an_error_of_one_line() {
    let scene = Scene::new();
    let mut command = session(&scene, Who::here()[0], "auto", &["--control-fd", "999"]);
    let done = run(command.args(["sh", "-c", "echo run >mark"]), SOON);
    assert_eq!(
        (done.code(), done.stdout.as_str(), scene.path("mark").exists()),
        (125, "", false),
        "{done:?}"
    );
    let one_line =
        done.stderr.starts_with("killcord: --control-fd 999: ") && done.stderr.lines().count() == 1;
    assert!(one_line, "{done:?}");
}

#[test]
fn the_starter_is_back_only_when_nothing_that_the_engine_left_is_left() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut command = session(&scene, who, boundary, &[]);
        command.arg(bin("kc-payload")).args(["--leader", "exit", "--ignore-term"]);
        let mut running = Running::start(&mut command);
        let status = running.wait(SOON).unwrap();
        // At this very moment.
        assert_eq!(scene.alive(), [], "{who:?} {boundary}");
        assert_eq!((status.code(), scene.ids().len()), (Some(0), 6), "{who:?} {boundary}");
        // The hopper has this pipe and no number of its own.
        running.stdout.read_to_end(Duration::from_millis(500)).unwrap();
    }
}

#[test]
fn it_ends_on_term_int_and_hup() {
    for (who, boundary) in Host::cells() {
        for (signal, expected) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 143)] {
            let what = format!("{who:?} {boundary} {signal:?}");
            let scene = Scene::new();
            let (mut running, pinned) = with_escapees(&mut session(&scene, who, boundary, &[]), &scene);
            let begun = Instant::now();
            running.kill(signal);
            is_over(&mut running, &pinned, begun, &what);
            assert_eq!(running.wait(SOON).unwrap().code(), Some(expected), "{what}");
        }
    }
}

#[test]
fn hup_ends_an_engine_that_ignores_it() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "trap '' HUP; exec \"$0\" leaf 60";
        let mut command = session(&scene, who, boundary, &[]);
        let mut running = Running::start(command.args(["sh", "-c", script]).arg(bin("kc-leaf")));
        scene.wait_recorded(1, SOON);
        let (pinned, begun) = (scene.pin(), Instant::now());
        running.kill(Signal::HUP);
        is_over(&mut running, &pinned, begun, &format!("{who:?} {boundary}"));
        assert_eq!(running.wait(SOON).unwrap().code(), Some(143), "{who:?} {boundary}");
    }
}

#[test]
fn it_ends_with_the_starters_parent() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let starter = session(&scene, who, boundary, &[]);
        let mut parent = scene.command(who, "sh");
        parent.args(["-c", "\"$@\" & wait", "sh"]).arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
        // As an ordinary user the command is `setpriv ... killcord run ...`.
        let args: Vec<_> = starter.get_args().skip_while(|arg| *arg != "run").collect();
        let (mut running, pinned) = with_escapees(parent.args(args), &scene);
        let begun = Instant::now();
        running.kill(Signal::KILL);
        is_over(&mut running, &pinned, begun, &format!("{who:?} {boundary}"));
    }
}

#[test]
fn it_ends_with_the_control_descriptor_and_not_before() {
    for (who, boundary) in Host::cells() {
        for how in ["closed", "killed"] {
            let what = format!("{who:?} {boundary} {how}");
            let scene = Scene::new();
            let (read, number, mut write) = control();
            let script = "\"$0\" & while read -r line; do echo \"answer to $line\"; done; sleep 60";
            let mut command = session(&scene, who, boundary, &["--control-fd", &number]);
            let mut running = Running::start(command.args(["sh", "-c", script]).arg(bin("kc-payload")));
            drop(read);
            first_line(&mut running);
            running.stdout.expect("ready\n", SOON).unwrap();
            let pinned = scene.pin();

            // What is written to it has no meaning.
            write.write_all(&vec![b'x'; 50_000]).unwrap();
            inherit(&write);
            let holder = (how == "killed").then(|| Running::start(Command::new("sleep").arg("50")));
            let rest = (how == "closed").then_some(write);
            running.send(b"one\n");
            running.stdout.expect("answer to one\n", SOON).unwrap();

            let begun = Instant::now();
            if let Some(holder) = holder {
                holder.kill(Signal::KILL);
            }
            drop(rest);
            is_over(&mut running, &pinned, begun, &what);
            assert_eq!(running.wait(SOON).unwrap().code(), Some(143), "{what}");
        }
    }
}
