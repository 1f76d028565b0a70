//! Waiting for a job's end.
//!
//! Promised (G3): a future that is dropped stops the waiting and nothing else, however often; the end is there for
//! the next one, and none is missed.

use crate::kit::{SOON, boundaries, command, ms, owner_of, script, timed, trials};
use crate::runtime::{both, multi, poll_once};
use killcord::{Boundary, Cause, ExitStatus, Ladder, Leftovers, Stdio, Verdict};
use killcord_testkit::{Scene, bin};
use std::task::Poll;
use tokio::time::timeout;

trials![
    the_end_is_the_one_that_wait_gives,
    a_timeout_of_the_job_is_its_end,
    a_future_that_is_dropped_leaves_the_job_as_it_is,
    an_end_that_came_before_the_wait_is_there,
    heavy_a_thousand_futures_that_are_dropped_lose_nothing,
    heavy_no_end_is_missed_however_it_comes,
    kept_leftovers_have_an_end_of_their_own,
];

fn the_end_is_the_one_that_wait_gives() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = script(&owner, &scene, "exit 3").spawn().unwrap();
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert_eq!((end.status, end.cause), (Some(ExitStatus::Code(3)), Cause::LeaderExited), "{boundary}");
        assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        assert_eq!(runtime.block_on(job.wait_async()).unwrap(), end, "{boundary}");
        assert_eq!((job.try_wait().unwrap(), job.wait().unwrap()), (Some(end.clone()), end), "{boundary}");
    }
}

fn a_timeout_of_the_job_is_its_end() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command = script(&owner, &scene, "\"$2\" 60 & exec \"$2\" 60");
        let mut job = command.timeout(ms(300)).grace(ms(700)).spawn().unwrap();
        let (end, took) = timed(|| runtime.block_on(async { timeout(SOON, job.wait_async()).await }));
        let end = end.unwrap().unwrap();
        assert_eq!((end.cause, scene.alive().len()), (Cause::Timeout, 0), "{boundary}: {end:?}");
        assert!((ms(900)..ms(2500)).contains(&took), "{boundary}: {took:?}");
    }
}

fn a_future_that_is_dropped_leaves_the_job_as_it_is() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = command(&owner, &scene, bin("kc-leaf")).args(["leaf", "60"]).spawn().unwrap();
        scene.wait_recorded(1, SOON);
        for limit in [0, 1, 100] {
            let given_up = runtime.block_on(async { timeout(ms(limit), job.wait_async()).await });
            assert!(given_up.is_err() && scene.alive().len() == 1, "{boundary}: {given_up:?}");
        }
        job.end(Ladder::with_grace(SOON)).unwrap();
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert_eq!((end.status, end.cause), (Some(ExitStatus::Signal(15)), Cause::Asked), "{boundary}");
    }
}

fn an_end_that_came_before_the_wait_is_there() {
    for (runtime, boundary) in both(boundaries()) {
        let mut job = owner_of(boundary).command("true").spawn().unwrap();
        // The cord is at its end when the keeper is gone.
        let cord = [rustix::event::PollFd::new(&job, rustix::event::PollFlags::RDHUP)];
        rustix::event::poll(&mut { cord }, None).unwrap();
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert!(end.success(), "{boundary}: {end:?}");
    }
}

fn heavy_a_thousand_futures_that_are_dropped_lose_nothing() {
    for (runtime, boundary) in both(boundaries()) {
        let owner = owner_of(boundary);
        let one = |code: i32| {
            let text = format!("read -r line; exit {code}");
            let mut job = owner.command("sh").args(["-c", &text]).stdin(Stdio::piped()).spawn().unwrap();
            runtime.spawn(async move {
                let mut dropped = 0;
                loop {
                    if let Poll::Ready(end) = poll_once(job.wait_async()).await {
                        assert_eq!(end.unwrap().status, Some(ExitStatus::Code(code)));
                        return dropped;
                    }
                    dropped += 1;
                    if dropped == 1000 {
                        job.stdin = None;
                    }
                    tokio::task::yield_now().await;
                }
            })
        };
        let tasks: Vec<_> = (0..8).map(one).collect();
        runtime.block_on(async {
            for task in tasks {
                assert!(timeout(SOON, task).await.expect("an end was lost").unwrap() >= 1000, "{boundary}");
            }
        });
    }
}

fn heavy_no_end_is_missed_however_it_comes() {
    // A report may come between the look at the cord and the wait for it, seen by another thread.
    let runtime = multi(4);
    for boundary in boundaries() {
        let owner = owner_of(boundary);
        for round in 0..15 {
            let one = |n: i32| {
                let text = format!("sleep 0.0{}; exit {n}", n % 10);
                let mut job = owner.command("sh").args(["-c", &text]).spawn().unwrap();
                runtime.spawn(async move { job.wait_async().await.unwrap().status })
            };
            let tasks: Vec<_> = (0..20).map(|n| (n, one(n))).collect();
            for (code, task) in tasks {
                let status = runtime.block_on(async { timeout(SOON, task).await });
                let status =
                    status.unwrap_or_else(|_| panic!("{boundary}: an end was missed in round {round}"));
                assert_eq!(status.unwrap(), Some(ExitStatus::Code(code)), "{boundary}");
            }
        }
    }
}

fn kept_leftovers_have_an_end_of_their_own() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command =
            script(&owner, &scene, "\"$1\" leaf 60 & until [ -s \"$D/ids\" ]; do sleep 0.01; done");
        let mut job = command.leftovers(Leftovers::Keep).spawn().unwrap();
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert!(end.goes_on() && scene.alive().len() == 1, "{boundary}: {end:?}");
        assert!(runtime.block_on(async { timeout(ms(100), job.wait_async()).await }).is_err(), "{boundary}");
        scene.pin().kill(killcord_testkit::Signal::KILL);
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert!(!end.goes_on() && matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        assert_ne!(end.boundary, Boundary::Uncontained);
    }
}
