//! The host program is left alone.
//!
//! Promised (G12): a host that waits for any child of its own gets exactly its own, each with its status, while
//! jobs come and go; no SIGCHLD of ours, no handler, no subreaper, no thread, no child. A forked copy of the host does
//! not keep a dead owner's jobs alive, a thread of the host that ends does not end its job, and silence ends none.

use crate::kit::{self, BOUND, SOON, boundaries, command, ms, owner_of, play, trials};
use crate::roles;
use killcord::{Ladder, Owner};
use killcord_testkit::claims::{is_free, until};
use killcord_testkit::{Running, Scene, Signal, bin};
use rustix::process::{WaitOptions, wait};
use std::process::Command as Program;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

trials![
    a_host_that_waits_for_any_child_gets_its_own_two_hundred,
    nothing_of_ours_is_in_the_host_process,
    a_forked_copy_of_the_host_keeps_nothing_alive,
    a_forked_copy_of_the_host_neither_frees_its_claim_nor_keeps_it,
    a_job_started_from_a_thread_that_ends_lives_on,
    a_job_without_any_traffic_for_25_seconds_lives_on,
];

fn a_host_that_waits_for_any_child_gets_its_own_two_hundred() {
    play(&Scene::new(), "undisturbed", Duration::from_secs(50));
}

/// A host with a thread that starts 20 jobs and more, until the main thread has waited for its children.
#[expect(clippy::zombie_processes, reason = "the wait for any child, which is what is tested, reaps them")]
pub(crate) fn undisturbed() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let jobs = std::thread::spawn(|| {
        let mut rounds = 0;
        // Wardens come and go as well.
        while !DONE.load(Ordering::Relaxed) || rounds < 2 {
            let owner = Owner::new().unwrap();
            let start = |n: usize| {
                let mut command = owner.command(["true", "sleep", "false", "sleep"][n % 4]);
                if n % 2 == 1 {
                    command.arg("30");
                }
                command.spawn().unwrap()
            };
            let mut jobs: Vec<_> = (0..20).map(start).collect();
            jobs.iter().skip(1).step_by(4).for_each(|job| job.end(Ladder::short()).unwrap());
            for (n, job) in jobs.iter_mut().enumerate().filter(|(n, _)| n % 4 != 3) {
                let status = job.wait_timeout(SOON).unwrap().expect("no end").status.unwrap().as_shell();
                assert_eq!(status, [0, 143, 1][n % 4]);
            }
            rounds += 1;
        }
        rounds
    });
    for n in 0..200 {
        let code = n % 256;
        let child = Program::new("sh").args(["-c", &format!("exit {code}")]).spawn().unwrap();
        let (pid, status) = wait(WaitOptions::empty()).unwrap().expect("no child");
        let seen = (pid.as_raw_pid() as u32, status.exit_status());
        assert_eq!(seen, (child.id(), Some(code)), "child {n}");
    }
    DONE.store(true, Ordering::Relaxed);
    let rounds = jobs.join().unwrap();
    // No child is left, of ours or theirs.
    assert_eq!(wait(WaitOptions::NOHANG).unwrap_err(), rustix::io::Errno::CHILD);
    roles::say(&format!("{rounds} rounds of 20 jobs"));
}

fn nothing_of_ours_is_in_the_host_process() {
    play(&Scene::new(), "quiet", SOON);
}

/// A host with one thread that keeps each signal pending, so that none passes unseen.
pub(crate) fn quiet() {
    let look = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ours = ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:", "Threads:"];
        let lines: Vec<String> =
            status.lines().filter(|l| ours.iter().any(|o| l.starts_with(o))).map(str::to_owned).collect();
        let me = std::process::id();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().count();
        (lines, tasks, killcord_testkit::procs::children(me), rustix::process::child_subreaper().unwrap())
    };
    let descriptors = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.map(|e| e.path()).collect::<std::collections::BTreeSet<_>>()
    };
    killcord_sys::fixture::block_signals();
    let open = descriptors();
    let before = look();
    assert_eq!((before.1, before.2.len(), before.3), (1, 0, None));
    for n in 0..20 {
        let owner = Owner::new().unwrap();
        let mut dropped = owner.command("sleep").arg("30").spawn().unwrap();
        assert_eq!(look(), before, "with a job, round {n}");
        assert!(owner.command("true").spawn().unwrap().wait().unwrap().success());
        dropped.end_now().unwrap();
        let _ = dropped.wait().unwrap();
        drop(owner.command("sleep").arg("30").spawn().unwrap());
        assert_eq!(look(), before, "round {n}");
    }
    // Nothing is held either.
    assert_eq!(descriptors(), open);
}

fn a_forked_copy_of_the_host_keeps_nothing_alive() {
    for boundary in boundaries() {
        let scene = Scene::new();
        let mut host = Running::start(kit::host(&scene, "fork").arg(boundary.name()));
        host.stdout.expect("ready\n", SOON).unwrap();
        let (copy, job): (Vec<_>, Vec<_>) = scene.ids().into_iter().partition(|id| id.name == "copy");
        let (copy, job) = (killcord_testkit::Pinned::open(&copy), killcord_testkit::Pinned::open(&job));
        assert_eq!((copy.len(), job.len()), (1, 2), "{boundary}");
        host.kill(Signal::KILL);
        job.wait_gone(BOUND).unwrap();
        assert_eq!(copy.alive().len(), 1, "{boundary}: the copy is no longer there to hold anything");
    }
}

fn a_forked_copy_of_the_host_neither_frees_its_claim_nor_keeps_it() {
    let scene = Scene::new();
    let state = scene.path("state");
    let mut host = kit::host(&scene, "fork twice");
    let mut host = Running::start(host.env("KILLCORD_STATE_DIR", &state));
    host.stdout.expect("dropped\n", SOON).unwrap();
    let claims = || std::fs::read_dir(&state).unwrap().map(|claim| claim.unwrap().path());
    let claim = claims().next().unwrap();
    assert!(claim.join("owner").exists() && !is_free(&claim.join("lease")));
    assert!(scene.alive().iter().any(|process| process.name == "leaf"));
    host.stdout.expect("ready\n", SOON).unwrap();
    host.kill(Signal::KILL);
    until(BOUND, "the claim is gone", || claims().count() == 0);
    let alive: Vec<_> = scene.alive().into_iter().map(|process| process.name).collect();
    assert_eq!(alive, ["copy"]);
}

fn a_job_started_from_a_thread_that_ends_lives_on() {
    for boundary in boundaries() {
        let scene = Scene::new();
        let start = || command(&owner_of(boundary), &scene, bin("kc-leaf")).args(["leaf", "60"]).spawn();
        let mut job = std::thread::scope(|s| s.spawn(start).join().unwrap()).unwrap();
        scene.wait_recorded(1, SOON);
        // Longer than the ladder that would follow.
        assert!(job.wait_timeout(ms(1000)).unwrap().is_none(), "{boundary}");
        assert_eq!(scene.alive().len(), 1, "{boundary}");
        job.end_now().unwrap();
        assert!(job.wait_timeout(SOON).unwrap().is_some());
    }
}

fn a_job_without_any_traffic_for_25_seconds_lives_on() {
    let scene = Scene::new();
    let start = |boundary| {
        let owner = owner_of(boundary);
        let job = command(&owner, &scene, bin("kc-leaf")).args(["leaf", "60"]).spawn().unwrap();
        (owner, job)
    };
    let mut jobs: Vec<_> = boundaries().into_iter().map(start).collect();
    scene.wait_recorded(jobs.len(), SOON);
    assert!(jobs[0].1.wait_timeout(Duration::from_secs(25)).unwrap().is_none());
    assert_eq!(scene.alive().len(), jobs.len());
    for (_, job) in &mut jobs {
        job.end(Ladder::short()).unwrap();
        let end = job.wait_timeout(SOON).unwrap().unwrap();
        assert_eq!(end.status.map(killcord::ExitStatus::as_shell), Some(143), "{end:?}");
    }
}
