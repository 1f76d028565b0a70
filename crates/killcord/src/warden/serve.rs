//! The warden's loop: it turns what it sees into events and effects into calls.

use super::callers::Callers;
use super::{Setup, adopt::Orphans, spares::Spare};
use crate::arm::{self, Held};
use crate::claim::{Claim, seconds, sweeper};
use crate::keeper::{self, Ahead, Handed};
use crate::message::{self, Incoming};
use crate::numbers::now;
use killcord_model::boundary::{Boundary, Choice, candidates};
use killcord_model::id::JobId;
use killcord_model::job::Sight;
use killcord_model::record::{self, State};
use killcord_model::spec::{Request, Session};
use killcord_model::verdict::{End, Evidence, Verdict};
use killcord_model::warden::{Effect, Event, Warden as Decisions};
use killcord_model::wire::{FromWarden, Refusal, Report, Stage, ToWarden};
use killcord_sys::cgroup::Own;
use killcord_sys::child::{self, Change, Wait};
use killcord_sys::limits::Limits;
use killcord_sys::namespace::{self, Through};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::proc::Proc;
use killcord_sys::process::{self, Fork, Title};
use killcord_sys::signals::{self, SignalFd};
use killcord_sys::{clock, socket};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Where kernels have no pidfds, the owner's death shows in our parent's number alone.
const LOOK_FOR_OWNER: Duration = Duration::from_millis(100);
/// So many children are reaped before anything else is looked at again.
const REAP_AT_ONCE: u32 = 8192;
/// How long the warden is deaf while it removes a temporary directory whose keeper was killed. The rest goes with
/// the claim.
const CLEAR_WITHIN: Duration = Duration::from_millis(200);
/// How long a first request is waited for before the warden does what can wait.
const FIRST_WITHIN: Duration = Duration::from_millis(20);

/// The warden's own descriptors.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) signals: SignalFd,
    /// The keepers' end of the pipe that ends with the warden.
    pub(super) alive_read: OwnedFd,
    /// Held by the warden alone, until it ends or tells its keepers that the owner has.
    pub(super) alive_write: Option<OwnedFd>,
    /// What keepers say to the warden.
    pub(super) status_read: OwnedFd,
    /// The keepers' end of it.
    pub(super) status_write: OwnedFd,
}

/// A keeper and what it holds, as the second line needs it.
#[derive(Debug)]
struct Ward {
    keeper: u32,
    held: Held,
    limits: Limits,
    /// The byte on which a namespace's init waits before it starts anything.
    go: Option<OwnedFd>,
}

/// The warden.
#[derive(Debug)]
pub(super) struct Warden {
    setup: Setup,
    claim: Option<Claim>,
    /// Who has called at the claim's socket; `None` until the first request is served.
    callers: Option<Callers>,
    /// The process that sweeps for us: our child, and no orphan of any job.
    sweeper: Option<u32>,
    channels: Channels,
    title: Option<Title>,
    decisions: Decisions,
    wards: BTreeMap<JobId, Ward>,
    /// Our own v2 cgroup, looked for once.
    own: Option<Result<Rc<Own>, String>>,
    orphans: Orphans,
    /// The keeper that waits for the next job.
    spare: Option<Spare>,
    /// Whether the last round of reaping ended before the dead did: no signal tells of them again.
    unreaped: bool,
}

impl Warden {
    pub(super) fn new(setup: Setup, claim: Option<Claim>, channels: Channels, title: Option<Title>) -> Self {
        // A forked warden has one job; the owner of an executed one may start many.
        let decisions =
            if setup.owner_pid.is_some() { Decisions::default() } else { Decisions::with_spare() };
        Self {
            setup,
            claim,
            callers: None,
            sweeper: None,
            channels,
            title,
            decisions,
            wards: BTreeMap::new(),
            own: None,
            orphans: Orphans::default(),
            spare: None,
            unreaped: false,
        }
    }

    /// Serves until the owner is gone and no job needs us any more.
    pub(super) fn serve(&mut self, first: Option<(Request, Handed)>) -> io::Result<()> {
        let mut events = VecDeque::new();
        if let Some((request, handed)) = first {
            self.start(&request, &handed, &mut events);
        }
        loop {
            while let Some(event) = events.pop_front() {
                for effect in self.decisions.step(event, now()) {
                    self.carry_out(effect, &mut events);
                }
            }
            if self.decisions.is_done() {
                // What is left of it, a sweep finds.
                let _ = self.claim.as_ref().map(Claim::give_up);
                // As in the keeper: nothing has to be closed first.
                process::exit_now(0);
            }
            self.wait(&mut events)?;
            if self.callers.is_none() && events.is_empty() {
                self.settle();
            }
        }
    }

    /// What can wait until a first request is served: being there for callers, and a look at what others left.
    fn settle(&mut self) {
        self.callers = Some(Callers::listen(self.claim.as_ref()));
        if self.setup.sweeps {
            self.sweeper = self.claim.as_ref().and_then(sweeper::in_background);
        }
    }

    fn wait(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        let gone = self.decisions.owner_is_gone();
        let by_number = self.setup.owner.is_none() && self.setup.owner_pid.is_some() && !gone;
        let timeout = self.decisions.deadline().map(|t| t.since(now()));
        let timeout =
            if by_number { Some(timeout.unwrap_or(LOOK_FOR_OWNER).min(LOOK_FOR_OWNER)) } else { timeout };
        let unreaped = self.unreaped;
        let timeout = if unreaped { Some(Duration::ZERO) } else { timeout };
        let unsettled = self.callers.is_none().then_some(FIRST_WITHIN);
        let timeout = timeout.into_iter().chain(unsettled).min();
        let control = (!self.decisions.takes_no_more()).then(|| self.setup.control.as_fd());
        let owner = self.setup.owner.as_ref().filter(|_| !gone).map(AsFd::as_fd);
        let [asked, owner, status, signal, called] = poll::wait(
            [
                (control, Interest::Read),
                (owner, Interest::Read),
                (Some(self.channels.status_read.as_fd()), Interest::Read),
                (Some(self.channels.signals.as_fd()), Interest::Read),
                (self.callers.as_ref().and_then(Callers::socket), Interest::Read),
            ],
            timeout,
        )?;
        if owner {
            events.push_back(Event::OwnerGone);
        }
        if by_number && process::parent_pid() != self.setup.owner_pid {
            // The keepers have no pidfd of it either, and a forked copy of the owner may hold a cord.
            self.channels.alive_write = None;
            events.push_back(Event::OwnerGone);
        }
        // What a keeper said is read before its death is: a released job must be known as such by then.
        if status || signal || unreaped {
            self.hear_keepers(events);
        }
        if signal || unreaped {
            self.reap(events)?;
        }
        if asked {
            self.hear_owner(events);
        }
        if called && let Some(callers) = &mut self.callers {
            callers.hear(&self.decisions, events);
        }
        if self.decisions.deadline().is_some_and(|t| now() >= t) {
            events.push_back(Event::Tick);
        }
        Ok(())
    }

    fn hear_owner(&mut self, events: &mut VecDeque<Event>) {
        match message::receive_request(self.setup.control.as_fd()) {
            Ok(Incoming::Message(ToWarden::Start(request), fds)) => {
                // Without all its descriptors it is no request either; see below.
                if let Some(handed) = Handed::from_descriptors(fds, &request) {
                    self.start(&request, &handed, events);
                }
            }
            Ok(Incoming::Closed) => events.push_back(Event::Retired),
            // A message that cannot be read is no request: the cord in it is closed with it, which
            // tells the owner that nothing was started.
            Ok(Incoming::Nothing | Incoming::Message(ToWarden::InMemory, _)) | Err(_) => {}
        }
    }

    fn hear_keepers(&mut self, events: &mut VecDeque<Event>) {
        let mut buffer = [0u8; keeper::Status::BYTES];
        while let Ok(Some(bytes)) = socket::read_some(self.channels.status_read.as_fd(), &mut buffer) {
            match keeper::Status::from_bytes(bytes) {
                Some(keeper::Status::Released(job)) => events.push_back(Event::Released(job)),
                Some(keeper::Status::Done(job)) => events.push_back(Event::KeeperDone(job)),
                Some(keeper::Status::HandedOver(job)) => events.push_back(Event::HandedOver(job)),
                Some(keeper::Status::Armed(job)) => self.let_init_go(job),
                None => return,
            }
        }
    }

    /// The init of a namespace has armed its death signal; only now may it start something.
    fn let_init_go(&mut self, job: JobId) {
        if let Some(go) = self.wards.get_mut(&job).and_then(|w| w.go.take()) {
            // If it is gone already, its death is reported by its own signal.
            let _ = socket::write(go.as_fd(), b"g");
        }
    }

    fn reap(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        while self.channels.signals.read()?.is_some() {}
        let mut changed = false;
        self.unreaped = true;
        for _ in 0..REAP_AT_ONCE {
            match child::next()? {
                Wait::Child(pid, change @ (Change::Exited(_) | Change::Killed(_))) => {
                    let job = self.wards.iter().find(|(_, w)| w.keeper == pid).map(|(job, _)| *job);
                    if self.sweeper == Some(pid) {
                        self.sweeper = None;
                    }
                    match (job, change) {
                        (Some(job), Change::Exited(0)) => events.push_back(Event::KeeperDone(job)),
                        (Some(job), _) => events.push_back(Event::KeeperLost(job)),
                        (None, _) if self.spare.as_ref().is_some_and(|s| s.keeper() == pid) => {
                            self.spare = None;
                            events.push_back(Event::SpareGone);
                        }
                        (None, _) => changed = true,
                    }
                }
                Wait::Child(_, Change::Stopped(_) | Change::Continued) => {}
                Wait::Nothing | Wait::NoChildren => {
                    self.unreaped = false;
                    break;
                }
            }
        }
        // Once for all of them, since it is answered by a look at everybody who is left.
        if changed {
            events.push_back(Event::Changed);
        }
        Ok(())
    }

    /// Tries the boundaries in their order and forks a keeper for the first that can be had.
    fn start(&mut self, request: &Request, handed: &Handed, events: &mut VecDeque<Event>) {
        let job = request.job;
        let wanted = match request.boundary {
            Choice::Exactly(boundary) => request.require.unwrap_or(boundary),
            Choice::Auto => request.require.unwrap_or(Boundary::Group),
        };
        if self.decisions.takes_no_more() {
            return;
        }
        let candidates = candidates(request.boundary, request.require);
        if let Err(refusal) = self.reserve(request, candidates.first().copied().unwrap_or(wanted)) {
            return Self::refuse(&handed.cord, wanted, refusal);
        }
        let mut tried = Vec::new();
        for boundary in candidates {
            match self.attempt(boundary, request, handed, events) {
                Ok(ward) => {
                    self.wards.insert(job, ward);
                    events.push_back(Event::Forked(job));
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
    fn reserve(&mut self, request: &Request, strongest: Boundary) -> Result<(), Refusal> {
        let leaf = match strongest {
            Boundary::Cgroup => self.own_cgroup().ok().map(|own| own.path.join(request.job.cgroup_name())),
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
            program: record::program_name(&request.spec.program),
            since: seconds(),
        };
        claim.record(request.job, &record).map_err(|e| keeper::not_recorded(claim, Stage::Record, &e))
    }

    /// Strikes out a job of which nothing is left. What cannot be removed goes with the claim.
    fn clear(&self, job: JobId) {
        if let Some(claim) = &self.claim {
            let _ = claim.clear(job, Some(clock::now() + CLEAR_WITHIN));
        }
    }

    /// Tells the owner on the cord that nothing was started.
    fn refuse(cord: &OwnedFd, wanted: Boundary, refusal: Refusal) {
        // An owner that is gone needs no answer.
        let _ = message::send(cord.as_fd(), &Report::NotStarted(refusal), &[]);
        let end = End::nothing_ran(wanted);
        let _ = message::send(cord.as_fd(), &Report::Ended(Box::new(end)), &[]);
    }

    fn attempt(
        &mut self,
        boundary: Boundary,
        request: &Request,
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
                arm::cgroup(&own, request.job).map_err(|e| Attempt::NotHere(format!("{at}: {e}")))?
            }
        };
        let guards = self.setup.owner_pid.into_iter().chain([process::own_pid()]);
        let guards: Vec<u32> = self.keepers().into_iter().chain(guards).collect();
        let limits = arm::limits(&held, request.job, &request.limits, &guards).map_err(|refusal| {
            // Nobody is in it yet.
            let _ = held.remove();
            Attempt::Refused(refusal)
        })?;
        if let Some(keeper) = self.hand_to_spare(request, handed, &held, &limits, events) {
            return Ok(Ward { keeper, held, limits, go: None });
        }
        self.fork_keeper(request, handed, held, limits)
    }

    /// Hands the job to the keeper that was forked ahead, if there is one and it is a job that it can take. A
    /// spare that has ended has not got it, and one that ends from now on is a keeper that was killed.
    fn hand_to_spare(
        &mut self,
        request: &Request,
        handed: &Handed,
        held: &Held,
        limits: &Limits,
        events: &mut VecDeque<Event>,
    ) -> Option<u32> {
        self.spare.as_ref().filter(|spare| spare.can_hold(held.boundary()))?;
        let (job, fds) = keeper::pack(request, handed, held, limits)?;
        let spare = self.spare.take()?;
        events.push_back(Event::SpareGone);
        spare.hand_over(&job, &fds).ok()
    }

    fn fork_spare(&mut self, events: &mut VecDeque<Event>) {
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
            Ok(spare) => self.spare = Some(spare),
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
        request: &Request,
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
                if let (Held::Namespace, Session::Shared { group }) = (&held, request.spec.session) {
                    // The job's group has no number inside the namespace: the init enters it from
                    // here, and the leader inherits it.
                    let _ = process::put_into_group(keeper, group);
                }
                Ok(Ward { keeper, held, limits, go })
            }
            Fork::Child => keeper::become_keeper(keeper::Setup {
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
                tree: None,
            }),
        }
    }

    fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<Event>) {
        match effect {
            Effect::EndWhatIsLeft(job) => {
                if let Some(leaf) = self.wards.get(&job).and_then(|w| w.held.leaf()) {
                    // Whether it worked is what the look says.
                    let _ = leaf.kill();
                }
                // The dead cost the walks that follow as much as the living. A child that cannot be waited
                // for now is waited for later.
                let _ = self.reap(events);
                if self.decisions.may_end_orphans() {
                    let spared = self.spared();
                    self.orphans.kill(&spared);
                }
            }
            Effect::Look(job) => {
                let sight = self.look(job);
                events.push_back(Event::Seen(job, sight));
            }
            Effect::Tell(job, sight) => {
                let verdict = self.verdict(job, sight);
                // Whoever hears of the end finds nothing of the job.
                self.remove_boundary(job);
                if matches!(verdict, Verdict::Empty(_)) {
                    self.clear(job);
                }
                // An owner that is gone needs no answer.
                let lost = FromWarden::KeeperLost { job, verdict };
                let _ = message::send(self.setup.control.as_fd(), &lost, &[]);
            }
            Effect::Forget(job) => {
                self.remove_boundary(job);
                self.wards.remove(&job);
                if let Some(callers) = &mut self.callers {
                    callers.tell_over(job);
                }
            }
            Effect::ForkSpare => self.fork_spare(events),
            // Until it is reaped, its number is its own, and it is no orphan.
            Effect::EndSpare => {
                if let Some(spare) = &self.spare {
                    spare.end();
                }
            }
            // A stopped one dies of this as well.
            Effect::KillKeeper(job) => self.signal_keeper(job, signals::SIGKILL, events),
            Effect::EndJob { job, now: true } => self.signal_keeper(job, keeper::END_NOW, events),
            Effect::EndJob { job, now: false } => self.signal_keeper(job, keeper::END, events),
        }
    }

    /// Signals our unreaped child. A keeper that is no child of ours any more, whoever reaped it, is not signalled:
    /// the number may be another's.
    fn signal_keeper(&self, job: JobId, signal: i32, events: &mut VecDeque<Event>) {
        let Some(ward) = self.wards.get(&job) else { return };
        if child::peek(ward.keeper).is_err() {
            events.push_back(Event::KeeperLost(job));
        } else {
            // One that has just ended is reaped next.
            let _ = child::signal(ward.keeper, signal);
        }
    }

    /// The keeper has removed it if it could; what still has members stays.
    fn remove_boundary(&mut self, job: JobId) {
        if let Some(ward) = self.wards.get_mut(&job) {
            let _ = ward.limits.remove();
            let _ = ward.held.remove();
        }
    }

    /// Our children that are no orphans of any job.
    fn spared(&self) -> Vec<u32> {
        self.keepers().into_iter().chain(self.sweeper).collect()
    }

    /// Keepers, and the one that waits for a job.
    fn keepers(&self) -> Vec<u32> {
        self.wards.values().map(|w| w.keeper).chain(self.spare.iter().map(Spare::keeper)).collect()
    }

    fn look(&mut self, job: JobId) -> Sight {
        let Some(ward) = self.wards.get(&job) else { return Sight::Empty };
        let in_leaf = ward.held.leaf().map(killcord_sys::cgroup::Leaf::populated);
        match (in_leaf, ward.held.boundary()) {
            (Some(Ok(true)), _) => Sight::Members,
            // The init was reaped, which the kernel allows only when its namespace is empty.
            (_, Boundary::Namespace) => Sight::Empty,
            // A cgroup that cannot be read; and whoever left a group is not found by it.
            (Some(Err(_)), _) | (_, Boundary::Group | Boundary::Uncontained) => Sight::Unknown,
            (_, Boundary::Tree | Boundary::Cgroup) => self.orphans.look(&self.spared()),
        }
    }

    fn verdict(&mut self, job: JobId, sight: Sight) -> Verdict {
        let boundary = self.wards.get(&job).map(|w| w.held.boundary());
        match (sight, boundary) {
            (Sight::Empty, Some(Boundary::Namespace)) => Verdict::Empty(Evidence::NamespaceReaped),
            (Sight::Empty, Some(Boundary::Cgroup)) => Verdict::Empty(Evidence::Unpopulated),
            (Sight::Empty, _) => Verdict::Empty(Evidence::NoChildLeft),
            (Sight::Members, _) => Verdict::Survivors(self.orphans.name(&self.spared())),
            (Sight::Unknown, _) => Verdict::Unconfirmed("the keeper was killed".to_owned()),
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
