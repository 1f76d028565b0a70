//! Reading the claims of others: everything in them may be hostile, and nothing in them is waited for.

use super::{CLAIM, JOBS, LEASE, OWNER, Root, is_made};
use killcord_model::id::JobId;
use killcord_model::record::{self, Job, Owner, Place};
use killcord_model::sweep::{self, KeeperProof, LeaseProof, OwnerProof, Seen};
use killcord_sys::files;
use killcord_sys::os::{AsFd, BorrowedFd, OsStrExt, OwnedFd};
use killcord_sys::proc::Proc;
use std::ffi::{OsStr, OsString};
use std::io;

/// So many claims are looked at in one go, and so many jobs of one claim. More than that are not read.
const MOST_CLAIMS: usize = 1 << 20;
const MOST_JOBS: usize = 1 << 16;

/// The names of all claims.
pub(crate) fn claims(root: &Root) -> io::Result<Vec<OsString>> {
    let (mut names, _) = files::names(root.as_fd(), MOST_CLAIMS)?;
    names.retain(|name| is_made(CLAIM, name.as_bytes()));
    Ok(names)
}

/// What the marker of a claim says.
#[derive(Debug)]
pub(crate) enum Marker {
    /// Whose it is.
    Is(Owner),
    /// There is none.
    Missing,
    /// It is there and says nothing.
    Unreadable(String),
}

/// The lease of a claim, as it was found.
#[derive(Debug)]
enum Lease {
    /// Nobody holds it but us, as long as this is open.
    Ours(#[expect(dead_code, reason = "held by being open")] OwnedFd),
    Held,
    Missing,
    Unreadable(String),
}

/// A claim as it was read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) dir: OwnedFd,
    pub(crate) marker: Marker,
    pub(crate) owner: OwnerProof,
    lease: Lease,
}

impl Reading {
    /// Opens a claim and reads its lease and its marker. As long as it lives, it keeps a free lease from everybody
    /// else.
    ///
    /// # Errors
    /// When it is no directory of this user's.
    pub(crate) fn of(root: &Root, name: &OsStr, here: &Place) -> io::Result<Self> {
        let dir = files::open_directory_at(root.as_fd(), name)?;
        let about = files::about(dir.as_fd())?;
        if about.owner != killcord_sys::process::effective_uid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        // The lease before the marker: whoever has seen it free knows that no marker is on its way.
        let lease = lease(dir.as_fd());
        let marker = marker(dir.as_fd());
        let owner = match &marker {
            Marker::Is(marker) => sweep::owner(marker, here, seen(marker.process.pid)),
            // Its maker held the lease before it wrote the marker, and holds it no more.
            Marker::Missing if matches!(lease, Lease::Ours(_)) => OwnerProof::Dead,
            Marker::Missing | Marker::Unreadable(_) => OwnerProof::Unknown,
        };
        Ok(Self { dir, marker, owner, lease })
    }

    /// What is known of the lease.
    pub(crate) fn lease(&self) -> LeaseProof {
        match &self.lease {
            Lease::Ours(_) => LeaseProof::Free,
            Lease::Held => LeaseProof::Held,
            Lease::Missing | Lease::Unreadable(_) => LeaseProof::Unknown,
        }
    }

    /// Whether nothing was ever written into it: what a maker leaves that was killed at once.
    pub(crate) fn is_bare(&self) -> bool {
        matches!((&self.marker, &self.lease), (Marker::Missing, Lease::Missing))
    }

    /// Why lease or marker say nothing, though they are there.
    pub(crate) fn unreadable(&self) -> Option<String> {
        match (&self.marker, &self.lease) {
            (Marker::Unreadable(why), _) => Some(format!("{OWNER}: {why}")),
            (_, Lease::Unreadable(why)) => Some(format!("{LEASE}: {why}")),
            _ => None,
        }
    }

    /// One record once more, as it stands now; its file has this name.
    pub(crate) fn job_now(&self, name: &OsStr) -> Option<Job> {
        let list = files::open_directory_at(self.dir.as_fd(), JOBS.as_ref()).ok()?;
        record_of(list.as_fd(), name).ok().map(|(_, record)| record)
    }

    /// The jobs' records, each of which may be unreadable.
    ///
    /// # Errors
    /// When the list itself cannot be read, or is longer than any that killcord makes.
    pub(crate) fn jobs(&self) -> io::Result<Vec<Listed>> {
        let list = match files::open_directory_at(self.dir.as_fd(), JOBS.as_ref()) {
            // A claim gets its place for jobs before its marker.
            Err(e) if e.kind() == io::ErrorKind::NotFound && matches!(self.marker, Marker::Missing) => {
                return Ok(Vec::new());
            }
            list => list?,
        };
        let (names, more) = files::names(list.as_fd(), MOST_JOBS)?;
        if more {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many records"));
        }
        // What was being written when its writer was killed stands beside what it was to replace.
        let whole = names.into_iter().filter(|name| !name.as_bytes().starts_with(b"."));
        Ok(whole
            .map(|name| {
                let read = record_of(list.as_fd(), &name);
                (name, read)
            })
            .collect())
    }
}

/// The name of a record's file, and what it says or why it says nothing.
pub(crate) type Listed = (OsString, Result<(JobId, Job), String>);

fn record_of(list: BorrowedFd<'_>, name: &OsStr) -> Result<(JobId, Job), String> {
    let id = name.to_str().and_then(|text| text.parse().ok()).ok_or("its name is no job's")?;
    let text = files::read_own_at(list, name, record::LARGEST).map_err(|e| e.to_string())?;
    record::decode(&text).map(|job| (id, job)).map_err(|e| e.to_string())
}

fn lease(dir: BorrowedFd<'_>) -> Lease {
    let file = match files::open_own_at(dir, LEASE.as_ref()) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Lease::Missing,
        Err(e) => return Lease::Unreadable(e.to_string()),
    };
    match files::seize(file.as_fd()) {
        Ok(true) => Lease::Ours(file),
        Ok(false) => Lease::Held,
        Err(e) => Lease::Unreadable(e.to_string()),
    }
}

fn marker(dir: BorrowedFd<'_>) -> Marker {
    match files::read_own_at(dir, OWNER.as_ref(), record::LARGEST) {
        Ok(text) => match record::decode(&text) {
            Ok(owner) => Marker::Is(owner),
            Err(e) => Marker::Unreadable(e.to_string()),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Marker::Missing,
        Err(e) => Marker::Unreadable(e.to_string()),
    }
}

/// Whether a job's keeper lives. See [`sweep::keeper`] for when the record must have been read.
pub(crate) fn keeper(record: &Job, here: &Place) -> KeeperProof {
    sweep::keeper(record, here, record.keeper.map_or(Seen::Unknown, |keeper| seen(keeper.pid)))
}

/// What `/proc` says about a number.
pub(crate) fn seen(pid: u32) -> Seen {
    let gone = |e: &io::Error| {
        e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(killcord_sys::errno::ESRCH)
    };
    let Ok(mut proc) = Proc::open() else { return Seen::Unknown };
    match proc.stat(pid) {
        Ok(stat) => Seen::Process { start: stat.start, dead: stat.is_dead() },
        Err(e) if gone(&e) => Seen::Gone,
        Err(_) => Seen::Unknown,
    }
}
