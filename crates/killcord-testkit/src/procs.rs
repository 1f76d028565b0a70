//! What `/proc` says of a process, and a process that cannot be mistaken for another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

/// One reading of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The process number.
    pub pid: u32,
    /// The name, at most 15 bytes.
    pub comm: String,
    /// The state letter; `Z` and `X` are dead.
    pub state: char,
    /// The parent.
    pub parent: u32,
    /// The process group.
    pub group: u32,
    /// The session.
    pub session: u32,
    /// The device number of the controlling terminal, 0 for none.
    pub tty: i32,
    /// The start, in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// A zombie is dead: it runs nothing and only waits for its parent to look.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Reads `/proc/PID/stat`; `None` when there is no such process (any more).
pub fn stat(pid: u32) -> Option<Stat> {
    parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(bytes: &[u8]) -> Option<Stat> {
    // The name is the program's own choice: it may hold brackets, spaces and bytes that are no text.
    let text = String::from_utf8_lossy(bytes);
    let (head, tail) = text.rsplit_once(") ")?;
    let (pid, comm) = head.split_once(" (")?;
    let field: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |n: usize| field.get(n)?.parse::<u64>().ok();
    Some(Stat {
        pid: pid.parse().ok()?,
        comm: comm.to_owned(),
        state: field.first()?.chars().next()?,
        parent: number(1)? as u32,
        group: number(2)? as u32,
        session: number(3)? as u32,
        tty: field.get(4)?.parse().ok()?,
        start: number(19)?,
    })
}

/// The name of a process.
pub fn comm(pid: u32) -> Option<String> {
    stat(pid).map(|s| s.comm)
}

/// The start of a process, in clock ticks since boot.
pub fn start_time(pid: u32) -> Option<u64> {
    stat(pid).map(|s| s.start)
}

/// The children of a process, those of all its threads.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Every process number that `/proc` shows.
pub fn all() -> Vec<u32> {
    let Ok(dir) = std::fs::read_dir("/proc") else { return Vec::new() };
    dir.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The numbers of a process in its pid namespaces, from ours inwards.
pub(crate) fn numbers(pid: u32) -> Vec<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map_or_else(Vec::new, |line| line.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect())
}

/// The inode of a process's pid namespace, where we may look.
pub(crate) fn space(pid: u32) -> Option<u64> {
    rustix::fs::stat(format!("/proc/{pid}/ns/pid")).ok().map(|s| s.st_ino)
}

/// One incarnation of a process, held by a pidfd: its number may be given away, this handle is not.
#[derive(Debug)]
pub struct PinnedProcess {
    /// The number, for display.
    pub pid: u32,
    /// The start, in clock ticks since boot.
    pub start: u64,
    /// The name it had when it was pinned.
    pub comm: String,
    fd: OwnedFd,
}

impl PinnedProcess {
    /// Pins the process that has this number now, if it lives and `is_it` agrees with what `/proc` says of it.
    ///
    /// The pidfd is opened first and asked last: as long as it says "alive", the number was not given to
    /// another process, so what was read in between belongs to the process that is held.
    pub fn open(pid: u32, is_it: impl Fn(&Stat) -> bool) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        let found = stat(pid).filter(|found| !found.is_dead() && is_it(found))?;
        let pinned = Self { pid, start: found.start, comm: found.comm, fd };
        pinned.is_alive().then_some(pinned)
    }

    /// Whether it still runs; a zombie does not.
    pub fn is_alive(&self) -> bool {
        !ended(self.fd.as_fd(), Duration::ZERO)
    }

    /// Waits until it has ended (zombie or reaped); false at the deadline.
    #[must_use]
    pub fn wait_gone(&self, limit: Duration) -> bool {
        ended(self.fd.as_fd(), limit)
    }

    /// Sends a signal to exactly this incarnation; `ESRCH` when it is gone.
    pub fn kill(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.fd, signal)?)
    }

    /// Stops it until the guard is dropped, also by a panic: what is stopped would outlive the test.
    pub fn stop(&self) -> io::Result<Stopped<'_>> {
        self.kill(Signal::STOP)?;
        Ok(Stopped(self))
    }

    /// What `/proc` says of it now, if it is still there.
    pub fn stat(&self) -> Option<Stat> {
        stat(self.pid).filter(|s| s.start == self.start)
    }
}

/// A process that is stopped: see [`PinnedProcess::stop`].
#[derive(Debug)]
pub struct Stopped<'a>(&'a PinnedProcess);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // It may have been killed meanwhile.
        let _ = self.0.kill(Signal::CONT);
    }
}

/// Sends a signal through the pidfd: see [`PinnedProcess::kill`].
pub fn kill(process: &PinnedProcess, signal: Signal) -> io::Result<()> {
    process.kill(signal)
}

fn ended(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    readable(fd, Instant::now() + limit)
}

/// Waits until a descriptor has something to say (data, end, an ended process); false at the deadline.
pub(crate) fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    any_readable(&[fd], deadline)
}

/// The same for any of several.
pub(crate) fn any_readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> bool {
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut fds, Some(&limit)) {
            Ok(n) if n > 0 => return true,
            Ok(_) if left.is_zero() => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => panic!("poll failed: {e}"),
        }
    }
}
