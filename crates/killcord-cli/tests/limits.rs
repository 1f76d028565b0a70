//! Limits on a whole job.
//!
//! Promised: `--memory`, `--pids` and `--cpu` hold for all processes of the job together, on every boundary
//! where they can be had; a member killed by the memory limit is said and counted; nothing that carried a limit
//! stays behind. That a limit which cannot be had is refused is in `bad_input.rs`.
//!
//! Not promised: which of its processes the kernel kills at the memory limit, and the exact share of `--cpu`.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod kit;
#[path = "kit/report.rs"]
mod report;

use killcord_testkit::{Host, Need, Scene, Who, is_root, run, skip};
use kit::{SOON, killcord};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn cells() -> Vec<&'static str> {
    Host::cells().into_iter().filter(|(who, _)| *who == Who::Root).map(|(_, boundary)| boundary).collect()
}

fn options<'a>(boundary: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--boundary", boundary, "--report", "report.json"], more].concat()
}

/// Directories of killcord's jobs in all cgroup hierarchies.
fn leaves() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut dirs: Vec<PathBuf> = Vec::new();
    for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let mut search = vec![PathBuf::from(line.split(' ').nth(4).unwrap())];
        while let Some(dir) = search.pop() {
            // Other tests make and remove directories meanwhile.
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    search.push(entry.path());
                    dirs.push(entry.path());
                }
            }
        }
    }
    dirs
}

/// Whether a directory of this job is left anywhere.
fn assert_no_leaf(said: &serde_json::Value, what: &str) {
    let job = said["job"].as_str().unwrap();
    let left: Vec<PathBuf> = leaves().into_iter().filter(|dir| dir.to_string_lossy().contains(job)).collect();
    assert_eq!(left, [] as [PathBuf; 0], "{what}");
}

#[test]
fn a_job_over_its_memory_is_killed_and_it_is_said() {
    if !is_root() {
        skip!(Need::Root);
    }
    for boundary in cells() {
        let scene = Scene::new();
        // `tail` keeps a line until it ends, and this one does not.
        let mut command = killcord(&scene, Who::Root, &options(boundary, &["--memory", "64M"]));
        let done =
            run(command.args(["sh", "-c", "head -c 300M /dev/zero | tail -n 1 | wc -c; exit 7"]), SOON);
        let said = report::read(&scene);
        assert!(said["memory_limit_kills"].as_u64().unwrap() >= 1, "{boundary}: {said}");
        assert!(done.stderr.contains("killcord: sh: "), "{boundary}: {done:?}");
        assert!(done.stderr.contains(" killed by the memory limit\n"), "{boundary}: {done:?}");
        let peak = said["usage"]["peak_memory_bytes"].as_u64().unwrap();
        assert!((32 << 20..=64 << 20).contains(&peak), "{boundary}: {peak}");
        assert_eq!(said["usage"]["peak_memory_source"], "cgroup");
        assert_no_leaf(&said, boundary);
        // Below it nothing is killed and nothing said.
        let mut command = killcord(&scene, Who::Root, &options(boundary, &["--memory", "256M"]));
        let done = run(command.args(["sh", "-c", "head -c 20M /dev/zero | tail -n 1 | wc -c"]), SOON);
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("20971520\n", ""), "{boundary}");
        assert_eq!(report::read(&scene)["memory_limit_kills"], 0);
    }
}

#[test]
fn a_leader_killed_by_the_memory_limit_is_137_and_said() {
    if !is_root() {
        skip!(Need::Root);
    }
    for boundary in cells() {
        let scene = Scene::new();
        let mut command = killcord(&scene, Who::Root, &options(boundary, &["--memory", "32M"]));
        let done = run(command.args(["tail", "-n", "1", "/dev/zero"]), SOON);
        assert_eq!(done.code(), 137, "{boundary}: {done:?}");
        assert_eq!(report::read(&scene)["memory_limit_kills"], 1);
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        assert!(done.stderr.starts_with("killcord: tail: "), "{done:?}");
    }
}

#[test]
fn a_job_has_as_many_processes_as_it_may() {
    if !is_root() {
        skip!(Need::Root);
    }
    for boundary in cells() {
        let scene = Scene::new();
        let perl = "my $n = 1; while (defined(my $pid = fork)) { if (!$pid) { sleep 30; exit } $n++; last if $n > 100 } print \"$n\\n\"";
        let mut command = killcord(&scene, Who::Root, &options(boundary, &["--pids", "20"]));
        let done = run(command.args(["perl", "-e", perl]), SOON);
        // On boundary namespace the init is not in the limit: it is a guard.
        assert_eq!(done.stdout, "20\n", "{boundary}: {done:?}");
        let said = report::read(&scene);
        assert_eq!(
            (&said["leftovers"]["count"], &said["verdict"]["kind"]),
            (&19.into(), &"empty".into()),
            "{boundary}"
        );
        assert_no_leaf(&said, boundary);
    }
}

#[test]
fn heavy_a_job_has_the_share_of_the_processor_that_it_may() {
    if !is_root() {
        skip!(Need::Root);
    }
    for boundary in cells() {
        let scene = Scene::new();
        let mut command = killcord(
            &scene,
            Who::Root,
            &options(boundary, &["--cpu", "0.2", "--timeout", "2", "--grace", "0"]),
        );
        let begun = Instant::now();
        // Two of them: the limit is the job's.
        let done = run(command.args(["sh", "-c", "while :; do :; done & while :; do :; done"]), SOON);
        let wall = begun.elapsed().as_secs_f64();
        assert_eq!(done.code(), 124, "{done:?}");
        let said = report::read(&scene);
        let used = (said["usage"]["user_ms"].as_f64().unwrap()
            + said["usage"]["system_ms"].as_f64().unwrap())
            / 1000.0;
        let share = used / wall;
        assert!((0.08..0.35).contains(&share), "{boundary}: {used} s of {wall} s");
        assert_no_leaf(&said, boundary);
    }
}

#[test]
fn all_limits_together_leave_nothing_behind() {
    if !is_root() {
        skip!(Need::Root);
    }
    for boundary in cells() {
        for program in ["true", "/no/such/program"] {
            let scene = Scene::new();
            let limits = ["--memory", "64M", "--pids", "20", "--cpu", "1"];
            run(killcord(&scene, Who::Root, &options(boundary, &limits)).arg(program), SOON);
            assert_no_leaf(&report::read(&scene), boundary);
        }
        // And when the owner is killed: the warden or the keeper removes them.
        let scene = Scene::new();
        let mut command =
            killcord(&scene, Who::Root, &["--boundary", boundary, "--memory", "64M", "--pids", "20"]);
        let mut running =
            killcord_testkit::Running::start(command.args(["sh", "-c", "echo $KILLCORD_JOB; sleep 30"]));
        let job = running.stdout.expect("\n", SOON).unwrap().trim().to_owned();
        let of_job = || leaves().into_iter().filter(|dir| dir.to_string_lossy().contains(&job)).count();
        assert!(of_job() >= 2, "{boundary}: no directory of {job}");
        running.kill(killcord_testkit::Signal::KILL);
        running.stdout.read_to_end(Duration::from_secs(2)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(2);
        while of_job() > 0 {
            assert!(Instant::now() < deadline, "{boundary}: {:?}", leaves());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
