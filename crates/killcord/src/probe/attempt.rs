//! One boundary, tried by real jobs.

use super::{Found, Limit, LimitFound, Mechanisms, Through, Witness};
use crate::error::Error;
use crate::link::{Cord as Job, Heard, Link as Owner, Streams};
use crate::numbers::new_job;
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JobId;
use killcord_model::ladder::Ladder;
use killcord_model::spec::{Bytes, Leftovers, Limits, Policy, Request, Spec};
use killcord_model::verdict::{End, Verdict};
use killcord_model::wire::{FromWarden, Order, Refusal, Report};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::{clock, descriptors, socket};
use std::io;
use std::time::Duration;

/// How long one job may take, from its start to its verdict. It takes some milliseconds.
const WITHIN: Duration = Duration::from_secs(2);
/// How long the warden has to finish when its jobs are over.
const WARDEN_HAS: Duration = Duration::from_secs(1);
/// How many processes a witness is.
const WITNESSES: usize = 2;

/// What a limit is tried with: small enough to be allowed below the limits of most containers, and large
/// enough for the witness.
fn small(limit: Limit) -> Limits {
    let none = Limits::default();
    match limit {
        Limit::Memory => Limits { memory: Some(64 << 20), ..none },
        Limit::Pids => Limits { pids: Some(16), ..none },
        Limit::Cpu => Limits { cpu: Some(500), ..none },
    }
}

/// Tries a boundary, and the limits on it.
pub(super) fn boundary(kind: Boundary, witness: &Witness, has: &Mechanisms) -> Result<Found, Error> {
    let mut found = Found {
        kind,
        starts: false,
        available: false,
        why_not: None,
        through: None,
        ends_escapees: kind.ends_escapees(),
        evidence: None,
        end_ms: None,
        notes: Vec::new(),
        limits: Vec::new(),
        when_killed: kind.into(),
    };
    let owner = Owner::fork(false).map_err(Error::io("fork the warden"))?;
    let held = hold(&owner, kind, Limits::default(), witness);
    // A job that is not seen empty has taken its whole time, and no limit makes that better.
    if held.as_ref().is_ok_and(|held| matches!(held.end.verdict, Verdict::Empty(_))) {
        found.limits = Limit::ALL.map(|limit| limit_on(&owner, kind, limit, witness)).into();
    } else {
        let unknown = |limit| LimitFound { limit, enforced: false, why_not: None };
        found.limits = Limit::ALL.map(unknown).into();
    }
    // With the warden every keeper is gone, so that nobody but a witness holds the pipe any more.
    let closed = owner.close(WARDEN_HAS, || ());
    match held.and_then(|held| closed.map(|()| held).map_err(|e| format!("the warden: {e}"))) {
        Ok(held) => found.judge(held, has),
        Err(why) => found.why_not = Some(why),
    }
    Ok(found)
}

impl Found {
    /// Whether what was seen is what the boundary promises.
    fn judge(&mut self, held: Held, has: &Mechanisms) {
        let escapee_is_gone = matches!(socket::read_some(held.witnesses.as_fd(), &mut [0; 8]), Ok(Some([])));
        self.end_ms = Some(held.took.as_secs_f64() * 1000.0);
        self.notes = held.end.notes;
        self.starts = true;
        match held.end.verdict {
            Verdict::Empty(_) if self.ends_escapees && !escapee_is_gone => {
                self.why_not = Some("a process in a session of its own outlived it".to_owned());
            }
            Verdict::Empty(evidence) => {
                self.available = true;
                self.ends_escapees = escapee_is_gone;
                self.evidence = Some(evidence.describe().to_owned());
            }
            Verdict::Survivors(m) => self.why_not = Some(format!("{} processes outlived it", m.count)),
            Verdict::Unconfirmed(why) => self.why_not = Some(why),
            Verdict::Refused => self.why_not = Some("nothing was started".to_owned()),
        }
        if self.kind == Boundary::Namespace && self.available {
            let privilege = has.namespace_by_privilege;
            self.through = Some(if privilege { Through::Privilege } else { Through::UserNamespace });
        }
        // What is left of it, on boundary `group`, ends with its standard input.
        drop(held.lifeline);
    }
}

fn limit_on(owner: &Owner, kind: Boundary, limit: Limit, witness: &Witness) -> LimitFound {
    let why_not = hold(owner, kind, small(limit), witness).err();
    LimitFound { limit, enforced: why_not.is_none(), why_not }
}

/// A job that was held and ended.
struct Held {
    end: End,
    took: Duration,
    /// The read end of the pipe that the witnesses hold.
    witnesses: OwnedFd,
    /// The write end of their standard input.
    lifeline: OwnedFd,
}

/// A job on its way.
struct Trial<'a> {
    owner: &'a Owner,
    job: Job,
    witnesses: OwnedFd,
    seen: usize,
    refusal: Option<Refusal>,
    ordered: Option<Duration>,
    /// Whether the cord has ended without a last report.
    cut: bool,
}

/// Starts a job, kills it when both witnesses are there, and waits for the verdict.
fn hold(owner: &Owner, kind: Boundary, limits: Limits, witness: &Witness) -> Result<Held, String> {
    let prepared = || -> io::Result<_> {
        let (stdin, lifeline) = socket::pipe()?;
        let (witnesses, stdout) = socket::pipe_nonblocking()?;
        let directory = OwnedFd::from(std::fs::File::open("/")?);
        let streams = Streams { directory, standard: [stdin, stdout, descriptors::null()?], extra: vec![] };
        Ok((new_job()?, streams, witnesses, lifeline))
    };
    let (job, streams, witnesses, lifeline) = prepared().map_err(|e| e.to_string())?;
    let job = owner.start(&request(job, kind, limits, witness), &streams).map_err(|e| e.to_string())?;
    drop(streams);
    let mut trial = Trial { owner, job, witnesses, seen: 0, refusal: None, ordered: None, cut: false };
    let end = trial.follow(kind)?;
    let took = clock::now().saturating_sub(trial.ordered.unwrap_or_default());
    Ok(Held { end, took, witnesses: trial.witnesses, lifeline })
}

fn request(job: JobId, kind: Boundary, limits: Limits, witness: &Witness) -> Request {
    let argv = [&witness.program].into_iter().chain(&witness.args).map(|a| Bytes(a.clone())).collect();
    let path = std::env::var_os("PATH").map(|path| {
        use killcord_sys::os::OsStrExt;
        Bytes([b"PATH=", path.as_bytes()].concat())
    });
    Request {
        job,
        spec: Spec::new(witness.program.clone(), argv, path.into_iter().collect()),
        policy: Policy { timeout: Some(WITHIN), grace: Duration::ZERO, leftovers: Leftovers::End },
        limits,
        boundary: Choice::Exactly(kind),
        require: None,
        wait_for_go: false,
    }
}

impl Trial<'_> {
    fn follow(&mut self, kind: Boundary) -> Result<End, String> {
        // The job's own timeout comes first; this is for a warden or keeper that says nothing.
        let until = clock::now() + 2 * WITHIN;
        loop {
            let left = until.checked_sub(clock::now()).ok_or("no answer in time")?;
            let pipe = (self.seen < WITNESSES).then(|| self.witnesses.as_fd());
            let cord = (!self.cut).then(|| self.job.as_fd());
            let [cord, control, pipe] = poll::wait(
                [(cord, Interest::Read), (Some(self.owner.as_fd()), Interest::Read), (pipe, Interest::Read)],
                Some(left),
            )
            .map_err(|e| e.to_string())?;
            if pipe {
                self.hear_witnesses();
            }
            if cord && let Some(end) = self.hear_keeper() {
                return match self.refusal.take() {
                    Some(refusal) => Err(explain(&refusal, kind)),
                    None if self.ordered.is_none() => Err("its witness did not appear".to_owned()),
                    None => Ok(*end),
                };
            }
            if self.cut
                && let Some(refusal) = self.refusal.take()
            {
                return Err(explain(&refusal, kind));
            }
            if control {
                return Err(match self.owner.hear() {
                    Heard::Message(FromWarden::KeeperLost { .. }) => "its keeper ended".to_owned(),
                    Heard::Closed => "the warden ended".to_owned(),
                    Heard::Nothing => continue,
                });
            }
        }
    }

    fn hear_witnesses(&mut self) {
        let mut buffer = [0; WITNESSES];
        self.seen += match socket::read_some(self.witnesses.as_fd(), &mut buffer) {
            // The end, which the keeper reports as well, or an error: there is nothing more to come.
            Ok(Some([])) | Err(_) => return self.seen = usize::MAX,
            Ok(Some(bytes)) => bytes.len(),
            Ok(None) => 0,
        };
        if self.seen >= WITNESSES {
            self.ordered = Some(clock::now());
            // A keeper that is gone is heard of on the cord.
            let _ = self.job.order(&Order::End(Ladder::now()));
        }
    }

    fn hear_keeper(&mut self) -> Option<Box<End>> {
        match self.job.hear() {
            Heard::Message(Report::Ended(end)) => return Some(end),
            Heard::Message(Report::NotStarted(refusal)) => self.refusal = Some(refusal),
            Heard::Message(_) | Heard::Nothing => {}
            // There was no keeper, or it was lost: the warden says which.
            Heard::Closed => self.cut = true,
        }
        None
    }
}

/// Why a boundary or a limit could not be had.
fn explain(refusal: &Refusal, kind: Boundary) -> String {
    match refusal {
        Refusal::Boundary { tried, .. } => {
            let why = tried.iter().find(|(b, _)| *b == kind).map(|(_, why)| why.clone());
            why.unwrap_or_else(|| "it cannot be had".to_owned())
        }
        Refusal::Limit { why, .. } => why.clone(),
        Refusal::Failed { stage, errno, .. } => {
            format!("failed to {}: {}", stage.doing(), io::Error::from_raw_os_error(*errno))
        }
    }
}
