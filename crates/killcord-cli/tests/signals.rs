//! Signals sent to `killcord run`, the ladder they start, and what is said at the end.
//!
//! Promised (G3, G4, G8): INT and TERM end the job, a second one at once; the others reach the program. The
//! ladder takes as long as the job needs and never longer than the grace and 2 s. `killcord run` is not back
//! before the last member is gone, and its exit status and report say how it ended.
//!
//! Not promised: that a leader which handles TERM is asked by HUP as well before 0.5 s have passed, or is left
//! to finish after the grace.

#![expect(clippy::expect_used, reason = "a test fails by it")]

mod kit;
#[path = "kit/report.rs"]
mod report;

use killcord_testkit::{Guards, Host, Need, Running, Scene, Signal, Who, bin, run, skip};
use kit::{SOON, killcord};
use std::time::{Duration, Instant};

const REPORT: [&str; 2] = ["--report", "report.json"];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn options<'a>(boundary: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--boundary", boundary], more].concat()
}

/// Starts a shell script in the job; `$1` is the path of `kc-leaf`, `$2` of `kc-ignore`.
fn start(scene: &Scene, who: Who, options: &[&str], script: &str) -> Running {
    let mut command = killcord(scene, who, options);
    Running::start(command.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")).arg(bin("kc-ignore")))
}

/// Waits for the end: the exit status as a shell shows it, and how long it took from now.
fn end(running: &mut Running) -> (i32, Duration) {
    let begun = Instant::now();
    let status = running.wait(SOON).expect("killcord run is not back");
    (status.code().expect("killcord run was killed"), begun.elapsed())
}

#[test]
fn every_signal_that_is_passed_reaches_the_program() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "for s in HUP QUIT USR1 USR2 WINCH; do trap \"echo got $s\" $s; done; trap 'echo got TERM; exit 7' TERM; \
                      echo ready; while :; do sleep 0.01; done";
        let mut running = start(&scene, who, &options(boundary, &[]), script);
        running.stdout.expect("ready\n", SOON).unwrap();
        let passed = [
            (Signal::HUP, "HUP"),
            (Signal::QUIT, "QUIT"),
            (Signal::USR1, "USR1"),
            (Signal::USR2, "USR2"),
            (Signal::WINCH, "WINCH"),
            (Signal::TERM, "TERM"),
        ];
        for (signal, name) in passed {
            running.kill(signal);
            running.stdout.expect(&format!("got {name}\n"), SOON).unwrap();
        }
        assert_eq!(end(&mut running).0, 7, "{who:?} {boundary}");
        assert!(!running.stderr.read_to_end(SOON).unwrap().contains("killcord"));
    }
}

/// Anybody who may can signal a guard. That is no order: the program hears nothing of it and runs on to its own end.
///
/// The init of a namespace is the exception: who signals it from outside has no number there, as its warden has none, so
/// TERM and QUIT are taken for the warden's. That they are is asserted, so that nobody promises more.
#[test]
fn signals_to_the_guards_are_no_order() {
    const ALL: [Signal; 7] =
        [Signal::TERM, Signal::QUIT, Signal::INT, Signal::HUP, Signal::USR1, Signal::ALARM, Signal::PIPE];
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "trap 'echo heard; exit 3' TERM INT HUP QUIT; trap 'echo asked' USR2; echo ready; \
                      while :; do sleep 0.01; done";
        let mut running = start(&scene, who, &options(boundary, &[]), script);
        running.stdout.expect("ready\n", SOON).unwrap();
        let Guards { warden, keeper, .. } = Guards::find(running.pid(), SOON);
        let (warden, keeper) = (warden.unwrap(), keeper.unwrap());
        for signal in ALL {
            warden.kill(signal).unwrap();
            if boundary != "namespace" || ![Signal::TERM, Signal::QUIT].contains(&signal) {
                keeper.kill(signal).unwrap();
            }
        }
        // What goes through the keeper behind them shows that it has seen them: twice, since it may have been on its
        // way to the first when they came.
        for _ in 0..2 {
            running.kill(Signal::USR2);
            let said = running.stdout.expect("asked\n", SOON);
            said.unwrap_or_else(|e| panic!("{who:?} {boundary}: {e}"));
        }
        assert!(warden.is_alive() && keeper.is_alive(), "{who:?} {boundary}");
        if boundary == "namespace" {
            keeper.kill(Signal::TERM).unwrap();
        } else {
            running.kill(Signal::TERM);
        }
        assert_eq!(end(&mut running).0, 3, "{who:?} {boundary}");
        assert_eq!(running.stdout.read_to_end(SOON).unwrap(), "ready\nasked\nasked\nheard\n");
    }
}

#[test]
fn an_order_to_end_begins_with_its_own_signal_for_every_member() {
    for (who, boundary) in Host::cells() {
        for (signal, name, code) in [(Signal::INT, "INT", 130), (Signal::TERM, "TERM", 143)] {
            let scene = Scene::new();
            // The member is no child to which its leader would pass anything, and it must not be a shell's
            // background child, since those ignore INT.
            let member = format!(
                "$SIG{{{name}}} = sub {{ print \"member {name}\\n\"; exit }}; $| = 1; print \"ready\\n\"; sleep 60"
            );
            let script = format!(
                "perl -e 'use POSIX; setsid() if fork == 0; $SIG{{INT}} = \"DEFAULT\"; {member}' & exec sleep 60"
            );
            let mut running = start(&scene, who, &options(boundary, &[]), &script);
            running.stdout.expect("ready\n", SOON).unwrap();
            running.stdout.expect("ready\n", SOON).unwrap();
            running.kill(signal);
            let (ended, took) = end(&mut running);
            assert!(ended == code && took < ms(400), "{who:?} {boundary} {name}: {ended} {took:?}");
            let said = running.stdout.read_to_end(SOON).unwrap();
            assert_eq!(said.matches(&format!("member {name}\n")).count(), 2, "{who:?} {boundary}: {said}");
        }
    }
}

#[test]
fn who_ignores_int_is_asked_by_term_also_when_the_leader_is_gone() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        // What a shell starts in the background ignores INT; the shell itself ends of it.
        let script =
            "sh -c 'trap \"echo member; exit\" TERM; echo ready; while :; do sleep 0.01; done' & wait";
        let mut running = start(&scene, who, &options(boundary, &[]), script);
        running.stdout.expect("ready\n", SOON).unwrap();
        running.kill(Signal::INT);
        let (code, took) = end(&mut running);
        assert!(code == 130 && (ms(400)..ms(1500)).contains(&took), "{who:?} {boundary}: {code} {took:?}");
        running.stdout.expect("member\n", SOON).unwrap();
    }
}

#[test]
fn a_second_order_shortens_the_ladder() {
    for (who, boundary) in Host::cells() {
        for second in [Signal::TERM, Signal::INT] {
            let scene = Scene::new();
            let mut running =
                start(&scene, who, &options(boundary, &["--grace", "30"]), "\"$2\" 60 & \"$2\" 60; :");
            scene.wait_recorded(2, SOON);
            let pinned = scene.pin();
            running.kill(Signal::TERM);
            assert!(running.wait(ms(700)).is_none(), "it ended without a second order");
            running.kill(second);
            let (_, took) = end(&mut running);
            assert!(took < ms(1000), "{who:?} {boundary}: {took:?}");
            pinned.wait_gone(Duration::ZERO).unwrap();
        }
    }
}

#[test]
fn the_exit_status_is_the_programs_own() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        for code in [0, 1, 2, 63, 64, 123, 124, 125, 126, 127, 128, 254, 255] {
            let exit = format!("exit {code}");
            let done = run(killcord(&scene, who, &options(boundary, &[])).args(["sh", "-c", &exit]), SOON);
            assert_eq!((done.code(), done.stderr.as_str()), (code, ""), "{who:?} {boundary}");
        }
        for signal in [1, 2, 6, 9, 10, 15] {
            let kill = format!("kill -{signal} $$");
            let mut command = killcord(&scene, who, &options(boundary, &REPORT));
            let done = run(command.args(["sh", "-c", &kill]), SOON);
            // It exits with that number and does not die of the signal itself.
            assert_eq!(done.status.code(), Some(128 + signal), "{who:?} {boundary}: {done:?}");
            assert_eq!(report::read(&scene)["signal"], signal);
        }
    }
}

#[test]
fn a_shell_that_ignores_term_ends_by_hang_up() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut running = start(
            &scene,
            who,
            &options(boundary, &[]),
            "trap '' TERM; echo ready; while :; do sleep 0.01; done",
        );
        running.stdout.expect("ready\n", SOON).unwrap();
        running.kill(Signal::TERM);
        let (code, took) = end(&mut running);
        assert!(code == 129 && (ms(400)..ms(1500)).contains(&took), "{who:?} {boundary}: {code} {took:?}");
    }
}

#[test]
fn a_program_that_ignores_everything_is_killed_at_the_grace() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut command =
            killcord(&scene, who, &options(boundary, &["--grace", "1.5", REPORT[0], REPORT[1]]));
        let mut running = Running::start(command.arg(bin("kc-ignore")).arg("60"));
        let ids = scene.wait_recorded(1, SOON);
        running.kill(Signal::TERM);
        let (code, took) = end(&mut running);
        assert!(code == 137 && (ms(1400)..ms(2500)).contains(&took), "{who:?} {boundary}: {code} {took:?}");
        let said = report::read(&scene);
        assert_eq!((&said["cause"], &said["signal_name"]), (&"asked".into(), &"SIGKILL".into()));
        let forced = &said["ended_by_force"];
        assert_eq!(
            (&forced["count"], &forced["members"][0]["command"]),
            (&1.into(), &"kc-ignore".into()),
            "{said}"
        );
        if boundary != "namespace" {
            let member = &forced["members"][0];
            assert_eq!((&member["pid"], &member["start"]), (&ids[0].pid.into(), &ids[0].start.into()));
        }
        assert_eq!(running.stderr.read_to_end(SOON).unwrap(), "");
    }
}

#[test]
fn killcord_run_is_not_back_before_the_last_member_is_gone() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "setsid \"$2\" 60 </dev/null >/dev/null 2>&1 & echo ready; exec sleep 60";
        let mut running = start(&scene, who, &options(boundary, &["--grace", "1"]), script);
        scene.wait_recorded(1, SOON);
        let pinned = scene.pin();
        assert_eq!(pinned.len(), 1);
        running.kill(Signal::TERM);
        let (code, took) = end(&mut running);
        // The member holds no pipe of ours, so this is the moment of the return.
        pinned.wait_gone(Duration::ZERO).unwrap();
        assert!(code == 143 && (ms(900)..ms(2000)).contains(&took), "{who:?} {boundary}: {code} {took:?}");
    }
}

#[test]
fn a_timeout_is_124_and_said() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let limits = ["--timeout", "300ms", "--grace", "700ms", REPORT[0], REPORT[1]];
        let script = "\"$2\" 60 & \"$1\" leaf 60; :";
        let mut running = start(&scene, who, &options(boundary, &limits), script);
        scene.wait_recorded(2, SOON);
        let pinned = scene.pin();
        let (code, took) = end(&mut running);
        pinned.wait_gone(Duration::ZERO).unwrap();
        assert!(code == 124 && took < ms(2500), "{who:?} {boundary}: {code} {took:?}");
        assert_eq!(running.stderr.read_to_end(SOON).unwrap(), "killcord: sh: its time was up after 0.3s\n");
        let said = report::read(&scene);
        assert_eq!((&said["timed_out"], &said["cause"]), (&true.into(), &"timeout".into()));
        assert_eq!((&said["exit_status"], &said["signal"]), (&124.into(), &15.into()), "{said}");
        assert_eq!(
            (&said["verdict"]["kind"], &said["boundary"]["kind"]),
            (&"empty".into(), &boundary.into())
        );
        let forced = &said["ended_by_force"];
        assert_eq!(
            (&forced["count"], &forced["members"][0]["command"]),
            (&1.into(), &"kc-ignore".into()),
            "{said}"
        );
        assert!((900.0..2000.0).contains(&said["duration_ms"].as_f64().unwrap()), "{said}");
    }
}

#[test]
fn a_timeout_of_nothing_ends_at_once() {
    let scene = Scene::new();
    let done = run(killcord(&scene, Who::here()[0], &["--timeout", "0"]).args(["sleep", "30"]), SOON);
    assert!(done.code() == 124 && done.elapsed < ms(1000), "{done:?}");
}

#[test]
fn stopped_members_are_ended_as_well() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "\"$1\" leaf 60 & kill -STOP $!; echo ready; exec sleep 60";
        let mut running = start(&scene, who, &options(boundary, &[]), script);
        running.stdout.expect("ready\n", SOON).unwrap();
        running.kill(Signal::TERM);
        let (code, took) = end(&mut running);
        assert!(code == 143 && took < ms(1000), "{who:?} {boundary}: {code} {took:?}");
        assert_eq!(scene.alive(), []);
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_no_zombie() {
    // `/proc` shows it as `Z` although it runs.
    if !run(std::process::Command::new("perl").args(["-Mthreads", "-e", "1"]), SOON).status.success() {
        skip!(Need::Program("perl with threads"));
    }
    for (who, boundary) in Host::cells() {
        // Asked, and killed: `cgroup.kill` alone does not reach it.
        for (term, within) in [("DEFAULT", ms(400)), ("IGNORE", ms(1500))] {
            let scene = Scene::new();
            // 60 is exit(2) of one thread.
            let perl = format!(
                "$SIG{{$_}} = \"{term}\" for (TERM, HUP); \
                 threads->create(sub {{ local $| = 1; print \"ready\\n\"; sleep 60 }}); syscall(60, 0)"
            );
            let script = format!("perl -Mthreads -e '{perl}' & exec \"$1\" leader 60");
            let mut running = start(&scene, who, &options(boundary, &["--grace", "1"]), &script);
            running.stdout.expect("ready\n", SOON).unwrap();
            scene.wait_names(&["leader"], SOON);
            running.kill(Signal::TERM);
            let (code, took) = end(&mut running);
            assert!(code == 143 && took < within, "{who:?} {boundary} {term}: {code} {took:?}");
            running.stdout.read_to_end(ms(500)).unwrap();
        }
    }
}

#[test]
fn a_signal_at_the_moment_of_the_end_does_not_change_how_it_ended() {
    // An order that the keeper no longer reads must not hide its last word.
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        for _ in 0..20 {
            let mut running = start(&scene, who, &options(boundary, &[]), "trap '' USR1; echo end; exit 3");
            running.stdout.expect("end\n", SOON).unwrap();
            while running.wait(Duration::ZERO).is_none() {
                running.kill(Signal::USR1);
            }
            assert_eq!((end(&mut running).0, running.stderr.read_to_end(SOON).unwrap().as_str()), (3, ""));
        }
    }
}
