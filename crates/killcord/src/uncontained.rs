//! A plain child process, where no warden can be had and the owner has allowed that.

use crate::error::{Error, Result};
use crate::link::Streams;
use crate::numbers::{now, of_signal};
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::{JOB_VARIABLE, JobId};
use killcord_model::ladder::{Ladder, Signal};
use killcord_model::spec::{Bytes, OOM_SCORE_ADJ, Request, Session};
use killcord_model::status::ExitStatus;
use killcord_model::time::Time;
use killcord_model::verdict::{Cause, End, Verdict};
use killcord_model::wire::Stage;
use killcord_sys::child::{self, Change};
use killcord_sys::descriptors;
use killcord_sys::os::OsStrExt;
use killcord_sys::os::{AsFd, BorrowedFd};
use killcord_sys::pidfd::Pidfd;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The leader alone: nothing holds what it starts.
#[derive(Debug)]
pub(crate) struct Child {
    id: JobId,
    process: process::Child,
    handle: Pidfd,
    started: Time,
    grace: Duration,
    ending: Mutex<Ending>,
}

/// How far its end is. There is no keeper that climbs the ladder: whoever waits does.
#[derive(Debug, Clone, Copy)]
enum Ending {
    NotAsked { until: Option<Time> },
    Asked { cause: Cause, kill_at: Time },
    Killed { cause: Cause },
}

impl Child {
    /// Starts the program, in a process group of its own. What only a keeper can do is refused.
    pub(crate) fn start(request: &Request, streams: Streams) -> Result<Self> {
        let spec = &request.spec;
        let text = |b: &Bytes| OsStr::from_bytes(&b.0).to_owned();
        let exactly = match request.boundary {
            Choice::Exactly(boundary) => Some(boundary),
            Choice::Auto => None,
        };
        if let Some(wanted) = request.require.or(exactly) {
            let why = "there is no warden".to_owned();
            return Err(Error::Weaker { wanted, tried: vec![(Boundary::Uncontained, why)] });
        }
        let wants_more = !request.limits.is_empty()
            || !spec.rlimits.is_empty()
            || !spec.extra_fds.is_empty()
            || spec.session != Session::Own
            || spec.umask.is_some()
            || spec.nice.is_some()
            || spec.oom_score_adj != OOM_SCORE_ADJ;
        if wants_more {
            let why = "limits, terminals, descriptors and attributes need a warden".to_owned();
            return Err(Error::NoWarden { why });
        }
        let failed = |stage, source| Error::NotStarted {
            stage,
            path: PathBuf::from(text(&Bytes(spec.program.clone()))),
            source,
        };
        // Without pidfds it could not be held: seen before anything runs.
        Pidfd::open(process::id()).map_err(|e| failed(Stage::Leader, e))?;
        let directory = streams.directory;
        let [stdin, stdout, stderr] = streams.standard;
        let mut command = process::Command::new(OsStr::from_bytes(&spec.program));
        command.args(spec.argv.iter().skip(1).map(text)).env_clear();
        killcord_sys::process::in_own_group(&mut command);
        command.stdin(Stdio::from(stdin)).stdout(stdout).stderr(stderr);
        for variable in &spec.env {
            let split = variable.0.iter().position(|b| *b == b'=').unwrap_or(variable.0.len());
            let (name, value) = variable.0.split_at(split);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value.get(1..).unwrap_or_default()));
        }
        command.env(JOB_VARIABLE, request.job.to_string());
        command.current_dir(descriptors::path(directory.as_fd()));
        let mut process = command.spawn().map_err(|e| failed(Stage::Exec, e))?;
        // Our unreaped child: the number is its own.
        let handle = Pidfd::open(process.id()).inspect_err(|_| {
            // No room for a descriptor: what cannot be held is not let go.
            let _ = process.kill();
            let _ = process.wait();
        });
        let handle = handle.map_err(Error::io("hold the program that was started"))?;
        let until = request.policy.timeout.map(|t| now().after(t));
        let (grace, ending) = (request.policy.grace, Mutex::new(Ending::NotAsked { until }));
        Ok(Self { id: request.job, process, handle, started: now(), grace, ending })
    }

    pub(crate) fn id(&self) -> JobId {
        self.id
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn ending(&self) -> MutexGuard<'_, Ending> {
        // Each change of it is one assignment.
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When there is something to do for whoever waits: see [`Child::climb`].
    pub(crate) fn until(&self) -> Option<Time> {
        match *self.ending() {
            Ending::NotAsked { until } => until,
            Ending::Asked { kill_at, .. } => Some(kill_at),
            Ending::Killed { .. } => None,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.handle.signal(of_signal(signal))
    }

    /// The first rung of a ladder, or the last at once.
    pub(crate) fn end(&self, ladder: Ladder, cause: Cause) -> io::Result<()> {
        let mut ending = self.ending();
        let at = now().after(ladder.grace);
        let (cause, kill_at) = match *ending {
            Ending::NotAsked { .. } => (cause, at),
            Ending::Asked { cause, kill_at } => (cause, kill_at.min(at)),
            Ending::Killed { .. } => return Ok(()),
        };
        if ladder.grace.is_zero() {
            *ending = Ending::Killed { cause };
            return self.signal(Signal::Kill);
        }
        *ending = Ending::Asked { cause, kill_at };
        self.signal(ladder.ask)?;
        self.signal(Signal::Cont)
    }

    /// What is due by now: the end of a job whose time is up, KILL for one that was asked and stays.
    pub(crate) fn climb(&self) {
        if self.until().is_none_or(|t| now() < t) {
            return;
        }
        let asked = matches!(*self.ending(), Ending::Asked { .. });
        let ladder = if asked { Ladder::now() } else { Ladder::with_grace(self.grace) };
        // It has ended meanwhile if that fails.
        let _ = self.end(ladder, Cause::Timeout);
    }

    /// The end, if the leader has ended.
    pub(crate) fn try_end(&mut self) -> Option<End> {
        let status = match self.process.try_wait() {
            Ok(Some(status)) => match child::change_of(status) {
                Change::Killed(signal) => Some(ExitStatus::Signal(signal)),
                Change::Exited(code) => Some(ExitStatus::Code(code)),
                Change::Stopped(_) | Change::Continued => None,
            },
            Ok(None) => return None,
            // Somebody else has reaped it: how it ended is not known, that it has is.
            Err(_) => None,
        };
        let cause = match *self.ending() {
            Ending::NotAsked { .. } => Cause::LeaderExited,
            Ending::Asked { cause, .. } | Ending::Killed { cause } => cause,
        };
        let verdict = Verdict::Unconfirmed("uncontained: only the leader was watched".to_owned());
        Some(End {
            status,
            duration: now().since(self.started),
            members: 1,
            notes: vec!["uncontained: no warden could be had".to_owned()],
            ..End::unguarded(cause, Boundary::Uncontained, verdict)
        })
    }
}

impl Drop for Child {
    /// The leader ends with its handle; it is reaped so that no zombie is left in the host.
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.signal(Signal::Kill);
            let _ = self.process.wait();
        }
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
