//! From the keeper's clone to the program's exec.
//!
//! Everything is prepared before the clone. Between clone and exec the child makes system calls and
//! nothing else: no memory is taken, no lock, no Rust I/O. A step that fails is written to a pipe that
//! exec closes, as (stage, errno, index of the path), and the child exits: it has executed nothing.

use super::signals::Set;
pub use crate::contract::leader::{Failure, Leader, Plan, Session, Stages};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// `struct clone_args` as `clone3(2)` has it up to Linux 5.7.
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// `linux/sched.h`, from Linux 5.7 on; the C library's constant is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A pid of 0 in the child, the child's in the parent, with its pidfd.
fn clone3(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<(i32, RawFd)> {
    let mut pidfd: RawFd = -1;

    let into = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags: flags | libc::CLONE_PIDFD as u64 | into,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    // SAFETY: a clone without CLONE_VM copies the process as fork does; the arguments are a complete
    // structure of the size that is given, and the caller has one thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid as i32, pidfd)) }
}

/// `clone(2)` as it was before `clone3`: with a pidfd from Linux 5.2 on.
fn clone_legacy(flags: u64, with_pidfd: bool) -> io::Result<(i32, RawFd)> {
    let mut pidfd: RawFd = -1;
    let mut all = flags | libc::SIGCHLD as u64;
    if with_pidfd {
        all |= libc::CLONE_PIDFD as u64;
    }
    // SAFETY: no CLONE_VM and no new stack: the child goes on in a copy of this one, as after fork. The
    // third argument is the place for the pidfd on every architecture; the others are unused.
    let pid = unsafe { libc::syscall(libc::SYS_clone, all, 0u64, &raw mut pidfd, 0u64, 0u64) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok((pid as i32, pidfd)) }
}

/// Copies this process, with a pidfd where the kernel gives one.
///
/// Only a boundary that has to be entered at birth needs `clone3`; where a filter hides it (`ENOSYS`,
/// container runtimes) the older call does for everything else.
pub(crate) fn copy_process(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<(i32, Option<OwnedFd>)> {
    let (pid, fd) = match clone3(flags, cgroup) {
        Err(e) if cgroup.is_none() && matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            clone_legacy(flags, true).or_else(|_| clone_legacy(flags, false))?
        }
        other => other?,
    };
    // SAFETY: the kernel made this descriptor for this call and nobody else has it. In the child it is
    // the parent's business: the number was written to the parent's memory after the copy was made.
    let pidfd = (pid != 0 && fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((pid, pidfd))
}

/// Whether a child of this process can be in a cgroup, seen by one that enters it and exits: born there, or
/// through the `cgroup.procs` that is given.
///
/// # Errors
/// What the kernel says to whoever enters.
pub fn try_entering(dir: BorrowedFd<'_>, procs: BorrowedFd<'_>) -> io::Result<()> {
    use super::child::{Change, Wait};
    let enters_by_itself = || {
        let child = copy_process(0, None)?;
        if child.0 == 0 {
            super::process::exit_now(super::socket::write(procs, b"0").map_or_else(|_| errno(), |()| 0));
        }
        Ok::<_, io::Error>(child)
    };
    let (pid, _handle) = match copy_process(0, Some(dir)) {
        Ok((0, _)) => super::process::exit_now(0),
        born => born.or_else(|_| enters_by_itself())?,
    };
    match super::child::wait_for(pid as u32)? {
        Wait::Child(_, Change::Exited(errno)) if errno != 0 => Err(io::Error::from_raw_os_error(errno)),
        // Killed by somebody: it had no error to tell of.
        Wait::Child(..) | Wait::Nothing | Wait::NoChildren => Ok(()),
    }
}

/// Null-terminated pointers into strings that outlive them.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// The plan in the form in which the child can use it without taking memory.
struct Prepared<'a> {
    plan: &'a Plan<'a>,
    argv: Vec<*const libc::c_char>,
    /// For a script without `#!`: a place for `/bin/sh`, a place for the path, the arguments.
    shell_argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    standard: [OwnedFd; 3],
    extra: Vec<(OwnedFd, RawFd)>,
    directory: OwnedFd,
    enter: Vec<OwnedFd>,
    failure: OwnedFd,
    keeper: i32,
}

impl Plan<'_> {
    /// Makes the child.
    ///
    /// # Errors
    /// Whatever clone says, and `EMFILE` when there is no room for the copies of the descriptors. Nothing
    /// has been executed then.
    pub fn start(&self) -> io::Result<Leader> {
        let (read, write) = super::socket::pipe()?;
        // A leader that is stopped before exec must not hold up the keeper that asks how far it is.
        super::descriptors::never_wait(read.as_fd())?;
        // The sources stand above every number that the job wants to have.
        let base = self.extra.iter().map(|(_, n)| n + 1).max().unwrap_or(3).max(3);
        let copy = |fd: BorrowedFd<'_>| super::descriptors::copy_above(fd, base);
        let [a, b, c] = self.standard;
        let argv = pointers(&self.argv);
        let shell = [c"/bin/sh".as_ptr(), ptr::null()];
        let mut prepared = Prepared {
            plan: self,
            shell_argv: shell.into_iter().chain(argv.iter().skip(1).copied()).collect(),
            argv,
            env: pointers(&self.env),
            standard: [copy(a)?, copy(b)?, copy(c)?],
            extra: self.extra.iter().map(|(fd, n)| Ok((copy(*fd)?, *n))).collect::<io::Result<_>>()?,
            directory: copy(self.directory)?,
            enter: self.enter.iter().map(|fd| copy(*fd)).collect::<io::Result<_>>()?,
            failure: copy(write.as_fd())?,
            keeper: super::process::own_pid() as i32,
        };
        drop(write);
        let (pid, pidfd) = copy_process(0, self.born_in)?;
        if pid == 0 {
            let failure = prepared.run();
            let _ = super::socket::write(prepared.failure.as_fd(), &failure.to_bytes());
            super::process::exit_now(127);
        }
        Ok(Leader { pid: pid as u32, pidfd, failure: read })
    }
}

/// The error number of the call that just failed.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl Prepared<'_> {
    /// Runs in the child; returns only if a step failed.
    fn run(&mut self) -> Failure {
        let stages = self.plan.stages;
        let fail = |stage| move |errno| Failure { stage, errno, path: 0 };
        self.die_with_keeper();
        let steps = self
            .enter_cgroups()
            .map_err(fail(stages.cgroup))
            .and_then(|()| self.session().map_err(fail(stages.session)))
            .and_then(|()| self.descriptors().map_err(fail(stages.descriptors)))
            .and_then(|()| self.terminal().map_err(fail(stages.terminal)))
            .and_then(|()| self.attributes())
            .and_then(|()| self.signals().map_err(fail(stages.signals)));
        match steps {
            Ok(()) => self.exec(),
            Err(failure) => failure,
        }
    }

    /// Arms the death signal and then looks whether the keeper is still there: if it died before the
    /// signal was armed, our parent is another one now.
    fn die_with_keeper(&self) {
        if self.plan.under_init {
            return;
        }
        // SAFETY: prctl with these arguments touches no memory.
        let armed = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: getppid touches no memory.
        let parent = unsafe { libc::getppid() };
        if armed != 0 || parent != self.keeper {
            super::process::exit_now(127);
        }
    }

    fn enter_cgroups(&self) -> Result<(), i32> {
        for fd in &self.enter {
            // SAFETY: one byte of static memory is read.
            if unsafe { libc::write(fd.as_raw_fd(), b"0".as_ptr().cast(), 1) } != 1 {
                return Err(errno());
            }
        }
        Ok(())
    }

    fn session(&self) -> Result<(), i32> {
        let ok = match self.plan.session {
            // SAFETY: setsid touches no memory.
            Session::Own | Session::OwnTerminal => unsafe { libc::setsid() >= 0 },
            // SAFETY: setpgid touches no memory.
            Session::Group(group) => unsafe { libc::setpgid(0, group as i32) == 0 },
            Session::Inherited => true,
        };
        if ok { Ok(()) } else { Err(errno()) }
    }

    fn terminal(&self) -> Result<(), i32> {
        if self.plan.session != Session::OwnTerminal {
            return Ok(());
        }
        // SAFETY: TIOCSCTTY takes a number.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } == 0 { Ok(()) } else { Err(errno()) }
    }

    fn descriptors(&self) -> Result<(), i32> {
        for (number, fd) in self.standard.iter().enumerate() {
            // SAFETY: dup2 touches no memory; what stood at 0 to 2 was /dev/null.
            if unsafe { libc::dup2(fd.as_raw_fd(), number as i32) } < 0 {
                return Err(errno());
            }
        }
        // Everything of ours is closed by exec already; this is the net under it.
        // SAFETY: only a flag is set.
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        for (fd, number) in &self.extra {
            // SAFETY: as above; the copy that dup2 makes is not closed by exec.
            if unsafe { libc::dup2(fd.as_raw_fd(), *number) } < 0 {
                return Err(errno());
            }
        }
        Ok(())
    }

    fn attributes(&self) -> Result<(), Failure> {
        let stages = self.plan.stages;
        let fail = |stage| Failure { stage, errno: errno(), path: 0 };
        // A guard is not dumpable and its copy neither, until exec: without this its own files in /proc
        // belong to root.
        // SAFETY: prctl with these arguments touches no memory.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
        if self.plan.oom_score_adj != 0 {
            add_to_oom_score(self.plan.oom_score_adj);
        }
        for (resource, soft, hard) in &self.plan.rlimits {
            let limit = libc::rlimit { rlim_cur: *soft, rlim_max: *hard };
            // SAFETY: `limit` is a complete structure.
            if unsafe { libc::setrlimit(*resource as _, &raw const limit) } != 0 {
                return Err(fail(stages.rlimits));
            }
        }
        if let Some(nice) = self.plan.nice {
            // SAFETY: setpriority touches no memory.
            if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
                return Err(fail(stages.nice));
            }
        }
        if let Some(mask) = self.plan.umask {
            // SAFETY: umask touches no memory.
            unsafe { libc::umask(mask) };
        }
        // SAFETY: fchdir touches no memory.
        if unsafe { libc::fchdir(self.directory.as_raw_fd()) } != 0 {
            return Err(fail(stages.directory));
        }
        Ok(())
    }

    /// Resets what exec would keep: ignored signals, then the mask. What was sent meanwhile arrives now.
    fn signals(&self) -> Result<(), i32> {
        for signal in 1..=64 {
            let keep = self.plan.ignored.contains(&signal);
            let how = if keep { libc::SIG_IGN } else { libc::SIG_DFL };
            // The kernel's own structure: the handler comes first, and no flag, restorer or masked signal
            // follows. Not signal(3), which refuses the two signals that the C library keeps for itself
            // and that posix_spawn(3) leaves ignored.
            let action = [how, 0, 0, 0, 0, 0, 0, 0];
            // SAFETY: neither disposition is a handler; the structure is at least as large as the kernel's
            // on every architecture. KILL and STOP are refused, and cannot be ignored anyway.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    action.as_ptr(),
                    ptr::null::<libc::c_void>(),
                    size_of::<u64>(),
                )
            };
        }
        Set::of(&[]).block_exactly().map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Tries the paths as `execvp(3)` does: on over what is not there, remembering what was not allowed;
    /// what the kernel does not know as a program is given to the shell.
    fn exec(&mut self) -> Failure {
        let mut failure = Failure { stage: self.plan.stages.exec, errno: libc::ENOENT, path: 0 };
        for (index, path) in self.plan.paths.iter().enumerate() {
            // SAFETY: all three are null-terminated and outlive the call.
            unsafe { libc::execve(path.as_ptr(), self.argv.as_ptr(), self.env.as_ptr()) };
            let mut errno = errno();
            if errno == libc::ENOEXEC {
                self.shell_argv[1] = path.as_ptr();
                // SAFETY: as above.
                unsafe {
                    libc::execve(c"/bin/sh".as_ptr(), self.shell_argv.as_ptr(), self.env.as_ptr());
                }
                errno = libc::ENOEXEC;
            }
            match errno {
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                libc::EACCES => failure = Failure { errno, path: index, ..failure },
                _ => return Failure { errno, path: index, ..failure },
            }
        }
        failure
    }
}

/// Adds to our own `oom_score_adj` (`proc_pid_oom_score_adj(5)`: -1000 to 1000). That the OOM killer prefers a
/// job is a kindness to its guards and no part of the boundary: a job starts all the same where `/proc` is
/// missing or read-only.
fn add_to_oom_score(more: i32) {
    let path = c"/proc/self/oom_score_adj";
    // SAFETY: the path is null-terminated.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return;
    }
    let mut text = [0u8; 16];
    // SAFETY: the buffer is as large as its length says.
    let read = unsafe { libc::read(fd, text.as_mut_ptr().cast(), text.len()) };
    let own = text.get(..usize::try_from(read).unwrap_or(0)).and_then(parse).unwrap_or(0);
    let score = own.saturating_add(more).clamp(-1000, 1000);
    let (start, text) = decimal(score);
    // SAFETY: the bytes are as many as their length says.
    unsafe { libc::pwrite(fd, text[start..].as_ptr().cast(), text.len() - start, 0) };
    // SAFETY: opened above, used by nobody else.
    unsafe { libc::close(fd) };
}

fn parse(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}

/// A small number as text, without taking memory: where it starts in the array, and the array.
fn decimal(number: i32) -> (usize, [u8; 8]) {
    let mut text = [b'0'; 8];
    let (mut at, mut rest) = (8, number.unsigned_abs() % 1_000_000);
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    (at, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_text_and_back() {
        for number in [0, 7, 100, -1, -1000, 1000] {
            let (start, text) = decimal(number);
            assert_eq!(&text[start..], number.to_string().as_bytes());
            assert_eq!(parse(&text[start..]), Some(number));
        }
        assert_eq!(parse(b"100\n"), Some(100));
        assert_eq!(parse(b""), None);
    }
}
