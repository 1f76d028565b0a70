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
