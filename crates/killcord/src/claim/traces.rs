//! What is left of a job whose guards are gone: in its cgroup, with its tag, or with its name.

use crate::marked;
use crate::numbers::now;
use killcord_model::id::JobId;
use killcord_model::ladder::{KILL_AGAIN, LOOK};
use killcord_model::record::Job;
use killcord_model::sweep::Traces;
use killcord_sys::cgroup::{Leaf, Own};
use killcord_sys::poll::{self, Interest};
use std::io;
use std::path::Path;

/// Looks for what is left of a job.
pub(super) fn look(job: JobId, record: &Job) -> io::Result<Traces> {
    search(job, record, false)
}

/// Ends what is left of a job and looks until nothing is, for two seconds. Returns what is left then, and how many
/// processes there were.
pub(super) fn end(job: JobId, record: &Job) -> io::Result<(Traces, usize)> {
    let give_up = now().after(LOOK);
    let mut most = 0;
    loop {
        let traces = search(job, record, true)?;
        most = most.max(traces.found);
        if traces.found == 0 || now() >= give_up {
            return Ok((traces, most));
        }
    }
}

fn search(job: JobId, record: &Job, kill: bool) -> io::Result<Traces> {
    // Of a cgroup that the record does not name, nothing was seen.
    let mut traces = Traces::default();
    if let Some(leaf) = record.leaf.as_deref().and_then(|path| Place::of(job, Path::new(path))) {
        match leaf.look(kill)? {
            Some(members) => traces.found = members,
            None => traces.leaf_empty = true,
        }
    }
    // A record without a keeper is of no job that can have run.
    if record.keeper.is_none() {
        return Ok(traces);
    }
    let (found, _) = marked::find(job, Some(record), kill)?;
    traces.found = traces.found.max(found.count);
    traces.tags_read = found.has_all_tagged();
    Ok(traces)
}

/// Removes the job's cgroups, which must be empty. What is not there, or not to be removed, stays for its next
/// finder.
pub(super) fn remove_cgroups(job: JobId, record: &Job) {
    let named = record.leaf.iter().chain(&record.limits);
    for path in named.map(Path::new).filter(|path| is_named_for(job, path)) {
        // A directory of that name elsewhere is no cgroup, and somebody's.
        if let Some(Ok(parent)) = path.parent().map(Own::at_any) {
            let _ = parent.remove(&job.cgroup_name());
        }
    }
}

/// A record is no reason to touch any other cgroup than one that has the job's own name.
fn is_named_for(job: JobId, path: &Path) -> bool {
    path.is_absolute() && path.file_name().is_some_and(|name| name == job.cgroup_name().as_str())
}

/// The place of a job's cgroup in a hierarchy that we can see.
struct Place {
    parent: Own,
    name: String,
    /// Whether the cgroup above it is gone, and the job's with it.
    gone: bool,
}

impl Place {
    /// `None` when it cannot be said that there is none: the hierarchy is not mounted here.
    fn of(job: JobId, path: &Path) -> Option<Self> {
        if !is_named_for(job, path) {
            return None;
        }
        let name = job.cgroup_name();
        for (up, above) in path.ancestors().skip(1).enumerate() {
            match Own::at(above) {
                Ok(parent) => return Some(Self { parent, name, gone: up > 0 }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// How many processes are in it; `None` when the kernel says that there is none.
    fn look(&self, kill: bool) -> io::Result<Option<usize>> {
        if self.gone {
            return Ok(None);
        }
        let leaf = match self.parent.open(&self.name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            dir => Leaf::open(dir?)?,
        };
        if !leaf.populated()? {
            return Ok(None);
        }
        let members = leaf.members().map_or(1, |members| members.len().max(1));
        if kill {
            leaf.kill()?;
            poll::wait([(Some(leaf.events()), Interest::Exception)], Some(KILL_AGAIN))?;
        }
        Ok(Some(members))
    }
}
