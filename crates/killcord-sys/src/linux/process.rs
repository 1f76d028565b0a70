//! What a process says about itself, and forking.

pub use crate::contract::process::Fork;
use rustix::process::{DumpableBehavior, Pid};
use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;

/// `fork(2)`, refused in a process with more than one thread.
///
/// A forked copy of a threaded process may find any lock of the others held for ever (`fork(2)`,
/// `signal-safety(7)`), so that not even memory can be had. The number of threads is read from the link
/// count of `/proc/self/task`; where `/proc` is not mounted the caller's word is taken.
///
/// # Errors
/// `EAGAIN` at the process limit, `ENOMEM`; `EDEADLK` in a threaded process.
pub fn fork() -> io::Result<Fork> {
    if has_threads() {
        return Err(io::Error::from_raw_os_error(libc::EDEADLK));
    }
    fork_alone()
}

/// The same for a process that is known to have one thread: a forked one that has made none.
///
/// # Errors
/// As [`fork`], but for threads.
pub fn fork_alone() -> io::Result<Fork> {
    // SAFETY: the process has one thread, so that the copy finds no lock held.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as u32)),
    }
}

/// Ends this process as `kill -9` does: for tests of what it leaves.
pub fn kill_self() {
    // Nobody can refuse that.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// Ends this process at once, without destructors and exit handlers (`_exit(2)`).
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends this process by `SIGALRM` after so many seconds (`alarm(2)`): a watchdog that no bug of the
/// process itself can keep from it. An exec keeps it, a forked child does not have it.
pub fn alarm(seconds: u32) {
    super::signals::reset(libc::SIGALRM);
    // SAFETY: alarm takes any number and touches no memory.
    unsafe { libc::alarm(seconds) };
}

/// A number as the system calls take it: 0, and what would be negative there and mean a group or everybody, is
/// refused.
pub(crate) fn pid(number: u32) -> io::Result<Pid> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(Pid::from_raw(number).ok_or(io::ErrorKind::InvalidInput)?)
}

/// This process's number.
pub fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// The parent's number; `None` when it is outside our pid namespace, as for an init.
pub fn parent_pid() -> Option<u32> {
    rustix::process::getppid().map(|p| p.as_raw_nonzero().get() as u32)
}

/// Our process group; 0 when it began outside our pid namespace and has no number here.
pub fn own_group() -> u32 {
    // SAFETY: getpgrp touches no memory. Not rustix, for which every group has a number.
    unsafe { libc::getpgrp() as u32 }
}

/// Our session; 0 when it began outside our pid namespace and has no number here.
pub fn own_session() -> u32 {
    // SAFETY: getsid only asks.
    unsafe { libc::getsid(0) as u32 }
}

/// When this process started, in clock ticks since boot (field 22 of `/proc/self/stat`), and its number where that
/// `/proc` is mounted for, which is not ours in a pid namespace without a `/proc` of its own.
pub fn own_start() -> io::Result<(u32, u64)> {
    let line = super::proc::read_file("/proc/self/stat")?;
    // A forked copy has them where we have them.
    TITLE.get_or_init(|| Title::of(&line));
    let stat = super::proc::Stat::parse(&line);
    let stat = stat.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat"))?;
    Ok((stat.pid, stat.start))
}

/// The effective user's number: whose files we make.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The real user's number.
pub fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The real group's number.
pub fn own_gid() -> u32 {
    rustix::process::getgid().as_raw()
}

/// Runs from now on only when nobody else wants a processor: `SCHED_IDLE` (`sched(7)`), the largest nice value, and
/// the idle class of input and output (`ioprio_set(2)`). Each that is refused leaves the others.
pub fn yield_to_all() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // What is refused leaves us as we are.
    let _ = rustix::process::setpriority_process(None, 19);
    // SAFETY: a parameter without pointers, of which zero is the only value that is allowed here.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameter outlives the call, and 0 is ourselves.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    // SAFETY: numbers only, about ourselves.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
}

/// `PR_SET_NAME` (`prctl(2)`): at most 15 bytes are kept.
pub fn set_name(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

/// `PR_SET_DUMPABLE`: a process that is not dumpable cannot be traced by its own user, and its files in
/// `/proc` belong to root (`ptrace(2)`).
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    let how = if dumpable { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
    Ok(rustix::process::set_dumpable_behavior(how)?)
}

/// `PR_SET_CHILD_SUBREAPER`: descendants whose parent ends become our children.
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// `PR_SET_PDEATHSIG`: this signal when the thread that made us ends, 0 for none.
pub fn set_parent_death_signal(signal: i32) -> io::Result<()> {
    let signal = if signal == 0 { None } else { Some(super::signals::from_number(signal)?) };
    Ok(rustix::process::set_parent_process_death_signal(signal)?)
}

/// A session of our own (`setsid(2)`).
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// A process group of our own in the same session (`setpgid(2)`).
pub fn new_group() -> io::Result<()> {
    Ok(rustix::process::setpgid(None, None)?)
}

/// Has a command of the standard library's start in a process group of its own.
pub fn in_own_group(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Puts our child, which has not executed anything, into a group of the same session.
pub fn put_into_group(child: u32, group: u32) -> io::Result<()> {
    let (child, group) = (pid(child)?, pid(group)?);
    Ok(rustix::process::setpgid(Some(child), Some(group))?)
}

/// Stops this process as a terminal's stop key would have done (`SIGSTOP` to itself).
pub fn stop_self() -> io::Result<()> {
    Ok(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?)
}

/// Takes variables out of our environment, for good: what is executed later does not see them.
///
/// # Errors
/// `EDEADLK` in a process with more than one thread: another one may be reading the environment.
pub fn remove_variables(names: &[&str]) -> io::Result<()> {
    if has_threads() {
        return Err(io::Error::from_raw_os_error(libc::EDEADLK));
    }
    for name in names {
        // SAFETY: there is no other thread that could read the environment meanwhile.
        unsafe { std::env::remove_var(name) };
    }
    Ok(())
}

/// Whether this process has more than one thread, from the link count of `/proc/self/task`, which is two more;
/// no, where that cannot be read. The count's type is not the same on every architecture.
fn has_threads() -> bool {
    rustix::fs::stat("/proc/self/task").is_ok_and(|s| s.st_nlink > 3)
}

/// Whether a process group has a member, zombies included (`kill(2)` with signal 0, which sends none).
pub fn group_exists(group: u32) -> bool {
    let Ok(group) = pid(group) else { return false };
    !matches!(rustix::process::test_kill_process_group(group), Err(rustix::io::Errno::SRCH))
}

/// Where ours are, once our line in `/proc` has been read for whatever reason: for the kernel that is no cheap one.
static TITLE: OnceLock<Option<Title>> = OnceLock::new();

/// Where the arguments that `ps` shows are in memory.
#[derive(Debug, Clone, Copy)]
pub struct Title {
    start: usize,
    len: usize,
}

impl Title {
    /// Reads the place from `/proc/self/stat` (fields 48 and 49, `proc_pid_stat(5)`). Under valgrind those are valgrind's
    /// own arguments, which it still needs.
    pub fn find() -> Option<Self> {
        *TITLE.get_or_init(|| Self::of(&super::proc::read_file("/proc/self/stat").ok()?))
    }

    fn of(line: &[u8]) -> Option<Self> {
        if super::valgrind::runs_us() {
            return None;
        }
        let line = String::from_utf8_lossy(line);
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace().skip(45);
        let start: usize = fields.next()?.parse().ok()?;
        let end: usize = fields.next()?.parse().ok()?;
        (start != 0 && end > start).then_some(Self { start, len: end - start })
    }

    /// Overwrites the arguments with a name, so that a guard is not shown, nor matched by `pkill -f`, as
    /// what it guards. For a forked copy that never looks at its arguments again.
    pub fn set(self, name: &str) {
        let used = name.len().min(self.len - 1);
        for i in 0..self.len {
            let byte = if i < used { name.as_bytes()[i] } else { 0 };
            let at = (self.start + i) as *mut u8;
            // SAFETY: the kernel says that the process's arguments are here; they are writable
            // memory on the stack that nothing else in this process refers to as Rust data.
            unsafe { at.write_volatile(byte) };
        }
    }
}
