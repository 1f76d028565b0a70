//! The warden's loop: it turns what it sees into events and effects into calls.

mod lost;
mod start;

use super::callers::Callers;
use super::{Setup, adopt::Orphans, spares::Spare};
use crate::arm::Held;
use crate::claim::{Claim, Form, sweeper};
use crate::hooks;
use crate::keeper::{self, Handed};
use crate::message::{self, Incoming};
use crate::numbers::now;
use killcord_model::id::JobId;
use killcord_model::spec::Request;
use killcord_model::time::Time;
use killcord_model::verdict::Verdict;
use killcord_model::warden::{Effect, Event, Warden as Decisions};
use killcord_model::wire::FromWarden;
use killcord_sys::cgroup::Own;
use killcord_sys::child::{self, Change, Wait};
use killcord_sys::limits::Limits;
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::process::{self, Title};
use killcord_sys::signals::{self, SignalFd};
use killcord_sys::socket;
use start::{Asked, Whole};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Where kernels have no pidfds, the owner's death shows in our parent's number alone.
const LOOK_FOR_OWNER: Duration = Duration::from_millis(100);
/// So many children are reaped before anything else is looked at again.
const REAP_AT_ONCE: u32 = 8192;
/// How long a first request is waited for before the warden does what can wait.
const FIRST_WITHIN: Duration = Duration::from_millis(20);
/// And how long at most, while there is always something else to be done.
const SETTLES_WITHIN: Duration = Duration::from_millis(200);

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
    job: JobId,
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
    /// When that is waited for no longer.
    settles_at: Time,
    /// The process that sweeps for us: our child, and no orphan of any job.
    sweeper: Option<u32>,
    channels: Channels,
    title: Option<Title>,
    decisions: Decisions,
    /// In no order: a new one goes to the end. In a tree of them, each start would write elsewhere, and the small holes
    /// between its nodes fill with what a keeper allocates: each is a page that guards no longer share.
    wards: Vec<Ward>,
    /// Our own v2 cgroup, looked for once.
    own: Option<Result<Rc<Own>, String>>,
    orphans: Orphans,
    /// The keeper that waits for the next job.
    spare: Option<Spare>,
    /// And what its first record will be written on.
    form: Option<Form>,
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
            settles_at: now().after(SETTLES_WITHIN),
            sweeper: None,
            channels,
            title,
            decisions,
            wards: Vec::new(),
            own: None,
            orphans: Orphans::default(),
            spare: None,
            form: None,
            unreaped: false,
        }
    }

    /// Serves until the owner is gone and no job needs us any more.
    pub(super) fn serve(&mut self, first: Option<(Request, Handed)>) -> io::Result<()> {
        let mut events = VecDeque::new();
        if let Some((request, handed)) = first {
            self.start(&Asked::of(&request, Whole::Here(&request)), &handed, &mut events);
        }
        loop {
            while let Some(event) = events.pop_front() {
                for effect in self.decisions.step(event, now()) {
                    self.carry_out(effect, &mut events);
                }
            }
            if self.decisions.is_done() {
                hooks::point("warden.gives_up");
                // What is left of it, a sweep finds.
                let _ = self.claim.take().map(|claim| claim.give_up());
                // An owner that waits for our end lets go of the claim in the time that it takes: as the last, which
                // is the one who waits for the disk.
                let _ = socket::close_for_all(self.setup.control.as_fd());
                hooks::point("warden.exits");
                // As in the keeper: nothing has to be closed first.
                process::exit_now(0);
            }
            self.wait(&mut events)?;
            // A job whose orphans come to us can have somebody for us to reap each time.
            if self.callers.is_none() && (events.is_empty() || now() >= self.settles_at) {
                self.settle();
            }
        }
    }

    /// What can wait until a first request is served: being there for callers, and a look at what others left.
    fn settle(&mut self) {
        hooks::point("warden.settles");
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
            hooks::point("warden.lost_owner");
            events.push_back(Event::OwnerGone);
        }
        if by_number && process::parent_pid() != self.setup.owner_pid {
            // The keepers have no pidfd of it either, and a forked copy of the owner may hold a cord.
            self.channels.alive_write = None;
            events.push_back(Event::OwnerGone);
        }
        if status {
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
            Ok(Incoming::Message((request, message), fds)) => {
                // Without all its descriptors it is no request either; see below.
                hooks::point("warden.asked");
                if let Some(handed) = Handed::from_descriptors(fds, &request) {
                    self.start(&Asked::of(&request, Whole::Sent(&message)), &handed, events);
                }
            }
            Ok(Incoming::Closed) => {
                hooks::point("warden.retired");
                events.push_back(Event::Retired);
            }
            // A message that cannot be read is no request: the cord in it is closed with it, which
            // tells the owner that nothing was started.
            Ok(Incoming::Nothing) | Err(_) => {}
        }
    }

    fn hear_keepers(&mut self, events: &mut VecDeque<Event>) {
        let mut buffer = [0u8; keeper::Status::BYTES];
        while let Ok(Some(bytes)) = socket::read_some(self.channels.status_read.as_fd(), &mut buffer) {
            match keeper::Status::from_bytes(bytes) {
                Some(keeper::Status::Released(job)) => {
                    hooks::point("warden.hears_of_release");
                    events.push_back(Event::Released(job));
                }
                Some(keeper::Status::Done(job)) => {
                    hooks::point("warden.hears_of_end");
                    events.push_back(Event::KeeperDone(job));
                }
                Some(keeper::Status::HandedOver(job)) => events.push_back(Event::HandedOver(job)),
                Some(keeper::Status::Armed(job)) => self.let_init_go(job),
                None => return,
            }
        }
    }

    /// The init of a namespace has armed its death signal; only now may it start something.
    fn let_init_go(&mut self, job: JobId) {
        if let Some(go) = self.ward_mut(job).and_then(|w| w.go.take()) {
            hooks::point("warden.lets_init_go");
            // If it is gone already, its death is reported by its own signal.
            let _ = socket::write(go.as_fd(), b"g");
        }
    }

    /// Learns who has ended. What a keeper had said is read behind that and given before it: a job that was let go must
    /// be known as such when its keeper's death is acted upon, and only the dead can say no more.
    fn reap(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        while self.channels.signals.read()?.is_some() {}
        let mut changed = false;
        let mut ends = Vec::new();
        self.unreaped = true;
        for _ in 0..REAP_AT_ONCE {
            match child::next()? {
                Wait::Child(pid, change @ (Change::Exited(_) | Change::Killed(_))) => {
                    let job = self.job_of(pid);
                    if self.sweeper == Some(pid) {
                        self.sweeper = None;
                    }
                    match (job, change) {
                        (Some(job), Change::Exited(0)) => ends.push(Event::KeeperDone(job)),
                        (Some(job), _) => {
                            hooks::point("warden.lost_keeper");
                            ends.extend(self.lost(job));
                        }
                        (None, _) if self.spare.as_ref().is_some_and(|s| s.keeper() == pid) => {
                            self.spare = None;
                            ends.push(Event::SpareGone);
                        }
                        (None, _) => changed = true,
                    }
                }
                Wait::Child(pid, Change::Stopped(_)) => {
                    self.note_spare(pid, true);
                    events.extend(self.job_of(pid).map(Event::KeeperStopped));
                }
                Wait::Child(pid, Change::Continued) => self.note_spare(pid, false),
                Wait::Nothing | Wait::NoChildren => {
                    self.unreaped = false;
                    break;
                }
            }
        }
        // Once for all of them, since it is answered by a look at everybody who is left.
        ends.extend(changed.then_some(Event::Changed));
        if !ends.is_empty() {
            self.hear_keepers(events);
        }
        events.extend(ends);
        Ok(())
    }

    /// Whose keeper this child is.
    fn job_of(&self, pid: u32) -> Option<JobId> {
        self.wards.iter().find(|w| w.keeper == pid).map(|w| w.job)
    }

    fn ward(&self, job: JobId) -> Option<&Ward> {
        self.wards.iter().find(|w| w.job == job)
    }

    fn ward_mut(&mut self, job: JobId) -> Option<&mut Ward> {
        self.wards.iter_mut().find(|w| w.job == job)
    }

    /// The spare has nothing to do yet: whether it is stopped matters when it gets a job.
    fn note_spare(&mut self, pid: u32, stopped: bool) {
        if let Some(spare) = self.spare.as_mut().filter(|spare| spare.keeper() == pid) {
            spare.stopped = stopped;
        }
    }

    fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<Event>) {
        match effect {
            Effect::EndWhatIsLeft(job) => self.end_what_is_left(job, events),
            Effect::Look(job) => {
                let sight = self.look(job);
                events.push_back(Event::Seen(job, sight));
            }
            Effect::Tell(job, sight) => {
                let verdict = self.verdict(job, sight);
                hooks::point("warden.knows_the_end");
                // Whoever hears of the end finds nothing of the job.
                self.remove_boundary(job);
                if matches!(verdict, Verdict::Empty(_)) {
                    self.clear(job);
                }
                hooks::point("warden.tells");
                // An owner that is gone needs no answer.
                let lost = FromWarden::KeeperLost { job, verdict };
                let _ = message::send(self.setup.control.as_fd(), &lost, &[]);
            }
            Effect::Forget(job) => {
                hooks::point("warden.forgets");
                self.remove_boundary(job);
                if let Some(at) = self.wards.iter().position(|w| w.job == job) {
                    self.wards.swap_remove(at);
                }
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
            Effect::ContinueKeeper(job) => self.signal_keeper(job, signals::SIGCONT, events),
            Effect::EndJob { job, now: true } => self.signal_keeper(job, keeper::END_NOW, events),
            Effect::EndJob { job, now: false } => self.signal_keeper(job, keeper::END, events),
        }
    }

    /// A keeper was killed. It writes down first that it lets a job go, and may not have come to tell us.
    fn lost(&self, job: JobId) -> impl Iterator<Item = Event> + use<> {
        let let_go = self.claim.as_ref().is_some_and(|claim| claim.was_let_go(job));
        let_go.then_some(Event::Released(job)).into_iter().chain([Event::KeeperLost(job)])
    }

    /// Signals our unreaped child. A keeper that is no child of ours any more, whoever reaped it, is not signalled:
    /// the number may be another's.
    fn signal_keeper(&self, job: JobId, signal: i32, events: &mut VecDeque<Event>) {
        let Some(ward) = self.ward(job) else { return };
        if child::peek(ward.keeper).is_err() {
            events.extend(self.lost(job));
        } else {
            // One that has just ended is reaped next.
            let _ = child::signal(ward.keeper, signal);
        }
    }

    /// The keeper has removed it if it could; what still has members stays.
    fn remove_boundary(&mut self, job: JobId) {
        if let Some(ward) = self.ward_mut(job) {
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
        self.wards.iter().map(|w| w.keeper).chain(self.spare.iter().map(Spare::keeper)).collect()
    }
}
