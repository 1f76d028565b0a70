//! The owner's side: one warden, jobs on their cords.

use crate::keeper::Handed;
use crate::message::{self, Incoming};
use crate::warden;
use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::spec::Request;
use killcord_model::wire::{FromWarden, Order, Report, ToWarden};
use killcord_sys::child::{self, Wait};
use killcord_sys::pidfd::{self, Pidfd};
use killcord_sys::process::{self, Fork};
use killcord_sys::{cgroup, signals, socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What can go wrong on the owner's side. Nothing has run then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The warden could not be made.
    #[error("failed to fork the warden: {0}")]
    Warden(#[source] io::Error),
    /// The request could not be handed over.
    #[error("failed to hand {program:?} to the warden: {source}")]
    Request {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

/// The descriptors that a job gets.
#[derive(Debug)]
pub struct Streams {
    /// The working directory.
    pub directory: OwnedFd,
    /// 0, 1 and 2.
    pub standard: [OwnedFd; 3],
    /// Those for the numbers in `spec.extra_fds`, in that order.
    pub extra: Vec<OwnedFd>,
}

/// A process with a warden of its own.
#[derive(Debug)]
pub struct Owner {
    control: OwnedFd,
    warden: u32,
}

/// What was heard on a socket.
#[derive(Debug)]
pub enum Heard<T> {
    /// A message.
    Message(T),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Closed,
}

impl Owner {
    /// Forks the warden off this process, which must have one thread, with a first job for it.
    ///
    /// `stay_in_session` is for jobs on the terminal that is already there. What becomes of the job is
    /// heard on its cord and from the warden.
    ///
    /// # Errors
    /// [`Error::Warden`]: nothing ran.
    pub fn fork_with(
        stay_in_session: bool,
        request: Request,
        streams: Streams,
    ) -> Result<(Self, Job), Error> {
        let (cord, far_end) = socket::pair().map_err(Error::Warden)?;
        let job = Job::new(request.job, cord);
        let owner = Self::fork_warden(stay_in_session, Some((request, Handed::new(far_end, streams))))?;
        Ok((owner, job))
    }

    /// Forks the warden off this process, which must have one thread.
    ///
    /// # Errors
    /// [`Error::Warden`].
    pub fn fork(stay_in_session: bool) -> Result<Self, Error> {
        Self::fork_warden(stay_in_session, None)
    }

    fn fork_warden(stay_in_session: bool, first: Option<(Request, Handed)>) -> Result<Self, Error> {
        let (ours, theirs) = socket::pair().map_err(Error::Warden)?;
        let owner_pid = process::own_pid();
        // Where there are no pidfds, the warden compares its parent's number.
        let owner = Pidfd::open(owner_pid).ok().map(OwnedFd::from);
        match process::fork().map_err(Error::Warden)? {
            Fork::Child => {
                let control = theirs;
                warden::become_warden(warden::Setup { control, owner, owner_pid, stay_in_session, first })
            }
            Fork::Parent(warden) => Ok(Self { control: ours, warden }),
        }
    }

    /// The warden's number: our child, for display and for telling it from others.
    pub fn warden(&self) -> u32 {
        self.warden
    }

    /// Asks for a job. What becomes of it is heard on its cord and from the warden.
    ///
    /// # Errors
    /// [`Error::Request`]: nothing ran.
    pub fn start(&self, request: Request, streams: &Streams) -> Result<Job, Error> {
        let id = request.job;
        let program = String::from_utf8_lossy(&request.spec.program).into_owned();
        let failed = |source| Error::Request { program: program.clone(), source };
        let (cord, far_end) = socket::pair().map_err(failed)?;
        let mut fds = vec![far_end.as_fd(), streams.directory.as_fd()];
        fds.extend(streams.standard.iter().chain(&streams.extra).map(AsFd::as_fd));
        message::send_request(self.control.as_fd(), &ToWarden::Start(Box::new(request)), &fds)
            .map_err(failed)?;
        Ok(Job::new(id, cord))
    }

    /// Takes what the warden says, without waiting.
    pub fn hear(&self) -> Heard<FromWarden> {
        match message::receive(self.control.as_fd()) {
            Ok(Incoming::Message(said, _)) => Heard::Message(said),
            Ok(Incoming::Nothing) => Heard::Nothing,
            // A warden that cannot be understood is as good as none.
            Ok(Incoming::Closed) | Err(_) => Heard::Closed,
        }
    }

    /// Lets the warden go and waits until it is gone, for as long as `within`; then it is killed. Only
    /// for an owner whose jobs are over.
    pub fn close(self, within: Duration) -> io::Result<()> {
        let handle = Pidfd::open(self.warden);
        drop(self.control);
        if let Ok(handle) = handle
            && !handle.wait_ended(Some(within))?
        {
            // Our own unreaped child.
            let _ = child::signal(self.warden, signals::SIGKILL);
        }
        match child::wait_for(self.warden)? {
            Wait::Child(..) | Wait::Nothing | Wait::NoChildren => Ok(()),
        }
    }
}

impl AsFd for Owner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// A job on its cord. Dropping it closes the cord, which is the order to end.
#[derive(Debug)]
pub struct Job {
    id: JobId,
    cord: OwnedFd,
    /// The leaf's `cgroup.kill`, so that the job can be ended when warden and keeper are killed.
    kill: Option<OwnedFd>,
    leader: Option<OwnedFd>,
    boundary: Option<Boundary>,
    notes: Vec<String>,
}

impl Job {
    fn new(id: JobId, cord: OwnedFd) -> Self {
        Self { id, cord, kill: None, leader: None, boundary: None, notes: Vec::new() }
    }

    /// The job's name.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// What holds it, once that is known.
    pub fn boundary(&self) -> Option<Boundary> {
        self.boundary
    }

    /// What the keeper said about the boundary on this machine.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The leader's number in our own pid namespace, for display.
    pub fn leader(&self) -> Option<u32> {
        self.leader.as_ref().and_then(|fd| pidfd::number(fd.as_fd()))
    }

    /// Takes the next report, without waiting. The last one is [`Report::Ended`].
    pub fn hear(&mut self) -> Heard<Report> {
        match message::receive::<Report>(self.cord.as_fd()) {
            Ok(Incoming::Message(report, fds)) => {
                match &report {
                    Report::Armed { boundary, notes } => {
                        self.boundary = Some(*boundary);
                        self.notes.clone_from(notes);
                        self.kill = fds.into_iter().next();
                    }
                    Report::Started { .. } => self.leader = fds.into_iter().next(),
                    _ => {}
                }
                Heard::Message(report)
            }
            Ok(Incoming::Nothing) => Heard::Nothing,
            Ok(Incoming::Closed) | Err(_) => Heard::Closed,
        }
    }

    /// Gives an order.
    ///
    /// # Errors
    /// `EPIPE` when the keeper is gone.
    pub fn order(&self, order: &Order) -> io::Result<()> {
        message::send(self.cord.as_fd(), order, &[])
    }

    /// Ends the job's cgroup directly. For a job whose keeper is gone; nothing happens on boundaries
    /// without a cgroup.
    pub fn kill_cgroup(&self) -> io::Result<()> {
        self.kill.as_ref().map_or(Ok(()), |fd| cgroup::kill_through(fd.as_fd()))
    }
}

impl AsFd for Job {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cord.as_fd()
    }
}
