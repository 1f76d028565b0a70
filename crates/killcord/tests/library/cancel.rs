//! However the owner's code is left, the teardown runs: it is the keeper's.
//!
//! Promised (G1, G3): dropping the handle, unwinding, returning early, `exit`, `abort` and SIGKILL of the host, also
//! in the middle of a longer ladder, end a job whose members ignore TERM and HUP, within the short ladder's bound.
//! Jobs end in parallel: one that is stuck until KILL delays no other.

use crate::kit::{self, BOUND, Guards, SOON, boundaries, ms, owner_of, script, timed, trials};
use killcord::{Boundary, Job, Ladder, Owner, Verdict};
use killcord_testkit::{Running, Scene, Signal, bin};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

trials![
    dropping_the_job_ends_it,
    a_panic_that_unwinds_past_the_job_ends_it,
    returning_early_ends_it,
    dropping_the_job_in_the_middle_of_a_long_ladder_shortens_it,
    a_host_that_is_left_in_any_way_takes_its_jobs_along,
    heavy_fifty_jobs_end_at_once_and_a_stuck_one_delays_none,
];

/// Two processes that ignore TERM, INT and HUP.
fn stubborn(owner: &Owner, scene: &Scene) -> Job {
    let job = script(owner, scene, "\"$2\" 60 & exec \"$2\" 60").spawn().unwrap();
    scene.wait_recorded(2, SOON);
    job
}

/// Runs `leave` with a stubborn job in every boundary and sees both members gone within the bound.
fn is_gone_after(leave: impl Fn(Job)) {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let job = stubborn(&owner, &scene);
        let (pinned, guards) = (scene.pin(), Guards::of(&job));
        assert_eq!(pinned.len(), 2, "{boundary}");
        let begun = Instant::now();
        leave(job);
        pinned.wait_gone(BOUND.saturating_sub(begun.elapsed())).unwrap();
        let took = begun.elapsed();
        // They had the time that the short ladder gives before KILL.
        assert!(took >= ms(450), "{boundary}: {took:?}");
        assert!(guards.keeper.wait_gone(SOON), "{boundary}");
    }
}

fn dropping_the_job_ends_it() {
    is_gone_after(drop);
}

fn a_panic_that_unwinds_past_the_job_ends_it() {
    is_gone_after(|job| {
        let caught = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let _job = job;
            panic!("on purpose");
        }));
        assert!(caught.is_err());
    });
}

fn returning_early_ends_it() {
    fn tool_call(job: Job) -> std::io::Result<Job> {
        let _missing = std::fs::File::open("/nowhere/at/all")?;
        Ok(job)
    }
    is_gone_after(|job| assert!(tool_call(job).is_err()));
}

fn dropping_the_job_in_the_middle_of_a_long_ladder_shortens_it() {
    is_gone_after(|mut job| {
        job.end(Ladder::with_grace(Duration::from_secs(50))).unwrap();
        assert!(job.wait_timeout(ms(100)).unwrap().is_none());
    });
}

fn a_host_that_is_left_in_any_way_takes_its_jobs_along() {
    for boundary in boundaries() {
        for way in ["return", "panic", "exit", "abort", "kill", "kill in a teardown"] {
            let scene = Scene::new();
            let mut host = kit::host(&scene, "leave");
            let mut host = Running::start(host.args([boundary.name(), way]));
            host.stdout.expect("ready\n", SOON).unwrap();
            let pinned = scene.pin();
            assert_eq!(pinned.len(), 2, "{boundary} {way}");
            let begun = Instant::now();
            match way {
                "kill" | "kill in a teardown" => host.kill(Signal::KILL),
                _ => host.close_stdin(),
            }
            let gone = pinned.wait_gone(BOUND);
            assert!(gone.is_ok(), "{boundary} {way}: {gone:?}");
            assert!(begun.elapsed() >= ms(400), "{boundary} {way}: {gone:?}");
            // The guards hold none of the host's streams, and the job's are null.
            host.stdout.read_to_end(SOON).unwrap();
            assert!(host.wait(SOON).is_some());
        }
    }
}

fn heavy_fifty_jobs_end_at_once_and_a_stuck_one_delays_none() {
    const GRACE: Duration = Duration::from_secs(3);
    for boundary in [Boundary::Tree].into_iter().chain(boundaries().into_iter().skip(1)) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let start = |n: usize| {
            let mut command =
                kit::command(&owner, &scene, bin(if n == 25 { "kc-ignore" } else { "kc-leaf" }));
            if n != 25 {
                command.arg("leaf");
            }
            command.arg("60").spawn().unwrap()
        };
        let mut jobs: Vec<Job> = (0..50).map(start).collect();
        scene.wait_recorded(50, SOON);
        let pinned = scene.pin();
        let begun = Instant::now();
        for job in &jobs {
            job.end(Ladder::with_grace(GRACE)).unwrap();
        }
        let mut stuck = jobs.remove(25);
        for job in &mut jobs {
            let end = job.wait().unwrap();
            assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        }
        let others = begun.elapsed();
        assert!(others < ms(1500), "{boundary}: the others took {others:?}");
        let (end, _) = timed(|| stuck.wait().unwrap());
        let all = begun.elapsed();
        assert!(matches!(end.verdict, Verdict::Empty(_)) && end.forced.count >= 1, "{boundary}: {end:?}");
        assert!((GRACE - ms(20)..GRACE + BOUND).contains(&all), "{boundary}: {all:?}");
        pinned.wait_gone(Duration::ZERO).unwrap();
        println!("{boundary}: 49 jobs ended in {others:?}, the stuck one in {all:?}");
    }
}
