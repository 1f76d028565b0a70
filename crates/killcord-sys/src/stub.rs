//! The contract, and a system on which nothing of it can be had yet: every operation refuses with
//! [`io::ErrorKind::Unsupported`]. What `std` gives everywhere works.
//!
//! The names, types and meanings are those of `linux` and `contract`, where they are documented. A type that could only
//! come from an operation that is refused has no value, so that its methods need no answer.

#![expect(missing_docs, reason = "documented once, in `linux`")]
#![expect(clippy::wildcard_imports, reason = "each module needs most of the few names above")]

use crate::os::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::convert::Infallible as Never;
use std::io;
use std::time::Duration;

/// The answer of every operation.
fn refused<T>() -> io::Result<T> {
    let why = "killcord does not support this system yet: Linux only so far";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Functions that refuse.
macro_rules! refuse {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(pub fn $name($(_: $type),*) -> io::Result<$answer> {
            refused()
        })*
    };
}

refuse! {
    fn supported() -> ();
}

pub mod audit {
    use super::*;

    pub const UNSET: u32 = u32::MAX;

    refuse! {
        fn enter_session() -> u32;
    }
}

pub mod cgroup {
    use super::*;
    use std::path::PathBuf;

    #[derive(Debug)]
    pub struct Own {
        pub path: PathBuf,
        never: Never,
    }

    impl Own {
        refuse! {
            fn find(controller: Option<&str>) -> Self;
            fn at(path: &std::path::Path) -> Self;
            fn at_any(path: &std::path::Path) -> Self;
        }

        pub fn open(&self, _: &str) -> io::Result<OwnedFd> {
            match self.never {}
        }

        pub fn parent(&self) -> io::Result<Self> {
            match self.never {}
        }

        pub fn dir(&self) -> BorrowedFd<'_> {
            match self.never {}
        }

        pub fn make(&self, _: &str) -> io::Result<OwnedFd> {
            match self.never {}
        }

        pub fn remove(&self, _: &str) -> io::Result<()> {
            match self.never {}
        }
    }

    #[derive(Debug)]
    pub struct Leaf(Never);

    impl Leaf {
        refuse! {
            fn open(dir: OwnedFd) -> Self;
            fn from_open(parts: [OwnedFd; 3]) -> Self;
        }

        pub fn dir(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }

        pub fn procs(&self) -> io::Result<OwnedFd> {
            match self.0 {}
        }

        pub fn events(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }

        pub fn kill_file(&self) -> Option<BorrowedFd<'_>> {
            match self.0 {}
        }

        pub fn populated(&self) -> io::Result<bool> {
            match self.0 {}
        }

        pub fn kill(&self) -> io::Result<()> {
            match self.0 {}
        }

        pub fn members(&self) -> io::Result<Vec<u32>> {
            match self.0 {}
        }

        pub fn open_times(&mut self) {
            match self.0 {}
        }

        pub fn processor_time(&self) -> Option<(u64, u64)> {
            match self.0 {}
        }
    }

    refuse! {
        fn kill_through(fd: BorrowedFd<'_>) -> ();
    }
}

pub mod child {
    use super::*;
    pub use crate::contract::child::{Change, Used, Wait};

    refuse! {
        fn next() -> Wait;
        fn next_of(pid: u32) -> Wait;
        fn wait_for(pid: u32) -> Wait;
        fn peek(pid: u32) -> Option<Change>;
        fn signal(child: u32, signal: i32) -> ();
        fn signal_group(group: u32, signal: i32) -> ();
    }

    pub fn any() -> bool {
        false
    }

    pub fn change_of(status: std::process::ExitStatus) -> Change {
        Change::Exited(status.code().unwrap_or(-1))
    }

    pub fn used() -> Used {
        Used::default()
    }
}

pub mod clock {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    pub fn now() -> Duration {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed()
    }
}

pub mod descriptors {
    use super::*;

    refuse! {
        fn null() -> OwnedFd;
        fn directory(path: &std::ffi::CStr) -> OwnedFd;
        fn detach_standard_streams() -> ();
        fn set_standard_streams(output: BorrowedFd<'_>) -> ();
        fn close_all_but(keep: &mut [RawFd]) -> ();
        fn copy_above(fd: BorrowedFd<'_>, least: RawFd) -> OwnedFd;
        fn never_wait(fd: BorrowedFd<'_>) -> ();
        fn take_number(number: RawFd) -> OwnedFd;
        fn borrow_number(number: RawFd) -> OwnedFd;
    }

    pub fn path(_: BorrowedFd<'_>) -> std::path::PathBuf {
        std::path::PathBuf::new()
    }

    pub fn number<F: AsFd>(_: &F) -> RawFd {
        -1
    }
}

pub mod entries {
    use super::*;
    pub use crate::contract::entries::{Content, Entry, Identity, Kind};
    use std::ffi::OsStr;

    refuse! {
        fn open(path: &std::path::Path) -> OwnedFd;
        fn beginning_with(dir: BorrowedFd<'_>, prefix: &[u8]) -> Vec<Entry>;
        fn named(dir: BorrowedFd<'_>, name: &OsStr) -> Entry;
        fn rename(dir: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> ();
        fn content(dir: BorrowedFd<'_>, name: &OsStr) -> Content;
    }
}

pub mod files {
    use super::*;
    pub use crate::contract::files::{About, Kind};
    use std::ffi::{OsStr, OsString};
    use std::path::Path;

    refuse! {
        fn about(fd: BorrowedFd<'_>) -> About;
        fn about_at(at: BorrowedFd<'_>, name: &OsStr) -> About;
        fn open_directory(path: &Path) -> OwnedFd;
        fn open_directory_at(at: BorrowedFd<'_>, name: &OsStr) -> OwnedFd;
        fn make_directory_at(at: BorrowedFd<'_>, name: &OsStr) -> ();
        fn make_directory(path: &Path) -> ();
        fn make_file_at(at: BorrowedFd<'_>, name: &OsStr) -> OwnedFd;
        fn append_at(at: BorrowedFd<'_>, name: &OsStr) -> OwnedFd;
        fn write_whole_at(at: BorrowedFd<'_>, temporary: &OsStr, name: &OsStr, data: &[u8]) -> ();
        fn overwrite_at(at: BorrowedFd<'_>, name: &OsStr, text: &[u8]) -> ();
        fn open_own_at(at: BorrowedFd<'_>, name: &OsStr) -> OwnedFd;
        fn read_own_at(at: BorrowedFd<'_>, name: &OsStr, most: usize) -> Vec<u8>;
        fn unlink_at(at: BorrowedFd<'_>, name: &OsStr) -> ();
        fn remove_directory_at(at: BorrowedFd<'_>, name: &OsStr) -> ();
        fn rename_at(at: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> ();
        fn write_and_move(file: &OwnedFd, data: &[u8], from: (BorrowedFd<'_>, &OsStr), to: (BorrowedFd<'_>, &OsStr)) -> ();
        fn names(directory: BorrowedFd<'_>, most: usize) -> (Vec<OsString>, bool);
        fn hold(fd: BorrowedFd<'_>) -> bool;
        fn seize(fd: BorrowedFd<'_>) -> bool;
        fn wait_for_holder(fd: BorrowedFd<'_>) -> ();
    }

    pub fn has_name(_: BorrowedFd<'_>, _: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        refused()
    }
}

pub mod holders {
    use super::*;
    use crate::contract::entries::Identity;
    pub use crate::contract::holders::{Holder, Holders, How};

    refuse! {
        fn of(parent: &std::path::Path, directories: &[(&std::ffi::OsStr, Identity)]) -> Holders;
    }
}

pub mod leader {
    use super::*;
    pub use crate::contract::leader::{Failure, Leader, Plan, Session, Stages};

    #[derive(Debug)]
    pub struct Lending(Never);

    pub fn raise_ahead(_: i32) {}

    impl Plan<'_> {
        pub fn start(&self) -> io::Result<Leader> {
            refused()
        }
    }

    refuse! {
        fn try_entering(dir: BorrowedFd<'_>, procs: BorrowedFd<'_>) -> ();
    }
}

pub mod limits {
    use super::*;
    use crate::cgroup::Own;
    pub use crate::contract::limits::Resource;

    #[derive(Debug, Default)]
    pub struct Limits(());

    impl Limits {
        pub fn arm(&mut self, _: Option<BorrowedFd<'_>>, _: &str, _: Resource, _: u64) -> io::Result<()> {
            refused()
        }

        pub fn entries(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
            std::iter::empty()
        }

        pub fn paths(&self) -> impl Iterator<Item = std::path::PathBuf> {
            std::iter::empty()
        }

        pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
            std::iter::empty()
        }

        pub fn memory_kills(&self, _: Option<BorrowedFd<'_>>) -> u64 {
            0
        }

        pub fn peak_memory(&self, _: Option<BorrowedFd<'_>>) -> Option<u64> {
            None
        }

        pub fn remove(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    refuse! {
        fn hand_down(own: &Own, resource: Resource) -> ();
        fn make_room(own: &Own, name: &str, ours: &[u32]) -> ();
    }
}

pub mod mark {
    use super::*;
    pub use crate::contract::mark::{Found, Sign};

    refuse! {
        fn find(sign: &Sign<'_>, kill: bool) -> Found;
    }
}

pub mod namespace {
    use super::*;
    pub use crate::contract::namespace::Through;
    use crate::process::Fork;

    refuse! {
        fn fork_init(through: Through) -> Fork;
        fn map_own_ids(uid: u32, gid: u32) -> ();
        fn mount_proc() -> ();
        fn signal_all_but_init(signal: i32) -> ();
    }
}

#[cfg(feature = "test-hooks")]
pub mod pause {
    use super::*;

    refuse! {
        fn pause(socket: &std::path::Path, word: &str, within: Duration) -> ();
    }
}

pub mod pidfd {
    use super::*;
    pub use crate::contract::pidfd::Pidfd;

    impl Pidfd {
        refuse! {
            fn open(pid: u32) -> Self;
        }
    }

    refuse! {
        fn signal_through(fd: BorrowedFd<'_>, signal: i32) -> ();
        fn wait_ended(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> bool;
    }

    pub fn number(_: BorrowedFd<'_>) -> Option<u32> {
        None
    }
}

pub mod place {
    use super::*;

    refuse! {
        fn boot_id() -> String;
        fn pid_namespace() -> u64;
    }

    pub fn time_namespace() -> Option<u64> {
        None
    }
}

pub mod poll {
    use super::*;
    pub use crate::contract::poll::Interest;

    pub fn wait<const N: usize>(
        _: [(Option<BorrowedFd<'_>>, Interest); N],
        _: Option<Duration>,
    ) -> io::Result<[bool; N]> {
        refused()
    }
}

pub mod probe {
    use super::*;
    use crate::namespace::Through;

    refuse! {
        fn in_a_copy(attempt: impl FnOnce() -> io::Result<()>) -> ();
        fn clone_into(cgroup: BorrowedFd<'_>) -> ();
        fn pid_namespace(through: Through) -> ();
    }

    pub fn landlock_version() -> Option<u32> {
        None
    }
}

pub mod proc {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Stat {
        pub pid: u32,
        pub state: u8,
        pub parent: u32,
        pub group: u32,
        pub session: u32,
        pub threads: u32,
        pub start: u64,
        never: Never,
    }

    impl Stat {
        pub fn parse(_: &[u8]) -> Option<Self> {
            None
        }

        pub fn command(&self) -> String {
            match self.never {}
        }

        pub fn is_dead(&self) -> bool {
            match self.never {}
        }
    }

    #[derive(Debug)]
    pub struct Proc(Never);

    impl Proc {
        refuse! {
            fn open() -> Self;
            fn look() -> ();
        }

        pub fn stat(&mut self, _: u32) -> io::Result<Stat> {
            match self.0 {}
        }

        pub fn children(&mut self, _: u32, _: u32, _: &mut Vec<u32>) -> io::Result<()> {
            match self.0 {}
        }

        pub fn all(&self, _: &mut Vec<u32>) -> io::Result<()> {
            match self.0 {}
        }

        pub fn resident(&mut self, _: u32) -> io::Result<u64> {
            match self.0 {}
        }

        pub fn audit_session(&mut self, _: u32) -> io::Result<u32> {
            match self.0 {}
        }

        pub fn has_variable(&mut self, _: u32, _: &str) -> io::Result<bool> {
            match self.0 {}
        }
    }
}

pub mod process {
    use super::*;
    pub use crate::contract::process::Fork;
    use std::ffi::CStr;

    refuse! {
        fn fork() -> Fork;
        fn fork_alone() -> Fork;
        fn set_name(name: &CStr) -> ();
        fn set_dumpable(dumpable: bool) -> ();
        fn become_subreaper() -> ();
        fn set_parent_death_signal(signal: i32) -> ();
        fn new_session() -> ();
        fn new_group() -> ();
        fn put_into_group(child: u32, group: u32) -> ();
        fn stop_self() -> ();
        fn remove_variables(names: &[&str]) -> ();
        fn own_start() -> (u32, u64);
    }

    pub fn kill_self() {}

    pub fn yield_to_all() {}

    pub fn effective_uid() -> u32 {
        u32::MAX
    }

    pub fn exit_now(code: i32) -> ! {
        std::process::exit(code)
    }

    pub fn in_own_group(_: &mut std::process::Command) {}

    pub fn alarm(_: u32) {}

    pub fn own_pid() -> u32 {
        std::process::id()
    }

    pub fn parent_pid() -> Option<u32> {
        None
    }

    pub fn own_group() -> u32 {
        0
    }

    pub fn own_uid() -> u32 {
        u32::MAX
    }

    pub fn own_gid() -> u32 {
        u32::MAX
    }

    pub fn group_exists(_: u32) -> bool {
        false
    }

    #[derive(Debug, Clone, Copy)]
    pub struct Title(Never);

    impl Title {
        pub fn find() -> Option<Self> {
            None
        }

        pub fn set(self, _: &str) {
            match self.0 {}
        }
    }
}

pub mod pty {
    use super::*;

    refuse! {
        fn open(columns: u16, rows: u16) -> (OwnedFd, OwnedFd);
        fn resize(terminal: impl AsFd, columns: u16, rows: u16) -> ();
        fn size(terminal: impl AsFd) -> (u16, u16);
    }
}

pub mod random {
    use super::*;

    refuse! {
        fn fill(buffer: &mut [u8]) -> ();
    }
}

pub mod remove {
    use super::*;
    pub use crate::contract::remove::Removed;

    refuse! {
        fn tree(parent: BorrowedFd<'_>, name: &std::ffi::OsStr, until: Option<Duration>) -> Removed;
    }
}

pub mod signals {
    use super::*;
    pub use crate::contract::signals::Arrived;

    /// The numbers of Linux. None of them is ever sent or received here.
    macro_rules! numbers {
        ($($name:ident = $number:literal),*) => { $(pub const $name: i32 = $number;)* };
    }
    numbers! {
        SIGHUP = 1, SIGINT = 2, SIGQUIT = 3, SIGKILL = 9, SIGUSR1 = 10, SIGUSR2 = 12, SIGPIPE = 13, SIGTERM = 15,
        SIGCHLD = 17, SIGCONT = 18, SIGSTOP = 19, SIGTSTP = 20, SIGTTIN = 21, SIGTTOU = 22, SIGXFSZ = 25,
        SIGWINCH = 28
    }

    pub fn name(signal: i32) -> String {
        format!("signal {signal}")
    }

    #[derive(Debug, Clone, Copy)]
    pub struct Set(());

    impl Set {
        pub fn of(_: &[i32]) -> Self {
            Self(())
        }

        pub fn all() -> Self {
            Self(())
        }

        pub fn block_exactly(&self) -> io::Result<()> {
            refused()
        }

        pub fn block_and_remember(&self) -> io::Result<Self> {
            refused()
        }
    }

    pub fn is_ignored(_: i32) -> bool {
        false
    }

    pub fn reset(_: i32) {}

    pub fn reset_all() {}

    #[derive(Debug)]
    pub struct SignalFd(Never);

    impl SignalFd {
        refuse! {
            fn new(set: &Set) -> Self;
        }

        pub fn read(&self) -> io::Result<Option<Arrived>> {
            match self.0 {}
        }
    }

    impl AsFd for SignalFd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }
    }
}

pub mod socket {
    use super::*;
    pub use crate::contract::socket::{Call, Received};

    pub const MOST_FDS: usize = 250;

    refuse! {
        fn pair() -> (OwnedFd, OwnedFd);
        fn send(socket: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> ();
        fn receive(socket: BorrowedFd<'_>, most: usize) -> Received;
        fn send_no_more(socket: BorrowedFd<'_>) -> ();
        fn close_for_all(socket: BorrowedFd<'_>) -> ();
        fn into_memory(data: &[u8]) -> OwnedFd;
        fn out_of_memory(fd: OwnedFd, most: usize) -> Vec<u8>;
        fn pipe() -> (OwnedFd, OwnedFd);
        fn pipe_nonblocking() -> (OwnedFd, OwnedFd);
        fn pipe_reading_nonblocking() -> (OwnedFd, OwnedFd);
        fn listen(directory: BorrowedFd<'_>, name: &str) -> OwnedFd;
        fn call(directory: BorrowedFd<'_>, name: &str, data: &[u8], fds: &[BorrowedFd<'_>]) -> ();
        fn take_call(socket: BorrowedFd<'_>, most: usize) -> Option<Call>;
        fn wait_for_byte(fd: &OwnedFd) -> bool;
        fn write(fd: BorrowedFd<'_>, data: &[u8]) -> ();
    }

    pub fn read_some<'b>(_: BorrowedFd<'_>, _: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        refused()
    }

    pub fn answers(_: &std::path::Path) -> bool {
        false
    }
}

pub mod spawn {
    use super::*;
    use std::ffi::{CStr, CString};

    refuse! {
        fn detached(program: &CStr, argv: &[CString], env: &[CString], moves: &[(BorrowedFd<'_>, RawFd)]) -> Option<pidfd::Pidfd>;
    }
}

pub mod terminal {
    use super::*;

    pub fn is_ours<F: AsFd>(_: F) -> bool {
        false
    }

    pub fn columns<F: AsFd>(_: F) -> Option<u16> {
        None
    }

    refuse! {
        fn controlling() -> OwnedFd;
        fn hides_input(fd: impl AsFd) -> bool;
        fn foreground(fd: impl AsFd) -> u32;
        fn set_foreground(fd: impl AsFd, group: u32) -> ();
    }

    pub fn started_by_job_control() -> bool {
        false
    }
}

pub mod tree {
    use super::*;
    pub use crate::contract::tree::Sent;
    use crate::proc::{Proc, Stat};

    #[derive(Debug)]
    pub struct Tree(Never);

    impl Tree {
        refuse! {
            fn new() -> Self;
        }

        pub fn walk(&mut self, _: &[u32], _: usize) -> io::Result<&[Stat]> {
            match self.0 {}
        }

        pub fn signal(&mut self, _: i32, _: &[u32]) -> io::Result<Sent> {
            match self.0 {}
        }

        pub fn kill(&mut self, _: bool, _: &[u32]) -> io::Result<Sent> {
            match self.0 {}
        }

        pub fn group(&mut self, _: u32) -> io::Result<&[Stat]> {
            match self.0 {}
        }

        pub fn proc(&mut self) -> &mut Proc {
            match self.0 {}
        }
    }

    impl AsFd for Tree {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.0 {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_makes_a_process_or_a_handle_refuses_by_name() {
        let answers = [
            supported(),
            process::fork().map(drop),
            spawn::detached(c"/bin/true", &[], &[], &[]).map(drop),
            pidfd::Pidfd::open(process::own_pid()).map(drop),
            socket::pair().map(drop),
            child::signal(2, signals::SIGKILL),
            mark::find(&mark::Sign { assignment: "A=b", tag: None, not_before: 0 }, true).map(drop),
        ];
        for answer in answers {
            let e = answer.err().unwrap_or_else(|| unreachable!("it was done"));
            assert_eq!(e.kind(), io::ErrorKind::Unsupported);
            assert_eq!(e.to_string(), "killcord does not support this system yet: Linux only so far");
        }
    }

    #[test]
    fn the_clock_goes_on() {
        let before = clock::now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock::now() > before);
    }
}
