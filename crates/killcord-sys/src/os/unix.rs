//! What holds a file, a pipe or a process, and texts of the system: those of `std` on Unix.

pub use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
pub use std::os::unix::ffi::{OsStrExt, OsStringExt};

use std::io;
use std::path::Path;
use std::process::Command;

/// Executes a program in place of this one (`execvp(3)`). Returns only what went wrong.
pub fn execute(command: &mut Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

/// Whether a file may be executed by somebody.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Waiting for descriptors on tokio (feature `tokio`).
#[cfg(feature = "tokio")]
pub mod asynchronous {
    use super::OwnedFd;
    use std::io;
    use tokio::io::Interest;
    use tokio::net::UnixStream;
    pub use tokio::net::unix::pipe::{Receiver, Sender};

    /// A socket that is waited for here and read elsewhere.
    #[derive(Debug)]
    pub struct Socket(UnixStream);

    impl Socket {
        /// For one that never waits.
        pub fn new(fd: OwnedFd) -> io::Result<Self> {
            UnixStream::from_std(fd.into()).map(Self)
        }

        /// Waits until there may be something to read.
        pub async fn readable(&self) -> io::Result<()> {
            self.0.readable().await
        }

        /// Looks whether there is; a look that answers `WouldBlock` is the reason to wait again.
        pub fn look<R>(&self, look: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
            self.0.try_io(Interest::READABLE, look)
        }
    }
}
