//! Terminals that are already there.

use rustix::process::Pid;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Whether a descriptor is the terminal that controls this process's session.
pub fn is_ours<F: AsFd>(fd: F) -> bool {
    // TIOCGSID succeeds only for the caller's own controlling terminal (tty_ioctl(4)); on a pty's master
    // it would answer for the slave's session, which is compared here.
    let session = rustix::process::getsid(None).ok();
    rustix::termios::isatty(fd.as_fd()) && session.is_some() && rustix::termios::tcgetsid(fd).ok() == session
}

/// Whether a descriptor is a terminal at all.
pub fn is_terminal<F: AsFd>(fd: F) -> bool {
    rustix::termios::isatty(fd)
}

/// The width of a terminal in columns.
pub fn columns<F: AsFd>(fd: F) -> Option<u16> {
    rustix::termios::tcgetwinsize(fd).ok().map(|w| w.ws_col).filter(|c| *c > 0)
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
    let group = Pid::from_raw(group as i32).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::termios::tcsetpgrp(fd, group)?)
}

/// Whether an interactive shell with job control started this process: its parent is of the same
/// session but of another group.
pub fn started_by_job_control() -> bool {
    let Some(parent) = rustix::process::getppid() else { return false };
    let same_session = rustix::process::getsid(Some(parent)).ok() == rustix::process::getsid(None).ok();
    let other_group = rustix::process::getpgid(Some(parent)).ok() != Some(rustix::process::getpgrp());
    same_session && other_group
}
