//! The owner's side of the sockets: the link to a warden, and the cords of jobs.

use crate::claim::{Claim, sweeper};
use crate::hooks;
use crate::keeper::Handed;
use crate::message::{self, Incoming};
use crate::warden;
use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::spec::Request;
use killcord_model::wire::{FromWarden, Order, Report, ToWarden, VERSION};
use killcord_sys::child::{self, Wait};
use killcord_sys::os::{AsFd, BorrowedFd, OsStrExt, OwnedFd, RawFd};
use killcord_sys::pidfd::{self, Pidfd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::process::{self, Fork};
use killcord_sys::{cgroup, clock, descriptors, signals, socket, spawn};
use std::ffi::{CStr, CString};
use std::io;
use std::time::Duration;

/// The environment variable by which an executable is called as a warden.
const CALL: &str = "KILLCORD_WARDEN";
/// Where an executed warden finds its end of the socket, and the owner's pidfd.
const CONTROL_AT: RawFd = 3;
const OWNER_AT: RawFd = 4;
/// And the owner's claim, whose path is in another variable.
const CLAIM_AT: RawFd = 5;
const CLAIM_PATH: &str = "KILLCORD_CLAIM";

/// What stands in the variable.
struct Call {
    version: u8,
    /// Whether there is a pidfd of the owner.
    owner: bool,
    /// Whether there is a claim.
    claim: bool,
    /// Whether it is to sweep.
    sweeps: bool,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flags = [self.owner, self.claim, self.sweeps].map(u8::from);
        write!(f, "{} {} {} {}", self.version, flags[0], flags[1], flags[2])
    }
}

impl Call {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let version = words.next()?.parse().ok()?;
        let mut flag = || words.next().map(|word| word == "1");
        Some(Self { version, owner: flag()?, claim: flag()?, sweeps: flag()? })
    }
}

/// Becomes the warden, and never returns, if this process was executed as one.
pub(crate) fn become_warden_if_called() {
    let Some(call) = std::env::var_os(CALL) else { return };
    let call = call.to_str().and_then(Call::parse).filter(|c| c.version == VERSION);
    // The call is another version's, or nobody's: the owner sees the socket's end.
    let Some(call) = call else { process::exit_now(1) };
    hooks::point("warden.executed");
    let control = descriptors::take_number(CONTROL_AT);
    let owner = if call.owner { descriptors::take_number(OWNER_AT).ok() } else { None };
    let Ok(control) = control else { process::exit_now(1) };
    let claim = if call.claim { descriptors::take_number(CLAIM_AT).ok() } else { None };
    let path = std::env::var_os(CLAIM_PATH).unwrap_or_default();
    // With a hold of our own. The owner sees the socket's end if there is none to be had.
    let Ok(claim) = claim.map(|dir| Claim::join(dir, path.into())).transpose() else { process::exit_now(1) };
    warden::become_warden(warden::Setup {
        control,
        owner,
        owner_pid: None,
        stay_in_session: false,
        claim,
        sweeps: call.sweeps,
        first: None,
    })
}

/// How long the warden has to end what a killed keeper left: the look, and room to say so.
pub(crate) const WARDEN_ENDS: Duration = Duration::from_millis(2500);

/// The descriptors that a job gets.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The working directory.
    pub(crate) directory: OwnedFd,
    /// 0, 1 and 2.
    pub(crate) standard: [OwnedFd; 3],
    /// Those for the numbers in `spec.extra_fds`, in that order.
    pub(crate) extra: Vec<OwnedFd>,
}

impl Streams {
    /// All of them, in the order in which they are sent.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.directory].into_iter().chain(&self.standard).chain(&self.extra).map(AsFd::as_fd)
    }

    /// Copies of all of them.
    pub(crate) fn copy(&self) -> io::Result<Self> {
        let [a, b, c] = &self.standard;
        Ok(Self {
            directory: self.directory.try_clone()?,
            standard: [a.try_clone()?, b.try_clone()?, c.try_clone()?],
            extra: self.extra.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?,
        })
    }
}

/// The link to a warden.
#[derive(Debug)]
pub(crate) struct Link {
    control: OwnedFd,
    /// Our own child, where it was forked; a warden that was executed is nobody's child here.
    warden: Option<u32>,
    /// Of one that was executed: its end. The socket alone does not say it while a keeper that it has just forked
    /// still holds the other side.
    process: Option<Pidfd>,
}

/// What was heard on a socket.
#[derive(Debug)]
pub(crate) enum Heard<T> {
    /// A message.
    Message(T),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Closed,
}

impl Link {
    /// Forks the warden off this process, which must have one thread, with a first job for it.
    ///
    /// `stay_in_session` is for jobs on the terminal that is already there. What becomes of the job is
    /// heard on its cord and from the warden.
    ///
    /// # Errors
    /// What the operating system said. Nothing ran.
    pub(crate) fn fork_with(
        stay_in_session: bool,
        request: Request,
        streams: Streams,
        claim: Option<&Claim>,
    ) -> io::Result<(Self, Cord)> {
        let (cord, far_end) = socket::pair()?;
        let job = Cord::new(request.job, cord);
        let first = Some((request, Handed { cord: far_end, streams }));
        Ok((Self::fork_warden(stay_in_session, claim, first)?, job))
    }

    /// Forks the warden off this process, which must have one thread.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn fork(stay_in_session: bool) -> io::Result<Self> {
        Self::fork_warden(stay_in_session, None, None)
    }

    fn fork_warden(
        stay_in_session: bool,
        claim: Option<&Claim>,
        first: Option<(Request, Handed)>,
    ) -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        let pid = process::own_pid();
        // Where there are no pidfds, the warden compares its parent's number.
        let owner = Pidfd::open(pid).ok().map(OwnedFd::from);
        match process::fork()? {
            Fork::Child => {
                hooks::point("warden.forked");
                let (control, owner_pid, sweeps) = (theirs, Some(pid), false);
                // Before the owner's hold is closed here with the rest.
                let Ok(claim) = claim.map(Claim::join_as_copy).transpose() else { process::exit_now(1) };
                warden::become_warden(warden::Setup {
                    control,
                    owner,
                    owner_pid,
                    stay_in_session,
                    claim,
                    sweeps,
                    first,
                })
            }
            Fork::Parent(warden) => Ok(Self { control: ours, warden: Some(warden), process: None }),
        }
    }

    /// Executes a warden: `program` must call [`crate::init`] first of all, as `killcord` itself does.
    ///
    /// The process is made without forking this one, and is not its child: neither a large memory, nor
    /// threads, nor a wait for children of its own make a difference.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn execute(program: &CStr, claim: Option<&Claim>) -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        let pid = process::own_pid();
        let owner = Pidfd::open(pid).ok().map(OwnedFd::from);
        let sweeps = sweeper::is_ours();
        let call = Call { version: VERSION, owner: owner.is_some(), claim: claim.is_some(), sweeps };
        let mut env = vec![CString::new(format!("{CALL}={call}"))?];
        let mut moves = vec![(theirs.as_fd(), CONTROL_AT)];
        moves.extend(owner.as_ref().map(|fd| (fd.as_fd(), OWNER_AT)));
        if let Some(claim) = claim {
            env.push(CString::new(
                [CLAIM_PATH.as_bytes(), b"=", claim.path.as_os_str().as_bytes()].concat(),
            )?);
            moves.push((claim.dir(), CLAIM_AT));
        }
        hooks::point("owner.executing");
        env.extend(hooks::environment());
        let process = spawn::detached(program, &[c"killcord-warden".to_owned()], &env, &moves)?;
        hooks::point("owner.executed");
        Ok(Self { control: ours, warden: None, process })
    }

    /// Whether an executed warden is known to have ended. One that is not known to be may have as well.
    pub(crate) fn has_ended(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.wait_ended(Some(Duration::ZERO)).unwrap_or(false))
    }

    /// The number of a forked warden: our child, for display and for telling it from others.
    pub(crate) fn warden(&self) -> Option<u32> {
        self.warden
    }

    /// Asks for a job. What becomes of it is heard on its cord and from the warden.
    ///
    /// # Errors
    /// Nothing ran then: `EPIPE` when the warden is gone, `EAGAIN` when it has not read what came before.
    pub(crate) fn start(&self, request: &Request, streams: &Streams) -> io::Result<Cord> {
        let id = request.job;
        let (cord, far_end) = socket::pair()?;
        let fds: Vec<_> = [far_end.as_fd()].into_iter().chain(streams.descriptors()).collect();
        let message = ToWarden::Start(Box::new(request.clone()));
        hooks::point("owner.asks");
        message::send_request(self.control.as_fd(), &message, &fds)?;
        hooks::point("owner.asked");
        Ok(Cord::new(id, cord))
    }

    /// Takes what the warden says, without waiting.
    pub(crate) fn hear(&self) -> Heard<FromWarden> {
        match message::receive(self.control.as_fd()) {
            Ok(Incoming::Message(said, _)) => Heard::Message(said),
            Ok(Incoming::Nothing) => Heard::Nothing,
            // A warden that cannot be understood is as good as none.
            Ok(Incoming::Closed) | Err(_) => Heard::Closed,
        }
    }

    /// Lets the warden go and waits until it is gone, for as long as `within`; then it is killed. Only
    /// for an owner whose jobs are over. `meanwhile` is done when the warden has said that all but its exit is done, or
    /// says nothing.
    pub(crate) fn close(self, within: Duration, meanwhile: impl FnOnce()) -> io::Result<()> {
        let until = clock::now() + within;
        let told = socket::send_no_more(self.control.as_fd());
        hooks::point("owner.lets_warden_go");
        let Some(warden) = self.warden else { return Ok(()) };
        let mut left = Some(within).filter(|_| told.is_ok());
        while let Some(time) = left {
            // What it may still say of a job, nobody asks any more.
            if matches!(self.hear(), Heard::Closed) {
                break;
            }
            poll::wait([(Some(self.control.as_fd()), Interest::Read)], Some(time))?;
            left = until.checked_sub(clock::now());
        }
        drop(self.control);
        meanwhile();
        let handle = Pidfd::open(warden);
        if let Ok(handle) = handle
            && !handle.wait_ended(Some(until.saturating_sub(clock::now())))?
        {
            // Our own unreaped child.
            let _ = child::signal(warden, signals::SIGKILL);
        }
        match child::wait_for(warden)? {
            Wait::Child(..) | Wait::Nothing | Wait::NoChildren => Ok(()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// What the owner has in its hands of a job, beside the cord: enough to end it when its guards are killed.
#[derive(Debug)]
pub(crate) struct Grip {
    /// The job.
    pub(crate) id: JobId,
    /// What holds it, once that is known.
    pub(crate) boundary: Option<Boundary>,
    /// What the keeper said about the boundary on this machine.
    pub(crate) notes: Vec<String>,
    /// The leaf's `cgroup.kill`.
    kill: Option<OwnedFd>,
    /// The leader's pidfd.
    leader: Option<OwnedFd>,
    /// The keeper's pidfd, where it is the init of the job's namespace: it ends only with all the others.
    init: Option<OwnedFd>,
}

impl Grip {
    /// Another grip on the same job. What cannot be copied for lack of descriptors is left out.
    pub(crate) fn copy(&self) -> Self {
        let copy = |fd: &Option<OwnedFd>| fd.as_ref().and_then(|fd| fd.try_clone().ok());
        Self {
            id: self.id,
            boundary: self.boundary,
            notes: self.notes.clone(),
            kill: copy(&self.kill),
            leader: copy(&self.leader),
            init: copy(&self.init),
        }
    }

    /// Ends the job's cgroup directly. Nothing happens on boundaries without a cgroup.
    pub(crate) fn kill_cgroup(&self) -> io::Result<()> {
        self.kill.as_ref().map_or(Ok(()), |fd| cgroup::kill_through(fd.as_fd()))
    }

    /// Kills the leader through its pidfd and waits until it has ended, for as long as `within`.
    pub(crate) fn kill_leader(&self, within: Duration) -> io::Result<bool> {
        let Some(leader) = &self.leader else { return Ok(true) };
        // If it is gone already, that is what is wanted.
        let _ = pidfd::signal_through(leader.as_fd(), signals::SIGKILL);
        pidfd::wait_ended(leader.as_fd(), Some(within))
    }

    /// Waits until the init of the job's namespace has ended, for as long as `within`; `None` where there is
    /// none, or no handle on it.
    pub(crate) fn init_ended(&self, within: Duration) -> Option<bool> {
        let init = self.init.as_ref()?;
        pidfd::wait_ended(init.as_fd(), Some(within)).ok()
    }

    /// The leader's number in our own pid namespace, for display.
    pub(crate) fn leader(&self) -> Option<u32> {
        self.leader.as_ref().and_then(|fd| pidfd::number(fd.as_fd()))
    }
}

/// A job on its cord. Dropping it closes the cord, which is the order to end.
#[derive(Debug)]
pub(crate) struct Cord {
    socket: OwnedFd,
    /// What else the owner has of the job.
    pub(crate) grip: Grip,
    /// Something came that could not be read.
    garbled: bool,
}

impl Cord {
    fn new(id: JobId, socket: OwnedFd) -> Self {
        let grip = Grip { id, boundary: None, notes: Vec::new(), kill: None, leader: None, init: None };
        Self { socket, grip, garbled: false }
    }

    /// A cord that came from another process. Its first order must be to adopt it.
    pub(crate) fn adopted(id: JobId, socket: OwnedFd) -> Self {
        Self::new(id, socket)
    }

    /// Makes this process the owner.
    pub(crate) fn adopt(&self, me: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let fds: Vec<BorrowedFd<'_>> = me.into_iter().collect();
        message::send(self.socket.as_fd(), &Order::Adopt, &fds)
    }

    /// The cord itself.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.socket
    }

    /// Takes the next report, without waiting. The last one is [`Report::Ended`].
    pub(crate) fn hear(&mut self) -> Heard<Report> {
        match message::receive::<Report>(self.socket.as_fd()) {
            Ok(Incoming::Message(report, fds)) => {
                self.take_note(&report, fds);
                Heard::Message(report)
            }
            Ok(Incoming::Nothing) => Heard::Nothing,
            Ok(Incoming::Closed) => Heard::Closed,
            // A keeper of another version, say. That it speaks at all means that there is one.
            Err(_) => {
                self.garbled = true;
                Heard::Closed
            }
        }
    }

    /// Whether a keeper may have started something: one that has armed a boundary may, and so may one that
    /// could not be understood.
    pub(crate) fn may_have_run(&self) -> bool {
        self.garbled || self.grip.boundary.is_some()
    }

    fn take_note(&mut self, report: &Report, fds: Vec<OwnedFd>) {
        let fd = fds.into_iter().next();
        match report {
            Report::Armed { boundary, notes } => {
                self.grip.boundary = Some(*boundary);
                self.grip.notes.clone_from(notes);
                let namespace = *boundary == Boundary::Namespace;
                (self.grip.kill, self.grip.init) = if namespace { (None, fd) } else { (fd, None) };
            }
            Report::Started { .. } => self.grip.leader = fd,
            _ => {}
        }
        hooks::point(match report {
            Report::Armed { .. } => "owner.armed",
            Report::Started { .. } => "owner.started",
            Report::Exited(_) => "owner.exited",
            Report::NotStarted(_) => "owner.refused",
            Report::Ended(_) => "owner.ended",
            Report::Stopped { .. } | Report::Continued => return,
        });
    }

    /// Gives an order.
    ///
    /// # Errors
    /// `EPIPE` when the keeper is gone.
    pub(crate) fn order(&self, order: &Order) -> io::Result<()> {
        hooks::point("owner.orders");
        message::send(self.socket.as_fd(), order, &[])
    }
}

impl AsFd for Cord {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
