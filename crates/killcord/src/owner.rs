//! The owner: a process on whose behalf commands run, with a warden of its own.

use crate::claim::Claim;
use crate::command::Command;
use crate::error::{Error, Result, supported};
use crate::link::{self, Cord, Heard, Link, Streams, WARDEN_ENDS};
use crate::message;
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JobId;
use killcord_model::ladder::GRACE;
use killcord_model::spec::Request;
use killcord_model::verdict::Verdict;
use killcord_model::wire::{FromWarden, Stage};
use killcord_sys::os::AsFd;
use killcord_sys::os::OsStrExt;
use killcord_sys::{clock, os, poll};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a request waits for room on the socket.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Whether this executable can be executed again as a warden.
static DISPATCHES: AtomicBool = AtomicBool::new(false);

/// To be called first in `main`: turns this process into the warden when it was started as one, and does
/// not return then. Otherwise it returns at once, and from now on an [`Owner`] of this program executes
/// the program itself as its warden.
///
/// Nothing may come before it: no thread, no logging, no configuration. A program that does not call it
/// can still be an owner where `killcord` is installed.
pub fn init() {
    link::become_warden_if_called();
    DISPATCHES.store(true, Ordering::Relaxed);
}

/// A process with a warden of its own. Cloning it gives another handle on the same warden.
///
/// Dropping the last handle lets the warden go as soon as the owner's jobs are over; jobs live as long as
/// their own handles.
#[derive(Debug, Clone)]
pub struct Owner {
    shared: Arc<Shared>,
}

/// How an [`Owner`] starts its jobs.
#[derive(Debug, Clone)]
pub struct Builder {
    pub(crate) boundary: Choice,
    pub(crate) require: Option<Boundary>,
    pub(crate) grace: Duration,
    warden: Option<PathBuf>,
    state: Option<PathBuf>,
    uncontained: bool,
}

impl Default for Builder {
    fn default() -> Self {
        let (boundary, grace) = (Choice::Auto, GRACE);
        Self { boundary, require: None, grace, warden: None, state: None, uncontained: false }
    }
}

impl Builder {
    /// What holds the jobs; [`Choice::Auto`] by default.
    #[must_use]
    pub fn boundary(mut self, choice: Choice) -> Self {
        self.boundary = choice;
        self
    }

    /// Refuses to start a job with a boundary weaker than this.
    #[must_use]
    pub fn require(mut self, weakest: Boundary) -> Self {
        self.require = Some(weakest);
        self
    }

    /// The time between TERM and KILL when a job is ended; 5 s by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The program to execute as the warden: `killcord`, or one that calls [`init`] first in `main`.
    #[must_use]
    pub fn warden(mut self, program: impl Into<PathBuf>) -> Self {
        self.warden = Some(program.into());
        self
    }

    /// Where the owner has its claim: `KILLCORD_STATE_DIR`, else `killcord` in `XDG_RUNTIME_DIR` or `/run/user/UID`, else
    /// `killcord-UID` in the temporary directory. It must be this user's alone, and on a file system that only this
    /// machine uses.
    #[must_use]
    pub fn state_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state = Some(directory.into());
        self
    }

    /// Where no warden can be had, starts commands all the same, as plain child processes: nothing holds
    /// them, only the leader is ended with its handle, and everything outlives a killed owner. A timeout, and
    /// KILL for a leader that was asked and stays, come only while somebody waits for the job. Each such job
    /// says so: its boundary is [`Boundary::Uncontained`]. A requirement, an exact boundary, a limit, a terminal
    /// and attributes are refused then.
    #[must_use]
    pub fn allow_uncontained(mut self) -> Self {
        self.uncontained = true;
        self
    }

    /// Starts the warden.
    ///
    /// # Errors
    /// [`Error::NoWarden`] when there is none to be had, [`Error::State`] when the state directory is not this
    /// user's alone, [`Error::Unsupported`] on anything but Linux.
    pub fn build(self) -> Result<Owner> {
        supported()?;
        let mut claim = Claim::of_owner(self.state.as_deref(), None)?.ok();
        let link = self.warden_or_none(claim.as_ref())?;
        if link.is_none() {
            // Nobody is there to keep it; what it costs to leave it is a sweep's work.
            let _ = claim.take().map(|claim| claim.give_up());
        }
        let state = State { link, lost: BTreeMap::new() };
        Ok(Owner { shared: Arc::new(Shared { settings: self, claim, state: Mutex::new(state) }) })
    }

    /// `None` where there is no warden to be had and that is allowed.
    fn warden_or_none(&self, claim: Option<&Claim>) -> Result<Option<Link>> {
        match self.execute_warden(claim) {
            Err(_) if self.uncontained => Ok(None),
            executed => executed.map(Some),
        }
    }

    fn execute_warden(&self, claim: Option<&Claim>) -> Result<Link> {
        let program = self.find_warden()?;
        let path = CString::new(program.as_os_str().as_bytes())
            .map_err(|_| Error::NoWarden { why: "its path has a zero byte in it".to_owned() })?;
        Link::execute(&path, claim)
            .map_err(|e| Error::NoWarden { why: format!("{}: {e}", program.display()) })
    }

    /// The named program; this one, if it dispatches; `KILLCORD_BIN`; `killcord` in `PATH`.
    fn find_warden(&self) -> Result<PathBuf> {
        if let Some(program) = &self.warden {
            return Ok(program.clone());
        }
        if DISPATCHES.load(Ordering::Relaxed) {
            // The link holds this very executable, also when its file has been replaced.
            return Ok(PathBuf::from("/proc/self/exe"));
        }
        if let Some(program) = std::env::var_os("KILLCORD_BIN").filter(|p| !p.is_empty()) {
            return Ok(program.into());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|dir| dir.join("killcord"))
            .find(|file| os::is_executable(file))
            .ok_or_else(|| Error::NoWarden { why: "there is no `killcord` in PATH".to_owned() })
    }
}

impl Owner {
    /// An owner with the default settings. Its warden is started at once.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// For settings other than the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A command to be started as a job, like [`std::process::Command::new`]: with this process's
    /// environment and working directory, and null standard streams.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::new(Arc::clone(&self.shared), program.as_ref())
    }
}

/// What the jobs of an owner share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Builder,
    /// What we have on disk; `None` where nothing can be written.
    pub(crate) claim: Option<Claim>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The warden, until its end is noticed.
    link: Option<Link>,
    /// What the warden said of jobs whose keeper was killed. It is kept: who asked may have been cancelled.
    lost: BTreeMap<JobId, Verdict>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock has left nothing half done: each change of the
        // state is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a request to the warden. A warden that has died is replaced once; a request that was handed
    /// over is never handed over again.
    ///
    /// `None` where there is no warden to be had and the owner has allowed that.
    pub(crate) fn start(&self, request: &Request, streams: &Streams) -> Result<Option<Cord>> {
        let mut state = self.state();
        let known = state.link.take().filter(|link| !link.has_ended());
        let fresh = known.is_none();
        let claim = self.claim.as_ref();
        let link = if fresh { self.settings.warden_or_none(claim)? } else { known };
        let Some(mut link) = link else { return Ok(None) };
        let mut sent = Self::send(&link, request, streams);
        if !fresh && sent.as_ref().is_err_and(message::says_gone) {
            // Nobody has got it.
            let Some(another) = self.settings.warden_or_none(claim)? else { return Ok(None) };
            link = another;
            sent = Self::send(&link, request, streams);
        }
        state.link = Some(link);
        // Whatever the reason is, nobody has a request to act upon.
        sent.map(Some).map_err(|e| match e.kind() {
            _ if message::says_gone(&e) => {
                Error::NoWarden { why: format!("it was killed before the request: {e}") }
            }
            io::ErrorKind::WouldBlock => {
                Error::NoWarden { why: format!("it has read nothing for {ROOM_WITHIN:?}") }
            }
            _ => {
                let path = PathBuf::from(OsStr::from_bytes(&request.spec.program));
                Error::NotStarted { stage: Stage::Descriptors, path, source: e }
            }
        })
    }

    fn send(link: &Link, request: &Request, streams: &Streams) -> io::Result<Cord> {
        let until = clock::now() + ROOM_WITHIN;
        loop {
            match link.start(request, streams) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && clock::now() < until => {
                    let room = (Some(link.as_fd()), poll::Interest::Write);
                    poll::wait([room], Some(Duration::from_millis(50)))?;
                }
                other => return other,
            }
        }
    }

    /// The warden's verdict about a job whose keeper is gone; `None` when the warden is gone too.
    pub(crate) fn verdict_on_lost(&self, job: JobId) -> Option<Verdict> {
        let until = clock::now() + WARDEN_ENDS;
        loop {
            let wake = {
                let mut state = self.state();
                let gone = loop {
                    match state.link.as_ref().map(Link::hear) {
                        Some(Heard::Message(FromWarden::KeeperLost { job, verdict })) => {
                            state.lost.insert(job, verdict);
                        }
                        Some(Heard::Nothing) => break false,
                        Some(Heard::Closed) | None => break true,
                    }
                };
                if let Some(verdict) = state.lost.get(&job) {
                    return Some(verdict.clone());
                }
                if gone {
                    state.link = None;
                    return None;
                }
                state.link.as_ref()?.as_fd().try_clone_to_owned().ok()?
            };
            let left = until.checked_sub(clock::now())?;
            // Another thread may take the message for us: look again soon.
            let left = left.min(Duration::from_millis(20));
            poll::wait([(Some(wake.as_fd()), poll::Interest::Read)], Some(left)).ok()?;
        }
    }
}
