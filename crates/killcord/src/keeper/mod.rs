//! The keeper: the guard of one job.
//!
//! It is the parent of the leader, a subreaper (so that whatever loses its parent comes to it and still
//! belongs to the job), the holder of the boundary, of the cord's far end, of the timeout and of the
//! ladder. It is a copy of the warden, forked for this job, and knows no other: a stuck job delays
//! nobody.

mod end;
mod spare;
mod start;
mod watch;

use crate::arm::Held;
use crate::claim::{Claim, Ready};
use crate::hooks;
use crate::numbers::now;
use killcord_model::id::{JobId, Member};
use killcord_model::job::{Event, Job};
use killcord_model::record;
use killcord_model::spec::{Request, Session};
use killcord_model::status::ExitStatus;
use killcord_model::verdict::Members;
use killcord_sys::leader::Leader;
use killcord_sys::limits::Limits;
use killcord_sys::namespace::{self, Through};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::pidfd::Pidfd;
use killcord_sys::proc::Stat;
use killcord_sys::process::{self, Title};
use killcord_sys::signals::{self, SignalFd};
use killcord_sys::tree::Tree;
use killcord_sys::{descriptors, socket};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use spare::{Ahead, become_spare, pack};
pub(crate) use start::{Handed, not_recorded};

/// How long a job's end waits for the removal of its temporary directory. The keeper goes on with the rest when it has
/// told of the end.
pub(crate) const CLEAR_WITHIN: Duration = Duration::from_secs(1);

/// By which signal the warden has a keeper end its job, and end it at once. From anybody else they mean nothing.
pub(crate) const END: i32 = signals::SIGTERM;
pub(crate) const END_NOW: i32 = signals::SIGQUIT;

/// What a keeper is made with: its copy of what the warden has.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) request: &'a Request,
    pub(crate) handed: &'a Handed,
    pub(crate) held: Held,
    pub(crate) limits: Limits,
    /// For the init of a namespace: the byte to wait for.
    pub(crate) go: Option<OwnedFd>,
    /// How the namespace was made.
    pub(crate) through: Through,
    /// User and group as they are outside: a new user namespace shows nobody until they are mapped.
    pub(crate) ids: (u32, u32),
    pub(crate) owner: Option<&'a OwnedFd>,
    pub(crate) alive: &'a OwnedFd,
    pub(crate) status: &'a OwnedFd,
    pub(crate) title: Option<Title>,
    pub(crate) claim: Option<&'a Claim>,
    pub(crate) ahead: Done,
}

/// What every keeper does and none needs its job for, as far as it is done. One that was forked ahead has the time for it.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Opened for the end of the job.
    tree: Option<Tree>,
    identity: Option<record::Process>,
    /// The audit session that we have entered.
    tag: Option<u32>,
    /// A temporary directory.
    ready: Option<Ready>,
}

/// What a keeper says to the warden, in one write that the kernel does not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// The init of the job's namespace has armed its death signal.
    Armed(JobId),
    /// The job is let go: its keeper's death is no reason to end it.
    Released(JobId),
    /// The job is over and everything of its boundary is removed; only the keeper's own exit is left.
    Done(JobId),
    /// The job has another owner than the warden's, or is on its way to one.
    HandedOver(JobId),
}

impl Status {
    pub(crate) const BYTES: usize = 17;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, job) = match self {
            Self::Armed(job) => (1, job),
            Self::Released(job) => (2, job),
            Self::Done(job) => (3, job),
            Self::HandedOver(job) => (4, job),
        };
        let mut bytes = [kind; Self::BYTES];
        bytes[1..].copy_from_slice(&job.0.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, job) = bytes.split_first()?;
        let job = JobId(u128::from_be_bytes(job.try_into().ok()?));
        match kind {
            1 => Some(Self::Armed(job)),
            2 => Some(Self::Released(job)),
            3 => Some(Self::Done(job)),
            4 => Some(Self::HandedOver(job)),
            _ => None,
        }
    }
}

/// Processes for a report: the first `named` by name, all by count.
pub(crate) fn members_of(stats: &[Stat], named: usize) -> Members {
    let describe =
        |s: &Stat| Member { pid: s.pid, start: s.start, command: s.command(), state: char::from(s.state) };
    Members { count: stats.len() as u32, named: stats.iter().take(named).map(describe).collect() }
}

/// The keeper of one job.
#[derive(Debug)]
pub(crate) struct Keeper<'a> {
    request: &'a Request,
    job: Job,
    held: Held,
    limits: Limits,
    /// The cord, until it is closed at the other end.
    cord: Option<OwnedFd>,
    owner: Option<OwnedFd>,
    /// The pipe that ends with the warden, until it has.
    alive: Option<OwnedFd>,
    status: OwnedFd,
    signals: SignalFd,
    /// The walker over our descendants, where `/proc` can be read.
    tree: Option<Tree>,
    start: start::Start,
    /// Where the job is written down.
    claim: Option<&'a Claim>,
    record: Option<record::Job>,
    /// Our number and start where the warden is; inside a namespace we have another number.
    identity: Option<record::Process>,
    /// The audit session that we and the job are in.
    tag: Option<u32>,
    /// One that was made ahead, as long as it is nobody's.
    ready: Option<Ready>,
    /// The job's own temporary directory, once there is one, and a hold on it until the end is told.
    temporary: Option<(PathBuf, Option<OwnedFd>)>,
    /// What the leader was lent until its exec, to be taken back when there is time.
    executed: Option<Leader>,
    /// The leader, while its number is ours to use.
    leader: Option<u32>,
    /// On boundary `group`, whose members are not our children: one that lived at the last look. Its end is
    /// the reason for the next.
    member: Option<Pidfd>,
    /// Whether the last round of reaping ended before the dead did: no signal tells of them again.
    unreaped: bool,
    seen: end::Seen,
    /// The leader's end, while the owner has not been told.
    exited: Option<ExitStatus>,
}

/// Becomes the keeper in a process that was just forked for it. Never returns.
///
/// The exit status tells the warden whether the job is over (0) or the keeper failed.
pub(crate) fn become_keeper(setup: Setup<'_>) -> ! {
    hooks::point("keeper.begins");
    let under_init = matches!(setup.held, Held::Namespace);
    let code = match prepare(setup, under_init).and_then(Keeper::guard) {
        Ok(()) => 0,
        // The cord's end without a last report tells the owner; the status tells the warden.
        Err(_) => 1,
    };
    process::exit_now(code)
}

fn prepare(setup: Setup<'_>, under_init: bool) -> io::Result<Keeper<'_>> {
    if let Some(title) = setup.title {
        title.set("killcord-keeper");
    }
    process::set_name(c"killcord-keeper")?;
    if under_init {
        // From here on the warden's death is ours, and with us the kernel ends the namespace.
        process::set_parent_death_signal(signals::SIGKILL)?;
    }
    // The job's descriptors are copied and the originals closed with the rest, so that the copies can be
    // given up when the program has them: who reads its output must see when the job closes it.
    let cord = setup.handed.cord.try_clone()?;
    let start = start::Start::new(setup.handed)?;
    let mut keep: Vec<_> = setup.held.descriptors().iter().map(descriptors::number).collect();
    keep.extend(start.descriptors().map(|fd| descriptors::number(&fd)));
    keep.push(descriptors::number(&cord));
    keep.extend(setup.limits.descriptors().map(|fd| descriptors::number(&fd)));
    keep.extend([setup.alive, setup.status].map(descriptors::number));
    keep.extend(setup.owner.iter().map(|fd| descriptors::number(*fd)));
    keep.extend(setup.go.iter().map(descriptors::number));
    keep.extend(setup.claim.iter().flat_map(|c| c.descriptors()).map(|fd| descriptors::number(&fd)));
    keep.extend(setup.ahead.ready.iter().filter_map(Ready::descriptor).map(|fd| descriptors::number(&fd)));
    keep.extend(setup.ahead.tree.iter().map(descriptors::number));
    descriptors::close_all_but(&mut keep)?;
    let mut notes = Vec::new();
    // Before a namespace has a `/proc` of its own.
    let identity = setup.ahead.identity.or_else(identity);
    if setup.claim.is_none() {
        notes.push("not written down: a sweep would not find what is left of it".to_owned());
    }
    match setup.held {
        Held::Namespace => prepare_namespace(&setup, &mut notes)?,
        Held::Tree | Held::Cgroup { .. } => process::become_subreaper()?,
        Held::Group => {}
    }
    hooks::point("keeper.holds");
    let signals = SignalFd::new(&signals::Set::of(&[signals::SIGCHLD, END, END_NOW]))?;
    process::set_dumpable(false)?;
    let job = Job::new(setup.request.policy);
    Ok(Keeper {
        job: if shares_session(setup.request) { job.on_owners_terminal() } else { job },
        request: setup.request,
        held: setup.held,
        limits: setup.limits,
        cord: Some(cord),
        owner: setup.owner.map(OwnedFd::try_clone).transpose()?,
        alive: Some(setup.alive.try_clone()?),
        status: setup.status.try_clone()?,
        signals,
        tree: setup.ahead.tree,
        start,
        claim: setup.claim,
        record: None,
        identity,
        tag: setup.ahead.tag,
        ready: setup.ahead.ready,
        temporary: None,
        executed: None,
        leader: None,
        member: None,
        unreaped: false,
        seen: end::Seen::with_notes(notes),
        exited: None,
    })
}

/// Our number and start.
fn identity() -> Option<record::Process> {
    process::own_start().ok().map(|(pid, start)| record::Process { pid, start })
}

/// Puts ourselves, and with us all that is going to be of the job, into an audit session of its own, where
/// nobody has one yet.
fn enter_session() -> Option<u32> {
    // Our own files in /proc must be ours for a moment.
    process::set_dumpable(true).ok()?;
    let tag = killcord_sys::audit::enter_session().ok();
    process::set_dumpable(false).ok()?;
    tag
}

/// Maps the user, waits until the warden knows that the death signal is armed, and mounts `/proc`.
fn prepare_namespace(setup: &Setup<'_>, notes: &mut Vec<String>) -> io::Result<()> {
    if setup.through == Through::UserNamespace {
        let (uid, gid) = setup.ids;
        namespace::map_own_ids(uid, gid)?;
        notes.push("set-uid programs gain nothing, and other users show as nobody".to_owned());
    }
    hooks::point("keeper.is_init");
    socket::write(setup.status.as_fd(), &Status::Armed(setup.request.job).to_bytes())?;
    if let Some(go) = &setup.go
        && !socket::wait_for_byte(go)?
    {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    hooks::point("keeper.may_go");
    if let Err(e) = namespace::mount_proc() {
        notes.push(format!("/proc shows the outer process numbers: {e}"));
    }
    Ok(())
}

impl Keeper<'_> {
    /// Guards the job from its start to its end.
    fn guard(mut self) -> io::Result<()> {
        let mut events = std::collections::VecDeque::new();
        if let Err(refusal) = self.arm() {
            events.push_back(Event::NotStarted(refusal));
        }
        hooks::point("keeper.armed");
        // Whoever is gone by now is seen before anything is started.
        self.look_for_the_living(&mut events)?;
        hooks::point("keeper.looked");
        if !self.request.wait_for_go {
            events.push_back(Event::Armed);
        }
        loop {
            while let Some(event) = events.pop_front() {
                for effect in self.job.step(event, now()) {
                    self.carry_out(effect, &mut events)?;
                }
            }
            if self.job.is_over() {
                hooks::point("keeper.exits");
                // Not by return: what a destructor would close and free, the kernel does with our end.
                process::exit_now(0);
            }
            self.wait(&mut events)?;
        }
    }

    /// Whether the leader leads a session or group that nobody outside the job is in.
    fn leader_leads_its_group(&self) -> bool {
        !shares_session(self.request)
    }
}

/// Whether the job is in the owner's session: on its terminal.
fn shares_session(request: &Request) -> bool {
    matches!(request.spec.session, Session::Shared { .. })
}
