//! From a line in `ids` to a process that is held, and the proof that it has ended.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::procs::{self, PinnedProcess};
use crate::record::Recorded;

/// A recorded process that still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alive {
    /// The name it was recorded under.
    pub name: String,
    /// Its number here (in a pid namespace it knows itself by another).
    pub pid: u32,
    /// Its start, in clock ticks since boot.
    pub start: u64,
    /// The state letter of `/proc`.
    pub state: char,
}

/// Which of the recorded incarnations run now; zombies count as dead, recycled numbers as strangers.
pub fn alive_now(ids: &[Recorded]) -> Vec<Alive> {
    Pinned::open(ids).alive()
}

/// Recorded processes, each held by a pidfd.
#[derive(Debug)]
pub struct Pinned {
    held: Vec<(String, PinnedProcess)>,
}

impl Pinned {
    /// Opens a pidfd for each recorded incarnation that still runs; the others are gone already.
    pub fn open(ids: &[Recorded]) -> Self {
        let mut held = Vec::new();
        let mut inside = Vec::new();
        for id in ids {
            match PinnedProcess::open(id.pid, |found| found.start == id.start && in_space(id, id.pid)) {
                Some(process) => held.push((id.name.clone(), process)),
                None => inside.push(id),
            }
        }
        // What is not found under its own number has ended, or has another number here since it recorded
        // itself in a pid namespace. The start time is the same in both.
        if inside
            .iter()
            .any(|id| id.space.is_none_or(|space| Some(space) != procs::space(std::process::id())))
        {
            for pid in procs::all() {
                let Some(found) = procs::stat(pid) else { continue };
                let same = |id: &&Recorded| {
                    id.start == found.start && procs::numbers(pid).contains(&id.pid) && in_space(id, pid)
                };
                let Some(id) = inside.iter().copied().find(same) else { continue };
                if id.pid == pid {
                    continue;
                }
                if let Some(process) =
                    PinnedProcess::open(pid, |again| again.start == id.start && in_space(id, pid))
                {
                    held.push((id.name.clone(), process));
                }
            }
        }
        Self { held }
    }

    /// How many were alive when they were pinned.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none was alive.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The names of the pinned processes, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.held.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The first pinned process with this name.
    pub fn get(&self, name: &str) -> Option<&PinnedProcess> {
        self.held.iter().find(|(n, _)| n == name).map(|(_, process)| process)
    }

    /// Which of them run now.
    pub fn alive(&self) -> Vec<Alive> {
        let running = self.held.iter().filter(|(_, process)| process.is_alive());
        running
            .map(|(name, process)| Alive {
                name: name.clone(),
                pid: process.pid,
                start: process.start,
                state: process.stat().map_or('?', |s| s.state),
            })
            .collect()
    }

    /// Waits until the kernel has said of each that it has ended: how long that took, or who is left.
    pub fn wait_gone(&self, limit: Duration) -> Result<Duration, Vec<Alive>> {
        let begun = Instant::now();
        for (_, process) in &self.held {
            if !process.wait_gone(limit.saturating_sub(begun.elapsed())) {
                return Err(self.alive());
            }
        }
        Ok(begun.elapsed())
    }

    /// Sends a signal to each that still runs.
    pub fn kill(&self, signal: Signal) {
        for (_, process) in &self.held {
            // It may have ended meanwhile, which is what is wanted.
            let _ = process.kill(signal);
        }
    }
}

/// A namespace that we may not look into, or that was not recorded, decides nothing.
fn in_space(id: &Recorded, pid: u32) -> bool {
    match (id.space, procs::space(pid)) {
        (Some(recorded), Some(found)) => recorded == found,
        _ => true,
    }
}
