//! The report of `killcord run`, and what becomes of leftovers.
//!
//! Promised (G4, G8, G13): one JSON object with the exit status, the boundary in force, the verdict and its
//! evidence, what it took, and who was left over, with their fate. Leftovers are ended, waited for or let go,
//! as asked; a released one lives on.
//!
//! Not promised: the fields' order, and exact figures of memory and time.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod kit;
#[path = "kit/report.rs"]
mod report;

use killcord_testkit::{Host, Killcord, PinnedProcess, Running, Scene, Signal, Who, bin, run};
use kit::{SOON, killcord};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn options<'a>(boundary: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--boundary", boundary, "--report", "report.json"], more].concat()
}

#[test]
fn a_normal_end_is_reported_whole() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "sleep 0.05 & i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; wait; exit 3";
        let done = run(killcord(&scene, who, &options(boundary, &[])).args(["sh", "-c", script]), SOON);
        assert_eq!((done.code(), done.stderr.as_str()), (3, ""));
        let mut said = report::read(&scene);
        let usage = said["usage"].take();
        assert!(usage["user_ms"].as_f64().unwrap() + usage["system_ms"].as_f64().unwrap() > 0.0, "{usage}");
        assert!(usage["peak_memory_bytes"].as_u64().unwrap() > 100_000, "{usage}");
        assert!((40.0..10_000.0).contains(&said["duration_ms"].take().as_f64().unwrap()));
        let job = said["job"].take();
        assert!(job.as_str().is_some_and(|j| j.len() == 32), "{job}");
        let all_killed = said["boundary"]["all_killed"].take();
        assert!(all_killed.as_str().is_some_and(|text| !text.is_empty()));
        said["boundary"]["notes"].take();
        let evidence = said["verdict"]["evidence"].take();
        assert!(evidence.as_str().is_some_and(|text| !text.is_empty()), "{evidence}");
        let expected = json!({
            "version": 1, "job": null, "program": "sh", "exit_status": 3, "status": 3, "signal": null,
            "signal_name": null, "cause": "leader-exited", "timed_out": false, "duration_ms": null,
            "boundary": {"kind": boundary, "ends_escapees": true, "all_killed": null, "notes": null},
            "verdict": {"kind": "empty", "evidence": null, "survivors": []},
            "ended_by_force": {"count": 0, "members": []},
            "leftovers": {"count": 0, "fate": null, "members": []},
            "memory_limit_kills": 0, "usage": null, "members": said["members"].clone(), "error": null,
        });
        assert_eq!(said, expected, "{who:?} {boundary}");
        // Reaped below the keeper: the leader. Its child was the leader's own to reap.
        assert!(said["members"].as_u64().is_some_and(|n| n >= 1), "{said}");
    }
}

#[test]
fn a_report_on_stderr_is_the_last_line() {
    let scene = Scene::new();
    let script = "echo mine >&2; kill -USR1 $$";
    let done = run(killcord(&scene, Who::here()[0], &["--report", "-"]).args(["sh", "-c", script]), SOON);
    let (mine, said) = done.stderr.split_once('\n').unwrap();
    let said: Value = serde_json::from_str(said).unwrap();
    assert_eq!((mine, &said["signal_name"], &said["status"]), ("mine", &"SIGUSR1".into(), &Value::Null));
    assert_eq!((done.code(), &said["exit_status"]), (138, &138.into()));
}

#[test]
fn a_start_that_failed_is_reported_as_refused() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let done = run(killcord(&scene, who, &options(boundary, &[])).arg("/no/such"), SOON);
        let said = report::read(&scene);
        assert_eq!((done.code(), &said["exit_status"]), (127, &127.into()), "{who:?} {boundary}");
        assert_eq!((&said["verdict"]["kind"], &said["members"]), (&"refused".into(), &0.into()));
        assert_eq!(said["error"], "/no/such: not found");
    }
}

#[test]
fn the_boundary_in_force_is_what_auto_found() {
    for who in Who::here() {
        let scene = Scene::new();
        run(killcord(&scene, *who, &["--report", "report.json"]).arg("true"), SOON);
        let has_cgroup = Host::need_of("cgroup", *who).is_some_and(|need| Host::get().has(need));
        let expected = if has_cgroup { "cgroup" } else { "tree" };
        assert_eq!(report::read(&scene)["boundary"]["kind"], expected, "{who:?}");
    }
}

#[test]
fn leftovers_are_ended_and_named() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "setsid \"$1\" left 60 >/dev/null 2>&1 </dev/null & until grep -q left \"$D/ids\"; do sleep 0.01; done";
        let mut command = killcord(&scene, who, &options(boundary, &[]));
        let begun = Instant::now();
        let done = run(command.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")), SOON);
        assert_eq!(scene.alive(), [], "{who:?} {boundary}");
        assert!(done.code() == 0 && begun.elapsed() < Duration::from_secs(3), "{done:?}");
        let said = report::read(&scene);
        let left = &said["leftovers"];
        assert_eq!(
            (&left["count"], &left["fate"]),
            (&1.into(), &"ended".into()),
            "{who:?} {boundary}: {said}"
        );
        assert_eq!(left["members"][0]["command"], "kc-leaf");
        assert_eq!((&said["verdict"]["kind"], &said["cause"]), (&"empty".into(), &"leader-exited".into()));
        let ids = scene.ids();
        if boundary != "namespace" {
            assert_eq!(
                (&left["members"][0]["pid"], &left["members"][0]["start"]),
                (&ids[0].pid.into(), &ids[0].start.into())
            );
        }
        let line = done.stderr.strip_prefix("killcord: sh: left behind and ended: kc-leaf (").unwrap();
        assert!(line.ends_with(")\n") && done.stderr.lines().count() == 1, "{done:?}");
    }
}

#[test]
fn a_last_writer_of_a_pipeline_is_no_leftover() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "(sleep 0.05; echo late) & echo early";
        let done = run(killcord(&scene, who, &options(boundary, &[])).args(["sh", "-c", script]), SOON);
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("early\nlate\n", ""), "{who:?} {boundary}");
        let said = report::read(&scene);
        assert_eq!(
            (&said["leftovers"]["fate"], &said["ended_by_force"]["count"]),
            (&"ended-by-themselves".into(), &0.into())
        );
    }
}

#[test]
fn kept_leftovers_are_waited_for() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        // The leftover ends when the test says so.
        let script =
            "(until [ -e \"$D/go\" ]; do sleep 0.01; done; echo kept) & echo $$ >\"$D/leader\"; exit 5";
        let mut command = killcord(&scene, who, &options(boundary, &["--leftovers", "keep"]));
        let mut running = Running::start(command.args(["sh", "-c", script]));
        scene.wait_file("leader", SOON);
        assert!(running.wait(Duration::from_secs(1)).is_none(), "{who:?} {boundary}: it did not wait");
        std::fs::write(scene.path("go"), "").unwrap();
        assert_eq!(running.wait(SOON).and_then(|status| status.code()), Some(5));
        assert_eq!(running.stdout.read_to_end(SOON).unwrap(), "kept\n");
        let said = report::read(&scene);
        assert_eq!((&said["leftovers"]["fate"], &said["exit_status"]), (&"kept".into(), &5.into()), "{said}");
    }
}

#[test]
fn kept_leftovers_end_with_an_order_and_with_their_owner() {
    for (who, boundary) in Host::cells() {
        for signal in [Signal::TERM, Signal::KILL] {
            let scene = Scene::new();
            let script = "\"$1\" kept 60 & until grep -q kept \"$D/ids\"; do sleep 0.01; done; echo $$ >\"$D/leader\"; exit 5";
            let mut command = killcord(&scene, who, &options(boundary, &["--leftovers", "keep"]));
            let mut running = Running::start(command.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")));
            scene.wait_file("leader", SOON);
            let pinned = scene.pin();
            assert!(running.wait(Duration::from_millis(300)).is_none(), "{who:?} {boundary}");
            running.kill(signal);
            pinned.wait_gone(Duration::from_millis(1500)).unwrap();
            let status = running.wait(SOON).unwrap();
            assert_eq!(status.code(), (signal == Signal::TERM).then_some(5), "{who:?} {boundary}");
            running.stdout.read_to_end(SOON).unwrap();
        }
    }
}

#[test]
fn released_leftovers_live_on_and_do_not_hold_the_caller() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script = "\"$1\" free 60 </dev/null >/dev/null 2>&1 & until grep -q free \"$D/ids\"; do sleep 0.01; done; exit 6";
        let mut command = killcord(&scene, who, &options(boundary, &["--leftovers", "release"]));
        // `run` returns when stdout and stderr are closed too: no guard holds them.
        let done = run(command.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")), SOON);
        assert_eq!(done.code(), 6, "{who:?} {boundary}: {done:?}");
        let said = report::read(&scene);
        let left = &said["leftovers"];
        assert_eq!(
            (&left["count"], &left["fate"]),
            (&1.into(), &"released".into()),
            "{who:?} {boundary}: {said}"
        );
        assert!(done.stderr.starts_with("killcord: sh: left behind and let go: kc-leaf ("), "{done:?}");
        let pinned = scene.pin();
        assert_eq!(pinned.names(), ["free"], "{who:?} {boundary}");
        // It is past every rung of a ladder.
        pinned.wait_gone(Duration::from_secs(1)).unwrap_err();
        pinned.kill(Signal::KILL);
        pinned.wait_gone(SOON).unwrap();
        wait_for_no_leaf(&said["job"]);
    }
}

/// A caretaker is no guard: killed, it takes nobody along. Only the kernel ends a namespace with its init. That it does
/// is asserted, so that nobody promises more.
#[test]
fn released_leftovers_outlive_a_killed_caretaker_except_in_a_namespace() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let script =
            "\"$1\" free 60 </dev/null >/dev/null 2>&1 & until grep -q free \"$D/ids\"; do sleep 0.01; done";
        let mut command = killcord(&scene, who, &options(boundary, &["--leftovers", "release"]));
        let done = run(command.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")), SOON);
        assert_eq!(done.code(), 0, "{who:?} {boundary}: {done:?}");
        let pinned = scene.pin();
        let free = pinned.get("free").unwrap();
        let parent = free.stat().unwrap().parent;
        let keeper = PinnedProcess::open(parent, |stat| stat.comm == "killcord-keeper").unwrap();
        keeper.kill(Signal::KILL).unwrap();
        assert!(keeper.wait_gone(SOON));
        if boundary == "namespace" {
            assert!(free.wait_gone(SOON), "{who:?}");
        } else {
            // By the time that it has another parent everything that its keeper's death does has been done.
            let begun = Instant::now();
            while free.stat().is_some_and(|stat| stat.parent == parent) {
                assert!(begun.elapsed() < SOON, "{who:?} {boundary}");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(free.is_alive(), "{who:?} {boundary}");
            free.kill(Signal::KILL).unwrap();
            assert!(free.wait_gone(SOON));
        }
        // What it would have removed, a sweep does.
        let said = report::read(&scene);
        let killcord = Killcord::new(env!("CARGO_BIN_EXE_killcord"));
        let swept = run(scene.command(who, killcord.path()).arg("sweep"), SOON);
        assert_eq!(swept.code(), 0, "{swept:?}");
        wait_for_no_leaf(&said["job"]);
    }
}

/// A let-go job's keeper stays its parent and goes with its last member.
fn wait_for_no_leaf(job: &Value) {
    let Some(dir) = Host::get().cgroup_dir() else { return };
    let leaf = dir.join(format!("killcord-{}", job.as_str().unwrap()));
    let deadline = Instant::now() + SOON;
    while leaf.exists() {
        assert!(Instant::now() < deadline, "{} stays", leaf.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}
