//! Handles on processes that are not our children (`pidfd_open(2)`).

use rustix::process::PidfdFlags;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use crate::contract::pidfd::Pidfd;

impl Pidfd {
    /// Opens the process that has this number now. The caller checks afterwards that it is the one that
    /// was meant: the number may have changed hands before the call.
    ///
    /// # Errors
    /// `ESRCH` when there is none, `ENOSYS` before Linux 5.3 and under some filters.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = super::process::pid(pid)?;
        Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?.into())
    }
}

/// Waits until the process behind a descriptor that is a pidfd has ended and says whether it has.
///
/// That of a namespace's init has ended when every other process in the namespace has
/// (`pid_namespaces(7)`).
pub fn wait_ended(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    Ok(super::poll::wait([(Some(fd), super::poll::Interest::Read)], timeout)?[0])
}

/// Sends a signal through a descriptor that is a pidfd.
pub fn signal_through(fd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    Ok(rustix::process::pidfd_send_signal(fd, super::signals::from_number(signal)?)?)
}

/// The number, in our pid namespace, of the process behind a pidfd (`/proc/self/fdinfo`, `proc(5)`);
/// `None` when it is in no namespace that we see, or has been reaped.
pub fn number(fd: BorrowedFd<'_>) -> Option<u32> {
    use std::os::fd::AsRawFd;
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|pid| *pid != 0)
}
