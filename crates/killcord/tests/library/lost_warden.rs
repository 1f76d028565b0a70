//! The warden has died.
//!
//! Promised (G2, G3): its jobs are ended, and their handles say so; the next start makes one fresh warden; no call
//! waits for ever. With the keepers killed as well, the owner ends what can be told to be of the job, and says that
//! this is what it did.

use crate::kit::{BOUND, Guards, SOON, boundaries, command, ms, owner_of, script, taggable, timed, trials};
use killcord::{Boundary, Cause, Error, Owner, Stdio, Verdict};
use killcord_testkit::{Scene, Signal, bin};
use std::time::Duration;

trials![
    jobs_of_a_dead_warden_are_ended_and_say_so,
    the_next_start_makes_one_fresh_warden,
    a_call_that_collects_output_returns_when_the_warden_dies,
    warden_and_keeper_killed_leave_nothing_that_has_the_jobs_name,
    many_threads_start_jobs_while_wardens_die,
    a_warden_that_cannot_be_replaced_is_an_error_each_time_and_no_hang,
];

fn jobs_of_a_dead_warden_are_ended_and_say_so() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let start = || script(&owner, &scene, "setsid \"$1\" a 60 & \"$2\" 60").spawn().unwrap();
        let mut jobs = [start(), start(), start()];
        scene.wait_recorded(6, SOON);
        let pinned = scene.pin();
        Guards::of(&jobs[0]).warden.kill(Signal::KILL).unwrap();
        let (gone, took) = timed(|| pinned.wait_gone(BOUND));
        gone.unwrap();
        for job in &mut jobs {
            let end = job.wait_timeout(ms(1000)).unwrap().expect("no end is said");
            // The init of a namespace dies with the warden and says nothing more.
            let died = if boundary == Boundary::Namespace { Cause::KeeperGone } else { Cause::WardenGone };
            assert_eq!(end.cause, died, "{boundary} after {took:?}: {end:?}");
            assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        }
    }
}

fn the_next_start_makes_one_fresh_warden() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let start = || command(&owner, &scene, bin("kc-leaf")).args(["leaf", "60"]).spawn().unwrap();
        let mut first = start();
        scene.wait_recorded(1, SOON);
        let old = Guards::of(&first).warden;
        old.kill(Signal::KILL).unwrap();
        assert!(old.wait_gone(SOON));
        let (second, took) = timed(start);
        assert!(took < ms(1000), "{boundary}: {took:?}");
        let third = start();
        let (fresh, same) = (Guards::of(&second).warden, Guards::of(&third).warden);
        assert_eq!((fresh.pid, fresh.start), (same.pid, same.start), "{boundary}");
        assert!(first.wait_timeout(BOUND).unwrap().is_some(), "{boundary}: no end of the first job");
        // The fresh one is no worse: its jobs go with their handles.
        scene.wait_recorded(3, SOON);
        drop((second, third));
        scene.wait_gone(BOUND).unwrap();
        drop((owner, first));
        assert!(fresh.wait_gone(SOON), "{boundary}: a warden without owner and jobs stays");
    }
}

fn a_call_that_collects_output_returns_when_the_warden_dies() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "echo before; exec \"$1\" leaf 60";
        let job = script(&owner, &scene, text).stdout(Stdio::piped()).spawn().unwrap();
        scene.wait_recorded(1, SOON);
        let guards = Guards::of(&job);
        let (output, took) = timed(|| {
            std::thread::scope(|scope| {
                let collecting = scope.spawn(|| job.into_output(1000).unwrap());
                guards.warden.kill(Signal::KILL).unwrap();
                collecting.join().unwrap()
            })
        });
        assert_eq!(output.stdout.to_text(), "before\n", "{boundary}");
        assert!(took < BOUND, "{boundary}: {took:?}");
    }
}

fn warden_and_keeper_killed_leave_nothing_that_has_the_jobs_name() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "setsid \"$1\" a 60 & (trap '' TERM HUP; setsid \"$2\" 60 &) & exec \"$1\" leader 60";
        let mut job = script(&owner, &scene, text).spawn().unwrap();
        scene.wait_recorded(3, SOON);
        let (pinned, guards) = (scene.pin(), Guards::of(&job));
        // At the same instant: neither acts upon the end of the other.
        for signal in [Signal::STOP, Signal::KILL] {
            guards.warden.kill(signal).unwrap();
            guards.keeper.kill(signal).unwrap();
        }
        let (end, took) = timed(|| job.wait_timeout(SOON).unwrap().expect("it waits for ever"));
        assert!(took < BOUND + ms(500), "{boundary}: {took:?}");
        pinned.wait_gone(Duration::ZERO).unwrap();
        assert_eq!(end.cause, Cause::KeeperGone, "{boundary}");
        // Where the kernel gave the job an audit session, that nobody is left in it is proof.
        let confirmed = matches!(end.verdict, Verdict::Empty(_));
        let said = matches!(end.verdict, Verdict::Unconfirmed(_));
        let exact = boundary == Boundary::Namespace || taggable();
        assert!(if exact { confirmed } else { said }, "{boundary}: {end:?}");
        assert!(owner.command("true").spawn().unwrap().wait().unwrap().success(), "{boundary}");
    }
}

fn many_threads_start_jobs_while_wardens_die() {
    for boundary in boundaries() {
        let owner = owner_of(boundary);
        let starts = |thread: i32| {
            let (mut ended, mut lost) = (0, 0);
            for n in 0..25 {
                let code = thread * 25 + n;
                let started = owner.command("sh").args(["-c", &format!("exit {code}")]).spawn();
                if thread == 0 && n % 5 == 0 {
                    // In the middle of what the others do.
                    if let Ok(job) = owner.command("sleep").arg("30").spawn() {
                        let above = std::panic::catch_unwind(|| Guards::of(&job));
                        let _ = above.map(|guards| guards.warden.kill(Signal::KILL));
                    }
                }
                match started {
                    Ok(mut job) => {
                        let end = job.wait_timeout(SOON).unwrap().expect("a handle waits for ever");
                        let own = end.status.map(killcord::ExitStatus::as_shell);
                        // Ended with its warden, or by itself with its own status.
                        let with_it = own.is_none_or(|s| s > 128) || own == Some(code);
                        assert!(with_it, "{boundary}: {code} {end:?}");
                        if own == Some(code) { ended += 1 } else { lost += 1 }
                    }
                    Err(Error::NoWarden { .. } | Error::Unclear { .. }) => lost += 1,
                    Err(e) => panic!("{boundary}: {e:?}"),
                }
            }
            (ended, lost)
        };
        let (ended, lost) = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|thread| scope.spawn(move || starts(thread))).collect();
            all.into_iter().map(|t| t.join().unwrap()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        });
        assert!(ended > 0, "{boundary}: none of {lost}");
        println!("{boundary}: {ended} jobs ended by themselves, {lost} were lost with a warden");
    }
}

fn a_warden_that_cannot_be_replaced_is_an_error_each_time_and_no_hang() {
    let scene = Scene::new();
    let program = scene.path("a-warden");
    let put = || std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
    put();
    let owner = Owner::builder().warden(&program).build().unwrap();
    let mut job = command(&owner, &scene, bin("kc-leaf")).args(["leaf", "60"]).spawn().unwrap();
    let warden = Guards::of(&job).warden;
    std::fs::remove_file(&program).unwrap();
    warden.kill(Signal::KILL).unwrap();
    assert!(warden.wait_gone(SOON));
    for _ in 0..3 {
        let error = owner.command("true").spawn().unwrap_err();
        assert!(matches!(error, Error::NoWarden { .. }) && error.nothing_ran(), "{error:?}");
    }
    assert!(job.wait_timeout(BOUND).unwrap().is_some());
    put();
    assert!(owner.command("true").spawn().unwrap().wait().unwrap().success());
}
