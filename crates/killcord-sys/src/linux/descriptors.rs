//! Which descriptors a process has.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Opens `/dev/null` for reading and writing.
pub fn null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Takes hold of a directory, to enter it later. Its list need not be readable for that.
pub fn directory(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A path that leads to what is behind a descriptor, for this process and for a child until exec.
pub fn path(fd: BorrowedFd<'_>) -> std::path::PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// Puts `/dev/null` at 0, 1 and 2, so that a guard holds nobody's pipe or terminal.
pub fn detach_standard_streams() -> io::Result<()> {
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Puts `/dev/null` at 0 and this at 1 and 2.
pub fn set_standard_streams(output: BorrowedFd<'_>) -> io::Result<()> {
    rustix::stdio::dup2_stdin(null()?)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(output)?;
    Ok(())
}

/// `close_range(2)`, one call for all from `first` to `last`.
fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the caller of `close_all_but` gives up every descriptor in the range.
    let r = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from 3 on but those in `keep`.
///
/// For a process that has just been forked: the Rust values that own the closed descriptors must be
/// forgotten, never dropped, which is why the caller is expected to leave by `_exit`.
pub fn close_all_but(keep: &mut [RawFd]) -> io::Result<()> {
    keep.sort_unstable();
    let mut first = 3u32;
    for fd in keep.iter().copied().filter(|fd| *fd >= 3) {
        let fd = fd as u32;
        if fd > first {
            close_span(first, fd - 1)?;
        }
        first = fd + 1;
    }
    close_span(first, u32::MAX)
}

fn close_span(first: u32, last: u32) -> io::Result<()> {
    match close_range(first, last) {
        // Before Linux 5.9, or under a filter: one by one, as far as descriptors can go.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) || e.raw_os_error() == Some(libc::EPERM) => {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            let top = last.min(limit.unwrap_or(65_536).min(1 << 20) as u32);
            for fd in first..=top {
                // SAFETY: as in close_range; a number that is no descriptor is answered by EBADF.
                unsafe { libc::close(fd as RawFd) };
            }
            Ok(())
        }
        other => other,
    }
}

/// A copy of a descriptor with a number of at least `least`, closed by exec.
pub fn copy_above(fd: BorrowedFd<'_>, least: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, least)?)
}

/// `O_NONBLOCK`, on the open file that this descriptor refers to.
pub fn never_wait(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// The number of a descriptor, for lists that `close_all_but` takes.
pub fn number<F: std::os::fd::AsFd>(fd: &F) -> RawFd {
    fd.as_fd().as_raw_fd()
}

/// Takes over an open descriptor by its number, and sees that exec closes it. For a descriptor that was
/// put there for this process to take; taking it twice would close somebody else's.
pub fn take_number(number: RawFd) -> io::Result<OwnedFd> {
    let fd = borrow_number(number)?;
    // SAFETY: the number is open, since it could be copied, and was put there for us alone.
    drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) });
    Ok(fd)
}

/// Whether a number is an open descriptor of this process, and takes hold of it if it is.
pub fn borrow_number(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC only reads the table; a number that is not open gives EBADF.
    let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}
