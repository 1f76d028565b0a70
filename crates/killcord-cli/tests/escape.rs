//! The escape matrix: five ways to get away from one's parent, four ways in which a job comes to its end.
//!
//! Promised (G1, G3, G6): on the boundaries `cgroup`, `tree` and `namespace`, for root and for an ordinary user,
//! nothing is left 1.5 s after the event, whether it listens to TERM or not. Proofs: a pidfd of each recorded
//! process; the end of the job's output, which the process that hops from number to number holds; and the end of
//! the nest, which means that no descendant is left, guards and `killcord run` included.
//!
//! The negative control is the same payload under `setsid -w` and under `timeout`: it must survive there, or else
//! it tests nothing.
//!
//! Not promised, and not here: boundary `group`, which escapees leave; a job that attacks its guards.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use std::process::Command;
use std::time::{Duration, Instant};

use killcord_testkit::{Corner, Killcord, Need, Nest, Scene, Signal, Who, bin, in_every_cell, report, skip};

const SOON: Duration = Duration::from_secs(10);
/// Half a second of it is the ladder's; the rest is for a machine that has other work.
const BOUND: Duration = Duration::from_secs(3);

/// What happens to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    LeaderExits,
    Term,
    OwnerKilled,
    ParentKilled,
}

const EVERYBODY: [&str; 6] = ["bare", "daemon", "hopper", "leader", "plain", "setsid"];

fn payload(command: &mut Command, event: Event, deaf: bool) {
    let leader = if event == Event::LeaderExits { "exit" } else { "stay" };
    command.arg(bin("kc-payload")).args(["--leader", leader]);
    if deaf {
        command.arg("--ignore-term");
    }
}

/// `killcord run`, or a shell that has started it, for the last event.
fn start(scene: &Scene, who: Who, boundary: &str, event: Event, deaf: bool) -> Nest {
    let killcord = Killcord::new(env!("CARGO_BIN_EXE_killcord"));
    // Beyond the ladder's own 0.5 s a grace is the user's choice.
    let options = ["--grace", "500ms", "--"];
    if event == Event::ParentKilled {
        let mut shell = scene.command(who, "sh");
        shell.args(["-c", "\"$@\" & wait", "sh"]).arg(killcord.path());
        shell.args(["run", "--boundary", boundary]).args(options);
        payload(&mut shell, event, deaf);
        return Nest::start(&shell);
    }
    let mut run = killcord.run(scene, who, boundary);
    payload(run.args(options), event, deaf);
    Nest::start(&run)
}

fn everything_ends(who: Who, boundary: &str, event: Event, deaf: bool) {
    let scene = Scene::new();
    let mut nest = start(&scene, who, boundary, event, deaf);
    nest.running().stdout.expect("ready\n", SOON).unwrap();
    // A leader that exits has done so by now, or is about to.
    let happened = Instant::now();
    let pinned = scene.pin();
    let mut names: Vec<_> = scene.ids().into_iter().map(|id| id.name).collect();
    names.sort();
    assert_eq!(names, EVERYBODY);
    let happened = match event {
        Event::LeaderExits => happened,
        Event::Term | Event::OwnerKilled | Event::ParentKilled => {
            for name in EVERYBODY.iter().filter(|name| **name != "hopper") {
                assert!(pinned.get(name).is_some(), "{name} was gone before: {:?}", pinned.names());
            }
            let signal = if event == Event::Term { Signal::TERM } else { Signal::KILL };
            nest.program.kill(signal).unwrap();
            Instant::now()
        }
    };
    let left = || BOUND.saturating_sub(happened.elapsed());
    pinned.wait_gone(left()).unwrap();
    let all = nest.wait_empty(left()).unwrap();
    assert_eq!(scene.alive(), []);
    if matches!(event, Event::LeaderExits | Event::Term) {
        let report = report(&scene);
        assert_eq!(report["verdict"]["kind"], "empty", "{report}");
        let cause = if event == Event::Term { "asked" } else { "leader-exited" };
        assert_eq!(report["cause"], cause, "{report}");
        let code = match event {
            Event::LeaderExits => 0,
            _ if deaf => 137,
            _ => 143,
        };
        assert_eq!(all.code, code, "{all:?} {report}");
    }
}

fn on_every_boundary(event: Event) {
    for deaf in [false, true] {
        in_every_cell(|who, boundary| everything_ends(who, boundary, event, deaf));
    }
}

#[test]
fn nobody_outlives_a_leader_that_exits() {
    on_every_boundary(Event::LeaderExits);
}

#[test]
fn nobody_outlives_a_term_to_killcord_run() {
    on_every_boundary(Event::Term);
}

#[test]
fn nobody_outlives_a_killed_killcord_run() {
    on_every_boundary(Event::OwnerKilled);
}

#[test]
fn nobody_outlives_the_killed_parent_of_killcord_run() {
    on_every_boundary(Event::ParentKilled);
}

/// Who may write to another cgroup can move there: `cgroup.kill` does not reach it then, and `populated` does not count it.
/// It is ended as a descendant, and no end is said before.
#[test]
fn who_moves_to_another_cgroup_is_ended_as_well() {
    for event in [Event::Term, Event::OwnerKilled] {
        let scene = Scene::new();
        let corner = Corner::new(&scene);
        let Some(dir) = corner.dir() else { skip!(Need::Cgroup(Who::Root)) };
        let elsewhere = dir.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let mut run = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, Who::Root, "cgroup");
        let script = "(echo 0 >\"$1\" && exec setsid \"$2\" 60) & exec ./leaf.sh leader 60";
        run.args(["--grace", "500ms", "--", "sh", "-c", script, "sh"]);
        run.arg(elsewhere.join("cgroup.procs")).arg(bin("kc-ignore"));
        let mut nest = Nest::start_in(&corner, &run);
        scene.wait_names(&["ignore", "leader"], SOON);
        let populated = || std::fs::read_to_string(elsewhere.join("cgroup.events")).unwrap();
        assert!(populated().contains("populated 1"), "it has not moved");
        let pinned = scene.pin();
        assert_eq!(pinned.len(), 2);
        let happened = Instant::now();
        nest.program.kill(if event == Event::Term { Signal::TERM } else { Signal::KILL }).unwrap();
        pinned.wait_gone(BOUND.saturating_sub(happened.elapsed())).unwrap();
        let all = nest.wait_empty(BOUND.saturating_sub(happened.elapsed())).unwrap();
        assert!(populated().contains("populated 0"));
        if event == Event::Term {
            let report = report(&scene);
            assert_eq!((&report["verdict"]["kind"], all.code), (&"empty".into(), 143), "{report}");
        }
    }
}

/// Everybody but the hopper has a number that can be looked for.
fn survivors(scene: &Scene) -> Vec<String> {
    let mut names: Vec<_> = scene.alive().into_iter().map(|alive| alive.name).collect();
    names.sort();
    names.retain(|name| name != "hopper");
    names
}

#[test]
fn the_same_payload_survives_setsid_and_timeout() {
    for (wrapper, signal, left) in [
        // `setsid` has become the leader, since it leads no group and need not fork; whoever ends that ends it
        // alone. `timeout` asks its own process group.
        (["setsid", "-w"], Signal::KILL, vec!["bare", "daemon", "plain", "setsid"]),
        (["timeout", "30"], Signal::TERM, vec!["bare", "daemon", "setsid"]),
    ] {
        let scene = Scene::new();
        let mut command = scene.command(Who::here()[0], wrapper[0]);
        payload(command.arg(wrapper[1]), Event::OwnerKilled, false);
        let mut nest = Nest::start(&command);
        nest.running().stdout.expect("ready\n", SOON).unwrap();
        nest.program.kill(signal).unwrap();
        assert!(nest.program.wait_gone(SOON));
        // As long as killcord has, so that nobody can say that they were about to end.
        let end = nest.running().stdout.read_to_end(BOUND).unwrap_err();
        assert!(!end.ended, "the hopper has ended");
        assert!(!nest.is_empty());
        assert_eq!(survivors(&scene), left, "{wrapper:?}");
        scene.pin().kill(Signal::KILL);
        // The hopper goes with the scene.
        drop(scene);
        nest.wait_empty(SOON).unwrap();
    }
}
