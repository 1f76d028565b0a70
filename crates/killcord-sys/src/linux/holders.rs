//! Who uses some directories: by what `/proc` says of every process, of sockets, and of mounts.
//!
//! It is a look from outside. What it finds is in use, or is another directory of the same path in another mount
//! namespace; what it does not find may be used by a process that it may not look into.

use super::mountinfo::{Mount, Origin, unescaped};
use super::proc::Proc;
use crate::contract::entries::Identity;
pub use crate::contract::holders::{Holder, Holders, How};
use rustix::fs::{AtFlags, Dir, StatxFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Looks for users of these directories of `parent`.
///
/// In each process that is shown to us: descriptors, working directory, root, executable and mappings, by path and,
/// for the directory itself, by device and inode. A process whose first thread has ended is looked at thread by
/// thread; other threads with descriptors of their own (`CLONE_FILES` undone) are not told apart. Beyond processes:
/// sockets that are bound below by an absolute path, in our network namespace, and mounts on, in, or of a part of it,
/// in every mount namespace that a process shows us. Paths are known as each of these has them.
///
/// # Errors
/// When `/proc` is not there or not ours: nothing is known then.
pub fn of(parent: &Path, directories: &[(&OsStr, Identity)]) -> io::Result<Holders> {
    let mut front = super::entries::canonical(parent)?;
    if front.last() != Some(&b'/') {
        front.push(b'/');
    }
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let mut search = Search {
        origin: Origin::of(parent, &front, &mounts)?,
        fronts: vec![front],
        names: directories.iter().enumerate().map(|(i, (name, _))| (name.as_bytes(), i)).collect(),
        ids: directories.iter().enumerate().map(|(i, (_, id))| (*id, i)).collect(),
        namespaces: HashSet::new(),
        found: Holders { by: vec![None; directories.len()], unseen: 0, elsewhere: 0, hidden: false },
    };
    search.mounts(&mounts);
    search.sockets();
    search.processes()?;
    Ok(search.found)
}

/// Whether we may not look.
struct Denied;

struct Search<'a> {
    /// The paths of the directories' parent, with a slash each: ours first, then those under which mounts show it.
    fronts: Vec<Vec<u8>>,
    names: HashMap<&'a [u8], usize>,
    ids: HashMap<Identity, usize>,
    origin: Option<Origin>,
    /// The mount namespaces whose mounts have been looked at.
    namespaces: HashSet<Vec<u8>>,
    found: Holders,
}

impl Search<'_> {
    /// Which directory a path is, or is in.
    fn place(&self, path: &[u8]) -> Option<usize> {
        self.fronts.iter().find_map(|front| self.place_below(front, path))
    }

    fn place_below(&self, front: &[u8], path: &[u8]) -> Option<usize> {
        let below = path.strip_prefix(front)?;
        self.names.get(below.split(|b| *b == b'/').next()?).copied()
    }

    fn note(&mut self, place: Option<usize>, how: How, of: Option<(u32, &mut Proc)>) {
        if let Some(slot) = place.and_then(|place| self.found.by.get_mut(place)).filter(|slot| slot.is_none())
        {
            let pid = of.as_ref().map(|(pid, _)| *pid);
            let command = of.and_then(|(pid, proc)| proc.stat(pid).ok()).map(|stat| stat.command());
            *slot = Some(Holder { pid, command: command.unwrap_or_default(), how });
        }
    }

    /// What is mounted on the directories or in them, what shows a part of them elsewhere, and what shows all of them.
    fn mounts(&mut self, list: &[u8]) {
        for mount in Mount::all(list) {
            let origin = self.origin.as_ref().filter(|origin| origin.is_on(&mount));
            let part = origin.and_then(|origin| self.place_below(&origin.front, &mount.root));
            let all = origin.and_then(|origin| origin.shown_by(&mount));
            self.note(self.place(&mount.point).or(part), How::Mount, None);
            self.fronts.extend(all.filter(|front| !self.fronts.contains(front)));
        }
        // Only with this option are there processes that are not shown at all.
        self.found.hidden |= list.split(|b| *b == b'\n').any(|line| {
            let has = |text: &[u8]| line.windows(text.len()).any(|w| w == text);
            has(b" - proc proc") && has(b"hidepid=")
        });
    }

    /// `/proc/net/unix` (`proc_net(5)`): a bound socket has no path in `/proc/PID/fd`.
    fn sockets(&mut self) {
        // Without networking there is no such list, and no such socket.
        let text = std::fs::read("/proc/net/unix").unwrap_or_default();
        for line in text.split(|b| *b == b'\n') {
            if let Some(at) = line.iter().position(|b| *b == b'/') {
                self.note(self.place(&line[at..]), How::Socket, None);
            }
        }
    }

    fn processes(&mut self) -> io::Result<()> {
        let mut proc = Proc::open()?;
        let own = proc.link(c"self/ns/mnt")?.into_bytes();
        self.namespaces.insert(own.clone());
        let mut all = Vec::new();
        proc.all(&mut all)?;
        for pid in all {
            self.namespace(&mut proc, pid, &own);
            if self.process(&mut proc, pid).is_err() && proc.may_hold(pid) {
                self.found.unseen += 1;
            }
        }
        Ok(())
    }

    /// The mounts of a process, if it has others than those before it. Its paths are as they show them.
    fn namespace(&mut self, proc: &mut Proc, pid: u32, own: &[u8]) {
        let Ok(namespace) = proc.link(&path(pid, "ns/mnt")) else { return };
        let namespace = namespace.into_bytes();
        self.found.elsewhere += u32::from(namespace != own);
        if !self.namespaces.contains(&namespace)
            && let Ok(mounts) = proc.whole(&format!("{pid}/mountinfo"))
        {
            self.namespaces.insert(namespace);
            self.mounts(&mounts);
        }
    }

    fn process(&mut self, proc: &mut Proc, pid: u32) -> Result<(), Denied> {
        let Ok(stat) = proc.stat(pid) else { return Ok(()) };
        if stat.state != b'Z' || stat.is_dead() {
            return self.task(proc, pid, &pid.to_string());
        }
        // The first thread has ended, and has nothing any more; the others have. One may be seen where another may not.
        let others = proc.threads(pid).into_iter().filter(|thread| *thread != pid);
        let looks: Vec<_> = others.map(|t| self.task(proc, pid, &format!("{pid}/task/{t}"))).collect();
        looks.into_iter().collect()
    }

    /// A process or thread whose directory in `/proc` is `base`.
    fn task(&mut self, proc: &mut Proc, pid: u32, base: &str) -> Result<(), Denied> {
        self.links(proc, pid, base)?;
        self.mappings(proc, pid, base)
    }

    /// What a process or thread holds through the links of its directory.
    fn links(&mut self, proc: &mut Proc, pid: u32, base: &str) -> Result<(), Denied> {
        for (name, how) in [("cwd", How::WorkingDirectory), ("root", How::Root), ("exe", How::Executable)] {
            let Ok(name) = std::ffi::CString::new(format!("{base}/{name}")) else { continue };
            let place = self.behind(proc.as_fd(), &name)?;
            self.note(place, how, Some((pid, &mut *proc)));
        }
        let Some(list) = seen(proc.directory(&format!("{base}/fd")))? else { return Ok(()) };
        let Ok(mut list) = Dir::new(list) else { return Ok(()) };
        while let Some(Ok(entry)) = list.read() {
            let Ok(at) = list.fd() else { break };
            if !entry.file_name().to_bytes().starts_with(b".") {
                let place = self.behind(at, entry.file_name())?;
                self.note(place, How::Open, Some((pid, &mut *proc)));
            }
        }
        Ok(())
    }

    /// Which directory is behind a link of `/proc`, by its text, or as itself.
    fn behind(&self, at: BorrowedFd<'_>, name: &CStr) -> Result<Option<usize>, Denied> {
        let Some(text) = seen(rustix::fs::readlinkat(at, name, Vec::new()).map_err(Into::into))? else {
            return Ok(None);
        };
        if !text.to_bytes().starts_with(b"/") {
            return Ok(None);
        }
        Ok(self.place(text.to_bytes()).or_else(|| self.ids.get(&identity(at, name)?).copied()))
    }

    /// `/proc/PID/maps`, where a newline in a path is `\012`.
    fn mappings(&mut self, proc: &mut Proc, pid: u32, base: &str) -> Result<(), Denied> {
        let Some(text) = seen(proc.whole(&format!("{base}/maps")))? else { return Ok(()) };
        for line in text.split(|b| *b == b'\n') {
            let Some(at) = line.iter().position(|b| *b == b'/') else { continue };
            let path = &line[at..];
            let place = self.place(path).or_else(|| self.place(&unescaped(path)));
            self.note(place, How::Mapped, Some((pid, &mut *proc)));
        }
        Ok(())
    }
}

/// What is gone is nothing; what may not be looked at is said.
fn seen<T>(looked: io::Result<T>) -> Result<Option<T>, Denied> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(Denied),
        Err(_) => Ok(None),
    }
}

fn path(pid: u32, name: &str) -> std::ffi::CString {
    std::ffi::CString::new(format!("{pid}/{name}")).unwrap_or_default()
}

/// `statx(2)` of what the kernel knows already: a file system that does not answer holds nobody up.
fn identity(at: BorrowedFd<'_>, name: &CStr) -> Option<Identity> {
    let found = match rustix::fs::statx(at, name, AtFlags::STATX_DONT_SYNC, StatxFlags::INO) {
        Ok(found) => found,
        Err(Errno::NOSYS | Errno::PERM) => {
            let stat = rustix::fs::statat(at, name, AtFlags::empty()).ok()?;
            return Some(Identity { device: stat.st_dev, inode: stat.st_ino });
        }
        Err(_) => return None,
    };
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Some(Identity { device, inode: found.stx_ino })
}
