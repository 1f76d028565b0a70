//! What would give a stronger boundary on this machine.

use super::mechanisms::{Mechanisms, Obstacles};
use killcord_model::boundary::Boundary;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;

/// One way to a stronger boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What it gives.
    pub gives: Boundary,
    /// What to do.
    pub how: String,
}

/// The switches that may forbid namespaces: file, the value that does, what to do about it.
const SWITCHES: [(&str, &str, &str); 4] = [
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "allow user namespaces: `sysctl user.max_user_namespaces=10000`",
    ),
    (
        "/proc/sys/user/max_pid_namespaces",
        "0",
        "allow pid namespaces: `sysctl user.max_pid_namespaces=10000`",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "allow user namespaces to killcord by an AppArmor profile, or to all: \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
];

/// What to do for more than what is in force.
pub(super) fn advise(
    in_force: Option<Boundary>,
    has: &dyn Fn(&Boundary) -> bool,
    can: &Mechanisms,
    obstacles: &Obstacles,
) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut add = |gives, how: Vec<String>| all.extend(how.into_iter().map(|how| Advice { gives, how }));
    if has(&Boundary::Namespace) {
        let how = "add `--boundary namespace`: the kernel then ends everything even when owner, warden and \
                   keeper are killed at once; the program sees other process numbers";
        add(Boundary::Namespace, vec![how.to_owned()]);
    } else {
        add(Boundary::Namespace, for_namespace(can, obstacles));
    }
    if !has(&Boundary::Cgroup) {
        add(Boundary::Cgroup, for_cgroup(can, obstacles));
    }
    if in_force < Some(Boundary::Tree) && !can.proc {
        add(Boundary::Tree, vec!["mount /proc: `mount -t proc proc /proc`".to_owned()]);
    }
    all
}

fn for_namespace(can: &Mechanisms, obstacles: &Obstacles) -> Vec<String> {
    let is_set = |file: &str, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    let mut how: Vec<String> =
        SWITCHES.iter().filter(|(file, value, _)| is_set(file, value)).map(|s| s.2.to_owned()).collect();
    let refused =
        obstacles.user_namespace.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied);
    if can.system_call_filter && refused && how.is_empty() {
        let filter = "start it outside the system call filter that it is under, or with one that allows \
                      namespaces (docker run --security-opt seccomp=FILE)";
        how.push(filter.to_owned());
    }
    if !can.root && !can.system_call_filter {
        how.push("run as root".to_owned());
    }
    how
}

fn for_cgroup(can: &Mechanisms, obstacles: &Obstacles) -> Vec<String> {
    let Some(why) = &obstacles.cgroup else { return Vec::new() };
    match why.kind() {
        io::ErrorKind::NotFound if can.cgroup.is_none() => {
            let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
            let known = known.lines().any(|l| l.trim_start_matches("nodev").trim() == "cgroup2");
            let how =
                "mount cgroup2 where this process sees it, as root: `mount -t cgroup2 cgroup2 DIRECTORY`";
            if known { vec![how.to_owned()] } else { Vec::new() }
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            vec![format!(
                "have {} mounted writable (docker run --privileged does, and some runtimes have an option)",
                can.cgroup.as_deref().unwrap_or("the cgroup hierarchy")
            )]
        }
        io::ErrorKind::PermissionDenied if !can.root => {
            let mut how = Vec::new();
            if can.systemd_user_manager {
                how.push("start inside `systemd-run --user --scope -p Delegate=yes`".to_owned());
            }
            how.push("run as root".to_owned());
            how
        }
        io::ErrorKind::PermissionDenied => {
            vec!["have a cgroup delegated to this container by whoever started it".to_owned()]
        }
        _ => Vec::new(),
    }
}
