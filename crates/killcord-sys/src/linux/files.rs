//! Files and directories by descriptor, links never followed, for directories in which somebody else may have
//! been busy.

pub use crate::contract::files::{About, Kind};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// These fields are not equally wide on every architecture.
fn wide(number: impl Into<u64>) -> u64 {
    number.into()
}

fn described(stat: &rustix::fs::Stat) -> About {
    let kind = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => Kind::File,
        rustix::fs::FileType::Directory => Kind::Directory,
        rustix::fs::FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    About {
        kind,
        owner: stat.st_uid,
        mode: stat.st_mode & 0o7777,
        links: wide(stat.st_nlink),
        size: stat.st_size as u64,
        identity: (wide(stat.st_dev), wide(stat.st_ino)),
    }
}

/// What is open (`fstat(2)`).
pub fn about(fd: BorrowedFd<'_>) -> io::Result<About> {
    Ok(described(&rustix::fs::fstat(fd)?))
}

/// What stands at a name; of a link, the link itself (`fstatat(2)`). Nothing is opened.
pub fn about_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<About> {
    Ok(described(&rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Opens a directory to be read. The last part of the path must not be a link.
///
/// # Errors
/// `ENOTDIR` for anything that is no directory, which is then not opened; `ELOOP` or `ENOTDIR` for a link.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, DIRECTORY, Mode::empty())?)
}

/// The same below an open one.
pub fn open_directory_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(at, name, DIRECTORY, Mode::empty())?)
}

/// Makes a directory for its user alone (`mkdirat(2)`), whatever the file mode creation mask takes away.
pub fn make_directory_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    rustix::fs::mkdirat(at, name, Mode::RWXU)?;
    Ok(rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty())?)
}

/// Makes a directory for its user alone, at a path.
pub fn make_directory(path: &Path) -> io::Result<()> {
    make_directory_at(rustix::fs::CWD, path.as_os_str())
}

/// Makes an empty file for its user alone, which must not be there yet, open for reading and writing. The file mode
/// creation mask takes nothing away.
pub fn make_file_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, name, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    Ok(file)
}

/// Opens a file that is to be appended to, and makes it if it is not there. A link, a device and a FIFO without
/// a reader are refused.
pub fn append_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, name, flags, Mode::RUSR | Mode::WUSR)?;
    match about(file.as_fd())?.kind {
        Kind::File => Ok(file),
        Kind::Directory | Kind::Link | Kind::Other => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Writes a file as a whole: under another name first, which is then given its own (`rename(2)`). Whoever looks
/// finds the old one or the new one. What is left of an earlier attempt is replaced.
pub fn write_whole_at(at: BorrowedFd<'_>, temporary: &OsStr, name: &OsStr, data: &[u8]) -> io::Result<()> {
    let file = match make_file_at(at, temporary) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            unlink_at(at, temporary)?;
            make_file_at(at, temporary)?
        }
        made => made?,
    };
    let mut file = std::fs::File::from(file);
    let written = io::Write::write_all(&mut file, data).and_then(|()| rename_at(at, temporary, name));
    if written.is_err() {
        // A full disk must not keep the attempt; the error that matters is the first.
        let _ = unlink_at(at, temporary);
    }
    written
}

/// Writes a small text over that of a file, in one write within one page, which no signal divides
/// (`generic_perform_write` in the kernel's `mm/filemap.c` looks for signals between pages alone). Where it is shorter
/// than what stands there, blanks follow.
///
/// Many times cheaper than [`write_whole_at`] over a file that is there: ext4 writes a new file out at once when it
/// takes an old one's name (`auto_da_alloc`, `ext4(5)`). For files that nobody relies upon who is not told of the write.
///
/// # Errors
/// `InvalidInput` for a text that is longer than a page.
pub fn overwrite_at(at: BorrowedFd<'_>, name: &OsStr, text: &[u8]) -> io::Result<()> {
    const PAGE: usize = 4096;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, name, flags, Mode::empty())?;
    let before = about(file.as_fd())?.size as usize;
    if text.len().max(before) > PAGE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = text.to_vec();
    text.resize(text.len().max(before), b' ');
    let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, &text, 0))?;
    if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Opens a file of ours that can be read without anything happening: a regular one with one link, of this user.
/// It is looked at before it is opened (`O_PATH`, `open(2)`), so that a device or a FIFO is refused untouched.
///
/// # Errors
/// `InvalidData` for anything else; `NotFound`.
pub fn open_own_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(at, name, flags, Mode::empty())?;
    let found = own(place.as_fd())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        // Without /proc it is opened by its name, and must be what was looked at.
        Err(rustix::io::Errno::NOENT) => {
            rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty())?
        }
        opened => opened?,
    };
    if about(file.as_fd())?.identity == found.identity {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "exchanged while it was being opened"))
    }
}

/// What is open, if it is a regular file of this user with one link. One without a link has been removed since it was
/// found, so it is not there.
fn own(place: BorrowedFd<'_>) -> io::Result<About> {
    let found = about(place)?;
    let uid = rustix::process::geteuid().as_raw();
    match found.links {
        1 if found.kind == Kind::File && found.owner == uid => Ok(found),
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => {
            let why = "not a regular file of this user with one link";
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

/// Reads such a file, of at most `most` bytes.
///
/// # Errors
/// As [`open_own_at`]; `InvalidData` for a larger one.
pub fn read_own_at(at: BorrowedFd<'_>, name: &OsStr, most: usize) -> io::Result<Vec<u8>> {
    let file = std::fs::File::from(open_own_at(at, name)?);
    let mut data = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, most as u64 + 1), &mut data)?;
    if data.len() <= most {
        Ok(data)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {most} bytes")))
    }
}

/// Removes a file, or a link itself (`unlinkat(2)`).
pub fn unlink_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(at, name, AtFlags::empty())?)
}

/// Removes an empty directory.
pub fn remove_directory_at(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR)?)
}

/// Gives what stands at a name another one in the same directory (`renameat(2)`).
pub fn rename_at(at: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat(at, from, at, to)?)
}

/// Writes a new file as a whole, and gives it a name in another directory of the same file system then: whoever looks
/// there finds nothing or all of it.
pub fn write_and_move(
    file: &OwnedFd,
    data: &[u8],
    from: (BorrowedFd<'_>, &OsStr),
    to: (BorrowedFd<'_>, &OsStr),
) -> io::Result<()> {
    let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file, data, 0))?;
    if written != data.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(rustix::fs::renameat(from.0, from.1, to.0, to.1)?)
}

/// The names in a directory, of which at most `most`; whether there are more.
pub fn names(directory: BorrowedFd<'_>, most: usize) -> io::Result<(Vec<OsString>, bool)> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() == most {
            return Ok((names, true));
        }
        names.push(OsString::from_vec(name));
    }
    Ok((names, false))
}

/// Whether a directory has a name of which this is true. The kernel is asked for no more than is needed to know.
pub fn has_name(directory: BorrowedFd<'_>, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let fd = rustix::fs::openat(directory, ".", DIRECTORY, Mode::empty())?;
    let mut space = [std::mem::MaybeUninit::uninit(); 1024];
    let mut entries = rustix::fs::RawDir::new(fd, &mut space);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && wanted(name) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lock(fd: BorrowedFd<'_>, how: FlockOperation) -> io::Result<bool> {
    match rustix::io::retry_on_intr(|| rustix::fs::flock(fd, how)) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Takes a shared lock (`flock(2)`) without waiting, and says whether it was to be had. It belongs to the open
/// file: all copies of the descriptor hold it, and it ends with the last of them. Nothing of killcord ever
/// unlocks one, since that would end it for all copies.
pub fn hold(fd: BorrowedFd<'_>) -> io::Result<bool> {
    lock(fd, FlockOperation::NonBlockingLockShared)
}

/// Takes an exclusive lock without waiting, and says whether it was to be had: whether nobody holds one.
pub fn seize(fd: BorrowedFd<'_>) -> io::Result<bool> {
    lock(fd, FlockOperation::NonBlockingLockExclusive)
}

/// Waits until nobody holds the exclusive lock any more.
pub fn wait_for_holder(fd: BorrowedFd<'_>) -> io::Result<()> {
    lock(fd, FlockOperation::LockShared).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_removed_while_it_is_looked_at_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        std::fs::write(&path, "text").unwrap();
        let place = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        assert_eq!(own(place.as_fd()).unwrap().size, 4);
        std::fs::hard_link(&path, dir.path().join("second")).unwrap();
        assert_eq!(own(place.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(dir.path().join("second")).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(own(place.as_fd()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
