//! What many runs leave behind.
//!
//! Promised: nothing: no process and no zombie, no descriptor in whoever runs them, no cgroup directory.
//!
//! Not promised: that a guard is gone at the very moment at which a job that was let go has ended.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod kit;

use killcord_testkit::{Host, Need, Scene, Who, reachable, run, skipped};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Tests of one process share its descriptors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs it so often from one shell in a pid namespace of its own, where everything that is left can be seen:
/// the numbers of the processes, and the shell's descriptors before and after.
fn leaves_nothing(who: Who, boundary: &str, times: u32) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !Host::get().has(Need::PidNamespace(who)) {
        return skipped(Need::PidNamespace(who));
    }
    let scene = Scene::new();
    let script = "
        fds() { set -- /proc/$$/fd/*; echo \"$*\"; }
        fds >\"$D/before\"
        i=0
        while [ $i -lt \"$3\" ]; do
            \"$1\" run --boundary \"$2\" -- printenv KILLCORD_JOB >>\"$D/jobs\" || exit 9
            i=$((i+1))
        done
        fds >\"$D/after\"
        echo $$
        for p in /proc/[0-9]*; do [ -e $p/stat ] && read line <$p/stat && echo \"$line\"; done
        exit 0";
    let mut command = scene.command(who, "unshare");
    if who == Who::User {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh"]);
    command.arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref())).arg(boundary).arg(times.to_string());
    let done = run(&mut command, Duration::from_secs(100));
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{who:?} {boundary}");
    let mut lines = done.stdout.lines();
    let shell = lines.next().unwrap();
    let others: Vec<&str> = lines.filter(|line| line.split(' ').next() != Some(shell)).collect();
    assert_eq!(others, [] as [&str; 0], "{who:?} {boundary}: left behind");
    let read = |name: &str| std::fs::read_to_string(scene.path(name)).unwrap();
    assert_eq!(read("before"), read("after"), "{who:?} {boundary}");
    let jobs = read("jobs");
    let jobs: HashSet<&str> = jobs.lines().collect();
    assert_eq!(jobs.len(), times as usize, "{who:?} {boundary}: each job has a name of its own");
    if let Some(dir) = Host::get().cgroup_dir() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let job = name.strip_prefix("killcord-").unwrap_or_default();
            assert!(!jobs.contains(job), "{who:?} {boundary}: {name} is left");
        }
    }
}

#[test]
fn heavy_five_hundred_runs_leave_nothing() {
    for who in Who::here() {
        leaves_nothing(*who, "auto", if *who == Who::Root { 500 } else { 100 });
    }
}

#[test]
fn heavy_a_hundred_runs_on_each_boundary_leave_nothing() {
    for (who, boundary) in Host::cells() {
        if boundary != "cgroup" {
            leaves_nothing(who, boundary, 100);
        }
    }
}

#[test]
fn heavy_many_runs_leave_no_descriptor_in_their_caller() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let own = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let scene = Scene::new();
    let before = own();
    for n in 0..100 {
        let program = if n % 2 == 0 { "true" } else { "/no/such/program" };
        run(kit::killcord(&scene, Who::here()[0], &[]).arg(program), kit::SOON);
    }
    assert_eq!(own(), before);
}
