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
use crate::roles::{Held, Shape, Streams, tree_args};
use crate::{Result, Setup};
use killcord::{Boundary, Choice, End, Job, Owner, Verdict};
use std::path::Path;
use std::process::{Command, Stdio};

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

/// A program without streams, as a job has none by default.
fn silent(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn checked(status: std::io::Result<std::process::ExitStatus>) -> Result<()> {
    let status = status.map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

/// One job, from its start to its proven end.
fn by_killcord(owner: &Owner, program: &Path) -> Result<()> {
    let end = owner.command(program).spawn().and_then(|mut job| job.wait()).map_err(|e| e.to_string())?;
    well(&end)
}

/// Jobs of one process each, which live until they are ended.
struct Live {
    jobs: Vec<Job>,
    held: Held,
    streams: Streams,
}

impl Live {
    fn none() -> Result<Self> {
        let (held, streams) = Held::new()?;
        Ok(Self { jobs: Vec::new(), held, streams })
    }

    /// Starts more of them, until there are so many and all are up.
    fn up_to(&mut self, count: usize, owner: &Owner, setup: &Setup) -> Result<()> {
        let copy = |fd: &std::os::fd::OwnedFd| fd.try_clone().map_err(|e| e.to_string());
        let more = count.saturating_sub(self.jobs.len());
        for _ in 0..more {
            let mut command = owner.command(&setup.own);
            command.args(tree_args(1, Shape::Wide, "live"));
            let Streams { life, ready, done } = &self.streams;
            command.stdin(copy(life)?).stdout(copy(ready)?).stderr(copy(done)?);
            let number = self.jobs.len();
            self.jobs.push(command.spawn().map_err(|e| format!("job {number}: {e}"))?);
        }
        self.held.wait_ready(more)
    }

    /// Ends all, and sees that they are gone.
    fn end(mut self) -> Result<()> {
        drop(self.streams);
        for job in &self.jobs {
            job.end_now().map_err(|e| e.to_string())?;
        }
        for job in &mut self.jobs {
            job.wait().map_err(|e| e.to_string())?;
        }
        self.held.let_go()
    }
}
