//! Making a claim and giving it up: the order of both.

use super::{CLAIM, JOBS, LEASE, OWNER, Root, TMP, TRASH};
use crate::error::{Error, Result};
use crate::hooks;
use crate::numbers::place;
use killcord_model::record::{self, Owner, Place, Process};
use killcord_sys::files;
use killcord_sys::os::{AsFd, BorrowedFd, OsStrExt, OwnedFd};
use killcord_sys::{clock, process, random, remove};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a claim is begun again that was swept away while it was being made.
const ATTEMPTS: u32 = 16;

/// How long an owner's end waits for the removal of what is left in its claim. The rest is a sweep's.
const REMOVE_WITHIN: Duration = Duration::from_millis(500);

/// A claim that this process is of: its owner, warden or keeper.
#[derive(Debug)]
pub(crate) struct Claim {
    dir: OwnedFd,
    pub(super) jobs: OwnedFd,
    pub(super) tmp: OwnedFd,
    /// Held as long as it is open.
    lease: OwnedFd,
    pub(crate) path: PathBuf,
    pub(crate) place: Place,
    /// Who has made or joined it. A forked copy of that process has no say in it.
    process: u32,
}

/// Seconds since 1970, for a reader's eye.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Something random for a name.
pub(super) fn some_name(prefix: &str) -> io::Result<OsString> {
    let mut bytes = [0; 4];
    random::fill(&mut bytes)?;
    Ok(format!("{prefix}{:08x}", u32::from_be_bytes(bytes)).into())
}

impl Claim {
    /// Makes a claim for this process. The order is: the directory; the lease, held; another look, since a sweep
    /// may have taken a directory without a held lease for a dead owner's; the places of jobs; the marker, last.
    /// What is left of it at any instant is either empty, or held, or without a holder and a marker, which is
    /// what a sweep removes.
    ///
    /// # Errors
    /// What the operating system said: no room, a file system that cannot be written.
    pub(crate) fn make(root: &Root, service: Option<&str>) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let name = some_name(CLAIM)?;
            match Self::begin(root, &name) {
                Ok(Some(claim)) => {
                    // From here on nobody takes it away.
                    claim.mark(service)?;
                    return Ok(claim);
                }
                // Swept away under our hands, or a name that is taken.
                Ok(None) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "a claim was taken away again and again while it was made",
        ))
    }

    /// The claim of an owner; the inner error says why it has none, where nothing can be written.
    ///
    /// # Errors
    /// [`Error::State`] when there is a state directory that must not be used, or one that was named and cannot be.
    pub(crate) fn of_owner(named: Option<&Path>, service: Option<&str>) -> Result<io::Result<Self>> {
        let root = match Root::open(named) {
            Ok(root) => root,
            Err(Error::State { source: Some(e), .. }) if !Root::is_named(named) => return Ok(Err(e)),
            Err(e) => return Err(e),
        };
        let path = root.path.clone();
        match Self::make(&root, service) {
            Err(e) if Root::is_named(named) => {
                Err(Error::State { path, why: format!("no claim can be made: {e}"), source: Some(e) })
            }
            made => Ok(made),
        }
    }

    fn begin(root: &Root, name: &OsStr) -> io::Result<Option<Self>> {
        files::make_directory_at(root.as_fd(), name)?;
        hooks::point("claim.directory");
        let dir = files::open_directory_at(root.as_fd(), name)?;
        let lease = files::make_file_at(dir.as_fd(), LEASE.as_ref())?;
        hooks::point("claim.lease");
        let held = files::hold(lease.as_fd())?;
        let there = files::about_at(root.as_fd(), name)?.identity == files::about(dir.as_fd())?.identity;
        if !held || !there {
            return Ok(None);
        }
        hooks::point("claim.held");
        files::make_directory_at(dir.as_fd(), JOBS.as_ref())?;
        files::make_directory_at(dir.as_fd(), TMP.as_ref())?;
        hooks::point("claim.places");
        Self::with(dir, lease, root.path.join(name)).map(Some)
    }

    fn with(dir: OwnedFd, lease: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let jobs = files::open_directory_at(dir.as_fd(), JOBS.as_ref())?;
        let tmp = files::open_directory_at(dir.as_fd(), TMP.as_ref())?;
        Ok(Self { dir, jobs, tmp, lease, path, place: place(), process: process::own_pid() })
    }

    fn mark(&self, service: Option<&str>) -> io::Result<()> {
        let (pid, start) = process::own_start()?;
        let program = std::env::args_os().next().unwrap_or_default();
        let owner = Owner {
            place: self.place.clone(),
            process: Process { pid, start },
            program: record::program_name(program.as_bytes()),
            since: seconds(),
            service: service.map(str::to_owned),
        };
        let text = record::encode(&owner).map_err(io::Error::other)?;
        files::write_whole_at(self.dir.as_fd(), ".owner".as_ref(), OWNER.as_ref(), &text)?;
        hooks::point("claim.marker");
        Ok(())
    }

    /// Takes part in a claim that another process has made and holds, with a hold of our own. The directory came
    /// from that process.
    pub(crate) fn join(dir: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let lease = hold_lease(dir.as_fd())?;
        Self::with(dir, lease, path)
    }

    /// The same for a forked copy of its maker, with the same hold of its own.
    pub(crate) fn join_as_copy(&self) -> io::Result<Self> {
        let lease = hold_lease(self.dir.as_fd())?;
        Ok(Self {
            dir: self.dir.try_clone()?,
            jobs: self.jobs.try_clone()?,
            tmp: self.tmp.try_clone()?,
            lease,
            path: self.path.clone(),
            place: self.place.clone(),
            process: process::own_pid(),
        })
    }

    /// Whether nobody has removed it yet.
    pub(crate) fn is_there(&self) -> bool {
        files::about_at(self.dir.as_fd(), OWNER.as_ref()).is_ok()
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The descriptors that must stay open.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 4] {
        [self.dir.as_fd(), self.jobs.as_fd(), self.tmp.as_fd(), self.lease.as_fd()]
    }

    /// Removes the claim if no job stands in it, and says whether it did. For whoever is the last of it: no job
    /// of it can begin any more.
    pub(crate) fn give_up(&self) -> io::Result<bool> {
        if self.process != process::own_pid() || files::has_name(self.jobs.as_fd(), |_| true)? {
            return Ok(false);
        }
        hooks::point("claim.over");
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(false);
        };
        let root = files::open_directory(parent)?;
        // It may have been taken away meanwhile, and another one may have its name.
        if files::about_at(root.as_fd(), name)?.identity != files::about(self.dir.as_fd())?.identity {
            return Ok(false);
        }
        discard(root.as_fd(), name, Some(clock::now() + REMOVE_WITHIN)).map(|removed| removed.complete)
    }
}

/// Opens the lease anew and holds it: a copy of somebody's descriptor would be that one's hold.
fn hold_lease(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let lease = files::open_own_at(dir, LEASE.as_ref())?;
    if files::hold(lease.as_fd())? {
        Ok(lease)
    } else {
        Err(io::Error::new(io::ErrorKind::WouldBlock, "somebody is removing the claim"))
    }
}

/// Removes a claim: first it gets a name that says that it is over, so that a crash in between leaves nothing that
/// could be taken for a claim, then its content goes, then itself.
pub(crate) fn discard(
    root: BorrowedFd<'_>,
    name: &OsStr,
    until: Option<Duration>,
) -> io::Result<remove::Removed> {
    let aside = some_name(TRASH)?;
    files::rename_at(root, name, &aside)?;
    hooks::point("claim.aside");
    let removed = remove::tree(root, &aside, until);
    hooks::point("claim.removed");
    removed
}
