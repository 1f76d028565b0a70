//! A start whose outcome is not known is never repeated.
//!
//! Promised (G7): whichever guard is killed at whatever instant of a start, the program runs at most once, and what
//! the caller gets says which it was: a job, a failure that ran nothing, or "unclear". `Error::nothing_ran` is never
//! true of a program that has run. What is left of it is ended, and `spawn` returns.
//!
//! The program appends a line to a file and then stays; the end of a pipe that it holds proves that no later line
//! can come.

use crate::kit::{self, BOUND, Guards, SOON, boundaries, ms, owner_of, script, timed, trials};
use crate::roles;
use crate::spare::spare_of;
use killcord::{Boundary, Error, Job, Owner, Stdio, Verdict};
use killcord_testkit::{Corner, PinnedProcess, Scene, Signal, Stream, procs};
use rustix::process::{Resource, Rlimit};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

trials![
    a_warden_killed_before_the_request_is_replaced_and_the_program_runs_once,
    a_warden_killed_with_the_request_unread_has_run_nothing,
    a_keeper_killed_after_exec_is_an_end_and_no_new_start,
    a_host_without_a_free_descriptor_is_told_the_truth,
    heavy_guards_killed_at_any_instant_of_a_start_run_the_program_at_most_once,
];

/// Starts the program; gives the pipe that ends with it and with whoever could still start it.
fn start(owner: &Owner, scene: &Scene) -> (killcord::Result<Job>, Stream) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut command = script(owner, scene, "echo run >>\"$D/runs\"; exec \"$1\" leaf 60");
    let job = command.descriptor(3, write).spawn();
    (job, Stream::new(read))
}

fn runs(scene: &Scene) -> usize {
    std::fs::read_to_string(scene.path("runs")).unwrap_or_default().lines().count()
}

/// The warden of an owner, found through a first job, which is over.
fn warden_of(owner: &Owner, scene: &Scene) -> PinnedProcess {
    let mut job = script(owner, scene, "exec sleep 60").spawn().unwrap();
    let Guards { warden, keeper } = Guards::of(&job);
    job.end_now().unwrap();
    let _ = job.wait().unwrap();
    // So that the next child is the next keeper.
    assert!(keeper.wait_gone(SOON));
    warden
}

fn a_warden_killed_before_the_request_is_replaced_and_the_program_runs_once() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let warden = warden_of(&owner, &scene);
        // Just forked, it has a copy of the warden's end of the socket: a request would be handed over to nobody.
        let spare = (boundary != Boundary::Namespace).then(|| spare_of(&warden, None));
        warden.kill(Signal::KILL).unwrap();
        assert!(warden.wait_gone(SOON) && spare.is_none_or(|spare| spare.wait_gone(SOON)));
        let (job, mut held) = start(&owner, &scene);
        let job = job.unwrap();
        scene.wait_recorded(1, SOON);
        assert!(Guards::of(&job).warden.is_alive(), "{boundary}");
        drop(job);
        held.read_to_end(BOUND).unwrap();
        assert_eq!(runs(&scene), 1, "{boundary}");
    }
}

fn a_warden_killed_with_the_request_unread_has_run_nothing() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let warden = warden_of(&owner, &scene);
        warden.kill(Signal::STOP).unwrap();
        let (sender, thread) = std::sync::mpsc::channel();
        let result = std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                sender.send(rustix::thread::gettid()).unwrap();
                start(&owner, &scene)
            });
            // The request has been sent when the thread waits for the cord.
            let thread = thread.recv().unwrap().as_raw_pid();
            let polls = || {
                let call =
                    std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
                // poll and ppoll of x86-64, ppoll of AArch64.
                ["7", "271", "73"].iter().any(|n| call.split(' ').next() == Some(n))
            };
            let deadline = Instant::now() + SOON;
            while !polls() {
                assert!(Instant::now() < deadline, "the request is not sent");
                std::thread::sleep(ms(1));
            }
            warden.kill(Signal::KILL).unwrap();
            starting.join().unwrap()
        });
        let (job, mut held) = result;
        let error = job.unwrap_err();
        assert!(matches!(error, Error::NoWarden { .. }) && error.nothing_ran(), "{boundary}: {error:?}");
        held.read_to_end(SOON).unwrap();
        assert_eq!(runs(&scene), 0, "{boundary}");
        // The next start is another one, and works.
        let (job, _held) = start(&owner, &scene);
        job.unwrap();
    }
}

fn a_keeper_killed_after_exec_is_an_end_and_no_new_start() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (job, mut held) = start(&owner, &scene);
        let mut job = job.unwrap();
        scene.wait_recorded(1, SOON);
        Guards::of(&job).keeper.kill(Signal::KILL).unwrap();
        let (end, took) = timed(|| job.wait().unwrap());
        assert_eq!(end.cause, killcord::Cause::KeeperGone, "{boundary}");
        assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        assert!(took < BOUND, "{boundary}: {took:?}");
        held.read_to_end(ms(100)).unwrap();
        assert_eq!(runs(&scene), 1, "{boundary}");
    }
}

fn a_host_without_a_free_descriptor_is_told_the_truth() {
    // The end of its output is the end of all its jobs; each that ran has said so there.
    let said = kit::play(&Scene::new(), "crowded", Duration::from_secs(50));
    let with = |word: &str| -> BTreeSet<u64> {
        said.lines().filter_map(|line| line.strip_suffix(word)?.parse().ok()).collect()
    };
    let (ran, nothing_ran) = (with(" ran"), with(" nothing ran"));
    assert!(!ran.is_empty(), "{said}");
    println!("{} of 300 ran, {} did not", ran.len(), nothing_ran.len());
    let both: Vec<_> = ran.intersection(&nothing_ran).collect();
    assert!(both.is_empty(), "ran, although it was said that nothing had: {both:?}\n{said}");
}

/// A host with a thread that, at some instant of each start, takes every descriptor that is free or becomes so.
pub(crate) fn crowded() {
    let owner = Owner::new().unwrap();
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    for n in 0..300 {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let at = Instant::now() + Duration::from_micros(n * 10);
                let mut hoard = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    if Instant::now() >= at {
                        hoard.extend(std::io::stdin().as_fd().try_clone_to_owned().ok());
                    }
                }
            });
            let mut command = owner.command("sh");
            command.args(["-c", &format!("echo {n} ran")]).stdout(Stdio::inherit());
            match command.spawn() {
                Ok(mut job) => drop(job.wait_timeout(SOON)),
                Err(e) if e.nothing_ran() => roles::say(&format!("{n} nothing ran")),
                Err(e) => roles::say(&format!("{n} unclear {e}")),
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

/// How a start ended, for the record.
#[derive(Debug, Default)]
struct Counts {
    ran: usize,
    not_started: usize,
    unclear: usize,
}

fn heavy_guards_killed_at_any_instant_of_a_start_run_the_program_at_most_once() {
    for boundary in boundaries() {
        let scene = Scene::new();
        let corner = if boundary == Boundary::Cgroup { Corner::new(&scene) } else { Corner::nowhere() };
        let mut host = kit::host(&scene, "killed starts");
        let said = kit::play_to_the_end(&mut corner.wrap(host.arg(boundary.name())), Duration::from_secs(55));
        println!("{boundary}:\n{said}");
        // Whoever was killed, the owner was not, and knows of the job's cgroup.
        assert_eq!(corner.leaves(), Vec::<std::path::PathBuf>::new(), "{boundary}");
    }
}

/// A host of a hundred and twenty starts in the middle of which guards are killed.
pub(crate) fn killed_starts(boundary: Boundary) {
    for victims in [&["warden"][..], &["keeper"], &["warden", "keeper"]] {
        let mut counts = Counts::default();
        for round in 0..40 {
            one_start(boundary, victims, round, &mut counts);
        }
        roles::say(&format!("{victims:?}: {counts:?}"));
    }
}

/// One start, with the victims killed some time after the keeper was there.
fn one_start(boundary: Boundary, victims: &[&str], round: u64, counts: &mut Counts) {
    let (owner, scene) = (owner_of(boundary), Scene::new());
    let warden = warden_of(&owner, &scene);
    let wait = Duration::from_micros(round * 100);
    let ((job, mut held), keeper) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_guards(&warden, boundary, victims, wait));
        let result = start(&owner, &scene);
        (result, killer.join().unwrap())
    });
    let what = format!("{boundary} {victims:?} round {round}");
    let (outcome, took) = timed(|| {
        job.and_then(|mut job| {
            if is_anothers(&job, victims, [&warden, &keeper]) {
                // A keeper that is gone by now has ended it.
                let _ = job.end_now();
            }
            job.wait_timeout(SOON)
        })
    });
    assert!(took < ms(4500), "{what}: {took:?}");
    held.read_to_end(BOUND).unwrap_or_else(|e| panic!("{what}: {e} {outcome:?}"));
    let runs = runs(&scene);
    match outcome {
        Ok(end) => {
            assert!(end.is_some() && runs <= 1, "{what}: {runs} {end:?}");
            counts.ran += 1;
        }
        Err(e) if e.nothing_ran() => {
            assert_eq!(runs, 0, "{what}: {e:?}");
            counts.not_started += 1;
        }
        Err(e) => {
            assert!(matches!(e, Error::Unclear { .. }) && runs <= 1, "{what}: {runs} {e:?}");
            counts.unclear += 1;
        }
    }
}

/// Whether the job has other guards than those that were killed: they had not got the request, and others took
/// their place.
fn is_anothers(job: &Job, victims: &[&str], [warden, keeper]: [&PinnedProcess; 2]) -> bool {
    let has = job.pid().and_then(procs::stat).and_then(|leader| procs::stat(leader.parent));
    let Some(has) = has.filter(|s| s.comm == "killcord-keeper") else { return false };
    if victims.contains(&"warden") { has.parent != warden.pid } else { has.pid != keeper.pid }
}

/// The keeper that the warden had when the time began.
fn kill_guards(
    warden: &PinnedProcess,
    boundary: Boundary,
    victims: &[&str],
    wait: Duration,
) -> PinnedProcess {
    let deadline = Instant::now() + SOON;
    let keeper = loop {
        // The one that was forked ahead, but for a namespace, whose keeper is made with it.
        let is_keeper = |s: &procs::Stat| {
            s.parent == warden.pid && (boundary != Boundary::Namespace || s.comm != "killcord-spare")
        };
        let children = procs::children(warden.pid).into_iter();
        if let Some(keeper) = { children }.find_map(|pid| PinnedProcess::open(pid, is_keeper)) {
            break keeper;
        }
        assert!(Instant::now() < deadline, "there was no keeper");
    };
    // An instant of the start, which takes about a millisecond; nothing is proven by it.
    let until = Instant::now() + wait;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    if victims.contains(&"warden") {
        let _ = warden.kill(Signal::KILL);
    }
    if victims.contains(&"keeper") {
        let _ = keeper.kill(Signal::KILL);
    }
    if victims == ["warden"] {
        assert!(warden.wait_gone(SOON));
    }
    keeper
}
