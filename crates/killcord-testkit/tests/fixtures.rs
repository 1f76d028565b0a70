//! Each fixture does what it says, with real processes.
//!
//! Promised: the escapees escape, the bombs refill, the filters refuse, the innocent process has the number; the
//! harness sees each of them, and its guards end them. Not promised here: anything about killcord.

use std::process::Command;
use std::time::Duration;

use killcord_testkit::procs::{self, PinnedProcess};
use killcord_testkit::{Host, Need, Running, Scene, Signal, Who, bin, run, skip};

const SOON: Duration = Duration::from_secs(5);

fn start(scene: &Scene, name: &str, args: &[&str]) -> Running {
    Running::start(scene.command(Who::here()[0], bin(name)).args(args))
}

/// Runs a shell line under a filter and returns its exit status and stderr.
fn denied(profiles: &[&str], program: &[&str]) -> (i32, String) {
    let done = run(Command::new(bin("kc-deny")).args(profiles).arg("--").args(program), SOON);
    (done.code(), done.stderr)
}

#[test]
fn a_leaf_is_recorded_as_leaf_sh_records_it_and_dies_of_term() {
    for who in Who::here() {
        let scene = Scene::new();
        let leaf = Running::start(scene.command(*who, bin("kc-leaf")).args(["one", "30"]));
        let ids = scene.wait_recorded(1, SOON);
        assert_eq!((ids[0].pid, ids[0].name.as_str()), (leaf.pid(), "one"));
        assert_eq!(procs::start_time(leaf.pid()), Some(ids[0].start));
        assert_eq!(scene.alive().len(), 1);
        leaf.kill(Signal::TERM);
        // It is a zombie until `leaf` is dropped, and a zombie is dead.
        scene.wait_gone(SOON).unwrap();
        assert_eq!(scene.alive(), []);
        assert_eq!(procs::stat(ids[0].pid).unwrap().state, 'Z');
    }
}

#[test]
fn a_payload_leaves_five_escapees_behind_and_the_guard_ends_them() {
    for who in Who::here() {
        let scene = Scene::new();
        let mut job = Running::start(scene.command(*who, bin("kc-payload")).args(["--leader", "exit"]));
        job.stdout.expect("ready\n", SOON).unwrap();
        assert!(job.wait(SOON).unwrap().success());
        let names: Vec<String> = scene.ids().into_iter().map(|id| id.name).collect();
        assert_eq!(names, ["leader", "plain", "setsid", "daemon", "bare", "hopper"]);
        let pinned = scene.pin();
        // The hopper has another number by now or will in a moment.
        let names: Vec<&str> = pinned.names().into_iter().filter(|name| *name != "hopper").collect();
        assert_eq!(names, ["bare", "daemon", "plain", "setsid"]);

        let bare = pinned.get("bare").unwrap();
        assert_eq!(std::fs::read(format!("/proc/{}/environ", bare.pid)).unwrap(), b"");
        assert_eq!(std::fs::read_dir(format!("/proc/{}/fd", bare.pid)).unwrap().count(), 0);
        for (name, leads) in [("plain", false), ("setsid", true)] {
            let escapee = pinned.get(name).unwrap();
            assert_eq!(escapee.stat().unwrap().session == escapee.pid, leads, "{name}");
        }
        let daemon = pinned.get("daemon").unwrap().stat().unwrap();
        assert!(daemon.session != daemon.pid && daemon.parent != job.pid(), "{daemon:?}");

        // Drop ends the four, the hopper goes with the scene, and the stream that two of them hold ends.
        drop(scene);
        pinned.wait_gone(SOON).unwrap();
        job.stdout.read_to_end(SOON).unwrap();
    }
}

#[test]
fn a_payload_that_ignores_term_survives_it() {
    let scene = Scene::new();
    let mut job = start(&scene, "kc-payload", &["--ignore-term"]);
    job.stdout.expect("ready\n", SOON).unwrap();
    let pinned = scene.pin();
    pinned.kill(Signal::TERM);
    pinned.kill(Signal::HUP);
    let alive = pinned.wait_gone(Duration::from_millis(200)).unwrap_err();
    assert!(alive.iter().filter(|alive| alive.name != "hopper").count() == 5, "{alive:?}");
    pinned.kill(Signal::KILL);
    pinned.wait_gone(SOON).unwrap();
}

#[test]
fn a_hopper_changes_its_number_and_holds_stdout() {
    let scene = Scene::new();
    let mut job = start(&scene, "kc-payload", &["--leader", "exit"]);
    job.stdout.expect("ready\n", SOON).unwrap();
    // Hoppers of tests that run beside this one are in other directories.
    let mut seen = Vec::new();
    let deadline = std::time::Instant::now() + SOON;
    while seen.len() < 5 {
        assert!(std::time::Instant::now() < deadline, "only {seen:?}");
        for pid in procs::all() {
            let ours = || std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == scene.dir());
            if procs::comm(pid).is_some_and(|comm| comm == "kc-hopper") && ours() && !seen.contains(&pid) {
                seen.push(pid);
            }
        }
    }
    // All that can be pinned are killed: the stream stays open, by the hopper alone.
    let pinned = scene.pin();
    pinned.kill(Signal::KILL);
    pinned.wait_gone(SOON).unwrap();
    assert!(!job.stdout.read_to_end(Duration::from_millis(100)).unwrap_err().ended);
    drop(scene);
    job.stdout.read_to_end(SOON).unwrap();
}

#[test]
fn bombs_fill_up_refill_and_end_by_themselves() {
    for kind in ["wide", "deep", "exec", "reparent", "term"] {
        let scene = Scene::new();
        let mut bomb = start(&scene, "kc-bomb", &[kind, "--cap", "40", "--seconds", "3"]);
        bomb.stdout.expect("ready\n", SOON).unwrap_or_else(|e| panic!("{kind}: {e}"));
        let members = || {
            let here = |pid: &u32| {
                std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == scene.dir())
                    && *pid != bomb.pid()
            };
            procs::all().into_iter().filter(here).collect::<Vec<u32>>()
        };
        let killed: Vec<PinnedProcess> =
            members().into_iter().take(15).filter_map(|pid| PinnedProcess::open(pid, |_| true)).collect();
        for process in &killed {
            // A hopping one may be gone.
            let _ = process.kill(Signal::KILL);
        }
        // It is back at the full number, with others than those that were killed.
        let deadline = std::time::Instant::now() + SOON;
        let refilled = |now: &[u32]| {
            now.len() >= 20
                && now.iter().filter(|pid| killed.iter().all(|dead| dead.pid != **pid)).count() >= 20
        };
        while !refilled(&members()) {
            assert!(std::time::Instant::now() < deadline, "{kind}: {:?}", members().len());
        }
        assert!(members().len() <= 2 * 40 + 2, "{kind}: {}", members().len());
        if kind == "term" {
            let ignoring =
                members().iter().filter(|pid| procs::stat(**pid).is_some_and(|s| s.session == **pid)).count();
            assert!(ignoring >= 15, "{ignoring} sessions");
        }
        // Nobody stops it: all of it is gone when the time is over.
        bomb.stdout.read_to_end(Duration::from_secs(6)).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert!(bomb.wait(SOON).is_some());
    }
}

#[test]
fn a_bomb_says_ready_when_a_fork_fails_first() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    // The limit counts the processes of a user, so it is one that nobody else is.
    let mut bomb = Command::new("prlimit");
    bomb.args(["--nproc=20", "setpriv", "--reuid", "54399", "--regid", "54399", "--clear-groups", "--"]);
    bomb.arg(bin("kc-bomb")).args(["deep", "--cap", "400", "--seconds", "2"]);
    let mut bomb = Running::start(bomb.env("D", scene.dir()));
    bomb.stdout.expect("ready\n", SOON).unwrap();
    bomb.stdout.read_to_end(SOON).unwrap();
}

#[test]
fn occupy_appears_with_the_number_and_hears_signals() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    // A number that was just used, and is free when its process has been reaped.
    let freed = run(Command::new("sh").args(["-c", "echo $$"]), SOON).stdout.trim().to_owned();
    let mut occupy = start(&scene, "kc-occupy", &[&freed, "0.3", "--group"]);
    let text = occupy.stdout.expect("\n", SOON).unwrap();
    let innocent = procs::stat(freed.parse().unwrap()).unwrap();
    assert_eq!(text, format!("ok {freed} {}\n", innocent.start));
    assert_eq!((innocent.group, innocent.session), (innocent.pid, innocent.pid));
    assert_eq!(innocent.parent, occupy.pid());
    assert_eq!(occupy.wait(SOON).unwrap().code(), Some(0));

    for (signal, number) in [(Signal::TERM, 15), (Signal::CONT, 18), (Signal::KILL, 9), (Signal::STOP, 19)] {
        let mut occupy = start(&scene, "kc-occupy", &[&freed, "20"]);
        occupy.stdout.expect("ok ", SOON).unwrap();
        let innocent = PinnedProcess::open(freed.parse().unwrap(), |s| s.comm == "kc-innocent").unwrap();
        innocent.kill(signal).unwrap();
        occupy.stdout.expect(&format!("signal {number}\n"), SOON).unwrap();
        assert_eq!(occupy.wait(SOON).unwrap().code(), Some(128 + number));
    }
}

#[test]
fn occupy_does_not_take_a_number_in_use() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    let leaf = start(&scene, "kc-leaf", &["taken", "30"]);
    let taken = leaf.pid().to_string();
    let mut occupy = start(&scene, "kc-occupy", &[&taken, "1"]);
    assert!(occupy.stdout.expect("ok", Duration::from_millis(300)).is_err());
    // Once it is free the waiting one gets it.
    drop(leaf);
    occupy.stdout.expect(&format!("ok {taken} "), SOON).unwrap();
    assert_eq!(occupy.wait(SOON).unwrap().code(), Some(0));
}

#[test]
fn deny_refuses_what_its_profiles_name() {
    let unshare = ["unshare", "--user", "--pid", "--fork", "true"];
    if Host::get().has(Need::PidNamespace(Who::here()[0])) {
        assert_eq!(denied(&["clone3"], &unshare).0, 0, "clone3 alone leaves namespaces");
    }
    for profile in ["namespaces", "docker"] {
        let (code, text) = denied(&[profile], &unshare);
        assert!(code == 1 && text.contains("Operation not permitted"), "{profile}: {code} {text}");
    }
    // Plain processes, threads included, can still be made.
    assert_eq!(denied(&["docker", "pidfd"], &["sh", "-c", "true & wait; /bin/true"]).0, 0);
    if !Host::get().has(Need::Program("python3")) {
        skip!(Need::Program("python3"));
    }
    let (code, text) = denied(&["pidfd"], &["python3", "-c", "import os; os.pidfd_open(os.getpid())"]);
    assert!(code == 1 && text.contains("Function not implemented"), "{code} {text}");
    let clone3 = "import ctypes; l = ctypes.CDLL(None, use_errno=True); l.syscall(435, 0, 0); print(ctypes.get_errno())";
    let errno = |profiles: &[&str]| {
        let mut command = Command::new(bin("kc-deny"));
        run(command.args(profiles).args(["--", "python3", "-c", clone3]), SOON).stdout
    };
    // EINVAL, for its size of nothing, where it is not denied.
    assert_eq!(
        (errno(&["mount"]).trim(), errno(&["clone3"]).trim(), errno(&["docker"]).trim()),
        ("22", "38", "38")
    );
    if Host::get().has(Need::Root) {
        let (code, text) = denied(&["mount"], &["mount", "-t", "tmpfs", "none", "/mnt"]);
        assert!(
            code != 0 && text.contains("ermission denied") || text.contains("not permitted"),
            "{code} {text}"
        );
    }
}

#[test]
fn ignore_ends_by_kill_only() {
    let scene = Scene::new();
    let mut stubborn = start(&scene, "kc-ignore", &["30"]);
    stubborn.stdout.expect("ready\n", SOON).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        stubborn.kill(signal);
    }
    assert!(stubborn.wait(Duration::from_millis(200)).is_none());
    stubborn.kill(Signal::KILL);
    scene.wait_gone(SOON).unwrap();
}

#[test]
fn fds_reports_what_was_inherited() {
    let kc_fds = bin("kc-fds");
    let kc_fds = kc_fds.to_str().unwrap();
    let line = |script: &str| {
        let done = run(Command::new("setsid").args(["--wait", "sh", "-c", script, "sh", kc_fds]), SOON);
        assert_eq!(done.code(), 0, "{done:?}");
        done.stdout
    };
    // What the tests themselves were started with (descriptors above 2, ignored signals) is inherited too.
    let plain = line("umask 027; exec \"$1\" 3>&- </dev/null");
    assert!(plain.contains(r#""fds":[{"fd":0,"target":"/dev/null"},{"fd":1,"#), "{plain}");
    assert!(!plain.contains(r#""ignored":[13"#) && plain.contains(r#""blocked":[],"#), "{plain}");
    assert!(plain.contains(r#""tty":0,"umask":23}"#), "{plain}");
    assert!(!plain.contains(r#""fd":3"#), "{plain}");
    let odd = line("trap '' PIPE HUP; exec \"$1\" 7</dev/zero <&-");
    assert!(odd.contains(r#""fds":[{"fd":1,"#), "{odd}");
    assert!(odd.contains(r#"{"fd":7,"target":"/dev/zero"}"#), "{odd}");
    assert!(odd.contains(r#""ignored":[1, 13"#), "{odd}");
}
