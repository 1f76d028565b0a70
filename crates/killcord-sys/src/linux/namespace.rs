//! A pid namespace whose init is the keeper (`pid_namespaces(7)`).

use super::clone::copy_process;
use super::process::Fork;
pub use crate::contract::namespace::Through;
use rustix::mount::{MountFlags, MountPropagationFlags};
use std::io;

/// Copies this process as the init of a new pid namespace with a mount namespace of its own.
///
/// # Errors
/// `EPERM` where it is not allowed (container runtimes), `ENOSPC` at the limit of namespaces or where
/// they are switched off by `user.max_*_namespaces`, `EINVAL` where the kernel has none.
pub fn fork_init(through: Through) -> io::Result<Fork> {
    let mut flags = libc::CLONE_NEWPID as u64 | libc::CLONE_NEWNS as u64;
    if through == Through::UserNamespace {
        flags |= libc::CLONE_NEWUSER as u64;
    }
    let (pid, pidfd) = copy_process(flags, None)?;
    drop(pidfd);
    Ok(if pid == 0 { Fork::Child } else { Fork::Parent(pid as u32) })
}

/// Maps the user to itself in a new user namespace, in the new init. Every other user shows as nobody.
pub fn map_own_ids(uid: u32, gid: u32) -> io::Result<()> {
    // Without this the group map may not be written by an ordinary user (user_namespaces(7)).
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Mounts `/proc` anew, in the mount namespace of the new init, so that it shows this pid namespace.
/// Mounts of the host still arrive; those made inside do not leave (`mount_namespaces(7)`).
///
/// # Errors
/// `EPERM` where parts of the old `/proc` are covered, as in most containers.
pub fn mount_proc() -> io::Result<()> {
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None)?;
    Ok(())
}

/// Sends a signal to every process of the pid namespace but the caller, its init (`kill(2)` with -1).
///
/// # Errors
/// `ESRCH` when there is no other process; `EINVAL` when the caller is not an init, whom -1 would take
/// far beyond a job.
pub fn signal_all_but_init(signal: i32) -> io::Result<()> {
    if super::process::own_pid() != 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: kill touches no memory; in an init, -1 means the processes of its own namespace.
    if unsafe { libc::kill(-1, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
