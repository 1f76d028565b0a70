//! What is measured, one file for each heading.

pub(crate) mod claims;
pub(crate) mod many;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod output;
pub(crate) mod owner_kill;
pub(crate) mod run;
pub(crate) mod start;
pub(crate) mod teardown;

use crate::measure::Found;
use crate::{Result, Setup};
use killcord::{Boundary, Choice, End, Owner, Verdict};

/// A heading by which it can be asked for, and what measures it.
pub(crate) type Section = (&'static str, fn(&Setup, &mut Found) -> Result<()>);

pub(crate) const ALL: &[Section] = &[
    ("start", start::measure),
    ("run", run::measure),
    ("teardown", teardown::measure),
    ("owner-kill", owner_kill::measure),
    ("memory", memory::measure),
    ("many", many::measure),
    ("output", output::measure),
    ("claims", claims::measure),
    ("mcp", mcp::measure),
];

const BOUNDARIES: [Boundary; 3] = [Boundary::Tree, Boundary::Cgroup, Boundary::Namespace];

/// How a variant of ours is called.
fn ours(boundary: Boundary) -> String {
    format!("killcord {boundary}")
}

fn owner(setup: &Setup, boundary: Boundary) -> Result<Owner> {
    let builder = Owner::builder().boundary(Choice::Exactly(boundary)).warden(&setup.killcord);
    builder.build().map_err(|e| e.to_string())
}

/// That a job has ended well, and that nothing of it is left.
fn well(end: &End) -> Result<()> {
    match (&end.verdict, end.success()) {
        (Verdict::Empty(_), true) => Ok(()),
        _ => Err(format!("{end:?}")),
    }
}
