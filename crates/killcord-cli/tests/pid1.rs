//! `killcord run` as the first process of a container, and inside itself.
//!
//! Promised (G1, G14): as PID 1 it passes signals on, exits with the program's status, and reaps the orphans of
//! strangers, whom it does not touch otherwise. Nested in itself, on any pair of boundaries, the outer end is
//! the end of all.
//!
//! Not promised: anything about strangers after PID 1 has ended, which is the kernel's business.

mod kit;

use killcord_testkit::procs::{self, PinnedProcess};
use killcord_testkit::{Host, Need, Running, Scene, Signal, Who, bin, reachable, run, skip};
use kit::{SOON, killcord};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

fn program() -> PathBuf {
    reachable(env!("CARGO_BIN_EXE_killcord").as_ref())
}

/// `killcord run` as PID 1 of a new namespace.
fn pid1(scene: &Scene, who: Who, boundary: &str) -> Command {
    let mut command = scene.command(who, "unshare");
    if who == Who::User {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program());
    command.args(["run", "--boundary", boundary, "--"]);
    command
}

/// Every cell in which there can be a PID 1 of ours.
fn cells() -> Vec<(Who, &'static str)> {
    let mut cells = Host::cells();
    cells.retain(|(who, _)| {
        let there = Host::get().has(Need::PidNamespace(*who));
        if !there {
            killcord_testkit::skipped(Need::PidNamespace(*who));
        }
        there
    });
    cells
}

/// The killcord below an `unshare`.
fn below(unshare: &Running) -> PinnedProcess {
    let deadline = Instant::now() + SOON;
    loop {
        let mut children = procs::children(unshare.pid()).into_iter();
        let found = children.find_map(|pid| PinnedProcess::open(pid, |stat| stat.comm == "killcord"));
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < deadline, "no killcord below unshare");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_first_process_exits_with_its_programs_status() {
    for (who, boundary) in cells() {
        let scene = Scene::new();
        for (script, code) in [("exit 7", 7), ("exit 0", 0), ("kill -9 $$", 137)] {
            let done = run(pid1(&scene, who, boundary).args(["sh", "-c", script]), SOON);
            assert_eq!((done.code(), done.stderr.as_str()), (code, ""), "{who:?} {boundary}: {script}");
        }
    }
}

#[test]
fn the_first_process_passes_signals_on() {
    for (who, boundary) in cells() {
        let scene = Scene::new();
        let script =
            "trap 'echo got USR1.' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done";
        let mut unshare = Running::start(pid1(&scene, who, boundary).args(["sh", "-c", script]));
        unshare.stdout.expect("ready\n", SOON).unwrap();
        let first = below(&unshare);
        first.kill(Signal::USR1).unwrap();
        unshare.stdout.expect("got USR1.\n", SOON).unwrap();
        first.kill(Signal::TERM).unwrap();
        assert_eq!(unshare.wait(SOON).and_then(|status| status.code()), Some(9), "{who:?} {boundary}");
    }
}

#[test]
fn the_first_process_reaps_the_orphans_of_strangers() {
    for (who, boundary) in cells() {
        let scene = Scene::new();
        let mut unshare =
            Running::start(pid1(&scene, who, boundary).args(["sh", "-c", "echo ready; exec sleep 60"]));
        unshare.stdout.expect("ready\n", SOON).unwrap();
        let first = below(&unshare);
        let mut strangers = Vec::new();
        for _ in 0..3 {
            let mut enter = scene.command(who, "nsenter");
            if who == Who::User {
                enter.args(["--user", "--preserve-credentials"]);
            }
            enter.args(["--pid", "--mount", "--target", &first.pid.to_string(), "--"]);
            // Its parent is gone at once, so it comes to the first process of its namespace.
            let script = "cd \"$D\"; setsid \"$1\" stranger 60 </dev/null >/dev/null 2>&1 &";
            let done = run(enter.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")), SOON);
            assert_eq!(done.code(), 0, "{who:?} {boundary}: {done:?}");
        }
        scene.wait_recorded(3, SOON);
        for pid in procs::children(first.pid) {
            strangers.extend(PinnedProcess::open(pid, |stat| stat.comm == "kc-leaf"));
        }
        assert_eq!(strangers.len(), 3, "{who:?} {boundary}: not all came to the first process");
        for stranger in &strangers {
            stranger.kill(Signal::KILL).unwrap();
            let deadline = Instant::now() + SOON;
            while stranger.stat().is_some() {
                assert!(Instant::now() < deadline, "{who:?} {boundary}: {:?} is not reaped", stranger.stat());
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        first.kill(Signal::TERM).unwrap();
        assert_eq!(unshare.wait(SOON).and_then(|status| status.code()), Some(143), "{who:?} {boundary}");
    }
}

#[test]
fn the_first_process_ends_its_job_and_leaves_strangers_to_the_kernel() {
    for (who, boundary) in cells() {
        let scene = Scene::new();
        let mut unshare = Running::start(pid1(&scene, who, boundary).arg(bin("kc-payload")));
        unshare.stdout.expect("ready\n", SOON).unwrap();
        let pinned = scene.pin();
        assert!(pinned.len() >= 5, "{who:?} {boundary}: {:?}", pinned.names());
        below(&unshare).kill(Signal::TERM).unwrap();
        assert_eq!(unshare.wait(SOON).and_then(|status| status.code()), Some(143), "{who:?} {boundary}");
        pinned.wait_gone(Duration::from_millis(1500)).unwrap();
        unshare.stdout.read_to_end(Duration::from_millis(1500)).unwrap();
    }
}

/// Cgroups whose path names this job.
fn cgroups_of(job: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut search: Vec<PathBuf> = Host::get().cgroup_dir().into_iter().map(PathBuf::from).collect();
    while let Some(dir) = search.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.extend(Some(entry.path()).filter(|path| path.to_string_lossy().contains(job)));
                search.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn nested_in_itself_the_outer_end_is_the_end_of_all() {
    for (who, outer) in Host::cells() {
        for (_, inner) in Host::cells().into_iter().filter(|(w, _)| *w == who) {
            for signal in [Signal::TERM, Signal::KILL] {
                let what = format!("{who:?} {inner} in {outer}, {signal:?}");
                let scene = Scene::new();
                let mut command = killcord(&scene, who, &["--boundary", outer]);
                let script = "echo job $KILLCORD_JOB; exec \"$1\" run --boundary \"$2\" -- \"$3\"";
                command.args(["sh", "-c", script, "sh"]).arg(program()).arg(inner).arg(bin("kc-payload"));
                let mut running = Running::start(&mut command);
                let text = running.stdout.expect("ready\n", SOON).unwrap_or_else(|e| panic!("{what}: {e}"));
                let job = text.lines().find_map(|line| line.strip_prefix("job ")).unwrap().to_owned();
                let pinned = scene.pin();
                assert!(pinned.len() >= 5, "{what}: {:?}", pinned.names());
                running.kill(signal);
                let gone = pinned.wait_gone(Duration::from_millis(1500));
                assert!(gone.is_ok(), "{what}: {gone:?}");
                let code = running.wait(SOON).and_then(|status| status.code());
                assert_eq!(code, (signal == Signal::TERM).then_some(143), "{what}");
                let ended = running.stdout.read_to_end(Duration::from_secs(2));
                assert!(ended.is_ok(), "{what}: {ended:?}");
                let deadline = Instant::now() + Duration::from_secs(2);
                while !cgroups_of(&job).is_empty() {
                    assert!(Instant::now() < deadline, "{what}: {:?} stays", cgroups_of(&job));
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}

#[test]
fn the_innermost_exit_status_comes_out() {
    for (who, outer) in Host::cells() {
        let scene = Scene::new();
        let mut command = killcord(&scene, who, &["--boundary", outer]);
        command.arg(program()).args(["run", "--"]).arg(program()).args(["run", "--", "sh", "-c", "exit 42"]);
        let done = run(&mut command, SOON);
        assert_eq!((done.code(), done.stderr.as_str()), (42, ""), "{who:?} {outer}");
    }
}

#[test]
fn a_killed_guard_inside_is_no_affair_of_the_outer_job() {
    let who = Who::here()[0];
    if !Host::get().has(Need::Program("sh")) {
        skip!(Need::Program("sh"));
    }
    let scene = Scene::new();
    let mut command = killcord(&scene, who, &["--boundary", "tree"]);
    let script = "\"$1\" run --boundary tree -- \"$2\" inner 60; echo inner $?; \"$2\" outer 60";
    let mut running =
        Running::start(command.args(["sh", "-c", script, "sh"]).arg(program()).arg(bin("kc-leaf")));
    scene.wait_names(&["inner"], SOON);
    let pinned = scene.pin();
    // The inner killcord is a child of the outer job's leader.
    let guards = killcord_testkit::Guards::find(running.pid(), SOON);
    let leader = guards.leader.unwrap();
    let inner =
        procs::children(leader.pid).into_iter().find_map(|pid| PinnedProcess::open(pid, |_| true)).unwrap();
    killcord_testkit::Guards::find(inner.pid, SOON).keeper.unwrap().kill(Signal::KILL).unwrap();
    pinned.wait_gone(Duration::from_secs(2)).unwrap();
    running.stdout.expect("inner 137\n", SOON).unwrap();
    scene.wait_names(&["outer"], SOON);
    running.kill(Signal::TERM);
    assert!(running.wait(SOON).is_some());
    assert_eq!(scene.alive(), []);
}
