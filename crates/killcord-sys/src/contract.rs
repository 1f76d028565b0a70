//! The plain data of the contract: what every system passes in and gets back, documented once. How it is done is in
//! `linux`, and refused in `stub`.

pub(crate) mod child {
    use std::time::Duration;

    /// How a child changed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Change {
        /// It exited with this code, and was reaped.
        Exited(i32),
        /// This signal ended it, and it was reaped.
        Killed(i32),
        /// This signal stopped it.
        Stopped(i32),
        /// It was continued.
        Continued,
    }

    /// What [`next`](crate::child::next) found.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Wait {
        /// This child changed.
        Child(u32, Change),
        /// There are children, none of which has changed.
        Nothing,
        /// There is no child (`ECHILD`). For a subreaper: no descendant.
        NoChildren,
    }

    /// Processor time and peak memory of all descendants that have been waited for (`getrusage(2)`).
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Used {
        /// Time in user mode.
        pub user: Duration,
        /// Time in the kernel.
        pub system: Duration,
        /// The largest resident set of one of them, in bytes.
        pub largest: u64,
    }
}

pub(crate) mod entries {
    use std::ffi::OsString;
    use std::time::SystemTime;

    /// What an entry of a directory is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// A directory.
        Directory,
        /// A symbolic link, whatever it leads to.
        Link,
        /// Anything else.
        Other,
    }

    /// What a file or directory is known by, whatever its name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Identity {
        /// The device of its file system.
        pub device: u64,
        /// Its number there.
        pub inode: u64,
    }

    /// An entry of a directory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Entry {
        /// Its name.
        pub name: OsString,
        /// What it is.
        pub kind: Kind,
        /// The user it belongs to.
        pub owner: u32,
        /// What it is known by.
        pub id: Identity,
    }

    /// What a bounded look at a directory found.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Content {
        /// When the newest of what was looked at was made or changed.
        pub newest: SystemTime,
        /// What is allocated for it.
        pub bytes: u64,
        /// How many entries were looked at, the directory included.
        pub entries: u64,
        /// Whether that was everything.
        pub whole: bool,
    }

    impl Default for Content {
        fn default() -> Self {
            Self { newest: SystemTime::UNIX_EPOCH, bytes: 0, entries: 0, whole: true }
        }
    }
}

pub(crate) mod holders {
    /// How a directory is used.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum How {
        /// It, or something in it, is open.
        Open,
        /// It is, or has in it, a working directory.
        WorkingDirectory,
        /// It is, or has in it, a root directory.
        Root,
        /// A program in it is being executed.
        Executable,
        /// A file in it is mapped into memory.
        Mapped,
        /// A socket in it is bound.
        Socket,
        /// Something is mounted on it or in it.
        Mount,
    }

    /// Who uses a directory: the first that was found.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Holder {
        /// The process, for display; sockets and mounts have none that is known.
        pub pid: Option<u32>,
        /// Its program's name.
        pub command: String,
        /// How.
        pub how: How,
    }

    /// What a look for users found.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Holders {
        /// For each directory, in the order in which they were given.
        pub by: Vec<Option<Holder>>,
        /// How many processes could not be looked into.
        pub unseen: u32,
        /// How many are in another mount namespace, where paths may be others.
        pub elsewhere: u32,
        /// Whether `/proc` may be leaving out processes of other users (`hidepid`).
        pub hidden: bool,
    }
}

pub(crate) mod files {
    /// What kind of thing stands somewhere.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        /// A regular file.
        File,
        /// A directory.
        Directory,
        /// A symbolic link.
        Link,
        /// A device, a FIFO, a socket.
        Other,
    }

    /// What is known of a file without opening it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct About {
        /// What it is.
        pub kind: Kind,
        /// Its user's number.
        pub owner: u32,
        /// Its permission bits.
        pub mode: u32,
        /// How many names it has.
        pub links: u64,
        /// Its size in bytes.
        pub size: u64,
        /// Device and inode: the same for the same file, as long as it is there.
        pub identity: (u64, u64),
    }
}

pub(crate) mod leader {
    use crate::os::{BorrowedFd, OwnedFd, RawFd};
    use std::ffi::CString;

    /// The child's session.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Session {
        /// A session of its own, without a terminal.
        Own,
        /// A session of its own, whose terminal is descriptor 0.
        OwnTerminal,
        /// The keeper's session, in this group of it.
        Group(u32),
        /// The keeper's session and group, as they are inherited.
        Inherited,
    }

    /// The numbers that a failing child writes, in the order of the steps. They are those of
    /// `killcord_model::wire::Stage`.
    #[derive(Debug, Clone, Copy)]
    pub struct Stages {
        /// Tying its life to its keeper's.
        pub leader: u8,
        /// Entering a cgroup.
        pub cgroup: u8,
        /// Session and group.
        pub session: u8,
        /// The terminal.
        pub terminal: u8,
        /// Descriptors.
        pub descriptors: u8,
        /// The working directory.
        pub directory: u8,
        /// Resource limits.
        pub rlimits: u8,
        /// The nice value.
        pub nice: u8,
        /// Signals.
        pub signals: u8,
        /// Executing.
        pub exec: u8,
    }

    /// What to execute and how.
    #[derive(Debug)]
    pub struct Plan<'a> {
        /// The paths to try, in this order, as `execvp(3)` does.
        pub paths: Vec<CString>,
        /// The arguments.
        pub argv: Vec<CString>,
        /// The environment.
        pub env: Vec<CString>,
        /// What becomes 0, 1 and 2.
        pub standard: [BorrowedFd<'a>; 3],
        /// More descriptors and the numbers that they get.
        pub extra: Vec<(BorrowedFd<'a>, RawFd)>,
        /// The working directory.
        pub directory: BorrowedFd<'a>,
        /// The file mode creation mask.
        pub umask: Option<u32>,
        /// Resource limits: number, soft, hard.
        pub rlimits: Vec<(u32, u64, u64)>,
        /// The nice value.
        pub nice: Option<i32>,
        /// What is added to the keeper's own `oom_score_adj`; 0 changes nothing.
        pub oom_score_adj: i32,
        /// Session and terminal.
        pub session: Session,
        /// `cgroup.procs` files into which the child writes itself.
        pub enter: Vec<BorrowedFd<'a>>,
        /// A cgroup directory to be born in (`CLONE_INTO_CGROUP`).
        pub born_in: Option<BorrowedFd<'a>>,
        /// Signals that stay ignored.
        pub ignored: Vec<i32>,
        /// Whether the keeper is the init of the child's pid namespace. Its death ends the child without a
        /// death signal, and the parent's number is 1.
        pub under_init: bool,
        /// How to name the steps.
        pub stages: Stages,
    }

    /// A child on its way to exec.
    #[derive(Debug)]
    pub struct Leader {
        /// Its number. It is our unreaped child.
        pub pid: u32,
        /// Its pidfd, where the kernel has them.
        pub pidfd: Option<OwnedFd>,
        /// The read end of the pipe for a failure: its end without a word means that exec has happened, or
        /// that the child was killed before it.
        pub failure: OwnedFd,
        /// What it uses of us until then.
        #[cfg_attr(any(not(test), killcord_stub), expect(dead_code, reason = "it is there to be dropped"))]
        pub(crate) lending: crate::leader::Lending,
    }

    /// A step that failed in the child.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Failure {
        /// The step, as in [`Stages`].
        pub stage: u8,
        /// The error number.
        pub errno: i32,
        /// Which of the paths.
        pub path: usize,
    }

    impl Failure {
        const BYTES: usize = 9;

        /// What the child writes.
        pub fn to_bytes(self) -> [u8; Self::BYTES] {
            let mut bytes = [self.stage, 0, 0, 0, 0, 0, 0, 0, 0];
            bytes[1..5].copy_from_slice(&self.errno.to_le_bytes());
            bytes[5..9].copy_from_slice(&(self.path as u32).to_le_bytes());
            bytes
        }

        /// Reads what the child wrote.
        pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
            let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
            let (stage, rest) = bytes.split_first()?;
            let (errno, path) = rest.split_first_chunk()?;
            let path = u32::from_le_bytes(path.try_into().ok()?);
            Some(Self { stage: *stage, errno: i32::from_le_bytes(*errno), path: path as usize })
        }
    }
}

pub(crate) mod limits {
    /// What can be limited.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Resource {
        /// Memory, in bytes.
        Memory,
        /// Processes and threads at once.
        Pids,
        /// Processor time, in thousandths of one processor.
        Cpu,
    }

    impl Resource {
        /// All of them.
        pub const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

        /// The controller's name, which is also how the limit is typed.
        pub fn name(self) -> &'static str {
            match self {
                Self::Memory => "memory",
                Self::Pids => "pids",
                Self::Cpu => "cpu",
            }
        }
    }
}

pub(crate) mod mark {
    /// By what the processes of a job can be told from all others.
    #[derive(Debug, Clone, Copy)]
    pub struct Sign<'a> {
        /// `NAME=value` in the environment that a process was executed with.
        pub assignment: &'a str,
        /// The audit session.
        pub tag: Option<u32>,
        /// Nothing of the job has started before this, in clock ticks since boot.
        pub not_before: u64,
    }

    /// Who carries a sign.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Found {
        /// How many processes.
        pub count: usize,
        /// Whether every process could be asked for its audit session, those among them that came meanwhile.
        pub tags_read: bool,
        /// Whether a process is in that audit session which is older than the job.
        pub not_the_jobs_tag: bool,
    }

    impl Found {
        /// Whether whoever is in the job's audit session was found.
        #[must_use]
        pub fn has_all_tagged(&self) -> bool {
            self.tags_read && !self.not_the_jobs_tag
        }
    }
}

pub(crate) mod namespace {
    /// Whether a user namespace is needed to make the others.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Through {
        /// With `CAP_SYS_ADMIN`: root.
        Privilege,
        /// Through a user namespace of our own (`user_namespaces(7)`).
        UserNamespace,
    }
}

pub(crate) mod pidfd {
    use crate::os::{AsFd, BorrowedFd, OwnedFd};
    use crate::pidfd::{signal_through, wait_ended};
    use std::io;
    use std::time::Duration;

    /// One process, whatever becomes of its number.
    #[derive(Debug)]
    pub struct Pidfd(OwnedFd);

    impl Pidfd {
        /// Sends a signal (`pidfd_send_signal(2)`). A process that is gone is no error for the caller's
        /// purpose, and is said by `ESRCH`.
        pub fn signal(&self, signal: i32) -> io::Result<()> {
            signal_through(self.as_fd(), signal)
        }

        /// Whether the process has ended; a zombie has.
        pub fn has_ended(&self) -> io::Result<bool> {
            self.wait_ended(Some(Duration::ZERO))
        }

        /// Waits until the process has ended and says whether it has.
        pub fn wait_ended(&self, timeout: Option<Duration>) -> io::Result<bool> {
            wait_ended(self.as_fd(), timeout)
        }
    }

    impl AsFd for Pidfd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl From<OwnedFd> for Pidfd {
        fn from(fd: OwnedFd) -> Self {
            Self(fd)
        }
    }

    impl From<Pidfd> for OwnedFd {
        fn from(fd: Pidfd) -> Self {
            fd.0
        }
    }
}

pub(crate) mod poll {
    /// What a descriptor is waited for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Interest {
        /// Something to read, or the other end is gone.
        Read,
        /// Exceptional state only: how `cgroup.events` reports a change.
        Exception,
        /// Only that the other end is gone.
        Gone,
        /// Room for at least `PIPE_BUF` bytes in a pipe or for a message, or the other end is gone.
        Write,
    }
}

pub(crate) mod process {
    /// The two sides of a fork.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fork {
        /// This is the new process.
        Child,
        /// This is the old one, and that is the new one's number: an unreaped child, so that the number
        /// stays its own until it is reaped.
        Parent(u32),
    }
}

pub(crate) mod remove {
    /// How far a removal came.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Removed {
        /// How many entries were removed, the directory itself included.
        pub entries: u64,
        /// Whether nothing is left, as opposed to the time having been up.
        pub complete: bool,
    }
}

pub(crate) mod signals {
    /// A signal that was read.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Arrived {
        /// Its number.
        pub signal: i32,
        /// Whether the kernel sent it (a terminal's key or hang-up) and not a process (`si_code` is
        /// `SI_KERNEL`, `sigaction(2)`).
        pub by_kernel: bool,
        /// The sender's number, for display.
        pub sender: u32,
    }
}

pub(crate) mod socket {
    use crate::os::OwnedFd;

    /// What [`receive`](crate::socket::receive) found.
    #[derive(Debug)]
    pub enum Received {
        /// A datagram and its descriptors, which are closed by exec.
        Message(Vec<u8>, Vec<OwnedFd>),
        /// Nothing yet.
        Nothing,
        /// The other end is closed and everything it sent has been read.
        Closed,
    }

    /// What came in at a named socket, and from whom.
    #[derive(Debug)]
    pub struct Call {
        /// The datagram.
        pub data: Vec<u8>,
        /// Its descriptors, which are closed by exec.
        pub fds: Vec<OwnedFd>,
        /// The sender's user, as the kernel says.
        pub user: Option<u32>,
    }
}

pub(crate) mod tree {
    /// What became of a signal to all.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Sent {
        /// How many got it.
        pub reached: u32,
        /// How many could not be signalled for lack of rights.
        pub denied: u32,
    }
}
