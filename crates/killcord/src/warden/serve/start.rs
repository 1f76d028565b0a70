//! From a request to a keeper: the boundaries in their order, the record before the first of them, and the fork.

use super::super::spares::Spare;
use super::{Ward, Warden};
use crate::arm::{self, Held};
use crate::claim::seconds;
use crate::hooks;
use crate::keeper::{self, Ahead, Handed};
use crate::message;
use killcord_model::boundary::{Boundary, Choice, candidates};
use killcord_model::id::JobId;
use killcord_model::record::{self, State};
use killcord_model::spec::{Limits as Wanted, Request, Session, Spec};
use killcord_model::verdict::End;
use killcord_model::warden::Event;
use killcord_model::wire::{self, Refusal, Report, Stage, ToWarden};
use killcord_sys::cgroup::Own;
use killcord_sys::limits::Limits;
use killcord_sys::namespace::{self, Through};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::proc::Proc;
use killcord_sys::process::{self, Fork};
use killcord_sys::{clock, socket};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// How long the warden is deaf while it removes a temporary directory whose keeper was killed. The rest goes with
/// the claim.
const CLEAR_WITHIN: Duration = Duration::from_millis(200);

impl Warden {
    /// Tries the boundaries in their order and forks a keeper for the first that can be had.
    pub(super) fn start(&mut self, asked: &Asked<'_>, handed: &Handed, events: &mut VecDeque<Event>) {
        let job = asked.job;
        let wanted = match asked.boundary {
            Choice::Exactly(boundary) => asked.require.unwrap_or(boundary),
            Choice::Auto => asked.require.unwrap_or(Boundary::Group),
        };
        if self.decisions.takes_no_more() {
            return;
        }
        let candidates = candidates(asked.boundary, asked.require);
        if let Err(refusal) = self.reserve(asked, candidates.first().copied().unwrap_or(wanted)) {
            return Self::refuse(&handed.cord, wanted, refusal);
        }
        let stopped = self.spare.as_ref().filter(|spare| spare.stopped).map(Spare::keeper);
        let mut tried = Vec::new();
        for boundary in candidates {
            match self.attempt(boundary, asked, handed, events) {
                Ok(ward) => {
                    hooks::point("warden.has_keeper");
                    events.push_back(Event::Forked(job));
                    // The kernel does not tell again of what it has told of a spare.
                    events.extend((stopped == Some(ward.keeper)).then_some(Event::KeeperStopped(job)));
                    self.wards.push(ward);
                    if boundary != Boundary::Namespace {
                        events.push_back(Event::SpareWanted);
                    }
                    return;
                }
                Err(Attempt::NotHere(why)) => tried.push((boundary, why)),
                Err(Attempt::Refused(refusal)) => {
                    self.clear(job);
                    return Self::refuse(&handed.cord, wanted, refusal);
                }
            }
        }
        self.clear(job);
        Self::refuse(&handed.cord, wanted, Refusal::Boundary { wanted, tried });
    }

    /// Writes down that a job is going to be, and where its cgroup would be, before anything of it is there.
    fn reserve(&mut self, asked: &Asked<'_>, strongest: Boundary) -> Result<(), Refusal> {
        let leaf = match strongest {
            Boundary::Cgroup => self.own_cgroup().ok().map(|own| own.path.join(asked.job.cgroup_name())),
            Boundary::Uncontained | Boundary::Group | Boundary::Tree | Boundary::Namespace => None,
        };
        let Some(claim) = &self.claim else { return Ok(()) };
        let record = record::Job {
            place: claim.place.clone(),
            state: State::Reserved,
            boundary: strongest,
            leaf: leaf.and_then(|path| path.into_os_string().into_string().ok()),
            limits: Vec::new(),
            tag: None,
            keeper: None,
            program: record::program_name(asked.program),
            since: seconds(),
        };
        claim
            .reserve(asked.job, &record, self.form.take())
            .map_err(|e| keeper::not_recorded(claim, Stage::Record, &e))
    }

    /// Strikes out a job of which nothing is left. What cannot be removed goes with the claim.
    pub(super) fn clear(&self, job: JobId) {
        if let Some(claim) = &self.claim {
            let _ = claim.clear(job, Some(clock::now() + CLEAR_WITHIN));
        }
    }

    /// Tells the owner on the cord that nothing was started.
    fn refuse(cord: &OwnedFd, wanted: Boundary, refusal: Refusal) {
        hooks::point("warden.refuses");
        // An owner that is gone needs no answer.
        let _ = message::send(cord.as_fd(), &Report::NotStarted(refusal), &[]);
        let end = End::nothing_ran(wanted);
        let _ = message::send(cord.as_fd(), &Report::Ended(Box::new(end)), &[]);
    }

    fn attempt(
        &mut self,
        boundary: Boundary,
        asked: &Asked<'_>,
        handed: &Handed,
        events: &mut VecDeque<Event>,
    ) -> Result<Ward, Attempt> {
        let held = match boundary {
            // Nobody is a keeper's job who has none; it is never asked for here.
            Boundary::Uncontained => return Err(Attempt::NotHere("a warden contains".to_owned())),
            Boundary::Group => Held::Group,
            Boundary::Namespace => Held::Namespace,
            Boundary::Tree => {
                Proc::look().map_err(|e| Attempt::NotHere(format!("/proc: {e}")))?;
                Held::Tree
            }
            Boundary::Cgroup => {
                let own = self.own_cgroup().map_err(Attempt::NotHere)?;
                let at = own.path.display().to_string();
                arm::cgroup(&own, asked.job).map_err(|e| Attempt::NotHere(format!("{at}: {e}")))?
            }
        };
        let guards = || {
            let outer = self.setup.owner_pid.into_iter().chain([process::own_pid()]);
            self.keepers().into_iter().chain(outer).collect()
        };
        let limits = arm::limits(&held, asked.job, &asked.limits, guards).map_err(|refusal| {
            // Nobody is in it yet.
            let _ = held.remove();
            Attempt::Refused(refusal)
        })?;
        hooks::point("warden.made_boundary");
        if let Some(keeper) = self.hand_to_spare(asked, handed, &held, events) {
            return Ok(Ward { job: asked.job, keeper, held, limits, go: None });
        }
        self.fork_keeper(asked, handed, held, limits)
    }

    /// Hands the job to the keeper that was forked ahead, if there is one and it is a job that it can take. A
    /// spare that has ended has not got it, and one that ends from now on is a keeper that was killed.
    fn hand_to_spare(
        &mut self,
        asked: &Asked<'_>,
        handed: &Handed,
        held: &Held,
        events: &mut VecDeque<Event>,
    ) -> Option<u32> {
        self.spare.as_ref().filter(|spare| spare.can_hold(held.boundary()))?;
        // The rest of what a spare needs is in the message alone.
        let Whole::Sent(message) = asked.whole else { return None };
        if matches!(asked.session, Session::Shared { .. }) || !asked.limits.is_empty() {
            return None;
        }
        let (job, fds) = keeper::pack(message, handed, held)?;
        let spare = self.spare.take()?;
        events.push_back(Event::SpareGone);
        hooks::point("warden.hands_to_spare");
        spare.hand_over(&job, &fds).ok()
    }

    pub(super) fn fork_spare(&mut self, events: &mut VecDeque<Event>) {
        let ahead = |socket| Ahead {
            socket,
            warden: process::own_pid(),
            own: self.own.as_ref().and_then(|own| own.as_ref().ok().cloned()),
            owner: self.setup.owner.as_ref(),
            alive: &self.channels.alive_read,
            status: &self.channels.status_write,
            title: self.title,
            claim: self.claim.as_ref(),
        };
        // Without one, the next keeper is forked when it is asked for.
        match Spare::fork(ahead) {
            Ok(spare) => {
                self.spare = Some(spare);
                if self.form.is_none() {
                    self.form = self.claim.as_ref().and_then(|claim| claim.make_form().ok());
                }
                hooks::point("warden.has_spare");
            }
            Err(_) => events.push_back(Event::SpareGone),
        }
    }

    fn own_cgroup(&mut self) -> Result<Rc<Own>, String> {
        self.own
            .get_or_insert_with(|| Own::find(None).map(Rc::new).map_err(|e| format!("cgroup v2: {e}")))
            .clone()
    }

    fn fork_keeper(
        &mut self,
        asked: &Asked<'_>,
        handed: &Handed,
        held: Held,
        mut limits: Limits,
    ) -> Result<Ward, Attempt> {
        let ids = (process::own_uid(), process::own_gid());
        let forked = if matches!(held, Held::Namespace) {
            fork_init(ids.0)
        } else {
            let forked = process::fork_alone().map_err(|e| Attempt::Refused(keeper_failed(&e)));
            forked.map(|fork| Forked { fork, through: Through::Privilege, go: None })
        };
        let Forked { fork, through, go } = forked.inspect_err(|_| {
            // Nobody is in them; the error that is reported is the one that matters.
            let _ = limits.remove();
            let _ = held.remove();
        })?;
        match fork {
            Fork::Parent(keeper) => {
                if let (Held::Namespace, Session::Shared { group }) = (&held, asked.session) {
                    // The job's group has no number inside the namespace: the init enters it from
                    // here, and the leader inherits it.
                    let _ = process::put_into_group(keeper, group);
                }
                Ok(Ward { job: asked.job, keeper, held, limits, go })
            }
            Fork::Child => asked.whole.with(|request| {
                keeper::become_keeper(keeper::Setup {
                    request,
                    handed,
                    held,
                    limits,
                    go,
                    through,
                    ids,
                    owner: self.setup.owner.as_ref(),
                    alive: &self.channels.alive_read,
                    status: &self.channels.status_write,
                    title: self.title,
                    claim: self.claim.as_ref(),
                    ahead: keeper::Done::default(),
                })
            }),
        }
    }
}

/// What the warden reads of a request.
pub(super) struct Asked<'a> {
    job: JobId,
    program: &'a [u8],
    session: Session,
    limits: Wanted,
    boundary: Choice,
    require: Option<Boundary>,
    whole: Whole<'a>,
}

/// All of a request: only its keeper reads that.
#[derive(Clone, Copy)]
pub(super) enum Whole<'a> {
    /// The warden is a copy of the owner, and has it.
    Here(&'a Request),
    /// The message that it came in.
    Sent(&'a [u8]),
}

impl<'a> Asked<'a> {
    pub(super) fn of<L>(request: &'a Request<L>, whole: Whole<'a>) -> Self {
        let Request { job, boundary, require, limits, .. } = *request;
        let Spec { ref program, session, .. } = request.spec;
        Self { job, program, session, limits, boundary, require, whole }
    }
}

impl Whole<'_> {
    /// Becomes the keeper that it is for. Never returns.
    fn with(self, keeper: impl FnOnce(&Request) -> Infallible) -> ! {
        match self {
            Self::Here(request) => match keeper(request) {},
            Self::Sent(message) => match wire::decode(message) {
                Ok(ToWarden::Start(request)) => match keeper(&request) {},
                // As in every keeper that cannot begin: the status tells the warden.
                Ok(ToWarden::InMemory) | Err(_) => process::exit_now(1),
            },
        }
    }
}

fn keeper_failed(e: &io::Error) -> Refusal {
    Refusal::Failed { stage: Stage::Keeper, errno: e.raw_os_error().unwrap_or(0), what: Vec::new() }
}

/// One of the two sides of a keeper's fork.
struct Forked {
    fork: Fork,
    /// How the namespace was made, if there is one.
    through: Through,
    /// This side's end of the pipe for the byte on which a namespace's init waits.
    go: Option<OwnedFd>,
}

/// Forks a keeper that is the init of a new pid namespace: with privilege, or else through a user namespace.
fn fork_init(uid: u32) -> Result<Forked, Attempt> {
    let (read, write) = socket::pipe().map_err(|e| Attempt::Refused(keeper_failed(&e)))?;
    let mut through = Through::Privilege;
    // Its files in /proc must be its own for the id maps.
    let _ = process::set_dumpable(true);
    let forked = namespace::fork_init(through).or_else(|e| {
        if uid == 0 {
            return Err(e);
        }
        through = Through::UserNamespace;
        namespace::fork_init(through)
    });
    if !matches!(forked, Ok(Fork::Child)) {
        let _ = process::set_dumpable(false);
    }
    let fork = forked.map_err(|e| Attempt::NotHere(format!("pid namespaces: {e}")))?;
    let go = if fork == Fork::Child { read } else { write };
    Ok(Forked { fork, through, go: Some(go) })
}

/// Why an attempt gave no keeper.
enum Attempt {
    /// This boundary cannot be had here; the next may.
    NotHere(String),
    /// No other boundary would help.
    Refused(Refusal),
}
