//! Ending jobs from outside their owner, through its warden.

use crate::claim::CONTROL;
use crate::error::{Error, Result};
use crate::list::{List, Owner, list};
use crate::message::{self, Incoming};
use crate::service;
use killcord_model::id::JobId;
use killcord_model::wire::{self, Answer, Call};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::{clock, files, socket};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So many digits of a job's id at least name it.
const SHORTEST: usize = 4;

/// How long a warden has to be there for callers that has just begun, and to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often it is called again while it is not there.
const AGAIN: Duration = Duration::from_millis(20);

/// What is to be stopped, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The claim of its owner.
    claim: PathBuf,
    /// One job of it; `None` for all that a service has.
    job: Option<JobId>,
    /// The name of the service, if it is one.
    service: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It is over.
    Over,
    /// It was let go before: killcord does not hold it any more.
    LetGo,
    /// It was not running.
    NotRunning,
}

/// Finds what a name or the beginning of an id means: a running service of that name, else one job.
///
/// # Errors
/// [`Error::NotRunning`] when there is none, [`Error::Ambiguous`] when there are several.
pub fn find(state: Option<&Path>, what: &str) -> Result<Target> {
    let list = list(state)?;
    let lives = |owner: &&Owner| owner.alive != Some(false) || !owner.jobs.is_empty();
    let service = list.owners.iter().filter(lives).find(|owner| owner.service.as_deref() == Some(what));
    if let Some(owner) = service {
        let service = Some(what.to_owned());
        return Ok(Target { claim: owner.claim.clone(), job: None, service });
    }
    let digits = what.len() >= SHORTEST && what.bytes().all(|b| b.is_ascii_hexdigit());
    let jobs = list.owners.iter().flat_map(|owner| owner.jobs.iter().map(move |job| (owner, job.id)));
    let named = |id: &JobId| digits && id.to_string().starts_with(&what.to_ascii_lowercase());
    let mut found = jobs.filter(|(_, id)| named(id));
    match (found.next(), found.next()) {
        (None, _) => Err(Error::NotRunning { what: what.to_owned(), before: before(&list, what) }),
        (Some((owner, id)), None) => {
            Ok(Target { claim: owner.claim.clone(), job: Some(id), service: owner.service.clone() })
        }
        (Some((_, one)), Some((_, other))) => {
            Err(Error::Ambiguous { what: what.to_owned(), two: [one, other] })
        }
    }
}

/// How a service of this name ended that is over.
fn before(list: &List, what: &str) -> Option<String> {
    let service = list.services.iter().find(|service| service.name == what)?;
    Some(service.exit.as_ref().map_or_else(|| "its owner was killed".to_owned(), |exit| exit.how.clone()))
}

/// Ends it by its ladder, or at once with `now`, and returns when it is over.
///
/// # Errors
/// [`Error::NoAnswer`] when its warden is not there for us: killed, stopped, or in another pid namespace's file
/// system.
pub fn stop(state: Option<&Path>, target: &Target, now: bool) -> Result<Stopped> {
    let Some(answers) = call(target, now)? else { return Ok(Stopped::NotRunning) };
    let stopped = hear(&answers, target)?;
    if let (Stopped::Over, Some(name)) = (stopped, &target.service) {
        // Its name is free when its owner has written down how it ended.
        if let Ok(place) = service::find(state, name) {
            service::wait_until_free(&place).map_err(Error::io("wait for the service's owner"))?;
        }
    }
    Ok(stopped)
}

/// Calls the warden; `None` when the claim is gone, and the jobs with it.
fn call(target: &Target, now: bool) -> Result<Option<OwnedFd>> {
    let failed = Error::io("call the warden");
    let (mine, theirs) = socket::pair().map_err(&failed)?;
    let text = wire::encode(&Call::Stop { job: target.job, now }).map_err(|e| failed(io::Error::other(e)))?;
    let until = clock::now() + ANSWER_WITHIN;
    loop {
        let claim = match files::open_directory(&target.claim) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            claim => claim.map_err(&failed)?,
        };
        match socket::call(claim.as_fd(), CONTROL, &text, &[theirs.as_fd()]) {
            Ok(()) => return Ok(Some(mine)),
            // It is there for callers only when its first job is on its way, and a new one takes the old one's place.
            Err(_) if clock::now() < until => std::thread::sleep(AGAIN),
            Err(source) => return Err(Error::NoAnswer { claim: target.claim.clone(), source }),
        }
    }
}

/// Waits until all is over that the warden says it ends.
fn hear(answers: &OwnedFd, target: &Target) -> Result<Stopped> {
    let failed = Error::io("hear the warden");
    let (mut ending, mut over, mut let_go) = (0u32, 0u32, false);
    let until = clock::now() + ANSWER_WITHIN;
    loop {
        // How long the ladder takes is the job's own business.
        let left = (ending == 0).then(|| until.saturating_sub(clock::now()));
        let [ready] = poll::wait([(Some(answers.as_fd()), Interest::Read)], left).map_err(&failed)?;
        if !ready && ending == 0 {
            let source = io::ErrorKind::TimedOut.into();
            return Err(Error::NoAnswer { claim: target.claim.clone(), source });
        }
        match message::receive::<Answer>(answers.as_fd()).map_err(&failed)? {
            Incoming::Message(Answer::Ending(_), _) => ending += 1,
            Incoming::Message(Answer::Over(_), _) => over += 1,
            Incoming::Message(Answer::LetGo(_), _) => let_go = true,
            Incoming::Message(Answer::NotRunning, _) if ending == 0 => return Ok(Stopped::NotRunning),
            Incoming::Message(Answer::NotRunning, _) | Incoming::Nothing => {}
            // A warden that is gone has ended its jobs, or its keepers do.
            Incoming::Closed => over = ending.max(1),
        }
        if over > 0 && over >= ending {
            return Ok(Stopped::Over);
        }
        if let_go && ending == 0 {
            return Ok(Stopped::LetGo);
        }
    }
}
