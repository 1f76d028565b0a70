//! Cgroups (`cgroups(7)`, the kernel's `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! A job's cgroup is a fresh directory below our own, without controllers unless a limit needs one. A
//! cgroup is handled by descriptors: what has to be written in the worst moment is open beforehand.

use super::pidfd::Pidfd;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `f_type` of a v2 hierarchy (`statfs(2)`, `linux/magic.h`).
const CGROUP2_SUPER_MAGIC: rustix::fs::FsWord = 0x6367_7270;
/// And of one of v1.
const CGROUP_SUPER_MAGIC: rustix::fs::FsWord = 0x0027_e0eb;

/// Opens a directory without needing the right to read it.
fn open_dir(at: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

fn open_file(at: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(at, name, flags | OFlags::CLOEXEC, Mode::empty())?)
}

/// Writes one value to a control file. One write is one value.
pub(crate) fn put(at: BorrowedFd<'_>, name: &str, value: &str) -> io::Result<()> {
    let file = open_file(at, name, OFlags::WRONLY)?;
    super::socket::write(file.as_fd(), value.as_bytes())
}

/// Reads a control file.
pub(crate) fn get(at: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    text_of(&open_file(at, name, OFlags::RDONLY)?, name)
}

fn text_of(file: &OwnedFd, name: &str) -> io::Result<String> {
    String::from_utf8(super::proc::read_all(file)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, name.to_owned()))
}

/// The number behind a key in a file of `key value` lines.
pub(crate) fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Our own directory in one cgroup hierarchy.
#[derive(Debug)]
pub struct Own {
    /// Where it is.
    pub path: PathBuf,
    dir: OwnedFd,
}

/// One line of `/proc/self/mountinfo`, as far as it matters here (`proc_pid_mountinfo(5)`).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (front.next()?, front.next()?);
        let mut back = back.split(' ');
        let kind = back.next()?;
        let options = back.nth(1)?;
        Some(Mount { root, point, kind, options })
    })
}

/// Where we are in a hierarchy: `controller` names one of v1, `None` means v2.
pub(super) fn own_path(mountinfo: &str, cgroup: &str, controller: Option<&str>) -> Option<PathBuf> {
    let has = |list: &str, name: &str| list.split(',').any(|c| c == name);
    let path = cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match controller {
            None => number == "0" && controllers.is_empty(),
            Some(name) => has(controllers, name),
        };
        ours.then_some(path)
    })?;
    mounts(mountinfo).find_map(|m| {
        let ours = match controller {
            None => m.kind == "cgroup2",
            Some(name) => m.kind == "cgroup" && has(m.options, name),
        };
        // A mount that shows another part of the hierarchy than ours does not help.
        let below = if m.root == "/" { Some(path) } else { path.strip_prefix(&*unescape(m.root)) };
        // A mount point is a path from the top, or the line is none of the kernel's.
        let ours = ours && m.point.starts_with('/');
        let below = below.filter(|b| ours && (b.is_empty() || b.starts_with('/')) && !b.contains("/.."));
        below.map(|b| Path::new(&unescape(m.point)).join(b.trim_start_matches('/')))
    })
}

/// Octal escapes of spaces and the like in mountinfo undone.
fn unescape(text: &str) -> String {
    String::from_utf8_lossy(&super::mountinfo::unescaped(text.as_bytes())).into_owned()
}

impl Own {
    /// Finds and opens our own directory in the v2 hierarchy, or in the v1 hierarchy of a controller.
    ///
    /// # Errors
    /// `NotFound` when the hierarchy is not mounted where we can see our part of it.
    pub fn find(controller: Option<&str>) -> io::Result<Self> {
        let cgroup = super::proc::read_file("/proc/self/cgroup")?;
        let cgroup = String::from_utf8_lossy(&cgroup);
        if controller.is_none()
            && let Some(own) = Self::at_usual_place(&cgroup)
        {
            return Ok(own);
        }
        // Somebody's mount whose path is no text must not hide the cgroups.
        let mountinfo = std::fs::read("/proc/self/mountinfo")?;
        let mountinfo = String::from_utf8_lossy(&mountinfo);
        let path = own_path(&mountinfo, &cgroup, controller)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the hierarchy is not mounted"))?;
        let dir = open_dir(rustix::fs::CWD, &path)?;
        Ok(Self { path, dir })
    }

    /// Our v2 directory where nearly every system has it, without reading the table of mounts. What is
    /// found is in the v2 hierarchy and has our path in it, which is what the table would say.
    fn at_usual_place(cgroup: &str) -> Option<Self> {
        let path = cgroup.lines().find_map(|l| l.strip_prefix("0::"))?;
        if path.contains("/..") {
            return None;
        }
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter().find_map(|point| {
            let path = Path::new(point).join(path.trim_start_matches('/'));
            let dir = open_dir(rustix::fs::CWD, &path).ok()?;
            let v2 = rustix::fs::fstatfs(&dir).is_ok_and(|s| s.f_type == CGROUP2_SUPER_MAGIC);
            v2.then_some(Self { path, dir })
        })
    }

    /// The directory of a cgroup v2 hierarchy at this path.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, `InvalidInput` when it is not of such a hierarchy.
    pub fn at(path: &Path) -> io::Result<Self> {
        let dir = open_dir(rustix::fs::CWD, path)?;
        let v2 = rustix::fs::fstatfs(&dir).is_ok_and(|s| s.f_type == CGROUP2_SUPER_MAGIC);
        if v2 { Ok(Self { path: path.to_owned(), dir }) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// The same of either version.
    ///
    /// # Errors
    /// As [`Own::at`].
    pub fn at_any(path: &Path) -> io::Result<Self> {
        let dir = open_dir(rustix::fs::CWD, path)?;
        let kind = rustix::fs::fstatfs(&dir)?.f_type;
        let cgroup = kind == CGROUP2_SUPER_MAGIC || kind == CGROUP_SUPER_MAGIC;
        if cgroup { Ok(Self { path: path.to_owned(), dir }) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Opens the directory below it with this name.
    pub fn open(&self, name: &str) -> io::Result<OwnedFd> {
        open_dir(self.dir.as_fd(), Path::new(name))
    }

    /// The one above it.
    pub fn parent(&self) -> io::Result<Self> {
        let path = self.path.parent().ok_or(io::ErrorKind::NotFound)?.to_path_buf();
        let dir = open_dir(rustix::fs::CWD, &path)?;
        Ok(Self { path, dir })
    }

    /// Its descriptor.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Makes a fresh cgroup below.
    ///
    /// # Errors
    /// `EROFS` and `EACCES` where the hierarchy is not ours to write, `EEXIST`, `EAGAIN` at a limit of
    /// cgroups.
    pub fn make(&self, name: &str) -> io::Result<OwnedFd> {
        rustix::fs::mkdirat(&self.dir, name, Mode::from_raw_mode(0o755))?;
        open_dir(self.dir.as_fd(), Path::new(name)).inspect_err(|_| {
            // Nobody can be in it yet.
            let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::REMOVEDIR);
        })
    }

    /// Removes an empty cgroup below, and the empty ones that were made inside it. One that was never
    /// there is no error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove_at(self.dir.as_fd(), Path::new(name), 0)
    }
}

/// Removes a cgroup; only when something is inside does it look what. The depth is bounded by the kernel
/// (`cgroup.max.depth`) or, here, by 64.
fn remove_at(at: BorrowedFd<'_>, name: &Path, depth: u32) -> io::Result<()> {
    match rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(rustix::io::Errno::BUSY | rustix::io::Errno::NOTEMPTY) if depth < 64 => {}
        Err(e) => return Err(e.into()),
    }
    let dir = open_dir(at, name)?;
    for entry in rustix::fs::Dir::read_from(dir.as_fd())? {
        let entry = entry?;
        let inner = entry.file_name().to_bytes();
        if entry.file_type().is_dir() && inner != b"." && inner != b".." {
            let inner: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(inner);
            remove_at(dir.as_fd(), Path::new(inner), depth + 1)?;
        }
    }
    Ok(rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR)?)
}

/// How a leaf is killed.
#[derive(Debug)]
enum Killer {
    /// `cgroup.kill`, from Linux 5.14 on: recursive, and no fork escapes it.
    Kill(OwnedFd),
    /// `cgroup.freeze`, from Linux 5.2 on: freeze, kill every member, thaw.
    Freeze(OwnedFd),
}

/// A job's own v2 cgroup.
#[derive(Debug)]
pub struct Leaf {
    dir: OwnedFd,
    events: OwnedFd,
    killer: Killer,
    /// `cpu.stat`, once it is opened.
    times: Option<OwnedFd>,
}

impl Leaf {
    /// Opens everything that will be needed to hold and to end a job.
    pub fn open(dir: OwnedFd) -> io::Result<Self> {
        let at = dir.as_fd();
        let killer = match open_file(at, "cgroup.kill", OFlags::WRONLY) {
            Ok(fd) => Killer::Kill(fd),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Killer::Freeze(open_file(at, "cgroup.freeze", OFlags::WRONLY)?)
            }
            Err(e) => return Err(e),
        };
        let events = open_file(at, "cgroup.events", OFlags::RDONLY)?;
        Ok(Self { dir, events, killer, times: None })
    }

    /// What somebody else has opened: the directory, `cgroup.events`, `cgroup.kill`.
    ///
    /// # Errors
    /// `Unsupported` elsewhere.
    pub fn from_open([dir, events, kill]: [OwnedFd; 3]) -> io::Result<Self> {
        Ok(Self { dir, events, killer: Killer::Kill(kill), times: None })
    }

    /// The directory, for `CLONE_INTO_CGROUP`.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Opens `cgroup.procs`, into which a process writes `0` to enter, where it cannot be born inside.
    pub fn procs(&self) -> io::Result<OwnedFd> {
        open_file(self.dir.as_fd(), "cgroup.procs", OFlags::WRONLY)
    }

    /// `cgroup.events`, to be waited for with [`super::poll::Interest::Exception`]. The kernel wakes a
    /// waiter at most a hundred times a second, so it is a wake-up and not a clock.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// `cgroup.kill`, where the kernel has it, for somebody else to hold.
    pub fn kill_file(&self) -> Option<BorrowedFd<'_>> {
        match &self.killer {
            Killer::Kill(fd) => Some(fd.as_fd()),
            Killer::Freeze(_) => None,
        }
    }

    /// Whether a living process is in it or below it; zombies do not count.
    pub fn populated(&self) -> io::Result<bool> {
        let mut buffer = [0u8; 256];
        let n = match rustix::io::retry_on_intr(|| rustix::io::pread(&self.events, &mut buffer, 0)) {
            // It has been removed, which the kernel allows only of a cgroup without members.
            Err(rustix::io::Errno::NODEV) => return Ok(false),
            read => read?,
        };
        let text = std::str::from_utf8(&buffer[..n]).unwrap_or_default();
        value_of(text, "populated")
            .map(|v| v != 0)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cgroup.events"))
    }

    /// Ends every member.
    pub fn kill(&self) -> io::Result<()> {
        match &self.killer {
            Killer::Kill(fd) => super::socket::write(fd.as_fd(), b"1"),
            Killer::Freeze(fd) => {
                super::socket::write(fd.as_fd(), b"1")?;
                self.wait_frozen();
                let killed = self.kill_members();
                super::socket::write(fd.as_fd(), b"0")?;
                killed
            }
        }
    }

    /// Frozen processes do not fork, so that the list below is complete. Bounded: a process in
    /// uninterruptible sleep freezes late, and the next round comes to it.
    fn wait_frozen(&self) {
        let end = super::clock::now() + Duration::from_millis(100);
        while super::clock::now() < end {
            let frozen =
                get(self.dir.as_fd(), "cgroup.events").is_ok_and(|t| value_of(&t, "frozen") == Some(1));
            if frozen {
                return;
            }
            let interest = super::poll::Interest::Exception;
            let _ =
                super::poll::wait([(Some(self.events.as_fd()), interest)], Some(Duration::from_millis(5)));
        }
    }

    fn kill_members(&self) -> io::Result<()> {
        for pid in self.members()? {
            // The number was read from the cgroup; that the opened process is in it is read again.
            if let Ok(handle) = Pidfd::open(pid)
                && self.members()?.contains(&pid)
            {
                let _ = handle.signal(libc::SIGKILL);
            }
        }
        Ok(())
    }

    /// The members' numbers, as our pid namespace sees them (0 for what it does not see).
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let text = get(self.dir.as_fd(), "cgroup.procs")?;
        Ok(text.lines().filter_map(|l| l.parse().ok()).collect())
    }

    /// Opens what [`Self::processor_time`] reads, while there is time for it.
    pub fn open_times(&mut self) {
        // What cannot be opened now is opened then.
        self.times = open_file(self.dir.as_fd(), "cpu.stat", OFlags::RDONLY).ok();
    }

    /// Processor time of all members, dead ones included, in microseconds: user, system.
    pub fn processor_time(&self) -> Option<(u64, u64)> {
        let text = match &self.times {
            Some(file) => text_of(file, "cpu.stat"),
            None => get(self.dir.as_fd(), "cpu.stat"),
        };
        let text = text.ok()?;
        Some((value_of(&text, "user_usec")?, value_of(&text, "system_usec")?))
    }
}

/// Kills through a `cgroup.kill` that was handed over.
pub fn kill_through(fd: BorrowedFd<'_>) -> io::Result<()> {
    super::socket::write(fd, b"1")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
25 1 0:22 / /proc rw - proc proc rw
30 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 29 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
39 29 0:36 / /sys/fs/cgroup/uni\\040fied rw shared:3 - cgroup2 cgroup2 rw,nsdelegate
";
    const CGROUP: &str = "8:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/x.slice/y\n";

    #[test]
    fn our_place_is_found_in_every_hierarchy() {
        let at = |c| own_path(HYBRID, CGROUP, c).map(|p| p.display().to_string());
        assert_eq!(at(None).as_deref(), Some("/sys/fs/cgroup/uni fied/x.slice/y"));
        assert_eq!(at(Some("memory")).as_deref(), Some("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(at(Some("cpu")).as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/"));
        assert_eq!(at(Some("pids")), None);
    }

    #[test]
    fn a_mount_of_another_part_is_not_ours() {
        let inside = "39 29 0:36 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let at = |path: &str| own_path(inside, &format!("0::{path}\n"), None);
        assert_eq!(at("/docker/abc/x"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(at("/docker/abc"), Some("/sys/fs/cgroup/".into()));
        assert_eq!(at("/docker/abcd"), None);
        assert_eq!(at("/other"), None);
        assert_eq!(own_path("39 29 0:36 / /s rw - cgroup2 c rw\n", "0::/../x\n", None), None);
    }

    #[test]
    fn a_mount_whose_point_is_no_path_from_the_top_is_no_place() {
        for (point, found) in [("", None), ("x", None), ("/x", Some(PathBuf::from("/x/job")))] {
            let list = format!("30 29 0:25 / {point} rw - cgroup2 cgroup2 rw\n");
            assert_eq!(own_path(&list, "0::/job\n", None), found, "{point:?}");
        }
    }

    #[test]
    fn a_part_whose_name_is_escaped_in_the_list_is_found() {
        let inside = "39 29 0:36 /my\\040job /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(own_path(inside, "0::/my job/x\n", None), Some("/sys/fs/cgroup/x".into()));
    }

    #[test]
    fn keys_are_matched_whole() {
        assert_eq!(value_of("populated 1\nfrozen 0\n", "frozen"), Some(0));
        assert_eq!(value_of("oom 1\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(value_of("oom_kill_disable 0\nunder_oom 0\n", "oom_kill"), None);
    }
}
