//! Arming a boundary: each is found by a real attempt, never by a version number.

use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::spec::Limits as Wanted;
use killcord_model::wire::Refusal;
use killcord_sys::cgroup::{Leaf, Own};
use killcord_sys::limits::{self, Limits, Resource};
use killcord_sys::os::BorrowedFd;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

/// What holds a job, with everything open that its end will need.
#[derive(Debug)]
pub(crate) enum Held {
    /// The leader's process group.
    Group,
    /// The keeper's descendants.
    Tree,
    /// A cgroup of the job's own; the keeper's descendants as well, so that a member that moved itself
    /// to another cgroup is still one.
    Cgroup {
        /// Our own cgroup, in which it is.
        own: Rc<Own>,
        /// Whose it is, by which it has its name there.
        job: JobId,
        /// It.
        leaf: Leaf,
    },
    /// The keeper's pid namespace.
    Namespace,
}

impl Held {
    /// Which boundary this is.
    pub(crate) fn boundary(&self) -> Boundary {
        match self {
            Self::Group => Boundary::Group,
            Self::Tree => Boundary::Tree,
            Self::Cgroup { .. } => Boundary::Cgroup,
            Self::Namespace => Boundary::Namespace,
        }
    }

    /// The job's cgroup, if it has one.
    pub(crate) fn leaf(&self) -> Option<&Leaf> {
        match self {
            Self::Cgroup { leaf, .. } => Some(leaf),
            Self::Group | Self::Tree | Self::Namespace => None,
        }
    }

    /// Where the job's cgroup is.
    pub(crate) fn leaf_path(&self) -> Option<PathBuf> {
        match self {
            Self::Cgroup { own, job, .. } => Some(own.path.join(job.cgroup_name())),
            Self::Group | Self::Tree | Self::Namespace => None,
        }
    }

    /// Removes the job's cgroup, which must be empty.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match self {
            Self::Cgroup { own, job, .. } => own.remove(&job.cgroup_name()),
            Self::Group | Self::Tree | Self::Namespace => Ok(()),
        }
    }

    /// The descriptors that must stay open.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Cgroup { own, leaf, .. } => {
                let mut fds = vec![own.dir(), leaf.dir(), leaf.events()];
                fds.extend(leaf.kill_file());
                fds
            }
            Self::Group | Self::Tree | Self::Namespace => Vec::new(),
        }
    }
}

/// Makes a fresh cgroup for a job.
pub(crate) fn cgroup(own: &Rc<Own>, job: JobId) -> io::Result<Held> {
    let name = job.cgroup_name();
    let dir = own.make(&name)?;
    match Leaf::open(dir) {
        Ok(leaf) => Ok(Held::Cgroup { own: Rc::clone(own), job, leaf }),
        Err(e) => {
            // Nobody can be in it; the error that matters is the first.
            let _ = own.remove(&name);
            Err(e)
        }
    }
}

/// Arms the limits of a job, or says which one cannot be enforced here and what would help.
///
/// `guards` are the processes that killcord itself has in our own cgroup; they may be moved aside so that
/// controllers can be handed down beside them.
pub(crate) fn limits(
    held: &Held,
    job: JobId,
    wanted: &Wanted,
    guards: impl Fn() -> Vec<u32>,
) -> Result<Limits, Refusal> {
    let mut armed = Limits::default();
    let all = [
        (Resource::Memory, wanted.memory),
        (Resource::Pids, wanted.pids.map(u64::from)),
        (Resource::Cpu, wanted.cpu.map(u64::from)),
    ];
    for (resource, value) in all {
        let Some(value) = value else { continue };
        if let Held::Cgroup { own, .. } = held {
            hand_down(own, resource, &guards());
        }
        let leaf = held.leaf().map(Leaf::dir);
        if let Err(e) = armed.arm(leaf, &job.cgroup_name(), resource, value) {
            // What was armed before has no members; the refusal is what matters.
            let _ = armed.remove();
            return Err(Refusal::Limit { which: resource.name().to_owned(), why: why_no_limit(held, &e) });
        }
    }
    Ok(armed)
}

/// The cgroup into which guards are moved where controllers can be handed down beside them only.
pub(crate) const GUARDS: &str = "killcord-guards";

/// Tries to have a v2 controller in the job's leaf. Whether that worked is seen when the limit is set.
pub(crate) fn hand_down(own: &Own, resource: Resource, guards: &[u32]) {
    if let Err(e) = limits::hand_down(own, resource)
        && e.kind() == io::ErrorKind::ResourceBusy
        && limits::make_room(own, GUARDS, guards).is_ok()
    {
        let _ = limits::hand_down(own, resource);
    }
}

fn why_no_limit(held: &Held, e: &io::Error) -> String {
    let advice = match held {
        Held::Cgroup { .. } => "run inside `systemd-run --scope -p Delegate=yes`, or as root",
        Held::Group | Held::Tree | Held::Namespace => "use --boundary cgroup, or run as root",
    };
    format!("no cgroup controller for it can be used on boundary {} ({e}); {advice}", held.boundary())
}
