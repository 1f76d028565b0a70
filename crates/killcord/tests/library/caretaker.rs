//! Keepers that were killed, beside those that live on as caretakers of what was let go.
//!
//! Promised (G2, G11): what a job leaves whose owner, warden and keeper were killed together is ended by the next sweep, also
//! while the caretaker of another job of that owner lives and holds its lease; the other job is not touched, and the claim
//! goes when that is over too. Of an owner that lives, the warden that takes a killed one's place ends what a job left whose
//! handle was dropped. What a keeper had let go when it was killed is not ended, and its owner hears so at once.

use crate::kit::{self, BOUND, Guards, SOON, boundaries, host, ms, owner_of, script, timed, trials};
use crate::roles;
use killcord::model::sweep::Reason;
use killcord::{Boundary, Choice, Job, Owner, STATE_VARIABLE, SweepOptions, Swept, Verdict};
use killcord_testkit::claims::{kill_together, until};
use killcord_testkit::{PinnedProcess, Running, Scene, Signal, bin, life};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

trials![
    a_living_caretaker_keeps_no_sweep_from_what_a_killed_keeper_left,
    a_fresh_warden_ends_what_a_dropped_job_left_whose_guards_were_killed,
    what_was_let_go_by_a_keeper_that_was_killed_is_not_ended_and_the_owner_hears_so_at_once,
];

/// On `namespace` the kernel ends all of a job with its keeper.
fn not_by_the_kernel() -> Vec<Boundary> {
    boundaries().into_iter().filter(|boundary| *boundary != Boundary::Namespace).collect()
}

/// A host with a job that it has let go, and one that it has not.
pub(crate) fn two_jobs(boundary: &str) {
    let owner = Owner::builder().boundary(Choice::Exactly(boundary.parse().unwrap())).build().unwrap();
    let start = |name: &str| {
        let text = format!("setsid \"$0\" {name}-daemon 60 & exec \"$0\" {name} 60");
        owner.command("sh").args(["-c", &text]).arg(bin("kc-leaf")).spawn().unwrap()
    };
    let let_go = start("let-go");
    let first = let_go.pid().unwrap();
    roles::wait_recorded(2);
    let_go.release().unwrap();
    let lost = start("lost");
    roles::wait_recorded(4);
    roles::say(&format!("ready {first} {}.", lost.pid().unwrap()));
    life::sleep_until(life::now_ms() + 60_000);
}

fn sweep(state: &Path) -> Swept {
    let swept = killcord::sweep(Some(state), SweepOptions::default(), |_| {}).unwrap();
    assert_eq!((swept.failed, swept.complete), (0, true), "{swept:?}");
    swept
}

fn a_living_caretaker_keeps_no_sweep_from_what_a_killed_keeper_left() {
    for boundary in not_by_the_kernel() {
        let scene = Scene::new();
        let state = scene.path("state");
        std::fs::create_dir(&state).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = host(&scene, "two jobs");
        let mut running = Running::start(command.arg(boundary.name()).env(STATE_VARIABLE, &state));
        running.stdout.expect(".\n", SOON).unwrap();
        let said = running.stdout.text();
        let numbers: Vec<u32> =
            said.trim_end_matches(".\n").split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
        let caretaker = Guards::above(numbers[0]).keeper;
        let guards = Guards::above(numbers[1]);
        let members = scene.pin();
        let owner = PinnedProcess::open(running.pid(), |_| true).unwrap();
        kill_together(&[&owner, &guards.warden, &guards.keeper]);
        assert!(owner.wait_gone(SOON) && guards.warden.wait_gone(SOON) && guards.keeper.wait_gone(SOON));
        assert!(members.get("lost").unwrap().wait_gone(BOUND), "{boundary}");
        let left = members.get("lost-daemon").unwrap();
        assert!(left.is_alive() && caretaker.is_alive(), "{boundary}: nothing is left to a sweep");
        let dry = SweepOptions { dry_run: true, within: None };
        let dry = killcord::sweep(Some(&state), dry, |_| {}).unwrap();
        assert_eq!((dry.ended, left.is_alive()), (1, true), "{boundary}: {dry:?}");
        for ended in [1, 0] {
            let swept = sweep(&state);
            assert_eq!((swept.ended, swept.removed), (ended, 0), "{boundary}: {swept:?}");
            assert_eq!(swept.kept.get(&Reason::LeaseHeld), Some(&1), "{boundary}: {swept:?}");
            assert!(!left.is_alive(), "{boundary}");
        }
        let kept = ["let-go", "let-go-daemon"].map(|name| members.get(name).unwrap());
        assert!(kept.iter().all(|member| member.is_alive()), "{boundary}: what was let go was ended");
        for member in kept {
            member.kill(Signal::KILL).unwrap();
        }
        assert!(caretaker.wait_gone(SOON), "{boundary}");
        let swept = sweep(&state);
        // Without a tag it is not known whether all of the lost one is gone.
        let known = boundary == Boundary::Cgroup || kit::taggable();
        let wanted = if known { (1, None) } else { (0, Some(&1)) };
        assert_eq!((swept.removed, swept.kept.get(&Reason::Unknown)), wanted, "{boundary}: {swept:?}");
        assert!(running.wait(SOON).is_some());
    }
}

fn a_fresh_warden_ends_what_a_dropped_job_left_whose_guards_were_killed() {
    for boundary in not_by_the_kernel() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "setsid \"$1\" daemon 60 & (trap '' TERM HUP; setsid \"$2\" 60 &) & exec \"$1\" leader 60";
        let job = script(&owner, &scene, text).spawn().unwrap();
        scene.wait_names(&["daemon", "ignore", "leader"], SOON);
        let (members, guards) = (scene.pin(), Guards::of(&job));
        // Neither comes to a step of the teardown, and nobody waits for the end.
        guards.warden.kill(Signal::STOP).unwrap();
        guards.keeper.kill(Signal::STOP).unwrap();
        drop(job);
        kill_together(&[&guards.warden, &guards.keeper]);
        assert!(guards.warden.wait_gone(SOON) && guards.keeper.wait_gone(SOON));
        assert!(members.get("leader").unwrap().wait_gone(BOUND), "{boundary}");
        assert!(members.get("daemon").unwrap().is_alive(), "{boundary}: nothing is left to end");
        // A job of the fresh warden is none that was lost.
        let mut next = script(&owner, &scene, "exec \"$1\" next 60").spawn().unwrap();
        members.wait_gone(SOON).unwrap();
        assert!(next.try_wait().unwrap().is_none(), "{boundary}");
        next.end_now().unwrap();
        let _ = next.wait().unwrap();
    }
}

/// The record of our job.
fn record_of(job: &Job) -> PathBuf {
    let list = killcord::list(None).unwrap();
    let ours = list.owners.iter().filter(|owner| owner.pid == std::process::id());
    let mut paths = ours.map(|owner| owner.claim.join("jobs").join(job.id().to_string()));
    paths.find(|path| path.exists()).unwrap()
}

fn what_was_let_go_by_a_keeper_that_was_killed_is_not_ended_and_the_owner_hears_so_at_once() {
    for boundary in not_by_the_kernel() {
        for with_warden in [false, true] {
            let (owner, scene) = (owner_of(boundary), Scene::new());
            let text = "setsid \"$1\" daemon 60 & exec \"$1\" leader 60";
            let mut job = script(&owner, &scene, text).spawn().unwrap();
            scene.wait_names(&["daemon", "leader"], SOON);
            let (members, guards) = (scene.pin(), Guards::of(&job));
            let record = record_of(&job);
            // What a keeper does first when it lets go; then it is killed.
            guards.keeper.kill(Signal::STOP).unwrap();
            let started = std::fs::read_to_string(&record).unwrap();
            let released = started.replace("\"state\":\"started\"", "\"state\":\"released\"");
            assert_ne!(started, released);
            std::fs::write(&record, released).unwrap();
            let both = [&guards.keeper, &guards.warden];
            kill_together(if with_warden { &both } else { &both[..1] });
            let (end, took) = timed(|| job.wait_timeout(SOON).unwrap().expect("it waits for ever"));
            assert!(took < ms(1000), "{boundary}: it waited {took:?}");
            assert!(end.was_let_go_unsaid(), "{boundary}: {end:?}");
            assert!(matches!(end.verdict, Verdict::Unconfirmed(_)), "{boundary}: {end:?}");
            // The leader goes with its keeper.
            assert!(members.get("leader").unwrap().wait_gone(BOUND), "{boundary}");
            assert!(guards.keeper.wait_gone(SOON) && (!with_warden || guards.warden.wait_gone(SOON)));
            // Who would end it is done with that when the next start is answered, and when the last handle is gone.
            assert!(owner.command("true").spawn().unwrap().wait().unwrap().success());
            let daemon = members.get("daemon").unwrap();
            assert!(daemon.is_alive(), "{boundary}, {with_warden}: what was let go was ended");
            members.kill(Signal::KILL);
            drop((job, owner));
            until(SOON, "what was let go is gone", || !daemon.is_alive());
        }
    }
}
