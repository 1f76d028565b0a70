//! What holds a file, a pipe or a process, and texts of the system: handles and encoded bytes on Windows,
//! under the names that they have on Unix.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::path::Path;
use std::process::Command;

/// An open handle.
pub type OwnedFd = OwnedHandle;
/// An open handle of somebody else.
pub type BorrowedFd<'a> = BorrowedHandle<'a>;
/// The number of a descriptor, as it is typed on a command line.
pub type RawFd = i32;

/// Whatever has a handle.
pub trait AsFd {
    /// The handle.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl<T: AsHandle> AsFd for T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_handle()
    }
}

/// A text of the system as bytes: UTF-8 where it is Unicode.
pub trait OsStrExt {
    /// The text of these bytes; what is not UTF-8 is replaced.
    fn from_bytes(bytes: &[u8]) -> &Self;
    /// Its bytes.
    fn as_bytes(&self) -> &[u8];
}

impl OsStrExt for OsStr {
    fn from_bytes(bytes: &[u8]) -> &Self {
        Self::new(std::str::from_utf8(bytes).unwrap_or("\u{fffd}"))
    }

    fn as_bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }
}

/// An owned text of the system as bytes.
pub trait OsStringExt {
    /// The text of these bytes; what is not UTF-8 is replaced.
    fn from_vec(bytes: Vec<u8>) -> Self;
    /// Its bytes.
    fn into_vec(self) -> Vec<u8>;
}

impl OsStringExt for OsString {
    fn from_vec(bytes: Vec<u8>) -> Self {
        String::from_utf8_lossy(&bytes).into_owned().into()
    }

    fn into_vec(self) -> Vec<u8> {
        self.into_encoded_bytes()
    }
}

/// There is no exec on Windows: refuses.
pub fn execute(_: &mut Command) -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Whether there is such a file; Windows goes by its name.
pub fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Waiting for descriptors on tokio (feature `tokio`): refused, as there is no job yet that has any.
#[cfg(feature = "tokio")]
pub mod asynchronous {
    use super::OwnedFd;
    use std::convert::Infallible as Never;
    use std::future::Ready;
    use std::io;

    fn refused<T>(_: OwnedFd) -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The reading end of a pipe.
    #[derive(Debug)]
    pub struct Receiver(Never);

    impl Receiver {
        /// Refuses.
        pub fn from_owned_fd(fd: OwnedFd) -> io::Result<Self> {
            refused(fd)
        }

        /// Refuses.
        pub fn from_owned_fd_unchecked(fd: OwnedFd) -> io::Result<Self> {
            refused(fd)
        }

        /// Waits until there may be something to read.
        pub fn readable(&self) -> Ready<io::Result<()>> {
            match self.0 {}
        }

        /// Reads without waiting.
        pub fn try_read(&self, _: &mut [u8]) -> io::Result<usize> {
            match self.0 {}
        }
    }

    /// The writing end of a pipe.
    #[derive(Debug)]
    pub struct Sender(Never);

    impl Sender {
        /// Refuses.
        pub fn from_owned_fd(fd: OwnedFd) -> io::Result<Self> {
            refused(fd)
        }

        /// Refuses.
        pub fn from_owned_fd_unchecked(fd: OwnedFd) -> io::Result<Self> {
            refused(fd)
        }

        /// Waits until there may be room.
        pub fn writable(&self) -> Ready<io::Result<()>> {
            match self.0 {}
        }

        /// Writes without waiting.
        pub fn try_write(&self, _: &[u8]) -> io::Result<usize> {
            match self.0 {}
        }
    }

    /// A socket that is waited for here and read elsewhere.
    #[derive(Debug)]
    pub struct Socket(Never);

    impl Socket {
        /// Refuses.
        pub fn new(fd: OwnedFd) -> io::Result<Self> {
            refused(fd)
        }

        /// Waits until there may be something to read.
        pub fn readable(&self) -> Ready<io::Result<()>> {
            match self.0 {}
        }

        /// Looks whether there is.
        pub fn look<R>(&self, _: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
            match self.0 {}
        }
    }
}
