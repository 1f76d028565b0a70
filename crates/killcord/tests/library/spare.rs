//! The keeper that is forked ahead of its job.
//!
//! Promised (G1, G2, G7): it ends with the warden, and at the latest with the last request; killed before it has got a
//! job, it is no loss; stopped before that, it goes on with its job; killed with a job that it has not read, it has run nothing, and nobody runs that job again; and
//! it is nobody's orphan.

use crate::kit::{BOUND, Guards, SOON, boundaries, ms, owner_of, script, timed, trials};
use killcord::{Boundary, Choice, Error, Job, Owner, Stdio, Verdict};
use killcord_testkit::claims::until;
use killcord_testkit::{PinnedProcess, Scene, Signal, Stream, procs};
use std::path::Path;
use std::time::Instant;

trials![
    it_is_the_keeper_of_the_next_job,
    killed_before_a_job_it_is_no_loss,
    killed_with_a_job_that_it_has_not_read_it_has_run_nothing,
    stopped_before_it_has_a_job_it_goes_on_with_it,
    it_ends_with_its_warden,
    it_ends_with_the_last_request,
    it_is_not_taken_for_an_orphan,
    what_was_made_ahead_is_the_next_job_s_or_goes,
];

/// Those of which the keeper is no init, which is made with its namespace.
fn with_spares() -> impl Iterator<Item = Boundary> {
    boundaries().into_iter().filter(|b| *b != Boundary::Namespace)
}

/// A job that says that it runs and stays; and the pipe that ends with it and with whoever could still start it.
fn start(owner: &Owner, scene: &Scene) -> (killcord::Result<Job>, Stream) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut command = script(owner, scene, "echo run >>\"$D/runs\"; exec \"$1\" leaf 60");
    (command.descriptor(3, write).spawn(), Stream::new(read))
}

fn runs(scene: &Scene) -> usize {
    std::fs::read_to_string(scene.path("runs")).unwrap_or_default().lines().count()
}

/// The spare of this warden, another than `not`.
pub(crate) fn spare_of(warden: &PinnedProcess, not: Option<u32>) -> PinnedProcess {
    let deadline = Instant::now() + SOON;
    loop {
        let children = procs::children(warden.pid).into_iter().filter(|pid| Some(*pid) != not);
        let spare = |pid| PinnedProcess::open(pid, |s| s.parent == warden.pid && s.comm == "killcord-spare");
        if let Some(spare) = { children }.find_map(spare) {
            return spare;
        }
        assert!(Instant::now() < deadline, "there is no spare");
        std::thread::sleep(ms(1));
    }
}

/// A job that runs, its warden, and the spare for the next.
fn first(owner: &Owner, scene: &Scene) -> (Job, PinnedProcess, PinnedProcess) {
    let job = script(owner, scene, "exec sleep 60").spawn().unwrap();
    let warden = Guards::of(&job).warden;
    let spare = spare_of(&warden, None);
    (job, warden, spare)
}

fn it_is_the_keeper_of_the_next_job() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (_first, warden, spare) = first(&owner, &scene);
        let (job, mut held) = start(&owner, &scene);
        let job = job.unwrap();
        assert_eq!(Guards::of(&job).keeper.pid, spare.pid, "{boundary}");
        assert_eq!(job.boundary(), Some(boundary));
        scene.wait_recorded(1, SOON);
        // The second line knows it: it is killed, and its job ends.
        spare.kill(Signal::KILL).unwrap();
        held.read_to_end(BOUND).unwrap();
        assert_eq!(runs(&scene), 1, "{boundary}");
        assert!(warden.is_alive());
    }
}

fn killed_before_a_job_it_is_no_loss() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (_first, warden, spare) = first(&owner, &scene);
        // With the first it is gone for long; the second is dying, or not even that, when the request comes.
        spare.kill(Signal::KILL).unwrap();
        assert!(spare.wait_gone(SOON));
        let (job, mut held) = start(&owner, &scene);
        let job = job.unwrap();
        assert_ne!(Guards::of(&job).keeper.pid, spare.pid, "{boundary}");
        scene.wait_recorded(1, SOON);
        let another = spare_of(&warden, Some(spare.pid));
        drop(job);
        held.read_to_end(BOUND).unwrap();
        another.kill(Signal::KILL).unwrap();
        let (job, mut held) = start(&owner, &scene);
        match job {
            Ok(job) => drop(job),
            Err(e) => assert!(e.nothing_ran(), "{boundary}: {e:?}"),
        }
        held.read_to_end(BOUND).unwrap();
        assert!(runs(&scene) <= 2, "{boundary}");
    }
}

fn killed_with_a_job_that_it_has_not_read_it_has_run_nothing() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (_first, warden, spare) = first(&owner, &scene);
        spare.kill(Signal::STOP).unwrap();
        let (job, mut held) = std::thread::scope(|scope| {
            let starting = scope.spawn(|| start(&owner, &scene));
            // The next spare is forked when this one has its job.
            let next = spare_of(&warden, Some(spare.pid));
            assert!(next.is_alive() && spare.is_alive());
            spare.kill(Signal::KILL).unwrap();
            starting.join().unwrap()
        });
        let error = job.unwrap_err();
        assert!(matches!(error, Error::NoWarden { .. }) && error.nothing_ran(), "{boundary}: {error:?}");
        held.read_to_end(SOON).unwrap();
        assert_eq!(runs(&scene), 0, "{boundary}");
        // The warden goes on, and so does the next spare.
        let (job, _held) = start(&owner, &scene);
        assert_eq!(Guards::of(&job.unwrap()).warden.pid, warden.pid, "{boundary}");
    }
}

fn stopped_before_it_has_a_job_it_goes_on_with_it() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (_first, _, spare) = first(&owner, &scene);
        spare.kill(Signal::STOP).unwrap();
        until(SOON, "stopped", || spare.stat().is_some_and(|stat| stat.state == 'T'));
        // The warden has heard of it by now, and does not hear of it again.
        std::thread::sleep(ms(100));
        let job = std::thread::scope(|scope| {
            let starting = scope.spawn(|| start(&owner, &scene));
            let deadline = Instant::now() + BOUND;
            while !starting.is_finished() && Instant::now() < deadline {
                std::thread::sleep(ms(5));
            }
            if !starting.is_finished() {
                // Nobody else would end the wait for its answer.
                spare.kill(Signal::KILL).unwrap();
            }
            starting.join().unwrap().0
        });
        assert_eq!(Guards::of(&job.unwrap()).keeper.pid, spare.pid, "{boundary}");
    }
}

fn it_ends_with_its_warden() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        for stopped in [false, true] {
            let (job, warden, spare) = first(&owner, &scene);
            if stopped {
                spare.kill(Signal::STOP).unwrap();
            }
            warden.kill(Signal::KILL).unwrap();
            let (gone, took) = timed(|| spare.wait_gone(BOUND));
            assert!(gone, "{boundary}: the spare is left after {took:?}, stopped: {stopped}");
            // So that the next request does not go to one that is ending.
            assert!(warden.wait_gone(SOON));
            drop(job);
        }
    }
}

fn it_ends_with_the_last_request() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (job, warden, spare) = first(&owner, &scene);
        spare.kill(Signal::STOP).unwrap();
        // The handle on the warden goes with the last that can start something; the job keeps its own.
        let job = job.into_fd().unwrap();
        drop(owner);
        assert!(spare.wait_gone(SOON), "{boundary}: a spare waits for nobody");
        assert!(warden.is_alive(), "{boundary}");
        drop(job);
        assert!(warden.wait_gone(SOON), "{boundary}");
    }
}

fn it_is_not_taken_for_an_orphan() {
    for boundary in with_spares() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let (_first, warden, _) = first(&owner, &scene);
        let text = "setsid \"$1\" a 60 & setsid \"$2\" 60 & exec \"$1\" leader 60";
        let mut job = script(&owner, &scene, text).spawn().unwrap();
        scene.wait_recorded(3, SOON);
        let (pinned, keeper) = (scene.pin(), Guards::of(&job).keeper);
        let spare = spare_of(&warden, Some(keeper.pid));
        keeper.kill(Signal::KILL).unwrap();
        let end = job.wait_timeout(SOON).unwrap().unwrap();
        assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        pinned.wait_gone(ms(100)).unwrap();
        assert!(spare.is_alive(), "{boundary}: it was ended with the orphans");
        let (job, _held) = start(&owner, &scene);
        assert_eq!(Guards::of(&job.unwrap()).keeper.pid, spare.pid, "{boundary}");
    }
}

/// The names in a directory that begin like this.
fn names(dir: &Path, prefix: &str) -> Vec<String> {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

fn what_was_made_ahead_is_the_next_job_s_or_goes() {
    for boundary in with_spares() {
        let scene = Scene::new();
        let state = scene.path("state");
        let owner = Owner::builder().boundary(Choice::Exactly(boundary)).state_directory(&state);
        let owner = owner.build().unwrap();
        let claim = state.join(names(&state, "c").concat());
        for round in 0..6 {
            let mut command = owner.command("sh");
            command.args(["-c", "echo $TMPDIR; ls -A $TMPDIR; stat -c %a $TMPDIR"]).stdout(Stdio::piped());
            let inherits = round % 3 == 2;
            if inherits {
                command.env("TMPDIR", scene.path("tmp")).inherit_temporary_directory();
            }
            let job = command.spawn().unwrap();
            let id = job.id().to_string();
            let output = job.into_output(4096).unwrap();
            assert!(output.end.success(), "{boundary}: {output:?}");
            if !inherits {
                let own = claim.join("tmp").join(&id[..12]);
                assert_eq!(output.stdout.to_text(), format!("{}\n700\n", own.display()), "{boundary}");
            }
            // Of all of them the next job's alone may be there.
            let ahead = (names(&claim.join("tmp"), ""), names(&claim, ".form-"));
            assert!(
                ahead.0.len() <= 1 && ahead.0.iter().all(|name| name.starts_with(".spare-")),
                "{ahead:?}"
            );
            assert!(ahead.1.len() <= 1 && names(&claim.join("jobs"), "").is_empty(), "{ahead:?}");
        }
        drop(owner);
        until(BOUND, "the claim is gone", || names(&state, "").is_empty());
    }
}
