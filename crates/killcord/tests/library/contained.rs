//! `contain_session_if_requested`: an engine that an SDK asks for a contained session starts itself again.
//!
//! Promised: the acknowledgement is the first line on stdout; argv, streams and exit status are the engine's; neither
//! it nor its children see anything of the request; the session ends with the outer process, its parent and the
//! control descriptor. Without the request, the engine is one process as ever. What cannot be done is an error, and
//! nothing runs twice.

use crate::kit::{BOUND, SOON, here, trials};
use killcord_testkit::{PinnedProcess, Running, Scene, Signal, bin, example, procs, run};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

trials![
    the_engine_runs_contained_and_says_so_first,
    nothing_of_the_request_is_left_in_the_environment,
    the_exit_status_is_passed_on,
    the_outer_process_killed_takes_everything_along,
    the_parents_death_takes_everything_along,
    the_end_of_the_control_descriptor_ends_the_session,
    term_ends_the_session_and_is_its_status,
    without_the_request_it_is_one_process,
    a_wrong_control_descriptor_is_an_error_and_nothing_runs,
    a_line_that_cannot_be_written_is_an_error_and_nothing_runs,
];

fn engine(scene: &Scene) -> Command {
    scene.command(here(), example("killcord", "engine"))
}

fn session(scene: &Scene) -> Command {
    let mut command = engine(scene);
    command.env("KILLCORD_SESSION", "1");
    command
}

/// A session that is up, and its engine.
fn start(command: &mut Command) -> (Running, PinnedProcess) {
    let mut running = Running::start(command);
    let inner = up(&mut running);
    (running, inner)
}

/// Awaits the engine's own first line, behind the acknowledgement.
fn up(running: &mut Running) -> PinnedProcess {
    let text = running.stdout.expect("]\n", SOON).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("{\"killcord\":\"session\",\"protocol\":"), "{text}");
    assert!(lines[0].contains("\"contained\":true") && lines.len() == 2, "{text}");
    let pid = lines[1].split(' ').nth(1).unwrap().parse().unwrap();
    PinnedProcess::open(pid, |_| true).unwrap()
}

/// Has the engine run a command.
fn command(running: &mut Running, line: &str) -> String {
    let before = running.stdout.text().len();
    running.send(format!("{line}\n").as_bytes());
    let text = running.stdout.expect("exit status: 0\n", SOON).unwrap();
    text[before..].to_owned()
}

/// Two more processes that ignore what they are asked, one of them in a session of its own.
fn with_members(scene: &Scene, running: &mut Running) -> killcord_testkit::Pinned {
    let ignore = bin("kc-ignore").display().to_string();
    command(running, &format!("{ignore} 60 >/dev/null & setsid {ignore} 60 >/dev/null &"));
    scene.wait_recorded(2, SOON);
    scene.pin()
}

fn is_over(running: &mut Running, pinned: &killcord_testkit::Pinned, inner: &PinnedProcess, begun: Instant) {
    let left = || BOUND.saturating_sub(begun.elapsed());
    pinned.wait_gone(left()).unwrap();
    assert!(inner.wait_gone(left()), "the engine is left");
    // With it the guards: nobody holds the output any more.
    running.stdout.read_to_end(left()).unwrap();
}

fn the_engine_runs_contained_and_says_so_first() {
    let scene = Scene::new();
    let (mut running, inner) = start(session(&scene).args(["--flag", "two words", ""]));
    assert_ne!(inner.pid, running.pid());
    assert!(running.stdout.text().contains("[\"--flag\", \"two words\", \"\"]"), "{:?}", running.stdout);
    // It is a job: its name is in the environment, and its parent is a keeper.
    assert!(command(&mut running, "echo \"job ${KILLCORD_JOB:?}\"").starts_with("job "));
    assert_eq!(procs::comm(inner.stat().unwrap().parent).as_deref(), Some("killcord-keeper"));
    // Its streams are the ones that the outer process was given.
    let own = std::fs::read_link(format!("/proc/{}/fd/1", running.pid())).unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/{}/fd/1", inner.pid)).unwrap(), own);
    command(&mut running, "echo err >&2");
    running.stderr.expect("err\n", SOON).unwrap();
    running.close_stdin();
    running.stdout.read_to_end(SOON).unwrap();
    assert_eq!(running.wait(SOON).unwrap().code(), Some(0));
}

fn nothing_of_the_request_is_left_in_the_environment() {
    // Whatever the request says: only `1` is one.
    for request in ["1", "0"] {
        let scene = Scene::new();
        let (_read, number, _write) = control();
        let mut command_line = engine(&scene);
        command_line.env("KILLCORD_SESSION", request).env("KILLCORD_CONTROL_FD", &number).env("KEPT", "yes");
        let mut running = Running::start(&mut command_line);
        let text = running.stdout.expect("]\n", SOON).unwrap();
        assert_eq!(text.lines().count(), if request == "1" { 2 } else { 1 }, "{text}");
        let childs = command(&mut running, "env");
        assert!(childs.contains("KEPT=yes") && !childs.contains("KILLCORD_SESSION"), "{childs}");
        assert!(!childs.contains("KILLCORD_CONTROL_FD"), "{childs}");
        if request == "1" {
            // What it was executed with, which no program can take back.
            let own = command(&mut running, "tr '\\0' '\\n' </proc/$PPID/environ");
            assert!(own.contains("KEPT=yes") && !own.contains("KILLCORD_SESSION"), "{own}");
            assert!(!own.contains("KILLCORD_CONTROL_FD"), "{own}");
        }
    }
}

fn the_exit_status_is_passed_on() {
    for (line, expected) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $PPID", 137)] {
        let scene = Scene::new();
        let (mut running, _inner) = start(&mut session(&scene));
        let pinned = with_members(&scene, &mut running);
        running.send(format!("{line}\n").as_bytes());
        let status = running.wait(SOON).unwrap();
        // It is back when nothing is left, at this very moment.
        pinned.wait_gone(Duration::ZERO).unwrap();
        assert_eq!(status.code(), Some(expected), "{line}");
        assert_eq!(running.stderr.read_to_end(SOON).unwrap(), "", "{line}");
    }
}

fn the_outer_process_killed_takes_everything_along() {
    let scene = Scene::new();
    let (mut running, inner) = start(&mut session(&scene));
    let (pinned, begun) = (with_members(&scene, &mut running), Instant::now());
    running.kill(Signal::KILL);
    is_over(&mut running, &pinned, &inner, begun);
}

fn the_parents_death_takes_everything_along() {
    let scene = Scene::new();
    let mut parent = scene.command(here(), "sh");
    // What a shell starts in the background has no input of its own.
    parent.args(["-c", "exec 3<&0; \"$0\" <&3 & wait"]).arg(example("killcord", "engine"));
    let (mut running, inner) = start(parent.env("KILLCORD_SESSION", "1"));
    let (pinned, begun) = (with_members(&scene, &mut running), Instant::now());
    running.kill(Signal::KILL);
    is_over(&mut running, &pinned, &inner, begun);
}

/// A control descriptor: what the engine inherits, with its number, and the end that the SDK holds.
fn control() -> (PipeReader, String, PipeWriter) {
    let (read, write) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::empty()).unwrap();
    let number = read.as_raw_fd().to_string();
    (read, number, write)
}

fn the_end_of_the_control_descriptor_ends_the_session() {
    let scene = Scene::new();
    let (_read, number, write) = control();
    let (mut running, inner) = start(session(&scene).env("KILLCORD_CONTROL_FD", number));
    let pinned = with_members(&scene, &mut running);
    command(&mut running, "true");
    let begun = Instant::now();
    drop(write);
    is_over(&mut running, &pinned, &inner, begun);
    assert_eq!(running.wait(SOON).unwrap().code(), Some(143));
}

fn term_ends_the_session_and_is_its_status() {
    let scene = Scene::new();
    let (mut running, inner) = start(&mut session(&scene));
    let begun = Instant::now();
    running.kill(Signal::TERM);
    is_over(&mut running, &scene.pin(), &inner, begun);
    assert_eq!(running.wait(SOON).unwrap().code(), Some(143));
}

fn without_the_request_it_is_one_process() {
    let scene = Scene::new();
    let mut running = Running::start(engine(&scene).arg("x"));
    running.stdout.expect(&format!("engine {} [\"x\"]\n", running.pid()), SOON).unwrap();
    assert!(procs::children(running.pid()).is_empty());
    running.send(b"exit 5\n");
    assert_eq!(running.wait(SOON).unwrap().code(), Some(5));
}

/// The engine fails, in one process, with one line that says why; it has not run, and nothing is left.
fn fails(scene: &Scene, control: &str, why: &str) {
    // A nest ends when no descendant is left.
    let mut nest = scene.command(here(), bin("kc-nest"));
    nest.arg(example("killcord", "engine")).env("KILLCORD_SESSION", "1").env("KILLCORD_CONTROL_FD", control);
    let ended = run(&mut nest, SOON);
    assert!(ended.code() == 1 && ended.stdout.is_empty(), "{ended:?}");
    let said = ended.stderr.starts_with("engine: not contained: ") && ended.stderr.contains(why);
    assert!(said && ended.stderr.lines().count() == 1, "{ended:?}");
}

fn a_wrong_control_descriptor_is_an_error_and_nothing_runs() {
    let scene = Scene::new();
    for (wrong, why) in
        [("999", "descriptor 999"), ("", "KILLCORD_CONTROL_FD"), ("three", "three"), ("-1", "-1")]
    {
        fails(&scene, wrong, why);
    }
}

fn a_line_that_cannot_be_written_is_an_error_and_nothing_runs() {
    let scene = Scene::new();
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::empty()).unwrap();
    let mut command = scene.command(here(), "bash");
    command
        .args(["-c", "exec \"$0\" >&\"$1\""])
        .arg(example("killcord", "engine"))
        .arg(write.as_raw_fd().to_string());
    let done = run(command.env("KILLCORD_SESSION", "1"), SOON);
    assert!(done.code() == 1 && done.stderr.contains("not contained: "), "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
}
