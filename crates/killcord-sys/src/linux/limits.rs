//! Limits on a whole job: through controllers of its v2 cgroup, or of v1 hierarchies beside it.
//!
//! A limit is armed before the program runs: its process enters the limiting cgroups before exec.

use super::cgroup::{Own, get, put, value_of};
pub use crate::contract::limits::Resource;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The control files and values of a limit: (file, value, whether it must exist).
fn settings(resource: Resource, v2: bool, value: u64) -> Vec<(&'static str, String, bool)> {
    // One period is 100 ms, the kernel's own default.
    let quota = (value * 100).max(1000);
    match (resource, v2) {
        (Resource::Memory, true) => vec![
            ("memory.max", value.to_string(), true),
            ("memory.swap.max", "0".to_owned(), false),
            ("memory.oom.group", "0".to_owned(), false),
        ],
        (Resource::Memory, false) => vec![
            ("memory.limit_in_bytes", value.to_string(), true),
            ("memory.memsw.limit_in_bytes", value.to_string(), false),
        ],
        (Resource::Pids, _) => vec![("pids.max", value.to_string(), true)],
        (Resource::Cpu, true) => vec![("cpu.max", format!("{quota} 100000"), true)],
        (Resource::Cpu, false) => vec![
            ("cpu.cfs_period_us", "100000".to_owned(), true),
            ("cpu.cfs_quota_us", quota.to_string(), true),
        ],
    }
}

/// A v1 cgroup that limits a job.
#[derive(Debug)]
struct Side {
    resource: Resource,
    own: Own,
    name: String,
    dir: OwnedFd,
    procs: OwnedFd,
}

/// The limits of one job, armed. Dropping it removes the v1 cgroups, if they are empty.
#[derive(Debug, Default)]
pub struct Limits {
    sides: Vec<Side>,
    /// Whether the memory limit is the leaf's own.
    memory_in_leaf: bool,
}

impl Limits {
    /// Arms one limit: in the job's v2 leaf if it has the controller, else in a v1 cgroup of this name.
    ///
    /// # Errors
    /// What the last attempt said; nothing is half armed then.
    pub fn arm(
        &mut self,
        leaf: Option<BorrowedFd<'_>>,
        name: &str,
        resource: Resource,
        value: u64,
    ) -> io::Result<()> {
        if let Some(leaf) = leaf
            && set(leaf, resource, true, value).is_ok()
        {
            self.memory_in_leaf |= resource == Resource::Memory;
            return Ok(());
        }
        let own = Own::find(Some(resource.name()))?;
        let dir = own.make(name)?;
        let armed = set(dir.as_fd(), resource, false, value).and_then(|()| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            Ok(rustix::fs::openat(&dir, "cgroup.procs", flags, Mode::empty())?)
        });
        match armed {
            Ok(procs) => {
                self.sides.push(Side { resource, own, name: name.to_owned(), dir, procs });
                Ok(())
            }
            Err(e) => {
                // Nobody can be in it yet; what could not be limited is what matters.
                let _ = own.remove(name);
                Err(e)
            }
        }
    }

    /// The `cgroup.procs` files that the leader enters before exec.
    pub fn entries(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sides.iter().map(|s| s.procs.as_fd())
    }

    /// Where the v1 cgroups are.
    pub fn paths(&self) -> impl Iterator<Item = std::path::PathBuf> {
        self.sides.iter().map(|side| side.own.path.join(&side.name))
    }

    /// The descriptors that must stay open.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sides.iter().flat_map(|s| [s.procs.as_fd(), s.dir.as_fd(), s.own.dir()])
    }

    /// How many members the memory limit has killed. `leaf` is the job's v2 cgroup, if it has one.
    pub fn memory_kills(&self, leaf: Option<BorrowedFd<'_>>) -> u64 {
        let v2 = leaf.filter(|_| self.memory_in_leaf).and_then(|d| get(d, "memory.events").ok());
        let v1 = || {
            let side = self.sides.iter().find(|s| s.resource == Resource::Memory)?;
            get(side.dir.as_fd(), "memory.oom_control").ok()
        };
        v2.or_else(v1).and_then(|t| value_of(&t, "oom_kill")).unwrap_or(0)
    }

    /// The job's peak memory in bytes, where a memory controller has counted it.
    pub fn peak_memory(&self, leaf: Option<BorrowedFd<'_>>) -> Option<u64> {
        let number = |t: String| t.trim().parse().ok();
        let v2 = leaf.and_then(|d| get(d, "memory.peak").ok()).and_then(number);
        v2.or_else(|| {
            let side = self.sides.iter().find(|s| s.resource == Resource::Memory)?;
            get(side.dir.as_fd(), "memory.max_usage_in_bytes").ok().and_then(number)
        })
    }

    /// Removes the v1 cgroups; they must be empty.
    pub fn remove(&mut self) -> io::Result<()> {
        self.sides.drain(..).try_for_each(|s| s.own.remove(&s.name))
    }
}

fn set(dir: BorrowedFd<'_>, resource: Resource, v2: bool, value: u64) -> io::Result<()> {
    for (file, text, needed) in settings(resource, v2, value) {
        match put(dir, file, &text) {
            Err(e) if needed => return Err(e),
            // What is optional is a refinement that this kernel may not have.
            _ => {}
        }
    }
    Ok(())
}

/// Hands a v2 controller down to the leaves below our own cgroup, if it is not there yet.
///
/// # Errors
/// `EBUSY` where processes are in our own cgroup (the rule of no internal processes), `ENOENT` where the
/// controller is bound to v1 or not handed down to us.
pub fn hand_down(own: &Own, resource: Resource) -> io::Result<()> {
    let given = get(own.dir(), "cgroup.subtree_control")?;
    if given.split_ascii_whitespace().any(|c| c == resource.name()) {
        return Ok(());
    }
    put(own.dir(), "cgroup.subtree_control", &format!("+{}", resource.name()))
}

/// Moves the processes in our own cgroup into a cgroup below it, so that controllers can be handed down
/// beside it. Only if all of them are in `ours`: nobody else's process is ever moved.
pub fn make_room(own: &Own, name: &str, ours: &[u32]) -> io::Result<()> {
    let members = get(own.dir(), "cgroup.procs")?;
    let members: Vec<u32> = members.lines().filter_map(|l| l.parse().ok()).collect();
    if members.iter().any(|pid| !ours.contains(pid)) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "other processes are in the same cgroup"));
    }
    let dir = match own.make(name) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(own.dir(), name, flags, Mode::empty())?
        }
        other => other?,
    };
    members.iter().try_for_each(|pid| put(dir.as_fd(), "cgroup.procs", &pid.to_string()))
}
