//! What is known at a job's end, with the evidence.

use crate::boundary::Boundary;
use crate::id::Member;
use crate::status::ExitStatus;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many processes a report names at most; the count beside the names is always the true one.
pub const NAMED: usize = 64;

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The leader ended by itself.
    LeaderExited,
    /// The job's time was up.
    Timeout,
    /// The owner gave the order.
    Asked,
    /// The owner is gone, or closed the cord.
    OwnerGone,
    /// The warden is gone.
    WardenGone,
    /// The keeper is gone; warden or owner ended the job.
    KeeperGone,
}

impl Cause {
    /// The word that reports show.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeaderExited => "leader-exited",
            Self::Timeout => "timeout",
            Self::Asked => "asked",
            Self::OwnerGone => "owner-gone",
            Self::WardenGone => "warden-gone",
            Self::KeeperGone => "keeper-gone",
        }
    }
}

/// How the kernel showed that nothing of a job is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Evidence {
    /// `populated 0` in the leaf's `cgroup.events`, and no child of the keeper left (`ECHILD`).
    Unpopulated,
    /// No child of the keeper left (`ECHILD`), and it is the subreaper of all that the job started.
    NoChildLeft,
    /// No process of the pid namespace left but its init, the keeper.
    NamespaceEmpty,
    /// The pid namespace's init was reaped, which the kernel allows only when all the rest is gone.
    NamespaceReaped,
    /// No process is in the audit session that the kernel gave the job and all its descendants.
    NobodyTagged,
    /// The pinned group was read twice and had no living member.
    GroupSeenEmptyTwice,
}

impl Evidence {
    /// One line for a report.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Unpopulated => "cgroup populated 0, no child left",
            Self::NoChildLeft => "no child of the subreaper left",
            Self::NamespaceEmpty => "no process of the pid namespace left",
            Self::NamespaceReaped => "the pid namespace's init was reaped",
            Self::NobodyTagged => "no process left in the job's audit session",
            Self::GroupSeenEmptyTwice => "the pinned group was seen empty twice",
        }
    }
}

/// What is known at the end.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The kernel said that nothing is left.
    Empty(Evidence),
    /// It could not be seen whether something is left.
    Unconfirmed(String),
    /// These are left (the first [`NAMED`] of them).
    Survivors(Members),
    /// Nothing was started.
    Refused,
}

/// Some members by name and the true count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Members {
    /// How many there were.
    pub count: u32,
    /// The first [`NAMED`] of them.
    pub named: Vec<Member>,
}

/// What became of the leftovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fate {
    /// They were gone before anything was sent to them.
    EndedByThemselves,
    /// The ladder ended them.
    Ended,
    /// They were kept until the owner ended.
    Kept,
    /// They were let go, and run on.
    Released,
}

impl Fate {
    /// The word that reports show.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndedByThemselves => "ended-by-themselves",
            Self::Ended => "ended",
            Self::Kept => "kept",
            Self::Released => "released",
        }
    }
}

/// What a job used. Times are those of processes that have been reaped, or the cgroup's own count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Usage {
    /// The peak memory in bytes, if it is known.
    pub peak_memory: Option<u64>,
    /// Whether the peak is that of the whole job (a cgroup's) or of its largest process.
    pub peak_is_whole_job: bool,
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl End {
    /// Of a job that was refused; `wanted` is the boundary that it asked for.
    pub fn nothing_ran(wanted: Boundary) -> Self {
        Self::unguarded(Cause::LeaderExited, wanted, Verdict::Refused)
    }

    /// Of a job that no keeper has seen to its end: what only a keeper could count is zero.
    pub fn unguarded(cause: Cause, boundary: Boundary, verdict: Verdict) -> Self {
        Self {
            status: None,
            cause,
            boundary,
            verdict,
            duration: Duration::ZERO,
            forced: Members::default(),
            leftovers: None,
            usage: Usage::default(),
            memory_kills: 0,
            members: 0,
            notes: Vec::new(),
        }
    }

    /// Of a job whose keeper was killed when it had let it go and had not come to say so. Nobody has looked who is left.
    pub fn let_go_unsaid(boundary: Boundary) -> Self {
        let verdict = Verdict::Unconfirmed("the keeper was killed when it had let the job go".to_owned());
        let leftovers = Some((Members::default(), Fate::Released));
        Self { leftovers, ..Self::unguarded(Cause::KeeperGone, boundary, verdict) }
    }

    /// Whether its keeper was killed when it had let the job go and had not come to say so. The job was not ended then.
    pub fn was_let_go_unsaid(&self) -> bool {
        self.cause == Cause::KeeperGone && matches!(self.leftovers, Some((_, Fate::Released)))
    }

    /// Whether the leader exited with status 0.
    pub fn success(&self) -> bool {
        self.status == Some(ExitStatus::Code(0))
    }

    /// Whether the job goes on: its leader has ended, and leftovers are kept until the owner ends. Another
    /// end will be reported then.
    pub fn goes_on(&self) -> bool {
        matches!((&self.verdict, &self.leftovers), (Verdict::Survivors(_), Some((_, Fate::Kept))))
    }
}

/// How a job ended: the last report on the cord, or the last but one where leftovers are kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct End {
    /// How the leader ended; `None` when it never ran or its end could not be seen.
    pub status: Option<ExitStatus>,
    /// Why the job ended.
    pub cause: Cause,
    /// What held it.
    pub boundary: Boundary,
    /// What is known about emptiness.
    pub verdict: Verdict,
    /// From the start of the leader to this report.
    pub duration: Duration,
    /// Those that `KILL` had to end.
    pub forced: Members,
    /// Those that were there when the leader had exited, and what became of them.
    pub leftovers: Option<(Members, Fate)>,
    /// Memory and processor time.
    pub usage: Usage,
    /// How many processes were killed by the job's own memory limit.
    pub memory_kills: u64,
    /// How many processes of the job the keeper saw: those it reaped and those it found alive.
    pub members: u32,
    /// What a reader should know about the boundary on this machine.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_let_go_is_not_said_to_be_ended() {
        let end = End::let_go_unsaid(Boundary::Tree);
        assert!(end.was_let_go_unsaid() && !end.goes_on() && matches!(end.verdict, Verdict::Unconfirmed(_)));
        let ended = End::unguarded(Cause::KeeperGone, Boundary::Tree, end.verdict.clone());
        assert!(!ended.was_let_go_unsaid());
        assert!(!End { cause: Cause::LeaderExited, ..end }.was_let_go_unsaid());
    }

    #[test]
    fn every_word_for_a_reader_is_its_own() {
        use Evidence::Unpopulated;
        use Evidence::{GroupSeenEmptyTwice, NamespaceEmpty, NamespaceReaped, NoChildLeft, NobodyTagged};
        let causes = [Cause::LeaderExited, Cause::Timeout, Cause::Asked].map(Cause::name);
        assert_eq!(causes, ["leader-exited", "timeout", "asked"]);
        let guards = [Cause::OwnerGone, Cause::WardenGone, Cause::KeeperGone].map(Cause::name);
        assert_eq!(guards, ["owner-gone", "warden-gone", "keeper-gone"]);
        let fates = [Fate::EndedByThemselves, Fate::Ended, Fate::Kept, Fate::Released].map(Fate::name);
        assert_eq!(fates, ["ended-by-themselves", "ended", "kept", "released"]);
        let seen =
            [Unpopulated, NoChildLeft, NamespaceEmpty, NamespaceReaped, NobodyTagged, GroupSeenEmptyTwice];
        let said = seen.map(Evidence::describe);
        let names = ["cgroup", "subreaper", "of the pid namespace", "init", "audit session", "group"];
        assert!(said.iter().zip(names).all(|(said, name)| said.contains(name)), "{said:?}");
    }

    #[test]
    fn what_nobody_has_run_is_no_success_and_does_not_go_on() {
        let end = End::nothing_ran(Boundary::Tree);
        assert_eq!((end.cause, end.boundary), (Cause::LeaderExited, Boundary::Tree));
        assert!(end.verdict == Verdict::Refused && end.status.is_none() && !end.success() && !end.goes_on());
        let with = |status| End { status: Some(status), ..end.clone() }.success();
        assert!(with(ExitStatus::Code(0)) && !with(ExitStatus::Code(1)) && !with(ExitStatus::Signal(0)));
    }

    #[test]
    fn only_with_kept_survivors_a_job_goes_on() {
        let end = |verdict, fate| {
            let leftovers = Some((Members::default(), fate));
            End { leftovers, ..End::unguarded(Cause::LeaderExited, Boundary::Tree, verdict) }.goes_on()
        };
        let survivors = || Verdict::Survivors(Members::default());
        assert!(end(survivors(), Fate::Kept));
        assert!(!end(survivors(), Fate::Released) && !end(Verdict::Empty(Evidence::NoChildLeft), Fate::Kept));
    }
}
