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

/// Whether an owner lives, by its marker and what is seen of its number here.
pub fn owner(marker: &Owner, here: &Place, seen: Seen) -> OwnerProof {
    match (place_of(&marker.place, here), seen) {
        (Where::Elsewhere, _) | (Where::Here, Seen::Unknown) => OwnerProof::Unknown,
        (Where::Here, _) if marker.process.pid == 0 => OwnerProof::Unknown,
        (Where::BeforeBoot, _) | (Where::Here, Seen::Gone) => OwnerProof::Dead,
        (Where::Here, Seen::Process { start, dead }) => {
            if start == marker.process.start && !dead {
                OwnerProof::Alive
            } else {
                OwnerProof::Dead
            }
        }
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

/// Whether what is left of a job may be ended: all that answered for it is gone, and it was not let go.
pub fn may_end(record: &Job, owner: OwnerProof, lease: LeaseProof) -> bool {
    record.state == State::Started && owner == OwnerProof::Dead && lease == LeaseProof::Free
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
            for owner in OWNERS {
                for lease in LEASES {
                    if may_end(&record(state, Boundary::Tree, None), owner, lease) {
                        ended.push((state, owner, lease));
                    }
                }
            }
        }
        assert_eq!(ended, [(State::Started, OwnerProof::Dead, LeaseProof::Free)]);
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
