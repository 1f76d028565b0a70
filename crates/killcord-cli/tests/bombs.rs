//! Fork bombs.
//!
//! Promised (G3, G6): a bomb that is held by a limit on its processes is over within its time, the grace and
//! 2 s, with nothing left, whatever shape it has. The limit is `--pids` where it can be had, else a plain
//! `RLIMIT_NPROC`.
//!
//! Not promised: that a bomb without any limit leaves the machine usable until its time is up.

mod kit;
#[path = "kit/report.rs"]
mod report;

use killcord_testkit::{Host, Need, Scene, Who, bin, is_root, reachable, run, skip};
use kit::{SOON, killcord};
use std::process::Command;
use std::time::Duration;

const KINDS: [&str; 5] = ["wide", "deep", "exec", "reparent", "term"];
/// One second, one second of grace, and two to see it empty.
const LIMITS: [&str; 6] = ["--timeout", "1", "--grace", "1", "--report", "report.json"];
const WITHIN: Duration = Duration::from_secs(4);

/// Runs the bomb to its end and to the end of its output, which every process of it holds.
fn is_ended(scene: &Scene, command: &mut Command, what: &str) {
    let done = run(command, SOON);
    assert!(done.stdout.contains("ready"), "{what}: the bomb did not go off: {done:?}");
    assert!(done.elapsed < WITHIN, "{what}: {:?}", done.elapsed);
    assert_eq!(done.code(), 124, "{what}: {done:?}");
    let said = report::read(scene);
    assert_eq!(
        (&said["verdict"]["kind"], &said["timed_out"]),
        (&"empty".into(), &true.into()),
        "{what}: {said}"
    );
    assert!(scene.alive().is_empty(), "{what}");
}

#[test]
fn heavy_bombs_under_a_pids_limit_are_ended() {
    if !is_root() {
        skip!(Need::Root);
    }
    for boundary in ["cgroup", "tree", "namespace"] {
        for kind in KINDS {
            let scene = Scene::new();
            let options = [&["--boundary", boundary, "--pids", "200"], &LIMITS[..]].concat();
            let mut command = killcord(&scene, Who::Root, &options);
            // It asks for more than the limit gives.
            command.arg(bin("kc-bomb")).args([kind, "--cap", "300", "--seconds", "20"]);
            is_ended(&scene, &mut command, &format!("root {boundary} {kind}"));
        }
    }
}

#[test]
fn heavy_bombs_of_an_ordinary_user_are_ended() {
    for (who, boundary) in Host::cells() {
        if who == Who::Root {
            continue;
        }
        for kind in KINDS {
            let scene = Scene::new();
            // The limit counts the user's processes of the whole machine, killcord's guards among them.
            let script = "ulimit -u 200; exec \"$@\"";
            let mut command = scene.command(who, "bash");
            command.args(["-c", script, "bash"]).arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
            command.args(["run", "--boundary", boundary]).args(LIMITS).arg("--");
            command.arg(bin("kc-bomb")).args([kind, "--cap", "300", "--seconds", "20"]);
            is_ended(&scene, &mut command, &format!("user {boundary} {kind}"));
        }
    }
}

#[test]
fn heavy_a_bomb_is_ended_when_its_owner_is_killed() {
    for (who, boundary) in Host::cells() {
        for kind in ["wide", "reparent", "term"] {
            let scene = Scene::new();
            let mut command = killcord(&scene, who, &["--boundary", boundary]);
            let mut bomb = killcord_testkit::Running::start(command.arg(bin("kc-bomb")).args([
                kind,
                "--cap",
                "150",
                "--seconds",
                "20",
            ]));
            bomb.stdout.expect("ready", SOON).unwrap();
            bomb.kill(killcord_testkit::Signal::KILL);
            let ended = bomb.stdout.read_to_end(Duration::from_secs(2));
            assert!(ended.is_ok(), "{who:?} {boundary} {kind}: {ended:?}");
        }
    }
}
