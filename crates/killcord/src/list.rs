//! What runs: the owners, jobs and services of this user.

use crate::claim::{JOBS, Marker, Reading, Root, SERVICES, claims};
use crate::error::{Error, Result, supported};
use crate::numbers;
use crate::service::{self, Service};
use killcord_model::id::JobId;
use killcord_model::record::{Job as Record, Process, State};
use killcord_model::sweep::OwnerProof;
use killcord_sys::proc::Proc;
use std::path::{Path, PathBuf};

/// So many processes of a job are counted.
const MOST_PROCESSES: usize = 100_000;

/// What runs, and what stands of it.
#[derive(Debug, Default)]
pub struct List {
    /// Owners with their jobs, the oldest first.
    pub owners: Vec<Owner>,
    /// Services by name, also those that are over.
    pub services: Vec<Service>,
    /// What could not be read: the path, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// An owner, by its claim.
#[derive(Debug)]
pub struct Owner {
    /// Its claim.
    pub claim: PathBuf,
    /// Its process number, for display.
    pub pid: u32,
    /// Its program's name.
    pub program: String,
    /// The name of the service that it runs, if it is one's.
    pub service: Option<String>,
    /// When its claim was made, in seconds since 1970.
    pub since: u64,
    /// Whether it lives; `None` when that cannot be told from here.
    pub alive: Option<bool>,
    /// Its jobs.
    pub jobs: Vec<Job>,
}

/// A job, by its record.
#[derive(Debug)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// What stands about it.
    pub record: Record,
    /// How many processes it has now, and how much memory is resident in them, in bytes; `None` when its keeper is
    /// gone or cannot be seen from here. Memory that several of them share is counted for each.
    pub processes: Option<(usize, u64)>,
}

/// Lists this user's owners, jobs and services in the state directory, or in the named one.
///
/// # Errors
/// [`Error::State`] when the state directory is not this user's alone.
pub fn list(state: Option<&Path>) -> Result<List> {
    supported()?;
    let Some(root) = Root::existing(state)? else { return Ok(List::default()) };
    let here = numbers::place();
    let mut list = List::default();
    let mut proc = Proc::open().ok();
    for name in claims(&root).map_err(Error::io("read the state directory"))? {
        let path = root.path.join(&name);
        let reading = match Reading::of(&root, &name, &here) {
            Ok(reading) => reading,
            // Removed while we were looking.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => {
                list.unreadable.push((path, e.to_string()));
                continue;
            }
        };
        if let Some(why) = reading.unreadable() {
            list.unreadable.push((path.clone(), why));
        }
        // A claim without a marker is being made.
        if let Marker::Is(marker) = &reading.marker {
            let alive = match reading.owner {
                OwnerProof::Alive => Some(true),
                OwnerProof::Dead => Some(false),
                OwnerProof::Unknown => None,
            };
            let mut jobs = jobs(&reading, &path, &mut list.unreadable);
            for job in jobs.iter_mut().filter(|job| job.record.place == here) {
                job.processes = proc.as_mut().zip(job.record.keeper).and_then(|(p, k)| below(p, k));
            }
            let (program, service) = (marker.program.clone(), marker.service.clone());
            let (pid, since) = (marker.process.pid, marker.since);
            list.owners.push(Owner { claim: path, pid, program, service, since, alive, jobs });
        }
    }
    list.owners.sort_by_key(|owner| owner.since);
    let services = root.path.join(SERVICES);
    match service::all(&root) {
        Ok((found, 0)) => list.services = found,
        Ok((found, odd)) => {
            list.services = found;
            list.unreadable.push((services, format!("{odd} entries are no services' directories")));
        }
        Err(e) => list.unreadable.push((services, e.to_string())),
    }
    Ok(list)
}

fn jobs(reading: &Reading, path: &Path, unreadable: &mut Vec<(PathBuf, String)>) -> Vec<Job> {
    let (mut jobs, place) = (Vec::new(), path.join(JOBS));
    let listed = reading.jobs().unwrap_or_else(|e| {
        // Not of a claim that was removed while we were reading.
        if path.symlink_metadata().is_ok() {
            unreadable.push((place.clone(), e.to_string()));
        }
        Vec::new()
    });
    for (file, read) in listed {
        match read {
            Ok((id, record)) => jobs.push(Job { id, record, processes: None }),
            // Struck out while we were reading: then it is not there any more.
            Err(why) if place.join(&file).symlink_metadata().is_ok() => {
                unreadable.push((place.join(file), why));
            }
            Err(_) => {}
        }
    }
    jobs.sort_by_key(|job| (job.record.since, job.id));
    jobs
}

/// Counts what is below a keeper: every process of its job, on any boundary.
fn below(proc: &mut Proc, keeper: Process) -> Option<(usize, u64)> {
    let stat = proc.stat(keeper.pid).ok()?;
    if stat.start != keeper.start || stat.is_dead() {
        return None;
    }
    let (mut found, mut next, mut memory) = (Vec::new(), 0, 0);
    proc.children(keeper.pid, stat.threads, &mut found).ok()?;
    while next < found.len() && found.len() < MOST_PROCESSES {
        let pid = found[next];
        next += 1;
        // One that is gone by now has no children either.
        let Ok(stat) = proc.stat(pid) else { continue };
        memory += proc.resident(pid).unwrap_or(0);
        let _ = proc.children(pid, stat.threads, &mut found);
    }
    Some((found.len(), memory))
}

impl Job {
    /// How it is, for a reader.
    pub fn state(&self, owner: &Owner) -> &'static str {
        match (self.record.state, self.processes, owner.alive) {
            (State::Reserved, _, _) => "starting",
            (State::Released, _, _) => "released",
            (State::Started, Some(_), _) => "running",
            (State::Started, None, Some(false)) => "orphaned",
            (State::Started, None, _) => "ending",
        }
    }
}
