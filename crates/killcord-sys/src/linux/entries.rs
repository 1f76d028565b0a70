//! What is in a directory that others write to, without following anything and without changing anything.

use super::beneath::Beneath;
pub use crate::contract::entries::{Content, Entry, Identity, Kind};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How many levels below a directory [`content`] looks at.
const LEVELS: usize = 4;
/// How many entries it looks at.
const ENTRIES: u64 = 10_000;

/// Opens a directory for reading its list.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The entries whose names begin so, by name. One that goes meanwhile is left out.
pub fn beginning_with(dir: BorrowedFd<'_>, prefix: &[u8]) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_bytes().starts_with(prefix) {
            continue;
        }
        match named(dir, OsStr::from_bytes(name.to_bytes())) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            entry => found.push(entry?),
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The entry of this name (`fstatat(2)`); a link is itself.
pub fn named(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Entry> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let id = Identity { device: stat.st_dev, inode: stat.st_ino };
    Ok(Entry { name: name.to_owned(), kind, owner: stat.st_uid, id })
}

/// Gives an entry of a directory another name in it, which must be free (`renameat2(2)`).
pub fn rename(dir: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // Not on this file system. A directory still never takes the place of anything but an empty one.
        Err(Errno::INVAL | Errno::NOSYS) => Ok(rustix::fs::renameat(dir, from, dir, to)?),
        other => Ok(other?),
    }
}

/// A bounded look at what a directory holds: itself, and up to 10 000 entries of it and of four levels below. What may
/// not be listed, and mounts, are not looked into. An entry is as new as its content or its attributes; the directory
/// itself as new as its list, since a new name changes the attributes.
///
/// # Errors
/// When the directory itself cannot be looked at. It is `ENOTDIR` or `ELOOP` for what is none.
pub fn content(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Content> {
    let name = CString::new(name.as_bytes())?;
    let mut look = Look { beneath: Beneath::new(), content: Content::default() };
    let held = look.beneath.hold(dir, &name)?;
    let top = rustix::fs::fstat(&held)?;
    look.count(&top, time(top.st_mtime, top.st_mtime_nsec));
    look.below(held.as_fd(), c".", 0);
    Ok(look.content)
}

struct Look {
    beneath: Beneath,
    content: Content,
}

impl Look {
    fn count(&mut self, stat: &Stat, newest: SystemTime) {
        self.content.newest = self.content.newest.max(newest);
        self.content.bytes =
            self.content.bytes.saturating_add(stat.st_blocks.unsigned_abs().saturating_mul(512));
        self.content.entries += 1;
    }

    fn below(&mut self, at: BorrowedFd<'_>, name: &CStr, level: usize) {
        let list = if level == 0 { super::beneath::list(at) } else { self.beneath.open(at, name) };
        let Ok(mut list) = list.and_then(|dir| Ok(Dir::new(dir)?)) else {
            self.content.whole = false;
            return;
        };
        while let Some(Ok(entry)) = list.read() {
            if self.content.entries >= ENTRIES {
                self.content.whole = false;
                return;
            }
            let (name, Ok(at)) = (entry.file_name(), list.fd()) else { continue };
            if name == c"." || name == c".." {
                continue;
            }
            // It may be gone, and then it is of no interest.
            let Ok(stat) = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // The first can be set to anything by its owner, the second cannot: the later of both.
            let modified = time(stat.st_mtime, stat.st_mtime_nsec);
            self.count(&stat, modified.max(time(stat.st_ctime, stat.st_ctime_nsec)));
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                continue;
            }
            if level + 1 < LEVELS {
                self.below(at, name, level + 1);
            } else {
                self.content.whole = false;
            }
        }
    }
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let since = Duration::new(seconds.max(0).unsigned_abs(), nanoseconds as u32);
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The directory with all links resolved, as the kernel names what is below it.
pub(super) fn canonical(path: &Path) -> io::Result<Vec<u8>> {
    Ok(std::fs::canonicalize(path)?.into_os_string().into_vec())
}
