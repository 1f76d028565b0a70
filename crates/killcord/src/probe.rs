//! What holds on this machine, found by doing it.
//!
//! Each boundary is tried with a real job: a warden is forked, the boundary made, a [`witness`] put into
//! it that lets a child escape to a session of its own, the job killed by the boundary's own means and
//! seen empty. That the escapee is gone too is proven by the kernel, apart from what the keeper says: it
//! holds the write end of a pipe. Limits are tried the same way, each by itself, with a job that has it.
//!
//! Nothing is left behind, even if the prober is killed on the way: the witness ends with its standard
//! input.

mod advice;
mod attempt;
mod mechanisms;
mod witness;

use crate::error::Error;
use killcord_model::boundary::{Aftermath, Boundary, Choice, Killed, candidates};
use killcord_sys::clock;
use serde::{Deserialize, Serialize};

pub use advice::Advice;
pub use mechanisms::{CgroupKill, Mechanisms};
pub use witness::{Witness, witness};

/// The version of [`Findings`] as an object for programs.
pub const VERSION: u32 = 1;

/// What was found. Serialised, it is what `killcord doctor --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// [`VERSION`]. Fields may be added without changing it.
    pub version: u32,
    /// What `auto` takes here; `None` when no job can be held at all.
    pub boundary: Option<Boundary>,
    /// Every boundary, the strongest first.
    pub boundaries: Vec<Found>,
    /// What the kernel and this environment allow.
    pub mechanisms: Mechanisms,
    /// What would give a stronger boundary than the one in force. Each is said only when it is true here.
    pub advice: Vec<Advice>,
    /// How long the probe took, in milliseconds.
    pub duration_ms: f64,
}

/// One boundary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Which one.
    pub kind: Boundary,
    /// Whether a job can be started on it, which is what `auto` goes by.
    pub starts: bool,
    /// Whether it held a job here, from its start until it was seen empty.
    pub available: bool,
    /// Why it could not be had.
    pub why_not: Option<String>,
    /// For `namespace`: how it is made.
    pub through: Option<Through>,
    /// Whether what leaves its group, its session or its parent is ended too. Where the boundary is
    /// available, this was seen.
    pub ends_escapees: bool,
    /// How the kernel showed that the job was gone.
    pub evidence: Option<String>,
    /// From the order to end to the verdict, in milliseconds.
    pub end_ms: Option<f64>,
    /// What a reader should know about it on this machine.
    pub notes: Vec<String>,
    /// Which limits can be enforced on it.
    pub limits: Vec<LimitFound>,
    /// What becomes of a job when these get SIGKILL.
    pub when_killed: WhenKilled,
}

/// How a pid namespace is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// By privilege.
    Privilege,
    /// Through a user namespace: set-uid programs gain nothing in it, and other users show as nobody.
    UserNamespace,
}

/// A limit on a whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// `--memory`.
    Memory,
    /// `--pids`.
    Pids,
    /// `--cpu`.
    Cpu,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// Whether a limit can be enforced on a boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitFound {
    /// Which one.
    pub limit: Limit,
    /// Whether a job ran with it.
    pub enforced: bool,
    /// Why it would be refused.
    pub why_not: Option<String>,
}

/// The columns of the death table: what becomes of a job when this process of killcord gets SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhenKilled {
    /// The owner.
    pub owner: Aftermath,
    /// The warden.
    pub warden: Aftermath,
    /// The keeper.
    pub keeper: Aftermath,
    /// All three at the same instant.
    pub all: Aftermath,
}

impl From<Boundary> for WhenKilled {
    fn from(b: Boundary) -> Self {
        let when = |killed| b.when_killed(killed);
        Self {
            owner: when(Killed::Owner),
            warden: when(Killed::Warden),
            keeper: when(Killed::Keeper),
            all: when(Killed::All),
        }
    }
}

impl Findings {
    /// What was found about a boundary.
    pub fn of(&self, kind: Boundary) -> Option<&Found> {
        self.boundaries.iter().find(|b| b.kind == kind)
    }

    /// Whether a job of `auto` is held with all its escapees.
    pub fn holds(&self) -> bool {
        let in_force = self.boundary.and_then(|kind| self.of(kind));
        in_force.is_some_and(|b| b.available && b.ends_escapees)
    }
}

/// Tries everything. The calling process must have one thread, and no child that it would mind to be
/// told apart from the wardens that are forked here one after the other.
///
/// # Errors
/// [`Error::Io`] when not even a warden can be forked. That a boundary cannot be had is a finding.
pub fn probe(witness: &Witness) -> Result<Findings, Error> {
    let begun = clock::now();
    let (mechanisms, obstacles) = mechanisms::look();
    let strongest_first = [Boundary::Namespace, Boundary::Cgroup, Boundary::Tree, Boundary::Group];
    let boundaries = strongest_first
        .into_iter()
        .map(|kind| attempt::boundary(kind, witness, &mechanisms))
        .collect::<Result<Vec<_>, _>>()?;
    let has = |kind: &Boundary| boundaries.iter().any(|b| b.kind == *kind && b.available);
    let starts = |kind: &Boundary| boundaries.iter().any(|b| b.kind == *kind && b.starts);
    let boundary = candidates(Choice::Auto, None).into_iter().find(starts);
    let advice = advice::advise(boundary, &has, &mechanisms, &obstacles);
    let duration_ms = clock::now().saturating_sub(begun).as_secs_f64() * 1000.0;
    Ok(Findings { version: VERSION, boundary, boundaries, mechanisms, advice, duration_ms })
}
