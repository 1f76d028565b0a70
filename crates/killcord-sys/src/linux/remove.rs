//! Removing a directory tree that is hostile input: whoever made it may be changing it still.
//!
//! Every step is made by descriptor, downwards, one name at a time. What is held open is a bounded stack of
//! directories: one that lies deeper is renamed to the top of the tree and removed from there, so that neither the
//! depth of a tree nor the number of its files costs memory, descriptors or stack.

use super::beneath::{Beneath, list};
pub use crate::contract::remove::Removed;
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How many directories are open at once, each below the one before.
const DEEPEST: usize = 64;
/// After how many entries the clock is looked at.
const GLANCE: u64 = 256;
/// How often one name is tried that is something else each time.
const TRIES: usize = 8;
/// How often one directory is gone through, so that whoever keeps filling it cannot keep us here.
const PASSES: u32 = 100;

/// Removes `name` in `parent` with all that is in it, as far as it comes before `until`, a time of
/// [`clock::now`](super::clock::now).
///
/// An empty directory costs one `unlinkat(2)`. A link is removed and never followed; what is no directory is removed
/// and never opened. A mount, also one that shows a part of the same file system, is neither entered nor emptied. A
/// directory of ours without permissions gets them. What may not be removed itself is not entered. What is gone
/// already, or goes meanwhile, is no error. Directories that lie deeper than 64 levels are moved up to the top of the
/// tree first, under a name of ours, which is seen if they cannot be removed.
///
/// # Errors
/// The first that was met, which names the entry by its path below `name`; everything else that could be removed has
/// been. When the time is up it is not returned: going on meets it again.
pub fn tree(parent: BorrowedFd<'_>, name: &OsStr, until: Option<Duration>) -> io::Result<Removed> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of an entry"));
    }
    let mut removal = Removal {
        parent,
        levels: Vec::new(),
        beneath: Beneath::new(),
        aside: Aside::default(),
        error: None,
        entries: 0,
    };
    removal.entry(CString::new(bytes)?, true);
    let mut steps = 0;
    while !removal.levels.is_empty() {
        if steps % GLANCE == 0 && until.is_some_and(|until| super::clock::now() >= until) {
            return Ok(Removed { entries: removal.entries, complete: false });
        }
        steps += 1;
        removal.step();
    }
    match removal.error {
        Some(error) => Err(error),
        None => Ok(Removed { entries: removal.entries, complete: true }),
    }
}

/// A directory that is being emptied.
struct Level {
    dir: Dir,
    name: CString,
    /// Whether something went in this pass: what a changing list left out is then found by another one.
    progress: bool,
    /// Whether something in it cannot be removed, so that it cannot either.
    stuck: bool,
    passes: u32,
}

/// The directories that were moved up. They are counted, so that the list of them needs no memory.
#[derive(Default)]
struct Aside {
    mark: Option<u64>,
    made: u64,
    taken: u64,
}

impl Aside {
    fn name(mark: u64, number: u64) -> CString {
        CString::new(format!(".killcord-{mark:016x}-{number}")).unwrap_or_default()
    }

    /// The next name to move something to.
    fn make(&mut self) -> io::Result<CString> {
        let mark = if let Some(mark) = self.mark {
            mark
        } else {
            let mut bytes = [0; 8];
            super::random::fill(&mut bytes)?;
            *self.mark.insert(u64::from_ne_bytes(bytes))
        };
        self.made += 1;
        Ok(Self::name(mark, self.made))
    }

    /// The next one that was moved up and not yet removed.
    fn take(&mut self) -> Option<CString> {
        if self.taken == self.made {
            return None;
        }
        self.taken += 1;
        Some(Self::name(self.mark?, self.taken))
    }
}

/// What became of a name.
enum Fate {
    Gone,
    Absent,
    /// It is a directory with something in it.
    Full,
}

struct Removal<'a> {
    parent: BorrowedFd<'a>,
    levels: Vec<Level>,
    beneath: Beneath,
    aside: Aside,
    error: Option<io::Error>,
    entries: u64,
}

impl Removal<'_> {
    /// One entry of the deepest directory, or its end.
    fn step(&mut self) {
        let read = self.levels.last_mut().and_then(|level| level.dir.read());
        match read {
            Some(Ok(entry)) => {
                let name = entry.file_name();
                if name != c"." && name != c".." {
                    self.entry(name.to_owned(), entry.file_type() == FileType::Directory);
                }
            }
            // A directory that somebody else has removed has no list any more.
            None | Some(Err(Errno::NOENT)) => self.end_of_list(),
            Some(Err(e)) => {
                self.fail(None, &e.into());
                self.end_of_list();
            }
        }
    }

    fn end_of_list(&mut self) {
        if self.levels.len() == 1
            && let Some(name) = self.aside.take()
        {
            self.entry(name, true);
        } else if let Some(level) = self.levels.pop() {
            self.leave(level);
        }
    }

    /// Removes a directory that has been gone through, or goes through it again.
    fn leave(&mut self, mut level: Level) {
        match unlink(self.deepest(), &level.name, true) {
            Ok(Fate::Full) if level.progress && !level.stuck && level.passes < PASSES => {
                level.progress = false;
                level.passes += 1;
                level.dir.rewind();
                self.levels.push(level);
            }
            // Where something in it is stuck, that is the first error, and this one is not said.
            Ok(Fate::Full) => self.fail(Some(&level.name), &Errno::NOTEMPTY.into()),
            Ok(fate) => self.done(&fate),
            Err(e) => self.fail(Some(&level.name), &e),
        }
    }

    /// Removes an entry of the deepest directory, or goes down into it.
    fn entry(&mut self, name: CString, is_dir: bool) {
        for _ in 0..TRIES {
            match unlink(self.deepest(), &name, is_dir) {
                Ok(Fate::Full) => {}
                Ok(fate) => return self.done(&fate),
                Err(e) => return self.fail(Some(&name), &e),
            }
            match self.enter(&name) {
                Ok(dir) if self.levels.len() < DEEPEST => {
                    let (progress, stuck, passes) = (false, false, 0);
                    return self.levels.push(Level { dir, name, progress, stuck, passes });
                }
                Ok(_) => return self.move_up(&name),
                // No descriptor is left: fewer are needed nearer to the top.
                Err(e) if is(&e, &[Errno::MFILE, Errno::NFILE]) && self.levels.len() > 1 => {
                    return self.move_up(&name);
                }
                // It is something else by now: another look.
                Err(e) if is(&e, &[Errno::NOENT, Errno::NOTDIR, Errno::LOOP]) => {}
                Err(e) => return self.fail(Some(&name), &e),
            }
        }
        self.fail(Some(&name), &io::Error::other("it keeps being exchanged"));
    }

    /// Opens a directory, with the permissions that emptying and moving it takes.
    fn enter(&mut self, name: &CStr) -> io::Result<Dir> {
        let at = self.levels.last().map_or(Ok(self.parent), |level| level.dir.fd())?;
        let held = self.beneath.hold(at, name)?;
        permit(&held)?;
        Ok(Dir::new(list(held.as_fd())?)?)
    }

    /// Renames a directory that lies too deep to the top of the tree.
    fn move_up(&mut self, name: &CStr) {
        let moved = self.aside.make().and_then(|to| {
            let top = self.levels.first().map_or(Ok(self.parent), |level| level.dir.fd())?;
            Ok(rustix::fs::renameat(self.deepest(), name, top, &*to)?)
        });
        match moved {
            Ok(()) => self.progress(),
            Err(e) if is(&e, &[Errno::NOENT]) => self.progress(),
            // What an overlay file system shows of a lower layer does not move.
            Err(e) if is(&e, &[Errno::XDEV]) => {
                self.fail(Some(name), &io::Error::other("it lies too deep, and cannot be moved up"));
            }
            Err(e) => self.fail(Some(name), &e),
        }
    }

    fn deepest(&self) -> BorrowedFd<'_> {
        // A directory's descriptor is there for as long as the directory is; only `fdopendir` of other systems fails.
        self.levels.last().and_then(|level| level.dir.fd().ok()).unwrap_or(self.parent)
    }

    fn done(&mut self, fate: &Fate) {
        self.entries += u64::from(matches!(fate, Fate::Gone));
        self.progress();
    }

    fn progress(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.progress = true;
        }
    }

    /// Keeps the first error, with the path of the entry in the deepest directory, or of that directory.
    fn fail(&mut self, name: Option<&CStr>, error: &io::Error) {
        if let Some(level) = self.levels.last_mut() {
            level.stuck = true;
        }
        if self.error.is_some() {
            return;
        }
        // The path of the top itself is its name.
        let below = usize::from(self.levels.len() + usize::from(name.is_some()) > 1);
        let levels = self.levels.iter().skip(below).map(|level| level.name.as_c_str()).chain(name);
        let names: Vec<_> = levels.map(|name| String::from_utf8_lossy(name.to_bytes())).collect();
        let why = match Errno::from_io_error(error) {
            Some(Errno::XDEV | Errno::BUSY) => "a mount point, which is left alone".to_owned(),
            _ => error.to_string(),
        };
        self.error = Some(io::Error::new(error.kind(), format!("{}: {why}", names.join("/"))));
    }
}

/// Whether an error is one of these.
fn is(error: &io::Error, numbers: &[Errno]) -> bool {
    Errno::from_io_error(error).is_some_and(|e| numbers.contains(&e))
}

/// `unlinkat(2)` of whatever has this name, which may become something else at any time.
fn unlink(at: BorrowedFd<'_>, name: &CStr, mut is_dir: bool) -> io::Result<Fate> {
    for _ in 0..TRIES {
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(at, name, flags) {
            Ok(()) => return Ok(Fate::Gone),
            Err(Errno::NOENT) => return Ok(Fate::Absent),
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Fate::Full),
            Err(Errno::NOTDIR | Errno::ISDIR) => is_dir = !is_dir,
            Err(e) => return Err(e.into()),
        }
    }
    Err(io::Error::other("it keeps being exchanged"))
}

/// Lets us list, change and search a directory of ours, by its descriptor.
fn permit(held: &OwnedFd) -> io::Result<()> {
    const ALL: u32 = 0o700;
    let found = rustix::fs::fstat(held)?;
    if found.st_mode & ALL != ALL && found.st_uid == rustix::process::geteuid().as_raw() {
        let mode = Mode::from_raw_mode((found.st_mode & 0o7777) | ALL);
        // Where this is not allowed, what comes next says so, or is allowed all the same.
        let _ = rustix::fs::chmod(super::descriptors::path(held.as_fd()), mode);
    }
    Ok(())
}
