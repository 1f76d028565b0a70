//! The state of everything.

use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::job::{self, Job, Sight};
use killcord_model::record::State;
use killcord_model::spec::{Leftovers, Policy};
use killcord_model::time::Time;
use killcord_model::warden::{self, Warden as Mind};
use killcord_model::wire::Order;
use std::collections::VecDeque;
use std::time::Duration;

/// A mistake in the protocol, each of which somebody could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A keeper does not notice that the owner is gone.
    IgnoresTheOwner,
    /// The job is written down after its program has been started.
    RecordsAfterTheStart,
    /// The warden acts upon a keeper's death before it has read what that keeper had said or written down.
    ReapsBeforeHearing,
    /// The warden ends all orphans, whosever they are.
    EndsEveryOrphan,
    /// An owner that cannot know whether the program ran asks for it again.
    RetriesAfterUnclear,
    /// The init of a namespace says that its job is let go before it has disarmed its death signal.
    TellsBeforeItDisarms,
    /// A keeper starts the program though the owner could not be told that there is one.
    StartsUntold,
    /// A keeper says that the job is over before it looks.
    SaysEmptyUnseen,
    /// A keeper does not notice that the warden is gone, nor a warden that a keeper is.
    NobodyBehind,
    /// A sweep ends whatever has a record.
    SweepsTheReleased,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::IgnoresTheOwner,
        Self::RecordsAfterTheStart,
        Self::ReapsBeforeHearing,
        Self::EndsEveryOrphan,
        Self::RetriesAfterUnclear,
        Self::TellsBeforeItDisarms,
        Self::StartsUntold,
        Self::SaysEmptyUnseen,
        Self::NobodyBehind,
        Self::SweepsTheReleased,
    ];
}

/// What bounds a walk.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// What holds the jobs.
    pub boundary: Boundary,
    /// How many jobs there are. A second one may be another job, or the same request once more.
    pub jobs: usize,
    /// Whether the second job is the first one's request, which its caller asks for again when it was told that nothing
    /// ran.
    pub again: bool,
    /// What becomes of leftovers.
    pub leftovers: Leftovers,
    /// The job's own time, if it has one.
    pub timeout: Option<Duration>,
    /// How many of owner, wardens and keepers are killed.
    pub kills: u8,
    /// How many messages are lost.
    pub losses: u8,
    /// How many orders the owner gives to each job.
    pub orders: u8,
    /// Whether all jobs run when the walk begins, no program ends by itself, and the owner wants nothing but to let the first
    /// job go. It makes two jobs at once few enough states to be walked.
    pub calm: bool,
    /// What is done wrong.
    pub fault: Option<Fault>,
}

impl Setting {
    /// One job on a boundary, and as many crashes as there are processes of ours.
    #[must_use]
    pub fn one_job(boundary: Boundary) -> Self {
        Self {
            boundary,
            jobs: 1,
            again: false,
            leftovers: Leftovers::End,
            timeout: None,
            kills: 3,
            losses: 1,
            orders: 1,
            calm: false,
            fault: None,
        }
    }

    /// Two jobs at once that run already, one of which may be let go, and two crashes.
    #[must_use]
    pub fn with_two_that_run(self) -> Self {
        Self { jobs: 2, kills: 2, losses: 0, orders: 1, calm: true, ..self }
    }

    /// One request that its caller asks for again when it was told that nothing ran.
    #[must_use]
    pub fn asked_again(self) -> Self {
        Self { jobs: 2, again: true, kills: 1, losses: 1, orders: 0, ..self }
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy { timeout: self.timeout, leftovers: self.leftovers, ..Policy::default() }
    }
}

/// Whether a process of ours is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    /// It was never made.
    NotYet,
    /// It runs.
    Runs,
    /// It exited with status 0, and has not been reaped.
    Done,
    /// It was killed, and has not been reaped.
    Killed,
    /// Nobody has anything to learn of it any more.
    Gone,
}

/// The whole world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The clock.
    pub now: Time,
    /// Whether the owner's process runs.
    pub owner: bool,
    /// The wardens: the first, and the one that replaces it.
    pub wardens: Vec<Warden>,
    /// The jobs.
    pub jobs: Vec<Affair>,
    /// How many may still be killed.
    pub kills: u8,
    /// How many messages may still be lost.
    pub losses: u8,
    /// The first promise that an act has broken.
    pub broken: Option<&'static str>,
}

/// A warden's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Warden {
    pub(crate) life: Life,
    pub(crate) mind: Mind,
    pub(crate) deeds: VecDeque<Deed>,
    pub(crate) events: VecDeque<warden::Event>,
    /// The pipe on which keepers speak.
    pub(crate) pipe: Vec<Status>,
    /// What the owner has not read yet.
    pub(crate) said: Vec<(usize, Sight)>,
    pub(crate) saw_owner_gone: bool,
    pub(crate) saw_retired: bool,
    /// Whether an orphan has died and was not reaped.
    pub(crate) orphan_died: bool,
}

/// One step of a warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Deed {
    /// What its decisions say.
    Do(warden::Effect),
    /// Write down that there is going to be a job.
    Reserve(usize),
    /// Fork its keeper.
    Fork(usize),
    /// End the orphans of a job.
    EndOrphans(usize),
}

/// What a keeper says to its warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Released(usize),
    Done(usize),
}

/// One job and everything about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Affair {
    pub(crate) request: Request,
    pub(crate) cord: Cord,
    pub(crate) view: View,
    pub(crate) keeper: Keeper,
    pub(crate) leader: Leader,
    /// A process of the job beside its leader.
    pub(crate) member: bool,
    pub(crate) forked: bool,
    pub(crate) record: Option<State>,
    /// How often the program was executed.
    pub(crate) runs: u8,
    /// Whether its end is nobody's duty any more.
    pub(crate) may_live: bool,
    /// Whether nobody of ours may end it any more.
    pub(crate) must_live: bool,
    pub(crate) orders: u8,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Unsent,
    /// In the socket of this warden, with the keeper's end of the cord.
    Sent(usize),
    /// Read by this warden.
    Taken(usize),
}

/// The socket between owner and keeper.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cord {
    /// The owner's end is open.
    pub(crate) near: bool,
    /// Somebody has the keeper's end.
    pub(crate) far: bool,
    pub(crate) orders: Vec<Order>,
    pub(crate) reports: Vec<Word>,
}

/// What a keeper reports, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    Armed,
    Started,
    NotStarted,
    Ended(Said),
}

/// What is said at a job's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    NothingRan,
    Empty,
    Survivors,
    Kept,
    Released,
    Unknown,
}

/// What the owner makes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// It has heard nothing of it.
    Silent,
    /// A boundary is armed.
    Armed,
    /// It runs.
    Running,
    /// The cord has ended without a word of the end: what the warden says of that is waited for.
    Lost {
        /// Whether it is known that the program ran.
        running: bool,
    },
    /// Nothing ran.
    NotStarted,
    /// Nobody can tell whether something ran.
    Unclear,
    /// It is over.
    Over(Said),
}

/// A keeper's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Keeper {
    pub(crate) life: Life,
    pub(crate) warden: usize,
    pub(crate) mind: Job,
    pub(crate) deeds: VecDeque<Step>,
    pub(crate) events: VecDeque<job::Event>,
    pub(crate) saw_warden_gone: bool,
    pub(crate) saw_owner_gone: bool,
    /// Whether it knows of the exec.
    pub(crate) heard_exec: bool,
    /// Whether another process of the job has died and was not reaped.
    pub(crate) member_died: bool,
    /// Whether the warden's death is no longer its own, as that of a namespace's init is.
    pub(crate) disarmed: bool,
}

/// One step of a keeper.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// What its decisions say.
    Do(job::Effect),
    /// Tell the owner what holds the job.
    Arm,
    /// Look whether owner and warden are there.
    Look,
    /// Write down the job.
    Record(State),
    /// Make the leader's process.
    Clone,
    /// Tell the warden.
    Tell(Status),
    /// Strike out the record.
    Clear,
    /// Tell the owner.
    Say(Word),
    /// Live on when the warden dies.
    Disarm,
}

/// The leader's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Leader {
    NotYet,
    /// On its way to exec.
    Child,
    Runs,
    /// It has ended, and was not reaped.
    Dead,
    /// It could not be executed, and has exited.
    Failed,
    Gone,
}

impl World {
    /// Before anything was asked for.
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        Self {
            now: Time(Duration::ZERO),
            owner: true,
            wardens: vec![Warden::new()],
            jobs: (0..setting.jobs).map(|_| Affair::new(setting)).collect(),
            kills: setting.kills,
            losses: setting.losses,
            broken: None,
        }
    }

    /// Remembers the first promise that was broken.
    pub(crate) fn blame(&mut self, what: &'static str) {
        self.broken.get_or_insert(what);
    }
}

impl Warden {
    pub(crate) fn new() -> Self {
        Self {
            life: Life::Runs,
            mind: Mind::default(),
            deeds: VecDeque::new(),
            events: VecDeque::new(),
            pipe: Vec::new(),
            said: Vec::new(),
            saw_owner_gone: false,
            saw_retired: false,
            orphan_died: false,
        }
    }
}

impl Affair {
    fn new(setting: &Setting) -> Self {
        Self {
            request: Request::Unsent,
            cord: Cord { near: false, far: false, orders: Vec::new(), reports: Vec::new() },
            view: View::Silent,
            keeper: Keeper {
                life: Life::NotYet,
                warden: 0,
                mind: Job::new(setting.policy()),
                deeds: VecDeque::new(),
                events: VecDeque::new(),
                saw_warden_gone: false,
                saw_owner_gone: false,
                heard_exec: false,
                member_died: false,
                disarmed: false,
            },
            leader: Leader::NotYet,
            member: false,
            forked: false,
            record: None,
            runs: 0,
            may_live: false,
            must_live: false,
            orders: setting.orders,
        }
    }

    /// Whether a process of the job lives that could run the program.
    pub(crate) fn lives(&self) -> bool {
        self.member || matches!(self.leader, Leader::Child | Leader::Runs)
    }
}

/// A job's name.
pub(crate) fn id(job: usize) -> JobId {
    JobId(job as u128)
}

/// The job of a name.
pub(crate) fn index(id: JobId) -> usize {
    id.0 as usize
}
