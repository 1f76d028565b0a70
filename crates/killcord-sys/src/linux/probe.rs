//! Attempts that show what the kernel allows here. Each makes the thing, undoes it, and says whether it
//! worked; none goes by a version number.

use super::child::{self, Change, Wait};
use super::clone::copy_process;
use super::namespace::{self, Through};
use super::process::{self, Fork};
use std::io;
use std::os::fd::BorrowedFd;

/// Runs a few lines in a forked copy of this process, which must have one thread, and waits for it.
///
/// # Errors
/// What fork says, and `Other` when the copy's answer was an error.
pub fn in_a_copy(attempt: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match process::fork()? {
        Fork::Child => process::exit_now(i32::from(attempt().is_err())),
        Fork::Parent(pid) => answer_of(pid),
    }
}

fn answer_of(pid: u32) -> io::Result<()> {
    match child::wait_for(pid)? {
        Wait::Child(_, Change::Exited(0)) => Ok(()),
        _ => Err(io::Error::other("the attempt failed")),
    }
}

/// A process that is born in this cgroup (`CLONE_INTO_CGROUP`, `clone3(2)`) and exits at once.
///
/// # Errors
/// `ENOSYS` where a filter hides `clone3`, `E2BIG` or `EINVAL` before Linux 5.7, `EACCES` where the cgroup
/// may not be entered from ours.
pub fn clone_into(cgroup: BorrowedFd<'_>) -> io::Result<()> {
    // The pidfd is not needed: the child is ours and reaped here.
    let (pid, _pidfd) = copy_process(0, Some(cgroup))?;
    if pid == 0 {
        process::exit_now(0);
    }
    answer_of(pid as u32)
}

/// An init of a pid namespace that exits at once; in a user namespace, after it has mapped its user.
///
/// # Errors
/// Those of [`namespace::fork_init`], and `Other` when the ids could not be mapped.
pub fn pid_namespace(through: Through) -> io::Result<()> {
    let (uid, gid) = (process::own_uid(), process::own_gid());
    match namespace::fork_init(through)? {
        Fork::Child => {
            let mapped = match through {
                Through::Privilege => Ok(()),
                Through::UserNamespace => namespace::map_own_ids(uid, gid),
            };
            process::exit_now(i32::from(mapped.is_err()))
        }
        Fork::Parent(pid) => answer_of(pid),
    }
}

/// The version of the Landlock interface, if the kernel has it and it is switched on
/// (`landlock_create_ruleset(2)`).
pub fn landlock_version() -> Option<u32> {
    /// `linux/landlock.h`; the C library has no name for it.
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: with this flag the call takes no attributes and only answers with a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, LANDLOCK_CREATE_RULESET_VERSION)
    };
    u32::try_from(version).ok().filter(|v| *v > 0)
}
