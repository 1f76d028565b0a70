//! The cord is a descriptor: who holds it holds the job.
//!
//! Promised: a cord goes over an exec of the owner; given to another process, it makes that process the owner by
//! `Job::adopt`: the death of the first owner, of its warden's reason to be included, is nothing to the job then, and
//! the death of the new one ends it, whoever else has a copy of the cord. Before anybody adopts it, the last close
//! ends it. A released job lives on and is ended by nobody. A cord is readable when there is something new.

use crate::kit::{self, BOUND, Guards, SOON, boundaries, command, ms, owner_of, script, trials};
use killcord::{Boundary, Job, JobId, Ladder, Owner};
use killcord_testkit::{PinnedProcess, Running, Scene, Signal, bin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

trials![
    a_cord_goes_over_an_exec_of_the_owner,
    the_first_owners_death_is_nothing_and_the_adopters_death_ends_the_job,
    the_last_close_of_a_cord_that_nobody_adopted_ends_the_job,
    a_cord_is_adopted_in_the_same_process_after_its_owner_is_gone,
    what_is_no_cord_is_not_adopted_for_long,
    a_released_job_outlives_its_host,
    a_released_job_outlives_its_keeper,
    a_job_that_is_over_cannot_be_released,
    a_cord_is_readable_when_there_is_something_new,
];

fn leaf(owner: &Owner, scene: &Scene) -> Job {
    let job = command(owner, scene, bin("kc-leaf")).args(["leaf", "60"]).spawn().unwrap();
    scene.wait_recorded(1, SOON);
    job
}

/// Whether it ends within the time that any ladder would take by now.
fn lives_on(scene: &Scene) -> bool {
    let pinned = scene.pin();
    pinned.len() == 1 && pinned.wait_gone(ms(1000)).is_err()
}

fn a_cord_goes_over_an_exec_of_the_owner() {
    let scene = Scene::new();
    let mut host = Running::start(&mut kit::host(&scene, "keep across exec"));
    let said = host.stdout.read_to_end(SOON).unwrap();
    assert_eq!(said, "kept\nended\n", "{:?}", host.stderr.read_to_end(SOON));
    scene.wait_gone(Duration::ZERO).unwrap();
}

fn the_first_owners_death_is_nothing_and_the_adopters_death_ends_the_job() {
    for boundary in boundaries() {
        for copy in ["copy", "no copy", "late"] {
            let scene = Scene::new();
            let mut host = Running::start(kit::host(&scene, "give").args([boundary.name(), copy]));
            let said = host.stdout.expect(".", SOON).unwrap();
            let taker = said.trim_start_matches("given to ").trim_end_matches(['.', '\n']).parse().unwrap();
            let taker = PinnedProcess::open(taker, |s| s.parent == host.pid()).unwrap();
            let leaf = scene.pin().get("leaf").unwrap().stat().unwrap();
            let keeper = PinnedProcess::open(leaf.parent, |s| s.comm == "killcord-keeper").unwrap();
            if copy != "copy" {
                host.kill(Signal::KILL);
                assert!(host.wait(SOON).is_some());
            }
            // A keeper that was slow learns of the new owner and of the old one's death at once.
            keeper.kill(Signal::CONT).unwrap();
            assert!(lives_on(&scene), "{boundary}: the job went with its first owner");
            let pinned = scene.pin();
            taker.kill(Signal::KILL).unwrap();
            assert!(
                pinned.wait_gone(BOUND).is_ok(),
                "{boundary} {copy}: the adopter's death is nothing to it"
            );
        }
    }
}

fn the_last_close_of_a_cord_that_nobody_adopted_ends_the_job() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let cord = leaf(&owner, &scene).into_fd().unwrap();
        let copy = cord.try_clone().unwrap();
        drop((cord, owner));
        assert!(lives_on(&scene), "{boundary}: a copy is left");
        let pinned = scene.pin();
        drop(copy);
        pinned.wait_gone(BOUND).unwrap();
    }
}

fn a_cord_is_adopted_in_the_same_process_after_its_owner_is_gone() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let job = leaf(&owner, &scene);
        let (id, guards) = (job.id(), Guards::of(&job));
        let cord = job.into_fd().unwrap();
        drop(owner);
        let mut job = Job::adopt(cord, id).unwrap();
        assert!(job.wait_timeout(ms(300)).unwrap().is_none(), "{boundary}");
        job.end(Ladder::short()).unwrap();
        let end = job.wait_timeout(SOON).unwrap().unwrap();
        assert_eq!(end.status.map(killcord::ExitStatus::as_shell), Some(143), "{boundary}: {end:?}");
        assert_eq!(end.boundary, boundary);
        assert!(guards.warden.wait_gone(SOON), "{boundary}: a warden whose last job is over stays");
    }
}

fn what_is_no_cord_is_not_adopted_for_long() {
    let id: JobId = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    assert!(Job::adopt(null, id).is_err());
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(theirs);
    assert!(Job::adopt(ours.into(), id).is_err());
    // A cord whose job is over says so, one way or the other, and does not wait for ever.
    let owner = owner_of(Boundary::Tree);
    let job = owner.command("true").spawn().unwrap();
    let id = job.id();
    let keeper = killcord_testkit::procs::stat(job.pid().unwrap()).map(|s| s.parent);
    if let Ok(cord) = job.into_fd()
        && let Ok(mut job) = Job::adopt(cord, id)
    {
        assert!(job.wait_timeout(SOON).unwrap().is_some(), "{keeper:?}");
    }
}

fn a_released_job_outlives_its_host() {
    for boundary in boundaries() {
        let scene = Scene::new();
        let mut host = Running::start(kit::host(&scene, "release").arg(boundary.name()));
        host.stdout.expect("released\n", SOON).unwrap();
        host.kill(Signal::KILL);
        assert!(host.wait(SOON).is_some());
        assert!(lives_on(&scene), "{boundary}: a released job was ended");
        let pinned = scene.pin();
        // Its caretaker goes with it.
        let leaf = pinned.get("leaf").unwrap().stat().unwrap();
        let caretaker = PinnedProcess::open(leaf.parent, |_| true);
        pinned.kill(Signal::KILL);
        pinned.wait_gone(SOON).unwrap();
        assert!(caretaker.is_none_or(|c| c.comm != "killcord-keeper" || c.wait_gone(SOON)), "{boundary}");
    }
}

/// Its leader goes with the keeper: only the leader itself could take off the signal that the kernel sends it then.
fn a_released_job_outlives_its_keeper() {
    // The keeper is the init of a namespace, and its death the end of everybody there.
    for boundary in boundaries().into_iter().filter(|b| *b != Boundary::Namespace) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let start = |text: &str| script(&owner, &scene, text).spawn().unwrap();
        let released = start("setsid \"$1\" free 60 & exec \"$1\" leader 60");
        scene.wait_names(&["free", "leader"], SOON);
        let (pinned, guards) = (scene.pin(), Guards::of(&released));
        released.release().unwrap();
        guards.keeper.kill(Signal::KILL).unwrap();
        assert!(pinned.get("leader").unwrap().wait_gone(SOON), "{boundary}");
        // When the warden has ended what another killed keeper left, it has known of the first for long.
        let mut other = start("exec \"$1\" other 60");
        Guards::of(&other).keeper.kill(Signal::KILL).unwrap();
        let _ = other.wait_timeout(SOON).unwrap().expect("no end of the other is said");
        assert!(pinned.get("free").unwrap().is_alive(), "{boundary}: a released job was ended");
        assert!(guards.warden.is_alive(), "{boundary}");
        pinned.kill(Signal::KILL);
    }
}

fn a_job_that_is_over_cannot_be_released() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = owner.command("true").spawn().unwrap();
        let _ = job.wait().unwrap();
        assert!(job.release().is_err(), "{boundary}");
        // Nor one that is ending, which goes on ending.
        let mut command = command(&owner, &scene, bin("kc-ignore"));
        let job = command.arg("60").spawn().unwrap();
        scene.wait_recorded(1, SOON);
        job.end(Ladder::with_grace(ms(500))).unwrap();
        let pinned = scene.pin();
        assert!(job.release().is_err(), "{boundary}");
        pinned.wait_gone(BOUND).unwrap();
    }
}

fn a_cord_is_readable_when_there_is_something_new() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = leaf(&owner, &scene);
        let readable = |job: &Job, limit: Duration| {
            let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
            poll(&mut [PollFd::from_borrowed_fd(job.as_fd(), PollFlags::IN)], Some(&limit)).unwrap() == 1
        };
        assert!(job.try_wait().unwrap().is_none(), "{boundary}");
        assert!(!readable(&job, ms(200)), "{boundary}: an event loop would spin");
        job.end(Ladder::short()).unwrap();
        let mut looks = 0;
        let end = loop {
            assert!(readable(&job, SOON), "{boundary}");
            looks += 1;
            if let Some(end) = job.try_wait().unwrap() {
                break end;
            }
        };
        assert!(looks <= 4 && end.status.is_some(), "{boundary}: {looks} {end:?}");
    }
}
