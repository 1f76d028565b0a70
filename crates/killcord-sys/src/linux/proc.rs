//! Reading `/proc` (`proc(5)`), through a descriptor that was opened beforehand.
//!
//! Everything read here is input from outside: a name may hold any byte, a process may be gone between
//! two reads, and a number may have been given to another process.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Reads a file that the kernel makes up, in as few calls as it takes: `std` begins with 32 bytes, since such a file
/// says that it is empty.
pub(crate) fn read_file(path: &str) -> io::Result<Vec<u8>> {
    read_all(&rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The same of one that is open, from its beginning, however often.
pub(crate) fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let (mut text, mut filled) = (vec![0; 4096], 0);
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut text[filled..], filled as u64))? {
            0 => break,
            n => filled += n,
        }
        if filled == text.len() {
            text.resize(2 * filled, 0);
        }
    }
    text.truncate(filled);
    Ok(text)
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: u32,
    /// The first bytes of its program's name, and how many there are.
    comm: ([u8; 15], u8),
    /// Its state letter.
    pub state: u8,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// How many threads it has.
    pub threads: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// Parses the line. The name is between the first `(` and the last `)` and may hold both.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|b| *b == b'(')?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let pid = number(line.get(..open)?.trim_ascii())?;
        let name = line.get(open + 1..close)?;
        let mut fields = line.get(close + 1..)?.split(|b| *b == b' ').filter(|f| !f.is_empty());
        let state = *fields.next()?.first()?;
        let parent = number(fields.next()?)?;
        let group = number(fields.next()?)?;
        let session = number(fields.next()?)?;
        let threads = number(fields.nth(13)?)?;
        let start = fields.nth(1)?;
        let start = std::str::from_utf8(start).ok()?.trim().parse().ok()?;
        let mut comm = [0; 15];
        let len = name.len().min(15);
        comm[..len].copy_from_slice(&name[..len]);
        Some(Self { pid, comm: (comm, len as u8), state, parent, group, session, threads, start })
    }

    /// The program's name for a reader: unprintable characters are replaced.
    pub fn command(&self) -> String {
        let (bytes, len) = &self.comm;
        let text = String::from_utf8_lossy(&bytes[..usize::from(*len)]);
        text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }

    /// Whether the process has ended and only waits to be reaped.
    ///
    /// The state is that of its first thread: a process whose first thread has ended while others run is
    /// shown as a zombie of several threads. A real one has one left.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'X' | b'x') || (self.state == b'Z' && self.threads <= 1)
    }
}

/// A number that is not negative; group and session may be -1 or 0 for what our namespace cannot see.
fn number(field: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(field).ok()?.trim();
    let value: i64 = text.parse().ok()?;
    Some(u32::try_from(value).unwrap_or(0))
}

/// The numbers of a `children` file, which come in parts that may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    value: u64,
}

impl Numbers {
    /// Takes in a part. Memory is taken only where `into` has too little.
    pub(super) fn read(&mut self, part: &[u8], into: &mut Vec<u32>) {
        for byte in part {
            match byte {
                b'0'..=b'9' => {
                    self.value = self.value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                }
                _ => self.end(into),
            }
        }
    }

    /// What has come is a whole number. One that is no process's, 0 or too large, is none at all, and not another one.
    pub(super) fn end(&mut self, into: &mut Vec<u32>) {
        into.extend(u32::try_from(std::mem::take(&mut self.value)).ok().filter(|number| *number != 0));
    }
}

/// What `/proc/PID/sessionid` says.
pub(super) fn audit_session(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The second number of `/proc/PID/statm`, in bytes.
pub(super) fn resident(text: &[u8]) -> Option<u64> {
    let pages: u64 = std::str::from_utf8(text).ok()?.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Whether an environment, as `/proc/PID/environ` has it, holds this `NAME=value`.
pub(super) fn has_variable(environment: &[u8], assignment: &str) -> bool {
    environment.split(|b| *b == 0).any(|v| v == assignment.as_bytes())
}

/// So much of a file is read.
const LONGEST: usize = 32 * 1024;

/// Opens `/proc` and makes sure that it is that of our pid namespace.
fn open_dir() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open("/proc", flags, Mode::empty())?;
    let own = super::process::own_pid();
    let link = rustix::fs::readlinkat(&dir, "self", Vec::new())?;
    if link.to_bytes() == own.to_string().as_bytes() {
        Ok(dir)
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "/proc is not that of this pid namespace"))
    }
}

/// `/proc`, opened.
#[derive(Debug)]
pub struct Proc {
    dir: OwnedFd,
    buffer: Vec<u8>,
}

impl Proc {
    /// Opens `/proc` and makes sure that it is one, and that of our pid namespace.
    pub fn open() -> io::Result<Self> {
        // Not filled with anything: the files that are read are mostly shorter than a page, and each page that
        // is touched is one of every keeper's own.
        Ok(Self { dir: open_dir()?, buffer: Vec::with_capacity(LONGEST) })
    }

    /// Whether it can be opened.
    ///
    /// # Errors
    /// As [`Proc::open`].
    pub fn look() -> io::Result<()> {
        open_dir().map(drop)
    }

    /// Reads a small file below `/proc`. What is longer than the buffer is cut.
    fn read(&mut self, path: &str) -> io::Result<&[u8]> {
        let file = rustix::fs::openat(&self.dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        self.buffer.clear();
        while self.buffer.len() < LONGEST {
            let rest = || rustix::io::read(&file, rustix::buffer::spare_capacity(&mut self.buffer));
            if rustix::io::retry_on_intr(rest)? == 0 {
                break;
            }
        }
        Ok(&self.buffer)
    }

    /// What `/proc/PID/stat` says.
    ///
    /// # Errors
    /// `ENOENT` or `ESRCH` when the process is gone.
    pub fn stat(&mut self, pid: u32) -> io::Result<Stat> {
        let line = self.read(&format!("{pid}/stat"))?;
        Stat::parse(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat"))
    }

    /// The children of a process, from `/proc/PID/task/TID/children` of each of its threads.
    ///
    /// # Errors
    /// `ENOENT` when the process is gone, or the kernel lacks `CONFIG_PROC_CHILDREN`.
    pub fn children(&mut self, pid: u32, threads: u32, into: &mut Vec<u32>) -> io::Result<()> {
        if threads <= 1 {
            return self.children_of_thread(pid, pid, into);
        }
        let path = format!("{pid}/task");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.dir, path, flags, Mode::empty())?;
        for entry in rustix::fs::Dir::read_from(dir)? {
            if let Some(thread) = number_of_entry(&entry?) {
                match self.children_of_thread(pid, thread, into) {
                    // A thread that ended in between has handed its children to another one, which
                    // the next pass finds.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn children_of_thread(&mut self, pid: u32, thread: u32, into: &mut Vec<u32>) -> io::Result<()> {
        let path = format!("{pid}/task/{thread}/children");
        let file = rustix::fs::openat(&self.dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut numbers = Numbers::default();
        loop {
            self.buffer.clear();
            let rest = || rustix::io::read(&file, rustix::buffer::spare_capacity(&mut self.buffer));
            if rustix::io::retry_on_intr(rest)? == 0 {
                break;
            }
            numbers.read(&self.buffer, into);
        }
        numbers.end(into);
        Ok(())
    }

    /// Every process number that `/proc` lists.
    pub fn all(&self, into: &mut Vec<u32>) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(self.dir.as_fd())? {
            into.extend(number_of_entry(&entry?));
        }
        Ok(())
    }

    /// The audit session of a process.
    pub fn audit_session(&mut self, pid: u32) -> io::Result<u32> {
        let session = audit_session(self.read(&format!("{pid}/sessionid"))?);
        session.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/sessionid"))
    }

    /// How much memory of a process is resident, in bytes.
    pub fn resident(&mut self, pid: u32) -> io::Result<u64> {
        let bytes = resident(self.read(&format!("{pid}/statm"))?);
        bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/statm"))
    }

    /// The last number that was given to a process or thread of our pid namespace (`proc_loadavg(5)`).
    pub fn last_number(&mut self) -> io::Result<u32> {
        let text = self.read("loadavg")?;
        last_number(text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/loadavg has no last number"))
    }

    /// Whether the environment that a process was executed with holds this `NAME=value`. Environments
    /// beyond 32 KiB are read as far as that.
    pub fn has_variable(&mut self, pid: u32, assignment: &str) -> io::Result<bool> {
        Ok(has_variable(self.read(&format!("{pid}/environ"))?, assignment))
    }

    /// A link below `/proc`.
    pub(super) fn link(&self, path: &std::ffi::CStr) -> io::Result<std::ffi::CString> {
        Ok(rustix::fs::readlinkat(&self.dir, path, Vec::new())?)
    }

    /// Opens a directory below `/proc`.
    pub(super) fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.dir, path, flags, Mode::empty())?)
    }

    /// Reads a file below `/proc`, however long it is.
    pub(super) fn whole(&self, path: &str) -> io::Result<Vec<u8>> {
        use std::io::Read;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut text = Vec::new();
        let file = rustix::fs::openat(&self.dir, path, flags, Mode::empty())?;
        std::fs::File::from(file).read_to_end(&mut text)?;
        Ok(text)
    }

    /// The threads of a process; none when it is gone.
    pub(super) fn threads(&self, pid: u32) -> Vec<u32> {
        let list = self.directory(&format!("{pid}/task")).and_then(|dir| Ok(rustix::fs::Dir::new(dir)?));
        list.into_iter().flatten().filter_map(|entry| number_of_entry(&entry.ok()?)).collect()
    }

    /// Whether a process that may not be looked into can hold files at all: it is neither dead nor a thread of the
    /// kernel's own, which have no command line.
    pub(super) fn may_hold(&mut self, pid: u32) -> bool {
        let Ok(stat) = self.stat(pid) else { return false };
        if stat.is_dead() {
            return false;
        }
        let of_kernel = pid == 2 || stat.parent == 2;
        !of_kernel || !self.whole(&format!("{pid}/cmdline")).is_ok_and(|line| line.is_empty())
    }
}

impl AsFd for Proc {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn number_of_entry(entry: &rustix::fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str().ok()?.parse().ok()
}

/// The fifth field.
fn last_number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_that_was_given_out_is_read_and_nonsense_is_not() {
        assert_eq!(last_number(b"0.20 0.18 0.12 1/80 11206\n"), Some(11206));
        for text in [&b""[..], b"0.20 0.18 0.12 1/80", b"0.20 0.18 0.12 1/80 -1", b"\xff \xff 1 1 1"] {
            assert_eq!(last_number(text), None, "{text:?}");
        }
        let mut proc = Proc::open().unwrap();
        assert!(proc.last_number().unwrap() >= std::process::id() || proc.last_number().is_ok());
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read_whole() {
        let line = b"42 (a) b (c) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 1 2\n";
        let stat = Stat::parse(line);
        let stat = stat.as_ref();
        assert_eq!(stat.map(Stat::command).as_deref(), Some("a) b (c"));
        assert_eq!(stat.map(|s| (s.pid, s.parent, s.group, s.session)), Some((42, 7, 8, 9)));
        assert_eq!(stat.map(|s| (s.threads, s.start, s.state)), Some((3, 12345, b'S')));
    }

    #[test]
    fn a_zombie_of_several_threads_is_alive() {
        let stat = |state: &str, threads: u32| {
            let line =
                format!("42 (a) {state} 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 1 2\n");
            Stat::parse(line.as_bytes()).map(|s| s.is_dead())
        };
        assert_eq!(
            [stat("Z", 1), stat("Z", 2), stat("X", 1), stat("S", 1)].map(|d| d == Some(true)),
            [true, false, true, false]
        );
    }

    #[test]
    fn whatever_is_no_stat_line_is_refused() {
        for bad in ["", "1", "1 (", "1 (a", "1 (a) S", "x (a) S 1 1 1 0", ")("] {
            assert_eq!(Stat::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_number_that_is_no_processs_is_not_read_as_another() {
        let mut found = Vec::new();
        let mut numbers = Numbers::default();
        for part in ["12 4294967297 0 1", "3 18446744073709551617", "0 7"] {
            numbers.read(part.as_bytes(), &mut found);
        }
        numbers.end(&mut found);
        assert_eq!(found, [12, 13, 7]);
        assert_eq!(resident(b"1 18446744073709551615 1"), None);
    }

    #[test]
    fn our_own_stat_is_true() {
        let mut proc = Proc::open().unwrap_or_else(|e| panic!("{e}"));
        let stat = proc.stat(super::super::process::own_pid()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(stat.parent), super::super::process::parent_pid());
        assert!(!stat.is_dead() && stat.threads > 1);
    }
}
