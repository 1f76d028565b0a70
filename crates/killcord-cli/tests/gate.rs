//! What stands between a request and its program, and between its end and what is written down of it.
//!
//! Promised (G2, G4, G5): a program is in its boundary and on disk from its first instruction on; who is not alive is
//! no member and who has left the cgroup is one; the record of a job outlives its cgroup, so that a sweep finds it;
//! a keeper ends its job because its warden says so, and not because the job does.
//!
//! Not promised: that a process outside cannot have the init of a namespace end its job. It could kill it as well.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

mod kit;
#[path = "kit/report.rs"]
mod report;

use killcord_testkit::claims::{State, TEN, assert_swept, until};
use killcord_testkit::{
    Corner, Guards, Host, Need, Nest, Running, Scene, Signal, Who, bin, in_every_cell, procs, run, skip,
};
use kit::{SOON, killcord};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_killcord");

#[test]
fn a_program_is_in_its_boundary_from_its_first_instruction() {
    // The shell starts nothing and asks nobody: what it reads is so when it begins.
    let script = "while read -r line; do echo \"$line\"; done </proc/self/cgroup; echo \"job $KILLCORD_JOB\"; \
                  read -r record <\"$TMPDIR/../../jobs/$KILLCORD_JOB\"; echo \"record $record\"";
    for (who, boundary) in Host::cells() {
        for _ in 0..5 {
            let scene = Scene::new();
            let state = State::new(PROGRAM, &scene, who);
            let said = run(&mut state.shell(&["--boundary", boundary], script), TEN);
            let word = |word: &str| said.stdout.lines().find_map(|line| line.strip_prefix(word)).unwrap();
            let leaf = format!("/killcord-{}", word("job "));
            let inside = word("0::").ends_with(&leaf);
            assert_eq!(inside, boundary == "cgroup", "{who:?} {boundary}: {said:?}");
            let record: Value = serde_json::from_str(word("record ")).unwrap();
            assert_eq!((&record["state"], &record["boundary"]), (&"started".into(), &boundary.into()));
            assert!(record["keeper"]["pid"].is_u64(), "{who:?} {boundary}: {record}");
        }
    }
}

#[test]
fn zombies_in_the_job_are_no_members() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let options = ["--boundary", boundary, "--grace", "500ms", "--report", "report.json"];
        let mut command = killcord(&scene, who, &options);
        // It becomes a program that reaps nobody.
        command.args(["sh", "-c", "true & exec \"$0\" 60"]).arg(bin("kc-ignore"));
        let running = Running::start(&mut command);
        scene.wait_recorded(1, SOON);
        let leader = Guards::find(running.pid(), SOON).leader.unwrap();
        let is_zombie = |pid| procs::stat(pid).is_some_and(|stat| stat.state == 'Z');
        until(SOON, "a zombie in the job", || procs::children(leader.pid).into_iter().any(is_zombie));
        let mut running = running;
        running.kill(Signal::TERM);
        assert_eq!(running.wait(SOON).unwrap().code(), Some(137), "{who:?} {boundary}");
        let said = report::read(&scene);
        assert_eq!(said["ended_by_force"]["count"], 1, "{who:?} {boundary}: {said}");
        assert_eq!(said["verdict"]["kind"], "empty", "{who:?} {boundary}: {said}");
    });
}

#[test]
fn a_job_is_struck_out_after_its_cgroup_is_gone() {
    let need = Need::Cgroup(Who::Root);
    if !Host::get().has(need) {
        skip!(need);
    }
    let scene = Scene::new();
    let (state, corner) = (State::new(PROGRAM, &scene, Who::Root), Corner::new(&scene));
    let killed = scene.path("killed");
    state.file(&killed, "");
    let mut command = state.shell(&["--boundary", "cgroup"], "read line");
    command.env("KILLCORD_TEST_KILL", "job.forgotten").env("KILLCORD_TEST_KILLED", &killed);
    let mut nest = Nest::start_in(&corner, &command);
    let (_, record) = state.started();
    assert_eq!(corner.leaves().len(), 1);
    let guards = Guards::find(nest.program.pid, SOON);
    let (warden, keeper) = (guards.warden.unwrap(), guards.keeper.unwrap());
    // Neither does for the keeper what it has left.
    warden.kill(Signal::STOP).unwrap();
    nest.program.kill(Signal::STOP).unwrap();
    nest.running().close_stdin();
    assert!(keeper.wait_gone(SOON) && fs::read_to_string(&killed).unwrap() == "killed\n");
    assert!(!record.exists());
    assert_eq!(corner.leaves(), Vec::<PathBuf>::new(), "nobody knows of it any more");
    warden.kill(Signal::KILL).unwrap();
    nest.program.kill(Signal::KILL).unwrap();
    nest.wait_empty(SOON).unwrap();
    assert_swept(&state.sweep(&[]), 1, &[]);
    assert_eq!(state.names(), [""; 0]);
}

#[test]
fn a_keeper_takes_orders_from_its_warden_alone() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        // The job asks its keeper, as its parent.
        let script = "trap 'echo asked' TERM; trap 'echo heard' USR1; kill -TERM $PPID; kill -QUIT $PPID; \
                      echo ready; while :; do sleep 0.01; done";
        let mut running =
            Running::start(killcord(&scene, who, &["--boundary", boundary]).args(["sh", "-c", script]));
        running.stdout.expect("ready\n", SOON).unwrap();
        let keeper = Guards::find(running.pid(), SOON).keeper.unwrap();
        if boundary != "namespace" {
            // And so does somebody else.
            keeper.kill(Signal::TERM).unwrap();
            keeper.kill(Signal::QUIT).unwrap();
        }
        // What comes after it on the cord is heard, the second time behind it for sure.
        for _ in 0..2 {
            running.kill(Signal::USR1);
            running.stdout.expect("heard\n", SOON).unwrap();
        }
        assert!(keeper.is_alive() && running.wait(Duration::ZERO).is_none(), "{who:?} {boundary}");
        running.kill(Signal::KILL);
        let said = running.stdout.read_to_end(SOON).unwrap();
        // Its owner is gone: now it is asked, once.
        assert_eq!(said.matches("asked\n").count(), 1, "{who:?} {boundary}: {said}");
    }
}

/// A cgroup beside the jobs', for who wants to get away.
struct Away(PathBuf);

impl Away {
    fn new(scene: &Scene) -> Self {
        let name = format!("away-{}", scene.dir().file_name().unwrap().to_string_lossy());
        let dir = Host::get().cgroup_dir().unwrap().join(name);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_in(procs: &Path, pid: u32) -> bool {
    fs::read_to_string(procs).unwrap().lines().any(|line| line == pid.to_string())
}

#[test]
fn a_member_that_moves_to_another_cgroup_is_still_one() {
    let need = Need::Cgroup(Who::Root);
    if !Host::get().has(need) {
        skip!(need);
    }
    let scene = Scene::new();
    let away = Away::new(&scene);
    // Nothing but KILL ends it, and it holds no pipe of ours.
    let script = "sh -c 'echo 0 >\"$1\"; exec setsid \"$0\" 60' \"$1\" \"$2\" </dev/null >/dev/null 2>&1 & \
                  exec \"$0\" leader 60";
    let options = ["--boundary", "cgroup", "--grace", "500ms", "--report", "report.json"];
    let mut command = killcord(&scene, Who::Root, &options);
    command.args(["sh", "-c", script]).arg(bin("kc-leaf")).arg(bin("kc-ignore")).arg(away.procs());
    let mut running = Running::start(&mut command);
    scene.wait_names(&["ignore", "leader"], SOON);
    let pinned = scene.pin();
    assert!(is_in(&away.procs(), pinned.get("ignore").unwrap().pid));
    running.kill(Signal::TERM);
    let ended = running.wait(SOON).map(|status| status.code());
    // At this very moment.
    let left = pinned.wait_gone(Duration::ZERO);
    pinned.kill(Signal::KILL);
    assert!(left.is_ok() && ended == Some(Some(143)), "{left:?} {ended:?}");
    let said = report::read(&scene);
    assert_eq!((&said["verdict"]["kind"], &said["boundary"]["kind"]), (&"empty".into(), &"cgroup".into()));
    assert!(said["notes"].as_array().is_none_or(Vec::is_empty), "{said}");
}
