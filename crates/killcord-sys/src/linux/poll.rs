//! Waiting for descriptors.

pub use crate::contract::poll::Interest;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Waits with `poll(2)` until one of the descriptors is ready or the time is over, and says of each
/// whether it is. An interrupted wait is over at once with nothing ready.
///
/// # Errors
/// Whatever `poll(2)` says, which is `ENOMEM` at most for valid descriptors.
pub fn wait<const N: usize>(
    fds: [(Option<BorrowedFd<'_>>, Interest); N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let timespec = timeout.map(|d| Timespec {
        tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(d.subsec_nanos()),
    });
    // A place without a descriptor borrows any that is there and asks it for nothing at all.
    let Some(any) = fds.iter().find_map(|(fd, _)| *fd) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "nothing to wait for"));
    };
    let mut polled = fds.map(|(fd, interest)| {
        let flags = match (fd, interest) {
            (None, _) | (_, Interest::Gone) => PollFlags::empty(),
            (_, Interest::Read) => PollFlags::IN,
            (_, Interest::Exception) => PollFlags::PRI,
            (_, Interest::Write) => PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(fd.unwrap_or(any), flags)
    });
    match rustix::event::poll(&mut polled, timespec.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    let mut ready = [false; N];
    for (i, p) in polled.iter().enumerate() {
        ready[i] = fds[i].0.is_some() && !p.revents().is_empty();
    }
    Ok(ready)
}
