//! The keeper that the warden has forked ahead.

use crate::keeper::{self, Ahead};
use killcord_model::boundary::Boundary;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::process::{self, Fork};
use killcord_sys::{child, signals, socket};
use std::io;

/// A keeper without a job. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Spare {
    keeper: u32,
    /// The only other end of its socket.
    socket: OwnedFd,
    /// Whether it knows the cgroup below which jobs have theirs.
    knows_cgroup: bool,
    /// Whether somebody has stopped it: the kernel says so once.
    pub(super) stopped: bool,
}

impl Spare {
    /// Forks one. `ahead` is told its end of the socket.
    pub(super) fn fork<'a>(ahead: impl FnOnce(OwnedFd) -> Ahead<'a>) -> io::Result<Self> {
        let (socket, theirs) = socket::pair()?;
        let ahead = ahead(theirs);
        match process::fork_alone()? {
            Fork::Parent(keeper) => {
                Ok(Self { keeper, socket, knows_cgroup: ahead.own.is_some(), stopped: false })
            }
            Fork::Child => keeper::become_spare(&ahead),
        }
    }

    /// Whether it can hold a job by this.
    pub(super) fn can_hold(&self, boundary: Boundary) -> bool {
        boundary != Boundary::Cgroup || self.knows_cgroup
    }

    /// Its number: our unreaped child.
    pub(super) fn keeper(&self) -> u32 {
        self.keeper
    }

    /// Hands it a job and says whose keeper it is now.
    ///
    /// # Errors
    /// Nobody has the job then, and the spare ends.
    pub(super) fn hand_over(self, job: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<u32> {
        socket::send(self.socket.as_fd(), job, fds)?;
        Ok(self.keeper)
    }

    /// Ends it, stopped or not: our unreaped child, which has no job.
    pub(super) fn end(&self) {
        // If it has ended by itself, that is what is wanted.
        let _ = child::signal(self.keeper, signals::SIGKILL);
    }
}
