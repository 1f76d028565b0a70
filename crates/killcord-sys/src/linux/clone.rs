//! Copies of this process: `clone3(2)`, and what there was before it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `struct clone_args` as `clone3(2)` has it up to Linux 5.7.
#[repr(C, align(8))]
#[derive(Debug, Default)]
pub(super) struct CloneArgs {
    pub(super) flags: u64,
    pub(super) pidfd: u64,
    pub(super) child_tid: u64,
    pub(super) parent_tid: u64,
    pub(super) exit_signal: u64,
    pub(super) stack: u64,
    pub(super) stack_size: u64,
    pub(super) tls: u64,
    pub(super) set_tid: u64,
    pub(super) set_tid_size: u64,
    pub(super) cgroup: u64,
}

/// `linux/sched.h`, from Linux 5.7 on; the C library's constant is too narrow for it.
pub(super) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A pid of 0 in the child, the child's in the parent, with its pidfd.
fn clone3(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<(i32, RawFd)> {
    let mut pidfd: RawFd = -1;

    let into = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags: flags | libc::CLONE_PIDFD as u64 | into,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    // SAFETY: a clone without CLONE_VM copies the process as fork does; the arguments are a complete
    // structure of the size that is given, and the caller has one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid as i32, pidfd)) }
}

/// `clone(2)` as it was before `clone3`: with a pidfd from Linux 5.2 on.
fn clone_legacy(flags: u64, with_pidfd: bool) -> io::Result<(i32, RawFd)> {
    let mut pidfd: RawFd = -1;
    let mut all = flags | libc::SIGCHLD as u64;
    if with_pidfd {
        all |= libc::CLONE_PIDFD as u64;
    }
    // SAFETY: no CLONE_VM and no new stack: the child goes on in a copy of this one, as after fork. The
    // third argument is the place for the pidfd on every architecture; the others are unused.
    let pid = unsafe { libc::syscall(libc::SYS_clone, all, 0u64, &raw mut pidfd, 0u64, 0u64) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid as i32, pidfd)) }
}

/// Copies this process, with a pidfd where the kernel gives one.
///
/// Only a boundary that has to be entered at birth needs `clone3`; where a filter hides it (`ENOSYS`,
/// container runtimes) the older call does for everything else.
pub(super) fn copy_process(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<(i32, Option<OwnedFd>)> {
    let (pid, fd) = match clone3(flags, cgroup) {
        Err(e) if cgroup.is_none() && matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            clone_legacy(flags, true).or_else(|_| clone_legacy(flags, false))?
        }
        other => other?,
    };
    // SAFETY: the kernel made this descriptor for this call and nobody else has it. In the child it is
    // the parent's business: the number was written to the parent's memory after the copy was made.
    let pidfd = (pid != 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((pid, pidfd))
}
