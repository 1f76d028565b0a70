//! The directory of a service: its lock, its exit, its output.

use super::{KEPT, Service, is_name};
use crate::claim::{self, Root, SERVICES, TRASH, seconds};
use crate::error::{Error, Result, supported};
use killcord_model::record::{self, Exit};
use killcord_model::status::{self, ExitStatus};
use killcord_model::verdict::Cause;
use killcord_sys::os::{AsFd, BorrowedFd, OsStrExt, OwnedFd};
use killcord_sys::{clock, files, remove};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Held by the service's owner as long as it lives.
const LOCK: &str = "lock";
/// How it ended.
const EXIT: &str = "exit";
/// What is given up for the exit where the disk is full.
const ROOM: &str = "room";
/// Its output, and what was before that. It is there from the start of the program on.
pub(super) const LOG: &str = "log";
pub(super) const OLD_LOG: &str = "log.1";
/// So many services are looked at.
const MOST: usize = 10_000;
/// How long a lock must be held by one that is no reader for us to say that the service runs: whoever looks at a
/// service, and whoever removes one that is over, hold it for an instant.
const HELD_FOR: Duration = Duration::from_millis(100);
/// How long a name may take to be had.
const TAKE_WITHIN: Duration = Duration::from_secs(5);
/// How often it is tried.
const AGAIN: Duration = Duration::from_millis(2);
/// How long an owner has to write down how its job ended.
const WRITES_WITHIN: Duration = Duration::from_secs(2);
/// What stands of a service that was ended because its owner was.
const OWNER_KILLED: &str = "its owner was killed, and it was ended with it";

/// What became of an attempt to take a name.
enum Attempt {
    Taken(Place),
    /// Somebody holds the lock, and not to look.
    Held,
    /// Somebody looked at it or removed it at the same time.
    Changed,
}

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

    /// Takes the name for a service that is about to start. What there is of one before it that is over goes, with
    /// its directory: whoever waits for that one must not take the new one for it.
    ///
    /// # Errors
    /// `AlreadyExists` when the service runs.
    pub(super) fn take(root: &Root, name: &str) -> io::Result<Self> {
        let begun = clock::now();
        loop {
            let attempt = Self::attempt(root, name)?;
            let waited = clock::now().saturating_sub(begun);
            match attempt {
                Attempt::Taken(place) => return Ok(place),
                Attempt::Held if waited >= HELD_FOR => return Err(io::ErrorKind::AlreadyExists.into()),
                Attempt::Changed if waited >= TAKE_WITHIN => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "others change it again and again"));
                }
                Attempt::Held | Attempt::Changed => std::thread::sleep(AGAIN),
            }
        }
    }

    fn attempt(root: &Root, name: &str) -> io::Result<Attempt> {
        let list = open_list(root)?;
        match files::make_directory_at(list.as_fd(), name.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Changed),
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        let dir = match files::open_directory_at(list.as_fd(), name.as_ref()) {
            Err(e) if gone(&e) => return Ok(Attempt::Changed),
            dir => dir?,
        };
        match files::make_file_at(dir.as_fd(), LOCK.as_ref()) {
            Err(e) if gone(&e) => return Ok(Attempt::Changed),
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let lock = match files::open_own_at(dir.as_fd(), LOCK.as_ref()) {
            Err(e) if gone(&e) => return Ok(Attempt::Changed),
            lock => lock?,
        };
        let place = Self { list, name: name.to_owned(), dir, lock };
        if !files::seize(place.lock.as_fd())? {
            // Of those who only look there may be many.
            let readers = files::hold(place.lock.as_fd())?;
            return Ok(if readers || !place.is_there() { Attempt::Changed } else { Attempt::Held });
        }
        if !place.is_there() {
            return Ok(Attempt::Changed);
        }
        if place.began() {
            claim::discard(place.list.as_fd(), name.as_ref(), None)?;
            return Ok(Attempt::Changed);
        }
        Ok(Attempt::Taken(place))
    }

    fn has(&self, name: &str) -> bool {
        files::about_at(self.dir.as_fd(), name.as_ref()).is_ok()
    }

    /// Whether a program has been executed here: then there is something to say of it, also if nobody has.
    fn began(&self) -> bool {
        // Who is killed while he puts the output aside leaves the older one alone.
        self.has(EXIT) || self.has(LOG) || self.has(OLD_LOG)
    }

    /// Keeps room for the exit.
    pub(super) fn make_room(&self) -> io::Result<()> {
        let text = [b' '; record::LARGEST];
        files::write_whole_at(self.dir.as_fd(), ".room".as_ref(), ROOM.as_ref(), &text)
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

    /// Whether the service runs, without a hold of ours beyond this call. One that was removed does not.
    pub(super) fn is_held(&self) -> io::Result<bool> {
        match files::open_own_at(self.dir.as_fd(), LOCK.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            again => files::hold(again?.as_fd()).map(|free| !free),
        }
    }

    /// Writes down how the service ended. Where the disk is full, the room that was kept goes for it, and then the
    /// output: the older, and if that must be all of it.
    pub(super) fn set_exit(&self, exit: &Exit) -> io::Result<()> {
        let text = record::encode(exit).map_err(io::Error::other)?;
        let write = || files::write_whole_at(self.dir.as_fd(), ".exit".as_ref(), EXIT.as_ref(), &text);
        let mut written = Err(io::ErrorKind::StorageFull.into());
        for goes in [ROOM, OLD_LOG, LOG] {
            // There may be none.
            let _ = files::unlink_at(self.dir.as_fd(), goes.as_ref());
            written = write();
            if written.is_ok() {
                break;
            }
        }
        written
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

    /// `None` for the place of one that was never executed, whose starter was killed.
    fn describe(&self) -> io::Result<Option<Service>> {
        let running = self.runs()?;
        let exit = if running { None } else { self.exit() };
        Ok((running || self.began()).then(|| Service { name: self.name.clone(), running, exit }))
    }

    /// What a sweep does about it: says whether it was removed.
    fn expire(&self, now: u64) -> io::Result<bool> {
        if !files::seize(self.lock.as_fd())? || !self.is_there() {
            return Ok(false);
        }
        let exit = self.exit();
        match exit {
            Some(exit) if now.saturating_sub(exit.at) >= KEPT => self.discard(),
            Some(_) => Ok(false),
            // From now on it has its day, too.
            None if self.began() => {
                let (job, how) = (String::new(), OWNER_KILLED.to_owned());
                self.set_exit(&Exit { job, status: status::GUARD_LOST, how, at: now }).map(|()| false)
            }
            None => self.discard().map(|_| false),
        }
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
    Place::within(list.try_clone()?, name)?.map_or(Ok(None), |place| place.describe())
}

/// Removes the services that have been over for a day, and says how many; what somebody was killed in making or
/// removing goes as well.
pub(crate) fn expire(root: &Root, now: u64) -> u64 {
    let Ok(list) = files::open_directory_at(root.as_fd(), SERVICES.as_ref()) else { return 0 };
    let Ok((names, _)) = files::names(list.as_fd(), MOST) else { return 0 };
    let mut removed = 0;
    for name in names {
        if name.as_bytes().starts_with(TRASH.as_bytes()) {
            // What cannot be removed is the next sweep's.
            let _ = remove::tree(list.as_fd(), &name, None);
            continue;
        }
        let Some(text) = name.to_str().filter(|name| is_name(name)) else { continue };
        let copy = list.try_clone();
        match copy.and_then(|list| Place::within(list, text)) {
            Ok(Some(place)) => removed += u64::from(place.expire(now).unwrap_or(false)),
            // One without a lock: it goes if it is empty, and its maker makes another.
            Ok(None) => drop(files::remove_directory_at(list.as_fd(), &name)),
            Err(_) => {}
        }
    }
    removed
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
    let exit = place.exit();
    // Somebody else may have read it, or its program was never executed.
    if !place.is_there() || !place.began() {
        return Err(Error::NoSuchService { name: name.to_owned() });
    }
    // Whoever waits for the same has read it as well, or finds it gone; who only looks is out of the way soon.
    let until = clock::now() + HELD_FOR;
    while !place.discard().unwrap_or(false) && place.is_there() && clock::now() < until {
        std::thread::sleep(AGAIN);
    }
    Ok(exit.map_or(Outcome::OwnerKilled, Outcome::Ended))
}

/// Waits until nobody has the service's name any more; not for ever, since its owner may have been stopped.
pub(crate) fn wait_until_free(place: &Place) -> io::Result<()> {
    let until = clock::now() + WRITES_WITHIN;
    while place.is_there() && !files::hold(place.lock.as_fd())? && clock::now() < until {
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

/// The exit of a job whose owner could see it.
pub(super) fn exit(finished: &crate::session::Finished) -> Exit {
    let status = finished.exit_status();
    let how = match (finished.end.cause, finished.end.status) {
        (Cause::Timeout, _) => "its time was up".to_owned(),
        (Cause::Asked, _) => "stopped".to_owned(),
        (Cause::WardenGone, _) => "its warden was killed, and it was ended with it".to_owned(),
        (Cause::KeeperGone, _) if finished.end.was_let_go_unsaid() => {
            "its keeper was killed when it had let it go, and it was not ended".to_owned()
        }
        (Cause::KeeperGone, _) => "its keeper was killed, and it was ended with it".to_owned(),
        (Cause::OwnerGone, _) => OWNER_KILLED.to_owned(),
        (Cause::LeaderExited, Some(ExitStatus::Code(code))) => format!("exited with {code}"),
        (Cause::LeaderExited, Some(ExitStatus::Signal(signal))) => {
            format!("ended by {}", killcord_sys::signals::name(signal))
        }
        (Cause::LeaderExited, None) => "its end was not seen".to_owned(),
    };
    Exit { job: finished.job.to_string(), status, how, at: seconds() }
}
