//! The directory of a service: its lock, its exit, its output.

use super::{KEPT, Service, is_name};
use crate::claim::{self, Root, SERVICES, seconds};
use crate::error::{Error, Result, supported};
use killcord_model::record::{self, Exit};
use killcord_sys::files;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// Held by the service's owner as long as it lives.
const LOCK: &str = "lock";
/// How it ended.
const EXIT: &str = "exit";
/// Its output, and what was before that.
pub(super) const LOG: &str = "log";
pub(super) const OLD_LOG: &str = "log.1";
/// So many services are looked at.
const MOST: usize = 10_000;
/// How often a directory is opened again that was removed under our hands.
const ATTEMPTS: u32 = 16;

/// The directory of one service.
#[derive(Debug)]
pub(crate) struct Place {
    list: OwnedFd,
    name: String,
    pub(super) dir: OwnedFd,
    lock: OwnedFd,
}

fn open_list(root: &Root) -> io::Result<OwnedFd> {
    match files::make_directory_at(root.as_fd(), SERVICES.as_ref()) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    files::open_directory_at(root.as_fd(), SERVICES.as_ref())
}

impl Place {
    /// Opens the directory of a service that may run or may be over; `None` when there is none.
    fn existing(root: &Root, name: &str) -> io::Result<Option<Self>> {
        let list = match files::open_directory_at(root.as_fd(), SERVICES.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            list => list?,
        };
        Self::within(list, name)
    }

    fn within(list: OwnedFd, name: &str) -> io::Result<Option<Self>> {
        let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        let dir = match files::open_directory_at(list.as_fd(), name.as_ref()) {
            Err(e) if missing(&e) => return Ok(None),
            dir => dir?,
        };
        match files::open_own_at(dir.as_fd(), LOCK.as_ref()) {
            Err(e) if missing(&e) => Ok(None),
            lock => Ok(Some(Self { list, name: name.to_owned(), dir, lock: lock? })),
        }
    }

    /// Takes the name for a service that is about to start, and everything of one before it that is over.
    ///
    /// # Errors
    /// `AlreadyExists` when the service runs.
    pub(super) fn take(root: &Root, name: &str) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let list = open_list(root)?;
            match files::make_directory_at(list.as_fd(), name.as_ref()) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            let Ok(dir) = files::open_directory_at(list.as_fd(), name.as_ref()) else { continue };
            match files::make_file_at(dir.as_fd(), LOCK.as_ref()) {
                Err(e) if !matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                    return Err(e);
                }
                _ => {}
            }
            let Ok(lock) = files::open_own_at(dir.as_fd(), LOCK.as_ref()) else { continue };
            let place = Self { list, name: name.to_owned(), dir, lock };
            if !files::seize(place.lock.as_fd())? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if place.is_there() {
                for left in [EXIT, LOG, OLD_LOG] {
                    // There may be none.
                    let _ = files::unlink_at(place.dir.as_fd(), left.as_ref());
                }
                return Ok(place);
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "its directory was removed again and again"))
    }

    /// Whether the directory is still the one with this name.
    fn is_there(&self) -> bool {
        let named = files::about_at(self.list.as_fd(), self.name.as_ref());
        let ours = files::about(self.dir.as_fd());
        matches!((named, ours), (Ok(a), Ok(b)) if a.identity == b.identity)
    }

    /// What keeps the name taken, for the owner to hold.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.list.as_fd(), self.dir.as_fd(), self.lock.as_fd()]
    }

    /// Whether the service runs. While it does not, nobody else can start it as long as this is open.
    fn runs(&self) -> io::Result<bool> {
        files::hold(self.lock.as_fd()).map(|free| !free)
    }

    /// Writes down how the service ended.
    pub(super) fn set_exit(&self, exit: &Exit) -> io::Result<()> {
        let text = record::encode(exit).map_err(io::Error::other)?;
        files::write_whole_at(self.dir.as_fd(), ".exit".as_ref(), EXIT.as_ref(), &text)
    }

    fn exit(&self) -> Option<Exit> {
        let text = files::read_own_at(self.dir.as_fd(), EXIT.as_ref(), record::LARGEST).ok()?;
        record::decode(&text).ok()
    }

    /// Removes it all, unless somebody else looks at it just now or has started it again.
    pub(super) fn discard(&self) -> io::Result<bool> {
        if !files::seize(self.lock.as_fd())? || !self.is_there() {
            return Ok(false);
        }
        claim::discard(self.list.as_fd(), self.name.as_ref(), None).map(|removed| removed.complete)
    }

    fn describe(&self) -> io::Result<Service> {
        let running = self.runs()?;
        let exit = if running { None } else { self.exit() };
        Ok(Service { name: self.name.clone(), running, exit })
    }
}

/// All services. What is no service's directory is left out and counted.
pub(crate) fn all(root: &Root) -> io::Result<(Vec<Service>, usize)> {
    let list = match files::open_directory_at(root.as_fd(), SERVICES.as_ref()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        list => list?,
    };
    let (mut names, _) = files::names(list.as_fd(), MOST)?;
    names.sort();
    let (mut services, mut unreadable) = (Vec::new(), 0);
    for name in names {
        match describe(&list, &name) {
            Ok(Some(service)) => services.push(service),
            Ok(None) => {}
            Err(_) => unreadable += 1,
        }
    }
    Ok((services, unreadable))
}

fn describe(list: &OwnedFd, name: &OsStr) -> io::Result<Option<Service>> {
    let Some(name) = name.to_str().filter(|name| is_name(name)) else { return Ok(None) };
    Place::within(list.try_clone()?, name)?.map(|place| place.describe()).transpose()
}

/// Removes the services that have been over for a day, and says how many.
pub(crate) fn expire(root: &Root, now: u64) -> u64 {
    let Ok((services, _)) = all(root) else { return 0 };
    let old =
        |service: &Service| service.exit.as_ref().is_some_and(|exit| now.saturating_sub(exit.at) >= KEPT);
    let names = services.iter().filter(|service| !service.running && old(service)).map(|s| &s.name);
    let removed = names.filter(|name| {
        let place = Place::existing(root, name).ok().flatten();
        place.is_some_and(|place| place.discard().unwrap_or(false))
    });
    removed.count() as u64
}

/// Opens the directory of a service.
pub(crate) fn find(state: Option<&Path>, name: &str) -> Result<Place> {
    supported()?;
    let unknown = || Error::NoSuchService { name: name.to_owned() };
    let root = Root::existing(state)?.ok_or_else(unknown)?;
    let place = Place::existing(&root, name).map_err(Error::io("look for the service"))?;
    place.ok_or_else(unknown)
}

/// How a service ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// So.
    Ended(Exit),
    /// Its owner was killed, and its job was ended with it: nobody has seen how.
    OwnerKilled,
}

/// Waits until a service is over and says how it ended. What was kept of it is removed then: its exit and its output.
///
/// # Errors
/// [`Error::NoSuchService`] when there is none of this name, or its exit has been read.
pub fn wait(state: Option<&Path>, name: &str) -> Result<Outcome> {
    let place = find(state, name)?;
    files::wait_for_holder(place.lock.as_fd()).map_err(Error::io("wait for the service"))?;
    let outcome = place.exit().map_or(Outcome::OwnerKilled, Outcome::Ended);
    // Somebody else who waits has it as well, or the next sweep removes it.
    let _ = place.discard();
    Ok(outcome)
}

/// Waits until nobody has the service's name any more.
pub(crate) fn wait_until_free(place: &Place) -> io::Result<()> {
    files::wait_for_holder(place.lock.as_fd())
}

/// The output of a service, from the oldest that is kept.
#[derive(Debug)]
pub struct Log {
    place: Place,
    /// What is being read, and what it is: a log that was put aside is read to its end.
    file: Option<(std::fs::File, (u64, u64))>,
    old_is_read: bool,
}

/// Opens the output of a service, which may run or may be over.
///
/// # Errors
/// [`Error::NoSuchService`] when there is none of this name.
pub fn logs(state: Option<&Path>, name: &str) -> Result<Log> {
    Ok(Log { place: find(state, name)?, file: None, old_is_read: false })
}

impl Log {
    /// Takes some of the output; an empty answer when there is no more for now.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((file, _)) = &mut self.file {
                let n = io::Read::read(file, buffer)?;
                if n > 0 {
                    return Ok(n);
                }
            }
            if !self.next_file()? {
                return Ok(0);
            }
        }
    }

    /// Whether the service still runs, so that more may come.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn goes_on(&self) -> io::Result<bool> {
        // Not through the lock that is open here: holding that would keep the name taken.
        let again = files::open_own_at(self.place.dir.as_fd(), LOCK.as_ref())?;
        files::hold(again.as_fd()).map(|free| !free)
    }

    /// Goes on with the next file, if there is one that has not been read.
    fn next_file(&mut self) -> io::Result<bool> {
        let name = if self.old_is_read { LOG } else { OLD_LOG };
        self.old_is_read = true;
        let file = match files::open_own_at(self.place.dir.as_fd(), name.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(name == OLD_LOG),
            file => file?,
        };
        let identity = files::about(file.as_fd())?.identity;
        if self.file.as_ref().is_some_and(|(_, known)| *known == identity) {
            return Ok(false);
        }
        self.file = Some((file.into(), identity));
        Ok(true)
    }
}

/// The exit of a job whose owner could see it.
pub(super) fn exit(finished: &crate::session::Finished) -> Exit {
    let status = finished.exit_status();
    let how = match (finished.end.cause, finished.end.status) {
        (killcord_model::verdict::Cause::Timeout, _) => "its time was up".to_owned(),
        (killcord_model::verdict::Cause::Asked, _) => "stopped".to_owned(),
        (_, Some(record_status)) => match record_status {
            killcord_model::status::ExitStatus::Code(code) => format!("exited with {code}"),
            killcord_model::status::ExitStatus::Signal(signal) => {
                format!("ended by {}", killcord_sys::signals::name(signal))
            }
        },
        (_, None) => "its end was not seen".to_owned(),
    };
    Exit { job: finished.job.to_string(), status, how, at: seconds() }
}
