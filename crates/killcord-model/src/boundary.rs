//! The mechanisms that hold a job, how strong each is, and which one to try first.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What holds a job, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boundary {
    /// Nothing: a plain child process of an owner that could not have a warden and allowed that.
    Uncontained,
    /// A process group, pinned by its unreaped leader. Whoever leaves the group leaves the job.
    Group,
    /// All descendants of the keeper, which is their subreaper (`PR_SET_CHILD_SUBREAPER`, `prctl(2)`).
    Tree,
    /// A cgroup v2 of the job's own (`cgroups(7)`).
    Cgroup,
    /// A pid namespace whose init is the keeper (`pid_namespaces(7)`).
    Namespace,
}

impl Boundary {
    /// The word of the design, as it is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uncontained => "uncontained",
            Self::Group => "group",
            Self::Tree => "tree",
            Self::Cgroup => "cgroup",
            Self::Namespace => "namespace",
        }
    }

    /// Whether processes that leave the leader's group, session or parent are ended too.
    pub fn ends_escapees(self) -> bool {
        !matches!(self, Self::Uncontained | Self::Group)
    }

    /// What is left of a job when owner, warden and keeper are killed at the same instant.
    pub fn when_all_are_killed(self) -> &'static str {
        match self {
            Self::Uncontained => "everything runs on",
            Self::Group | Self::Tree => "the leader ends at once, the rest runs on",
            Self::Cgroup => "the leader ends at once, the rest stays in a cgroup that names the job",
            Self::Namespace => "the kernel ends everything at once",
        }
    }

    /// What becomes of a job on this boundary when these are killed: the death table.
    pub fn when_killed(self, killed: Killed) -> Aftermath {
        match (self, killed) {
            (
                Self::Namespace | Self::Cgroup | Self::Tree,
                Killed::Owner | Killed::Warden | Killed::Keeper,
            )
            | (Self::Namespace, Killed::All) => Aftermath::AllEnded,
            (Self::Uncontained, _) => Aftermath::NothingEnded,
            (Self::Group, Killed::Owner | Killed::Warden | Killed::Keeper) => Aftermath::GroupEnded,
            (Self::Cgroup, Killed::All) => Aftermath::LeaderEndedRestNamed,
            (Self::Tree | Self::Group, Killed::All) => Aftermath::LeaderEnded,
        }
    }
}

/// Who gets SIGKILL in the death table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Killed {
    /// The owner.
    Owner,
    /// The warden.
    Warden,
    /// The job's keeper.
    Keeper,
    /// All three at the same instant.
    All,
}

/// What becomes of a job when somebody was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aftermath {
    /// Every process of the job is ended.
    AllEnded,
    /// The leader's process group is ended; whoever left it is not.
    GroupEnded,
    /// The leader is ended at once. The rest stays in a cgroup whose name is the job's.
    LeaderEndedRestNamed,
    /// The leader is ended at once. The rest runs on.
    LeaderEnded,
    /// Everything runs on.
    NothingEnded,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no boundary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a boundary: use cgroup, tree, namespace or group")]
pub struct NotABoundary(pub String);

impl FromStr for Boundary {
    type Err = NotABoundary;

    fn from_str(text: &str) -> Result<Self, NotABoundary> {
        [Self::Group, Self::Tree, Self::Cgroup, Self::Namespace]
            .into_iter()
            .find(|b| b.name() == text)
            .ok_or_else(|| NotABoundary(text.to_owned()))
    }
}

/// Which boundary a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Choice {
    /// `cgroup`, else `tree`, else `group`.
    #[default]
    Auto,
    /// This one or nothing.
    Exactly(Boundary),
}

/// The boundaries to attempt, in this order, for a choice and a requirement.
///
/// `auto` leaves `namespace` out, because it changes what a program sees; it is taken when nothing
/// weaker would satisfy the requirement. An empty answer means that the two contradict each other.
pub fn candidates(choice: Choice, require: Option<Boundary>) -> Vec<Boundary> {
    let enough = |b: &Boundary| require.is_none_or(|r| *b >= r);
    match choice {
        Choice::Exactly(b) => [b].into_iter().filter(enough).collect(),
        Choice::Auto if require == Some(Boundary::Namespace) => vec![Boundary::Namespace],
        Choice::Auto => {
            [Boundary::Cgroup, Boundary::Tree, Boundary::Group].into_iter().filter(enough).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Boundary::{Cgroup, Group, Namespace, Tree};

    #[test]
    fn auto_goes_from_cgroup_to_group_and_a_requirement_cuts_the_weak_end() {
        assert_eq!(candidates(Choice::Auto, None), [Cgroup, Tree, Group]);
        assert_eq!(candidates(Choice::Auto, Some(Tree)), [Cgroup, Tree]);
        assert_eq!(candidates(Choice::Auto, Some(Cgroup)), [Cgroup]);
        assert_eq!(candidates(Choice::Auto, Some(Namespace)), [Namespace]);
    }

    #[test]
    fn an_exact_choice_below_the_requirement_leaves_nothing_to_try() {
        assert_eq!(candidates(Choice::Exactly(Tree), Some(Cgroup)), []);
        assert_eq!(candidates(Choice::Exactly(Namespace), Some(Cgroup)), [Namespace]);
        assert_eq!(candidates(Choice::Exactly(Group), None), [Group]);
    }

    #[test]
    fn only_a_namespace_outlives_the_loss_of_all_and_a_group_never_holds_escapees() {
        for b in [Group, Tree, Cgroup, Namespace] {
            for one in [Killed::Owner, Killed::Warden, Killed::Keeper] {
                assert_eq!(b.when_killed(one) == Aftermath::AllEnded, b.ends_escapees());
            }
            assert_eq!(b.when_killed(Killed::All) == Aftermath::AllEnded, b == Namespace);
        }
    }

    #[test]
    fn what_is_left_when_all_are_killed_is_said_of_each() {
        let said = [Boundary::Uncontained, Group, Tree, Cgroup, Namespace].map(Boundary::when_all_are_killed);
        let beginnings =
            ["everything runs on", "the leader ends", "the leader ends", "the leader ends", "the kernel"];
        assert!(said.iter().zip(beginnings).all(|(said, begins)| said.starts_with(begins)), "{said:?}");
        assert!(said[3].ends_with("names the job") && said[2].ends_with("the rest runs on"));
    }

    #[test]
    fn every_name_reads_back() {
        for b in [Group, Tree, Cgroup, Namespace] {
            assert_eq!(b.name().parse(), Ok(b));
            assert_eq!(b.to_string(), b.name());
        }
        assert!("Cgroup".parse::<Boundary>().is_err());
    }
}
