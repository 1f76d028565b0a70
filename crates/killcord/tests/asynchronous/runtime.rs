//! The runtime, and its end in the middle of a teardown.
//!
//! Promised (G3): whatever becomes of the tasks that wait, a job whose members ignore TERM and HUP is gone within
//! the short ladder's bound, since its teardown is none of the runtime's business.

use crate::kit::{BOUND, SOON, boundaries, ms, owner_of, script, trials};
use killcord::{Boundary, Job, Ladder, Stdio};
use killcord_testkit::{Nest, Scene, example};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

trials![
    a_runtime_that_is_dropped_in_a_teardown_takes_the_job_along,
    a_runtime_that_is_shut_down_in_the_background_takes_the_job_along,
    a_task_that_is_aborted_takes_its_job_along,
    heavy_a_hundred_jobs_at_once_half_of_them_cancelled,
];

pub(crate) fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn multi(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

/// Each boundary on both kinds of runtime.
pub(crate) fn both(boundaries: Vec<Boundary>) -> impl Iterator<Item = (Runtime, Boundary)> {
    boundaries.into_iter().flat_map(|boundary| [(current(), boundary), (multi(2), boundary)])
}

/// Polls a future once and drops it, as `select!` does with those that were not the first.
pub(crate) async fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Has a task that waits for the end of a job that ignores what it is asked, in the middle of a ladder that would
/// take 50 s; then leaves the runtime, and sees the job gone within the bound.
fn is_gone_after(wait: fn(Job) -> Waiting, leave: impl Fn(Runtime, tokio::task::JoinHandle<()>)) {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let job =
            script(&owner, &scene, "\"$2\" 60 & exec \"$2\" 60").stdout(Stdio::piped()).spawn().unwrap();
        scene.wait_recorded(2, SOON);
        let pinned = scene.pin();
        let (tell, told) = std::sync::mpsc::channel();
        let task = runtime.spawn(async move {
            job.end(Ladder::with_grace(Duration::from_secs(50))).unwrap();
            let mut waiting = wait(job);
            // It waits, and then that is said.
            assert!(poll_once(waiting.as_mut()).await.is_pending());
            tell.send(()).unwrap();
            waiting.await;
        });
        runtime.block_on(async {
            while told.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        });
        let begun = Instant::now();
        leave(runtime, task);
        let gone = pinned.wait_gone(BOUND.saturating_sub(begun.elapsed()));
        assert!(gone.is_ok(), "{boundary}: {gone:?}");
        // The short ladder was climbed: they had their half second.
        assert!(begun.elapsed() >= ms(450), "{boundary}: {:?}", begun.elapsed());
    }
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

fn for_end(mut job: Job) -> Waiting {
    Box::pin(async move { drop(job.wait_async().await) })
}

fn for_output(job: Job) -> Waiting {
    Box::pin(async move { drop(job.into_output_async(1000).await) })
}

fn a_runtime_that_is_dropped_in_a_teardown_takes_the_job_along() {
    is_gone_after(for_end, |runtime, _| drop(runtime));
    is_gone_after(for_output, |runtime, _| drop(runtime));
}

fn a_runtime_that_is_shut_down_in_the_background_takes_the_job_along() {
    is_gone_after(for_end, |runtime, _| runtime.shutdown_background());
    is_gone_after(for_output, |runtime, _| runtime.shutdown_background());
}

fn a_task_that_is_aborted_takes_its_job_along() {
    let abort = |runtime: Runtime, task: tokio::task::JoinHandle<()>| {
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    };
    is_gone_after(for_end, abort);
    is_gone_after(for_output, abort);
}

fn heavy_a_hundred_jobs_at_once_half_of_them_cancelled() {
    let scene = Scene::new();
    let mut nest = Nest::start(&scene.command(crate::kit::here(), example("killcord", "hundred_jobs")));
    let ended = nest.wait_empty(SOON).unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "50 done, 50 cancelled\n"), "{ended:?}");
}
