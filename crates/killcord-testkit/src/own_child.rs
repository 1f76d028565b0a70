//! A child of the test: signalled through its pidfd, ended and reaped when it is dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::procs::readable;

/// Dropping it kills the child (only it) and reaps it.
#[derive(Debug)]
pub(crate) struct OwnChild {
    pub(crate) child: Child,
    pidfd: OwnedFd,
}

impl OwnChild {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        // The child is ours and unreaped, so its number is its own.
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Self { child, pidfd })
    }

    /// Sends it a signal; one that has ended is left alone.
    pub(crate) fn kill(&self, signal: Signal) {
        // The only failure is that it is gone.
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// Waits for its own end; `None` at the deadline.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        readable(self.pidfd.as_fd(), Instant::now() + limit).then(|| self.reap())
    }

    /// Waits for its own end without a limit.
    pub(crate) fn reap(&mut self) -> ExitStatus {
        self.child.wait().unwrap_or_else(|e| panic!("cannot reap a child: {e}"))
    }
}

impl AsFd for OwnChild {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        self.kill(Signal::KILL);
        // Reaping cannot fail for a child that nobody else reaps, and there is nothing to be done about it.
        let _ = self.child.wait();
    }
}
