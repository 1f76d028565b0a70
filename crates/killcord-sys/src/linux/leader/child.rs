//! What the leader does before it executes its program.
//!
//! It lives in the keeper's memory, and the keeper goes on meanwhile (see `lend.rs`). So here are system calls
//! and nothing else: no memory is taken, no lock, no Rust I/O, no function that could panic, and not the C
//! library, whose `errno` is the keeper's.

use super::super::lend::call;
use super::super::signals::{LAST, dispose};
use super::{Failure, Session, Stages, Strings};
use std::ffi::c_void;
use std::os::fd::RawFd;
use std::ptr;

/// What the child is to do, in memory that is the child's until it has left.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) paths: Strings,
    pub(super) argv: Strings,
    /// For a script without `#!`: `/bin/sh`, a place for the path, the arguments.
    pub(super) shell_argv: Vec<*const libc::c_char>,
    pub(super) env: Strings,
    pub(super) standard: [RawFd; 3],
    pub(super) extra: Vec<(RawFd, RawFd)>,
    pub(super) directory: RawFd,
    pub(super) enter: Vec<RawFd>,
    pub(super) failure: RawFd,
    pub(super) keeper: u32,
    pub(super) umask: Option<u32>,
    pub(super) rlimits: Vec<(u32, u64, u64)>,
    pub(super) nice: Option<i32>,
    pub(super) session: Session,
    pub(super) ignored: Vec<i32>,
    /// Whether no signal is ignored now.
    pub(super) all_default: bool,
    pub(super) under_init: bool,
    pub(super) stages: Stages,
}

/// Where the child begins, with a pointer to its [`Orders`]. It does not return.
pub(super) extern "C" fn enter(orders: *mut c_void) -> i32 {
    // SAFETY: they are lent to this process until it has left, and to nobody else.
    let orders = unsafe { &mut *orders.cast::<Orders>() };
    let failure = orders.run().to_bytes();
    // SAFETY: the bytes are as many as their length says.
    let _ = unsafe {
        call(libc::SYS_write, [orders.failure as usize, failure.as_ptr() as usize, failure.len(), 0])
    };
    exit(127)
}

fn exit(code: usize) -> ! {
    loop {
        // SAFETY: it ends this process, which is no thread of the keeper's, and touches no memory.
        let _ = unsafe { call(libc::SYS_exit_group, [code, 0, 0, 0]) };
    }
}

/// A call without pointers.
fn plain(number: libc::c_long, arguments: [usize; 4]) -> Result<usize, i32> {
    // SAFETY: the calls that are made this way take numbers.
    unsafe { call(number, arguments) }
}

impl Orders {
    /// Returns only if a step failed.
    fn run(&mut self) -> Failure {
        let stages = self.stages;
        let fail = |stage| move |errno| Failure { stage, errno, path: 0 };
        let steps = self
            .die_with_keeper()
            .map_err(fail(stages.leader))
            .and_then(|()| self.enter_cgroups().map_err(fail(stages.cgroup)))
            .and_then(|()| self.session().map_err(fail(stages.session)))
            .and_then(|()| self.descriptors().map_err(fail(stages.descriptors)))
            .and_then(|()| self.terminal().map_err(fail(stages.terminal)))
            .and_then(|()| self.limits().map_err(fail(stages.rlimits)))
            .and_then(|()| self.nice().map_err(fail(stages.nice)))
            .and_then(|()| self.directory().map_err(fail(stages.directory)))
            .and_then(|()| self.signals().map_err(fail(stages.signals)));
        match steps {
            Ok(()) => self.exec(),
            Err(failure) => failure,
        }
    }

    /// Arms the death signal and then looks whether the keeper is still there: if it died before the
    /// signal was armed, our parent is another one now, and nobody is left to be told anything.
    fn die_with_keeper(&self) -> Result<(), i32> {
        if self.under_init {
            return Ok(());
        }
        let signal = libc::SIGKILL as usize;
        plain(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, signal, 0, 0])?;
        if plain(libc::SYS_getppid, [0; 4]) != Ok(self.keeper as usize) {
            exit(127);
        }
        Ok(())
    }

    fn enter_cgroups(&self) -> Result<(), i32> {
        for fd in &self.enter {
            // SAFETY: one byte of static memory is read.
            unsafe { call(libc::SYS_write, [*fd as usize, b"0".as_ptr() as usize, 1, 0]) }?;
        }
        Ok(())
    }

    fn session(&self) -> Result<(), i32> {
        match self.session {
            Session::Own | Session::OwnTerminal => plain(libc::SYS_setsid, [0; 4])?,
            Session::Group(group) => plain(libc::SYS_setpgid, [0, group as usize, 0, 0])?,
            Session::Inherited => 0,
        };
        Ok(())
    }

    fn terminal(&self) -> Result<(), i32> {
        if self.session == Session::OwnTerminal {
            plain(libc::SYS_ioctl, [0, libc::TIOCSCTTY as usize, 0, 0])?;
        }
        Ok(())
    }

    fn descriptors(&self) -> Result<(), i32> {
        // What stood at 0 to 2 was /dev/null. A source is never at the number that it is copied to.
        for (number, fd) in self.standard.iter().enumerate() {
            plain(libc::SYS_dup3, [*fd as usize, number, 0, 0])?;
        }
        // Everything of ours is closed by exec already; this is the net under it.
        let all = u32::MAX as usize;
        let _ = plain(libc::SYS_close_range, [3, all, libc::CLOSE_RANGE_CLOEXEC as usize, 0]);
        for (fd, number) in &self.extra {
            // The copy is not closed by exec.
            plain(libc::SYS_dup3, [*fd as usize, *number as usize, 0, 0])?;
        }
        Ok(())
    }

    fn limits(&self) -> Result<(), i32> {
        for (resource, soft, hard) in &self.rlimits {
            let limit = libc::rlimit64 { rlim_cur: *soft, rlim_max: *hard };
            let limit = ptr::from_ref(&limit) as usize;
            // SAFETY: it is a complete structure, and the old limit is not asked for.
            unsafe { call(libc::SYS_prlimit64, [0, *resource as usize, limit, 0]) }?;
        }
        Ok(())
    }

    fn nice(&self) -> Result<(), i32> {
        if let Some(nice) = self.nice {
            plain(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, nice as usize, 0])?;
        }
        Ok(())
    }

    fn directory(&self) -> Result<(), i32> {
        if let Some(mask) = self.umask {
            plain(libc::SYS_umask, [mask as usize, 0, 0, 0])?;
        }
        plain(libc::SYS_fchdir, [self.directory as usize, 0, 0, 0])?;
        Ok(())
    }

    /// Resets what exec would keep: ignored signals, then the mask. What was sent meanwhile arrives now.
    fn signals(&self) -> Result<(), i32> {
        for signal in 1..=LAST {
            let keep = self.ignored.contains(&signal);
            if keep || !self.all_default {
                let how = if keep { libc::SIG_IGN } else { libc::SIG_DFL };
                // KILL and STOP are refused, and cannot be ignored anyway.
                let _ = dispose(signal, how);
            }
        }
        let none = 0u64;
        let (how, none) = (libc::SIG_SETMASK as usize, ptr::from_ref(&none) as usize);
        // SAFETY: the set is as large as the size that is given with it.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, none, 0, size_of::<u64>()]) }?;
        Ok(())
    }

    /// Tries the paths as `execvp(3)` does: on over what is not there, remembering what was not allowed;
    /// what the kernel does not know as a program is given to the shell.
    fn exec(&mut self) -> Failure {
        let mut failure = Failure { stage: self.stages.exec, errno: libc::ENOENT, path: 0 };
        for (index, path) in self.paths.pointers.iter().enumerate() {
            if path.is_null() {
                break;
            }
            let mut errno = execute(*path, &self.argv.pointers, &self.env.pointers);
            if errno == libc::ENOEXEC {
                if let Some(place) = self.shell_argv.get_mut(1) {
                    *place = *path;
                }
                execute(c"/bin/sh".as_ptr(), &self.shell_argv, &self.env.pointers);
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

/// Why it was not executed.
fn execute(path: *const libc::c_char, argv: &[*const libc::c_char], env: &[*const libc::c_char]) -> i32 {
    let arguments = [path as usize, argv.as_ptr() as usize, env.as_ptr() as usize, 0];
    // SAFETY: all three are null-terminated and outlive the call.
    unsafe { call(libc::SYS_execve, arguments) }.err().unwrap_or(0)
}
