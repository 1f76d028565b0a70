//! Terminals that are already there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Whether a descriptor is the terminal that controls this process's session.
pub fn is_ours<F: AsFd>(fd: F) -> bool {
    // TIOCGSID succeeds only for the caller's own controlling terminal (tty_ioctl(4)); on a pty's master
    // it would answer for the slave's session, which is compared here.
    // In a pid namespace below the session both are 0, which rustix does not expect.
    // SAFETY: getsid only asks.
    let own = unsafe { libc::getsid(0) };
    // SAFETY: tcgetsid only asks, about a descriptor that the caller holds.
    let its = unsafe { libc::tcgetsid(fd.as_fd().as_raw_fd()) };
    rustix::termios::isatty(fd.as_fd()) && own >= 0 && its == own
}

/// The width of a terminal in columns.
pub fn columns<F: AsFd>(fd: F) -> Option<u16> {
    rustix::termios::tcgetwinsize(fd).ok().map(|w| w.ws_col).filter(|c| *c > 0)
}

/// Whether a terminal hides what is typed, as at a prompt for a password: line by line, and without echo (`ICANON` and
/// no `ECHO`, `termios(3)`). Asked of either side of a pseudo-terminal. An editor takes keys one by one, and shows them
/// itself.
pub fn hides_input<F: AsFd>(fd: F) -> io::Result<bool> {
    use rustix::termios::LocalModes;
    let modes = rustix::termios::tcgetattr(fd)?.local_modes;
    Ok(modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO))
}

/// Opens the terminal that controls this process, if there is one and it has not hung up.
pub fn controlling() -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open("/dev/tty", flags, Mode::empty())?)
}

/// The foreground group of a terminal.
pub fn foreground<F: AsFd>(fd: F) -> io::Result<u32> {
    Ok(rustix::termios::tcgetpgrp(fd)?.as_raw_nonzero().get() as u32)
}

/// Makes a group the foreground group. The caller has blocked or ignores `SIGTTOU`.
pub fn set_foreground<F: AsFd>(fd: F, group: u32) -> io::Result<()> {
    let group = super::process::pid(group)?;
    Ok(rustix::termios::tcsetpgrp(fd, group)?)
}

/// Whether an interactive shell with job control started this process: its parent is of the same
/// session but of another group.
pub fn started_by_job_control() -> bool {
    // A parent outside our pid namespace has no number.
    let Some(parent) = super::process::parent_pid() else { return false };
    let parent = parent as libc::pid_t;
    // SAFETY: getsid only asks.
    let session = |pid| unsafe { libc::getsid(pid) };
    // SAFETY: getpgid only asks.
    let group = |pid| unsafe { libc::getpgid(pid) };
    session(parent) == session(0) && group(parent) != group(0)
}
