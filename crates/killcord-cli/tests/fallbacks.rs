//! Hosts that lack something: no `clone3`, no pidfds, a container runtime's filter, valgrind in place of a processor.
//!
//! Promised (G1, G13, G14): jobs start all the same, end whole, by order and by their owner's death, and the
//! report says which boundary held them. What cannot be had is refused, if it was asked for.
//!
//! Not promised: the kernels of those days; the filters only hide system calls of this one. Without pidfds the
//! owner's death is looked for, so it takes a little longer to be seen, and on `tree` and `cgroup` only the keeper's
//! own children are asked by TERM: a process whose parent ends of it has until the grace, and is killed then.

#[path = "kit/report.rs"]
mod report;

use killcord_testkit::{Host, Need, Pinned, Running, Scene, Signal, Who, bin, reachable, run, skip};
use std::process::Command;
use std::time::Duration;

/// More than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

const PROFILES: [&[&str]; 4] = [&["clone3"], &["pidfd"], &["docker"], &["docker", "pidfd"]];

fn denied(scene: &Scene, who: Who, profile: &[&str], boundary: &str) -> Command {
    let mut command = scene.command(who, bin("kc-deny"));
    command.args(profile).arg("--").arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
    command.args(["run", "--grace", "1", "--report", "report.json", "--boundary", boundary, "--"]);
    command
}

/// The payload under that command, and its processes, once all of them are there.
fn payload(scene: &Scene, command: &mut Command, options: &[&str]) -> (Running, Pinned) {
    let mut running = Running::start(command.arg(bin("kc-payload")).args(options));
    let ready = running.stdout.expect("ready\n", SOON);
    assert!(ready.is_ok(), "{command:?}: {ready:?}");
    (running, scene.pin())
}

/// Its processes end within the first time, and then nobody holds its output for longer than the second.
fn assert_gone(pinned: &Pinned, running: &mut Running, all: Duration, output: Duration, what: &str) {
    let gone = pinned.wait_gone(all);
    assert!(gone.is_ok(), "{what}: {gone:?}");
    let ended = running.stdout.read_to_end(output);
    assert!(ended.is_ok(), "{what}: {ended:?}");
}

/// Every user, boundary and filter under which that boundary can be had.
fn cells() -> Vec<(Who, &'static str, &'static [&'static str])> {
    let cells = Host::cells().into_iter();
    let cells = cells.flat_map(|(who, boundary)| PROFILES.map(|profile| (who, boundary, profile)));
    cells.filter(|(_, boundary, profile)| *boundary != "namespace" || !profile.contains(&"docker")).collect()
}

#[test]
fn a_job_runs_on_the_boundary_that_is_reported() {
    for (who, boundary, profile) in cells() {
        let scene = Scene::new();
        let script = "cat /proc/self/cgroup; exit 5";
        let done = run(denied(&scene, who, profile, boundary).args(["sh", "-c", script]), SOON);
        assert_eq!((done.code(), done.stderr.as_str()), (5, ""), "{who:?} {boundary} {profile:?}");
        let said = report::read(&scene);
        assert_eq!(said["boundary"]["kind"], boundary, "{who:?} {boundary} {profile:?}: {said}");
        assert_eq!(said["verdict"]["kind"], "empty", "{who:?} {boundary} {profile:?}: {said}");
        // It is not only said: the program sees itself there.
        let leaf = format!("killcord-{}", said["job"].as_str().unwrap());
        assert_eq!(
            done.stdout.contains(&leaf),
            boundary == "cgroup",
            "{who:?} {boundary} {profile:?}: {done:?}"
        );
    }
}

#[test]
fn auto_finds_what_is_left() {
    for who in Who::here() {
        for profile in PROFILES {
            let scene = Scene::new();
            let done = run(denied(&scene, *who, profile, "auto").arg("true"), SOON);
            assert_eq!(done.code(), 0, "{who:?} {profile:?}: {done:?}");
            let has_cgroup = Host::need_of("cgroup", *who).is_some_and(|need| Host::get().has(need));
            let expected = if has_cgroup { "cgroup" } else { "tree" };
            assert_eq!(report::read(&scene)["boundary"]["kind"], expected, "{who:?} {profile:?}");
        }
    }
}

#[test]
fn a_job_ends_whole_by_order() {
    for (who, boundary, profile) in cells() {
        let what = format!("{who:?} {boundary} {profile:?}");
        let scene = Scene::new();
        let (mut running, pinned) = payload(&scene, &mut denied(&scene, who, profile, boundary), &[]);
        running.kill(Signal::TERM);
        // The grace, and what it takes to see it empty.
        assert_gone(&pinned, &mut running, Duration::from_secs(2), Duration::from_millis(1500), &what);
        assert_eq!(running.wait(SOON).and_then(|status| status.code()), Some(143), "{what}");
        assert_eq!(report::read(&scene)["verdict"]["kind"], "empty", "{what}");
    }
}

#[test]
fn a_job_that_ignores_everything_ends_whole_by_force() {
    for (who, boundary, profile) in cells() {
        let what = format!("{who:?} {boundary} {profile:?}");
        let scene = Scene::new();
        let mut command = denied(&scene, who, profile, boundary);
        let (mut running, pinned) = payload(&scene, &mut command, &["--ignore-term"]);
        running.kill(Signal::TERM);
        running.kill(Signal::INT);
        assert_gone(&pinned, &mut running, Duration::from_millis(1500), Duration::from_millis(1500), &what);
        assert_eq!(running.wait(SOON).and_then(|status| status.code()), Some(137), "{what}");
    }
}

#[test]
fn a_job_ends_whole_with_its_owner() {
    for (who, boundary, profile) in cells() {
        let what = format!("{who:?} {boundary} {profile:?}");
        let scene = Scene::new();
        let (mut running, pinned) = payload(&scene, &mut denied(&scene, who, profile, boundary), &[]);
        running.kill(Signal::KILL);
        assert_gone(&pinned, &mut running, Duration::from_secs(2), Duration::from_secs(2), &what);
    }
}

#[test]
fn a_namespace_that_is_denied_is_refused_and_not_replaced() {
    for who in Who::here() {
        for profile in [&["docker"][..], &["namespaces"]] {
            let scene = Scene::new();
            let done = run(denied(&scene, *who, profile, "namespace").args(["touch", "mark"]), SOON);
            assert_eq!(
                (done.code(), scene.path("mark").exists()),
                (125, false),
                "{who:?} {profile:?}: {done:?}"
            );
            assert_eq!(report::read(&scene)["verdict"]["kind"], "refused");
        }
    }
}

/// A developer who looks for a fault in a program that links killcord. Valgrind knows neither pidfds nor a leader in its
/// keeper's memory, and shows its own arguments where a guard would write its name.
#[test]
fn valgrind_runs_owner_and_guards() {
    if !Host::get().has(Need::Program("valgrind")) {
        skip!(Need::Program("valgrind"));
    }
    for (who, boundary) in Host::cells().into_iter().filter(|(_, boundary)| *boundary != "namespace") {
        let scene = Scene::new();
        let mut command = scene.command(who, "valgrind");
        command
            .args(["--quiet", "--tool=none", "--"])
            .arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
        command.args(["run", "--report", "report.json", "--boundary", boundary, "--", "sh", "-c", "exit 5"]);
        let done = run(&mut command, SOON);
        assert_eq!(done.code(), 5, "{who:?} {boundary}: {done:?}");
        let said = report::read(&scene);
        assert_eq!(said["verdict"]["kind"], "empty", "{who:?} {boundary}: {said}");
    }
}
