//! Going down one step in a directory tree that somebody else may be changing: never over a link, never into a
//! mount, and never by opening anything but a directory.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How steps are made in one walk.
#[derive(Debug)]
pub(super) struct Beneath {
    /// Whether `openat2(2)` is to be had, as far as is known.
    openat2: bool,
    /// The mount that the walk stays on, once it was asked for.
    mount: Option<u64>,
}

impl Beneath {
    pub(super) fn new() -> Self {
        Self { openat2: true, mount: None }
    }

    /// Takes hold of a directory in another one, without opening it (`O_PATH`).
    ///
    /// # Errors
    /// `EXDEV` for the root of a mount, also of one of the same file system; `ENOTDIR` or `ELOOP` for a link and
    /// whatever else is no directory.
    pub(super) fn hold(&mut self, at: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if self.openat2 {
            let resolve = ResolveFlags::NO_XDEV
                | ResolveFlags::NO_SYMLINKS
                | ResolveFlags::NO_MAGICLINKS
                | ResolveFlags::BENEATH;
            match rustix::fs::openat2(at, name, flags, Mode::empty(), resolve) {
                // Before Linux 5.6, and under a filter that does not know it.
                Err(Errno::NOSYS | Errno::PERM) => self.openat2 = false,
                other => return Ok(other?),
            }
        }
        let mount = match self.mount {
            Some(mount) => mount,
            None => *self.mount.insert(mount_of(at)?),
        };
        let dir = rustix::fs::openat(at, name, flags, Mode::empty())?;
        if mount_of(dir.as_fd())? == mount { Ok(dir) } else { Err(Errno::XDEV.into()) }
    }

    /// The same, opened for reading its list.
    pub(super) fn open(&mut self, at: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
        list(self.hold(at, name)?.as_fd())
    }
}

/// Opens the list of a directory that is held.
pub(super) fn list(held: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(held, c".", flags, Mode::empty())?)
}

/// The number of the mount that a descriptor is on (`/proc/self/fdinfo`, `proc_pid_fdinfo(5)`). The device does
/// not tell: a bind mount has that of the file system it shows.
pub(super) fn mount_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
    let number = text.lines().find_map(|l| l.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/fdinfo names no mount"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType};
    use std::path::Path;

    /// What comes of a step from `dir`, with `openat2(2)` and without.
    fn step(dir: &Path, name: &CStr) -> [Option<Errno>; 2] {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let at = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
        [true, false].map(|openat2| {
            let held = Beneath { openat2, mount: None }.hold(at.as_fd(), name);
            held.err().map(|e| Errno::from_io_error(&e).unwrap())
        })
    }

    #[test]
    fn a_step_leads_into_a_directory_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink("sub", at("link")).unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(step(dir.path(), c"sub"), [None, None]);
        assert_eq!(step(dir.path(), c"."), [None, None]);
        assert_eq!(step(dir.path(), c"none"), [Some(Errno::NOENT); 2]);
        for name in [c"link", c"file", c"fifo"] {
            for error in step(dir.path(), name) {
                assert!(matches!(error, Some(Errno::NOTDIR | Errno::LOOP)), "{name:?}: {error:?}");
            }
        }
    }

    // Making mounts that nobody else sees is one of the fixtures' calls.
    #[cfg(feature = "fixture")]
    #[test]
    fn a_step_leads_into_no_mount_even_of_the_same_file_system() {
        if !rustix::process::geteuid().is_root() {
            killcord_testkit::skip!(killcord_testkit::Need::Root);
        }
        let seen = std::thread::spawn(|| {
            crate::fixture::own_mounts().unwrap();
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            for name in ["source", "mount"] {
                std::fs::create_dir(at(name)).unwrap();
            }
            assert_eq!(step(dir.path(), c"mount"), [None, None]);
            rustix::mount::mount_bind(at("source"), at("mount")).unwrap();
            let same = [at("source"), at("mount")].map(|path| rustix::fs::stat(path).unwrap().st_dev);
            assert_eq!(same[0], same[1]);
            step(dir.path(), c"mount")
        });
        assert_eq!(seen.join().unwrap(), [Some(Errno::XDEV); 2]);
    }
}
