//! Ending jobs from outside their owner, through its warden.

use crate::claim::{CONTROL, JOBS};
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
/// Within which a warden that lives is there for callers.
const THERE_WITHIN: Duration = Duration::from_millis(500);

/// How often it is called again while it is not there.
const AGAIN: Duration = Duration::from_millis(20);

/// How often the claim is looked at while the warden says nothing: it tells not more than some callers of an end.
const LOOK: Duration = Duration::from_millis(500);

/// How long a job may take whose warden is gone: its keeper ends it by the short ladder.
const WITHOUT_WARDEN: Duration = Duration::from_secs(5);

/// What is to be stopped, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The claim of its owner.
    claim: PathBuf,
    /// One job of it; `None` for all that a service has.
    job: Option<JobId>,
    /// The name of the service, if it is one.
    service: Option<String>,
    /// Whether its owner is proven dead: then no other warden takes the place of one that is gone.
    orphaned: bool,
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
    let target = |owner: &Owner, job| Target {
        claim: owner.claim.clone(),
        job,
        service: owner.service.clone(),
        orphaned: owner.alive == Some(false),
    };
    if let Some(owner) = service {
        return Ok(target(owner, None));
    }
    let digits = what.len() >= SHORTEST && what.bytes().all(|b| b.is_ascii_hexdigit());
    let jobs = list.owners.iter().flat_map(|owner| owner.jobs.iter().map(move |job| (owner, job.id)));
    let named = |id: &JobId| digits && id.to_string().starts_with(&what.to_ascii_lowercase());
    let mut found = jobs.filter(|(_, id)| named(id));
    match (found.next(), found.next()) {
        (None, _) => Err(Error::NotRunning { what: what.to_owned(), before: before(&list, what) }),
        (Some((owner, id)), None) => Ok(target(owner, Some(id))),
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

/// Whether nobody is there for callers of a dead owner's claim: the warden was killed, also before it was ever there.
fn is_left_behind(e: &io::Error, late: bool) -> bool {
    e.kind() == io::ErrorKind::ConnectionRefused || (late && e.kind() == io::ErrorKind::NotFound)
}

/// Calls the warden; `None` when the claim is gone, and the jobs with it.
fn call(target: &Target, now: bool) -> Result<Option<OwnedFd>> {
    let failed = Error::io("call the warden");
    let (mine, theirs) = socket::pair().map_err(&failed)?;
    let text = wire::encode(&Call::Stop { job: target.job, now }).map_err(|e| failed(io::Error::other(e)))?;
    let (until, there_by) = (clock::now() + ANSWER_WITHIN, clock::now() + THERE_WITHIN);
    loop {
        let claim = match files::open_directory(&target.claim) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            claim => claim.map_err(&failed)?,
        };
        match socket::call(claim.as_fd(), CONTROL, &text, &[theirs.as_fd()]) {
            Ok(()) => return Ok(Some(mine)),
            Err(e) if target.orphaned && is_left_behind(&e, clock::now() >= there_by) => {
                return Err(Error::NoAnswer { claim: target.claim.clone(), source: left_behind() });
            }
            // It is there for callers only when its first job is on its way, and a new one takes the old one's place.
            Err(_) if clock::now() < until => std::thread::sleep(AGAIN),
            Err(source) => return Err(Error::NoAnswer { claim: target.claim.clone(), source }),
        }
    }
}

/// Waits until all is over that the warden says it ends.
fn hear(answers: &OwnedFd, target: &Target) -> Result<Stopped> {
    let failed = Error::io("hear the warden");
    let no_answer = |source| Error::NoAnswer { claim: target.claim.clone(), source };
    let (mut ending, mut over, mut let_go) = (0u32, 0u32, false);
    let until = clock::now() + ANSWER_WITHIN;
    loop {
        // How long the ladder takes is the job's own business.
        let left = if ending == 0 { until.saturating_sub(clock::now()) } else { LOOK };
        let [ready] = poll::wait([(Some(answers.as_fd()), Interest::Read)], Some(left)).map_err(&failed)?;
        if !ready && ending == 0 {
            return Err(no_answer(io::ErrorKind::TimedOut.into()));
        }
        if !ready && is_struck_out(target) {
            return Ok(Stopped::Over);
        }
        match message::receive::<Answer>(answers.as_fd()).map_err(&failed)? {
            Incoming::Message(Answer::Ending(_), _) => ending += 1,
            Incoming::Message(Answer::Over(_), _) => over += 1,
            Incoming::Message(Answer::LetGo(_), _) => let_go = true,
            Incoming::Message(Answer::NotRunning, _) if ending == 0 => return Ok(Stopped::NotRunning),
            Incoming::Message(Answer::NotRunning, _) | Incoming::Nothing => {}
            // Its keepers end the jobs of a warden that is gone, or the job was over before it heard us.
            Incoming::Closed => return struck_out_soon(target).map_err(no_answer),
        }
        if over > 0 && over >= ending {
            return Ok(Stopped::Over);
        }
        if let_go && ending == 0 {
            return Ok(Stopped::LetGo);
        }
    }
}

/// Waits for the jobs of a warden that is gone.
fn struck_out_soon(target: &Target) -> io::Result<Stopped> {
    let until = clock::now() + WITHOUT_WARDEN;
    while !is_struck_out(target) {
        if clock::now() >= until {
            return Err(left_behind());
        }
        std::thread::sleep(AGAIN);
    }
    Ok(Stopped::Over)
}

fn left_behind() -> io::Error {
    io::Error::other("it is gone, and not all of its job; `killcord sweep` ends what is left")
}

/// Whether the claim says that it is over: its guards or its owner have seen it empty.
fn is_struck_out(target: &Target) -> bool {
    let jobs = files::open_directory(&target.claim.join(JOBS));
    let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    match (jobs, target.job) {
        (Err(e), _) => missing(&e),
        (Ok(jobs), Some(id)) => {
            files::about_at(jobs.as_fd(), id.to_string().as_ref()).is_err_and(|e| missing(&e))
        }
        (Ok(jobs), None) => {
            matches!(files::has_name(jobs.as_fd(), |name| !name.starts_with(b".")), Ok(false))
        }
    }
}
