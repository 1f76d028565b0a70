//! What the kernel and this environment allow, one attempt for each.

use killcord_sys::cgroup::{Leaf, Own};
use killcord_sys::namespace::Through;
use killcord_sys::pidfd::Pidfd;
use killcord_sys::proc::Proc;
use killcord_sys::{audit, probe, process, random, socket};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the boundaries are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mechanisms {
    /// Whether this is root (in its user namespace).
    pub root: bool,
    /// Our own cgroup v2 directory, where one is mounted.
    pub cgroup: Option<String>,
    /// How a cgroup of ours can be killed; `None` where we cannot make one.
    pub cgroup_kill: Option<CgroupKill>,
    /// Whether a process can be born in a cgroup; `None` where we cannot make one.
    pub clone_into_cgroup: Option<bool>,
    /// Whether a pid namespace can be made by privilege.
    pub namespace_by_privilege: bool,
    /// Whether a pid namespace can be made through a user namespace.
    pub namespace_by_user_namespace: bool,
    /// `pidfd_open`.
    pub pidfd: bool,
    /// Whether `/proc` is that of our pid namespace.
    pub proc: bool,
    /// `/proc/PID/task/TID/children`; without it the whole process table is read.
    pub proc_children: bool,
    /// Whether a process can be given an audit session of its own (the login uid is unset).
    pub audit_session: bool,
    /// The version of the Landlock interface.
    pub landlock: Option<u32>,
    /// Whether this process is under a system call filter, as in most containers.
    pub system_call_filter: bool,
    /// Whether a systemd user manager answers.
    pub systemd_user_manager: bool,
}

/// How a cgroup is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupKill {
    /// By `cgroup.kill`, from Linux 5.14 on.
    #[serde(rename = "cgroup.kill")]
    Kill,
    /// By freezing it and killing each member.
    #[serde(rename = "cgroup.freeze")]
    Freeze,
}

/// What stood in the way, for the advice.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// Why no cgroup could be made.
    pub(super) cgroup: Option<io::Error>,
    /// Why no pid namespace could be made through a user namespace.
    pub(super) user_namespace: Option<io::Error>,
}

/// Tries all of it.
pub(super) fn look() -> (Mechanisms, Obstacles) {
    let mut obstacles = Obstacles::default();
    let own = Own::find(None);
    let cgroup =
        own.as_ref().ok().map(|own| own.path.components().collect::<PathBuf>().display().to_string());
    let leaf = own.and_then(|own| try_leaf(&own));
    let by_user = probe::pid_namespace(Through::UserNamespace);
    let mut proc = Proc::open();
    let children = proc.as_mut().is_ok_and(|p| p.children(process::own_pid(), 1, &mut Vec::new()).is_ok());
    let mechanisms = Mechanisms {
        root: process::own_uid() == 0,
        cgroup,
        cgroup_kill: leaf.as_ref().ok().map(|(kill, _)| *kill),
        clone_into_cgroup: leaf.as_ref().ok().map(|(_, born)| *born),
        namespace_by_privilege: probe::pid_namespace(Through::Privilege).is_ok(),
        namespace_by_user_namespace: by_user.is_ok(),
        pidfd: Pidfd::open(process::own_pid()).is_ok(),
        proc: proc.is_ok(),
        proc_children: children,
        // In a copy, since it could not be undone.
        audit_session: probe::in_a_copy(|| audit::enter_session().map(drop)).is_ok(),
        landlock: probe::landlock_version(),
        system_call_filter: has_filter(),
        systemd_user_manager: user_manager_answers(),
    };
    obstacles.cgroup = leaf.err();
    obstacles.user_namespace = by_user.err();
    (mechanisms, obstacles)
}

/// Makes a cgroup, has a process born in it, and removes it.
fn try_leaf(own: &Own) -> io::Result<(CgroupKill, bool)> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    let name = format!("killcord-probe-{:016x}", u64::from_be_bytes(bytes));
    let dir = own.make(&name)?;
    let tried = Leaf::open(dir).map(|leaf| {
        let kill = if leaf.kill_file().is_some() { CgroupKill::Kill } else { CgroupKill::Freeze };
        (kill, probe::clone_into(leaf.dir()).is_ok())
    });
    own.remove(&name)?;
    tried
}

/// `Seccomp: 2` in `/proc/self/status` (`proc_pid_status(5)`).
fn has_filter() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|l| l.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// The socket that a systemd user manager listens on, which systemd-run talks to. A socket file that
/// nobody listens on any more is no manager.
fn user_manager_answers() -> bool {
    let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) else { return false };
    socket::answers(&Path::new(&dir).join("systemd/private"))
}
