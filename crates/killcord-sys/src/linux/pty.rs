//! Pseudo-terminals (`pty(7)`).

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A master and its slave, both closed by exec.
///
/// The slave is opened through the master (`TIOCGPTPEER`) where the kernel has that: no path is looked up,
/// so that it works in a mount namespace with another `/dev/pts`.
pub fn open(columns: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).or_else(|_| {
        use rustix::fs::{Mode, OFlags};
        let name = rustix::pty::ptsname(&master, Vec::new())?;
        rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
    })?;
    resize(&master, columns, rows)?;
    Ok((master, slave))
}

/// Sets the window size; the kernel tells the foreground group by `SIGWINCH`.
pub fn resize<F: AsFd>(terminal: F, columns: u16, rows: u16) -> io::Result<()> {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// The window size: columns, rows.
pub fn size<F: AsFd>(terminal: F) -> io::Result<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(terminal)?;
    Ok((size.ws_col, size.ws_row))
}
