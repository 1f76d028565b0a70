//! Guards that are killed while a task waits.
//!
//! Promised (G2): the wait comes back with what is known, and the runtime goes on meanwhile, also one that has a
//! single thread; futures that are dropped in between change nothing of what is said.

use crate::kit::{BOUND, Guards, SOON, boundaries, ms, owner_of, script, timed, trials};
use crate::runtime::{both, current, poll_once};
use killcord::{Boundary, Cause, End, Job, Verdict};
use killcord_testkit::{Scene, Signal};
use std::cell::Cell;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

trials![
    a_killed_keeper_is_an_end,
    a_killed_warden_is_an_end,
    warden_and_keeper_killed_at_once_are_an_end,
    heavy_the_runtime_goes_on_while_a_stopped_warden_is_waited_for,
    futures_dropped_after_the_keepers_death_lose_nothing_of_the_verdict,
];

/// A job of two processes in two sessions, up.
fn job_in(boundary: Boundary, scene: &Scene) -> (killcord::Owner, Job, Guards) {
    let owner = owner_of(boundary);
    let job = script(&owner, scene, "setsid \"$2\" 60 & exec \"$1\" leader 60").spawn().unwrap();
    scene.wait_recorded(2, SOON);
    let guards = Guards::of(&job);
    (owner, job, guards)
}

/// What the wait says that is under way when this is done.
fn end_after(runtime: &tokio::runtime::Runtime, job: &mut Job, deed: impl FnOnce()) -> End {
    runtime.block_on(async {
        let mut wait = pin!(job.wait_async());
        assert!(poll_once(wait.as_mut()).await.is_pending());
        deed();
        timeout(SOON, wait).await.expect("it waits for ever").unwrap()
    })
}

fn a_killed_keeper_is_an_end() {
    for (runtime, boundary) in both(boundaries()) {
        let scene = Scene::new();
        let (_owner, mut job, guards) = job_in(boundary, &scene);
        let pinned = scene.pin();
        let (end, took) =
            timed(|| end_after(&runtime, &mut job, || guards.keeper.kill(Signal::KILL).unwrap()));
        pinned.wait_gone(Duration::ZERO).unwrap();
        assert!(end.cause == Cause::KeeperGone && took < BOUND, "{boundary}: {end:?} {took:?}");
        assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        assert_eq!((job.wait().unwrap(), runtime.block_on(job.wait_async()).unwrap()), (end.clone(), end));
    }
}

fn a_killed_warden_is_an_end() {
    for (runtime, boundary) in both(boundaries()) {
        let scene = Scene::new();
        let (_owner, mut job, guards) = job_in(boundary, &scene);
        let (end, took) =
            timed(|| end_after(&runtime, &mut job, || guards.warden.kill(Signal::KILL).unwrap()));
        assert_eq!(scene.alive(), [], "{boundary}");
        let died = if boundary == Boundary::Namespace { Cause::KeeperGone } else { Cause::WardenGone };
        assert!(end.cause == died && took < BOUND + ms(500), "{boundary}: {end:?} {took:?}");
    }
}

fn kill_both(guards: &Guards) {
    // At the same instant: neither acts upon the end of the other.
    for signal in [Signal::STOP, Signal::KILL] {
        guards.warden.kill(signal).unwrap();
        guards.keeper.kill(signal).unwrap();
    }
}

fn warden_and_keeper_killed_at_once_are_an_end() {
    for (runtime, boundary) in both(boundaries()) {
        let scene = Scene::new();
        let (_owner, mut job, guards) = job_in(boundary, &scene);
        let (end, took) = timed(|| end_after(&runtime, &mut job, || kill_both(&guards)));
        assert_eq!(scene.alive(), [], "{boundary}");
        assert!(end.cause == Cause::KeeperGone && took < BOUND + ms(500), "{boundary}: {end:?} {took:?}");
    }
}

fn heavy_the_runtime_goes_on_while_a_stopped_warden_is_waited_for() {
    for boundary in boundaries() {
        let (scene, runtime) = (Scene::new(), current());
        let (_owner, mut job, guards) = job_in(boundary, &scene);
        guards.warden.kill(Signal::STOP).unwrap();
        let (longest, done) = (Cell::new(Duration::ZERO), Cell::new(false));
        let ticking = async {
            while !done.get() {
                let begun = Instant::now();
                sleep(ms(5)).await;
                longest.set(longest.get().max(begun.elapsed()));
            }
        };
        let waiting = async {
            guards.keeper.kill(Signal::KILL).unwrap();
            let begun = Instant::now();
            let end = timeout(SOON, job.wait_async()).await.expect("it waits for ever").unwrap();
            done.set(true);
            (end, begun.elapsed())
        };
        let ((end, took), ()) = runtime.block_on(async { tokio::join!(waiting, ticking) });
        guards.warden.kill(Signal::CONT).unwrap();
        assert_eq!(end.cause, Cause::KeeperGone, "{boundary}: {end:?}");
        // It did take long, and the other task hardly noticed.
        assert!(took < Duration::from_secs(5), "{boundary}: {took:?}");
        if boundary != Boundary::Namespace {
            assert!(took >= Duration::from_secs(2), "{boundary}: {took:?}: this tests too little");
        }
        assert!(longest.get() < ms(500), "{boundary}: no tick for {:?} of {took:?}", longest.get());
    }
}

fn futures_dropped_after_the_keepers_death_lose_nothing_of_the_verdict() {
    for (runtime, boundary) in both(boundaries()) {
        let scene = Scene::new();
        let (_owner, mut job, guards) = job_in(boundary, &scene);
        guards.keeper.kill(Signal::KILL).unwrap();
        let waiting = async {
            let mut dropped = 0;
            loop {
                if let Poll::Ready(end) = poll_once(job.wait_async()).await {
                    return (end.unwrap(), dropped);
                }
                dropped += 1;
                tokio::task::yield_now().await;
            }
        };
        let (end, dropped) = runtime.block_on(async { timeout(SOON, waiting).await }).unwrap();
        assert!(end.cause == Cause::KeeperGone && dropped > 0, "{boundary}: {end:?} {dropped}");
        assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary} after {dropped}: {end:?}");
    }
}
