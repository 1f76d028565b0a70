//! When a claim may be removed, and when what is left of a job may be ended: by proof alone.
//!
//! Three questions are asked, and each may stay open. A claim goes in one of the twenty-seven states: its
//! owner is proven dead, its lease is proven free and its jobs are proven over. Everything else stays.

use crate::boundary::Boundary;
use crate::record::{Job, Owner, Place, Process, State};

/// Whether the owner lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerProof {
    /// It is proven dead.
    Dead,
    /// It lives.
    Alive,
    /// Nobody can tell.
    Unknown,
}

/// Whether somebody holds the lease: the owner, its warden or a keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseProof {
    /// Nobody does.
    Free,
    /// Somebody does.
    Held,
    /// Nobody can tell.
    Unknown,
}

/// Whether the keeper of a job lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeeperProof {
    /// It is proven dead.
    Dead,
    /// It lives.
    Alive,
    /// Nobody can tell.
    Unknown,
}

/// Whether the jobs of a claim are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobsProof {
    /// All of them are.
    Over,
    /// One runs.
    Running,
    /// Nobody can tell.
    Unknown,
}

/// Why a claim stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its owner lives.
    OwnerAlive,
    /// A guard of one of its jobs lives.
    LeaseHeld,
    /// One of its jobs runs.
    JobRunning,
    /// One of the three could not be proven.
    Unknown,
    /// It, or something in it that must be read, is not what killcord writes.
    Unreadable,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OwnerAlive, Self::LeaseHeld, Self::JobRunning, Self::Unknown, Self::Unreadable];

    /// For a reader, behind "kept: ".
    pub fn text(self) -> &'static str {
        match self {
            Self::OwnerAlive => "owner alive",
            Self::LeaseHeld => "lease held",
            Self::JobRunning => "job running",
            Self::Unknown => "unknown",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What becomes of a claim.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes.
    Remove,
    /// It stays.
    Keep(Reason),
}

/// Decides about a claim.
pub fn verdict(owner: OwnerProof, lease: LeaseProof, jobs: JobsProof) -> Verdict {
    match (owner, lease, jobs) {
        (OwnerProof::Dead, LeaseProof::Free, JobsProof::Over) => Verdict::Remove,
        (OwnerProof::Alive, _, _) => Verdict::Keep(Reason::OwnerAlive),
        (_, LeaseProof::Held, _) => Verdict::Keep(Reason::LeaseHeld),
        (_, _, JobsProof::Running) => Verdict::Keep(Reason::JobRunning),
        (OwnerProof::Unknown, _, _) | (_, LeaseProof::Unknown, _) | (_, _, JobsProof::Unknown) => {
            Verdict::Keep(Reason::Unknown)
        }
    }
}

/// What `/proc` says about the number in a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// There is no such process.
    Gone,
    /// There is one, which started then.
    Process {
        /// When it started, in clock ticks since boot.
        start: u64,
        /// Whether it has ended and only waits to be reaped.
        dead: bool,
    },
    /// It could not be looked at.
    Unknown,
}

/// Whether two places are one, or one of them is of another start of the machine, when every process of it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Where {
    Here,
    BeforeBoot,
    Elsewhere,
}

fn place_of(recorded: &Place, here: &Place) -> Where {
    if recorded.boot.is_empty() || here.boot.is_empty() {
        Where::Elsewhere
    } else if recorded.boot != here.boot {
        Where::BeforeBoot
    } else if recorded == here && here.pid_namespace != 0 {
        Where::Here
    } else {
        Where::Elsewhere
    }
}

/// Whether a process lives that was written down at a place, by what is seen of its number here; `None` when nobody can
/// tell.
fn lives(process: Process, place: &Place, here: &Place, seen: Seen) -> Option<bool> {
    match (place_of(place, here), seen) {
        (Where::Elsewhere, _) | (Where::Here, Seen::Unknown) => None,
        (Where::Here, _) if process.pid == 0 => None,
        (Where::BeforeBoot, _) | (Where::Here, Seen::Gone) => Some(false),
        (Where::Here, Seen::Process { start, dead }) => Some(start == process.start && !dead),
    }
}

/// Whether an owner lives, by its marker and what is seen of its number here.
pub fn owner(marker: &Owner, here: &Place, seen: Seen) -> OwnerProof {
    match lives(marker.process, &marker.place, here, seen) {
        Some(true) => OwnerProof::Alive,
        Some(false) => OwnerProof::Dead,
        None => OwnerProof::Unknown,
    }
}

/// Whether a job's keeper lives, by its record and what is seen of its number here.
///
/// Only a record that was read behind this proof is the last one: the keeper may have let the job go before it died.
pub fn keeper(record: &Job, here: &Place, seen: Seen) -> KeeperProof {
    match record.keeper.and_then(|keeper| lives(keeper, &record.place, here, seen)) {
        Some(true) => KeeperProof::Alive,
        Some(false) => KeeperProof::Dead,
        None => KeeperProof::Unknown,
    }
}

/// What can be seen of a job whose guards are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Traces {
    /// How many processes were found: in its cgroup, with its tag, or with its name in their environment.
    pub found: usize,
    /// Whether its cgroup was seen without members, or seen to be gone.
    pub leaf_empty: bool,
    /// Whether all processes could be asked for their tag.
    pub tags_read: bool,
}

/// Whether a job is over, where its record alone says so: nothing has to be looked for then.
#[must_use]
pub fn job_by_record(record: &Job, here: &Place) -> Option<JobsProof> {
    match (place_of(&record.place, here), record.state) {
        (Where::BeforeBoot, _) | (Where::Here, State::Reserved) => Some(JobsProof::Over),
        (Where::Elsewhere, _) => Some(JobsProof::Unknown),
        (Where::Here, State::Started | State::Released) => None,
    }
}

/// Whether a job is over, for a claim whose lease is free: its keeper is gone then, and with it the init of a
/// namespace.
///
/// A name in the environment finds processes; that it finds none proves nothing, since a program can drop its
/// environment. A cgroup and a tag cannot be dropped.
pub fn job(record: &Job, here: &Place, traces: Traces) -> JobsProof {
    if let Some(known) = job_by_record(record, here) {
        return known;
    }
    let seen_all = match record.boundary {
        Boundary::Namespace => true,
        Boundary::Cgroup => traces.leaf_empty,
        Boundary::Tree | Boundary::Group | Boundary::Uncontained => false,
    };
    if traces.found > 0 {
        JobsProof::Running
    } else if seen_all || (record.tag.is_some() && traces.tags_read) {
        JobsProof::Over
    } else {
        JobsProof::Unknown
    }
}

/// Whether what is left of a job may be ended: its owner is gone and so is its keeper, and it was not let go.
///
/// A free lease proves that all guards are gone. A held one says only that somebody's keeper lives: it may be the
/// caretaker of another job of this owner, which was let go and can live for years. Then the death of the job's own
/// keeper is proof as well: a warden that lives ends what that keeper left, too.
pub fn may_end(record: &Job, owner: OwnerProof, lease: LeaseProof, keeper: KeeperProof) -> bool {
    let unguarded = lease == LeaseProof::Free || keeper == KeeperProof::Dead;
    record.state == State::Started && owner == OwnerProof::Dead && unguarded
}

/// Whether a job has lost its keeper and was not let go: what is left of it is to end, whoever else lives. It is for its
/// own owner and that one's guards to ask this; everybody else needs their death as well.
pub fn has_lost_its_keeper(record: &Job, keeper: KeeperProof) -> bool {
    record.state == State::Started && keeper == KeeperProof::Dead
}

/// Whether a process can be of a job that had this keeper: nothing of a job is older than its keeper.
pub fn may_belong(keeper: Option<Process>, start: u64) -> bool {
    keeper.is_some_and(|keeper| start >= keeper.start)
}

/// What two jobs of one claim say together.
#[must_use]
pub fn both(one: JobsProof, other: JobsProof) -> JobsProof {
    match (one, other) {
        (JobsProof::Running, _) | (_, JobsProof::Running) => JobsProof::Running,
        (JobsProof::Unknown, _) | (_, JobsProof::Unknown) => JobsProof::Unknown,
        (JobsProof::Over, JobsProof::Over) => JobsProof::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNERS: [OwnerProof; 3] = [OwnerProof::Dead, OwnerProof::Alive, OwnerProof::Unknown];
    const LEASES: [LeaseProof; 3] = [LeaseProof::Free, LeaseProof::Held, LeaseProof::Unknown];
    const KEEPERS: [KeeperProof; 3] = [KeeperProof::Dead, KeeperProof::Alive, KeeperProof::Unknown];
    const JOBS: [JobsProof; 3] = [JobsProof::Over, JobsProof::Running, JobsProof::Unknown];

    #[test]
    fn exactly_one_of_the_twenty_seven_states_removes() {
        let mut removing = Vec::new();
        for owner in OWNERS {
            for lease in LEASES {
                for jobs in JOBS {
                    if verdict(owner, lease, jobs) == Verdict::Remove {
                        removing.push((owner, lease, jobs));
                    }
                }
            }
        }
        assert_eq!(removing, [(OwnerProof::Dead, LeaseProof::Free, JobsProof::Over)]);
    }

    #[test]
    fn the_reason_is_the_one_that_its_reader_can_act_upon() {
        use OwnerProof::{Alive, Dead};
        assert_eq!(verdict(Alive, LeaseProof::Held, JobsProof::Running), Verdict::Keep(Reason::OwnerAlive));
        assert_eq!(verdict(Dead, LeaseProof::Held, JobsProof::Running), Verdict::Keep(Reason::LeaseHeld));
        assert_eq!(verdict(Dead, LeaseProof::Free, JobsProof::Running), Verdict::Keep(Reason::JobRunning));
        assert_eq!(verdict(Dead, LeaseProof::Free, JobsProof::Unknown), Verdict::Keep(Reason::Unknown));
    }

    #[test]
    fn every_reason_has_its_words() {
        let words = ["owner alive", "lease held", "job running", "unknown", "unreadable"];
        assert_eq!(Reason::ALL.map(Reason::text), words);
    }

    fn here() -> Place {
        Place { boot: "now".to_owned(), pid_namespace: 1, time_namespace: 2 }
    }

    fn places() -> [Place; 5] {
        [
            here(),
            Place { boot: "before".to_owned(), ..here() },
            Place { pid_namespace: 9, ..here() },
            Place { time_namespace: 9, ..here() },
            Place { boot: String::new(), ..here() },
        ]
    }

    fn marker(place: Place, pid: u32) -> Owner {
        let process = Process { pid, start: 10 };
        Owner { place, process, program: String::new(), since: 0, service: None }
    }

    #[test]
    fn an_owner_is_dead_only_by_proof() {
        use OwnerProof::{Alive, Dead, Unknown};
        let same = Seen::Process { start: 10, dead: false };
        let zombie = Seen::Process { start: 10, dead: true };
        let another = Seen::Process { start: 11, dead: false };
        for (seen, expected) in [
            (Seen::Gone, [Dead, Dead, Unknown, Unknown, Unknown]),
            (same, [Alive, Dead, Unknown, Unknown, Unknown]),
            (zombie, [Dead, Dead, Unknown, Unknown, Unknown]),
            (another, [Dead, Dead, Unknown, Unknown, Unknown]),
            (Seen::Unknown, [Unknown, Dead, Unknown, Unknown, Unknown]),
        ] {
            assert_eq!(places().map(|p| owner(&marker(p, 5), &here(), seen)), expected, "{seen:?}");
        }
        assert_eq!(owner(&marker(here(), 0), &here(), Seen::Gone), Unknown);
        // A namespace that neither could read is not known to be the same.
        let blind = Place { pid_namespace: 0, ..here() };
        assert_eq!(owner(&marker(blind.clone(), 5), &blind, Seen::Gone), Unknown);
    }

    fn record(state: State, boundary: Boundary, tag: Option<u32>) -> Job {
        let keeper = Some(Process { pid: 5, start: 10 });
        let (leaf, limits, program, since) = (None, Vec::new(), String::new(), 0);
        Job { place: here(), state, boundary, leaf, limits, tag, keeper, program, since }
    }

    #[test]
    fn a_job_is_over_only_where_nothing_of_it_can_hide() {
        use JobsProof::{Over, Running, Unknown};
        let nothing = Traces { found: 0, leaf_empty: false, tags_read: true };
        let empty_leaf = Traces { leaf_empty: true, ..nothing };
        let unread = Traces { tags_read: false, ..nothing };
        let found = Traces { found: 1, leaf_empty: true, tags_read: true };
        for state in [State::Started, State::Released] {
            for (boundary, tag, traces, expected) in [
                (Boundary::Tree, None, nothing, Unknown),
                (Boundary::Tree, Some(3), nothing, Over),
                (Boundary::Tree, Some(3), unread, Unknown),
                (Boundary::Tree, Some(3), found, Running),
                (Boundary::Tree, None, empty_leaf, Unknown),
                (Boundary::Cgroup, None, empty_leaf, Over),
                (Boundary::Cgroup, None, nothing, Unknown),
                (Boundary::Cgroup, None, found, Running),
                (Boundary::Namespace, None, unread, Over),
                (Boundary::Group, None, nothing, Unknown),
            ] {
                let record = record(state, boundary, tag);
                assert_eq!(job(&record, &here(), traces), expected, "{record:?} {traces:?}");
            }
        }
        let reserved = record(State::Reserved, Boundary::Tree, None);
        assert_eq!(job(&reserved, &here(), nothing), Over);
        let before = Job { place: places()[1].clone(), ..record(State::Started, Boundary::Tree, None) };
        assert_eq!(job(&before, &here(), found), Over);
        let elsewhere = Job { place: places()[2].clone(), ..reserved };
        assert_eq!(job(&elsewhere, &here(), nothing), Unknown);
    }

    #[test]
    fn only_a_job_that_nobody_answers_for_is_ended() {
        let mut ended = Vec::new();
        for state in [State::Reserved, State::Started, State::Released] {
            let record = record(state, Boundary::Tree, None);
            for owner in OWNERS {
                for lease in LEASES {
                    let by = |keeper| may_end(&record, owner, lease, keeper);
                    ended.extend(KEEPERS.into_iter().filter(|k| by(*k)).map(|k| (state, owner, lease, k)));
                }
            }
        }
        let free = KEEPERS.map(|keeper| (LeaseProof::Free, keeper));
        let lost = [LeaseProof::Held, LeaseProof::Unknown].map(|lease| (lease, KeeperProof::Dead));
        let expected = free.into_iter().chain(lost);
        let expected: Vec<_> = expected.map(|(l, k)| (State::Started, OwnerProof::Dead, l, k)).collect();
        assert_eq!(ended, expected);
    }

    #[test]
    fn a_living_caretaker_of_another_job_does_not_keep_what_a_killed_keeper_left() {
        let lost = |state| record(state, Boundary::Tree, None);
        let held = |state, keeper| may_end(&lost(state), OwnerProof::Dead, LeaseProof::Held, keeper);
        assert!(held(State::Started, KeeperProof::Dead));
        assert!(!held(State::Started, KeeperProof::Alive) && !held(State::Started, KeeperProof::Unknown));
        assert!(!held(State::Released, KeeperProof::Dead));
        assert!(!may_end(&lost(State::Started), OwnerProof::Alive, LeaseProof::Held, KeeperProof::Dead));
    }

    #[test]
    fn a_keeper_is_dead_only_by_proof() {
        use KeeperProof::{Alive, Dead, Unknown};
        let at = |place: Place| Job { place, ..record(State::Started, Boundary::Tree, None) };
        for (seen, expected) in [
            (Seen::Gone, [Dead, Dead, Unknown, Unknown, Unknown]),
            (Seen::Process { start: 10, dead: false }, [Alive, Dead, Unknown, Unknown, Unknown]),
            (Seen::Process { start: 10, dead: true }, [Dead, Dead, Unknown, Unknown, Unknown]),
            (Seen::Process { start: 11, dead: false }, [Dead, Dead, Unknown, Unknown, Unknown]),
            (Seen::Unknown, [Unknown, Dead, Unknown, Unknown, Unknown]),
        ] {
            assert_eq!(places().map(|place| keeper(&at(place), &here(), seen)), expected, "{seen:?}");
        }
        assert_eq!(keeper(&Job { keeper: None, ..at(here()) }, &here(), Seen::Gone), Unknown);
    }

    #[test]
    fn a_job_without_its_keeper_is_its_own_owners_to_end() {
        for state in [State::Reserved, State::Started, State::Released] {
            for keeper in KEEPERS {
                let is = has_lost_its_keeper(&record(state, Boundary::Tree, None), keeper);
                assert_eq!(
                    is,
                    (state, keeper) == (State::Started, KeeperProof::Dead),
                    "{state:?} {keeper:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_older_than_the_keeper_is_not_of_its_job() {
        let keeper = Some(Process { pid: 5, start: 10 });
        assert!(may_belong(keeper, 10) && !may_belong(keeper, 9) && !may_belong(None, 11));
    }

    #[test]
    fn one_running_job_speaks_for_the_claim() {
        use JobsProof::{Over, Running, Unknown};
        assert_eq!(both(Over, Over), Over);
        assert_eq!((both(Over, Unknown), both(Unknown, Running)), (Unknown, Running));
    }
}
