//! A job's own pseudo-terminal, from the owner's side.

use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::pty;
use std::fs::File;
use std::io::{self, Read, Write};

/// The master of a job's terminal: what the job prints can be read from it, and what is written to it is
/// typed. When it is dropped the terminal hangs up.
#[derive(Debug)]
pub struct Terminal(File);

impl Terminal {
    pub(crate) fn new(master: OwnedFd) -> Self {
        Self(File::from(master))
    }

    /// Another handle on the same terminal, for reading and writing from two threads.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Sets the window size in characters; the foreground program gets `SIGWINCH`.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        pty::resize(&self.0, columns, rows)
    }

    /// The window size: columns, rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        pty::size(&self.0)
    }
}

impl Read for Terminal {
    /// Reads what was printed. When the last process has closed the terminal, that is the end (the kernel
    /// says `EIO`, `pty(7)`).
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(e) if e.raw_os_error() == Some(killcord_sys::errno::EIO) => Ok(0),
            other => other,
        }
    }
}

impl Write for Terminal {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl From<Terminal> for OwnedFd {
    fn from(terminal: Terminal) -> Self {
        terminal.0.into()
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
