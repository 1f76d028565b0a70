//! Starting the warden out of any program, without forking it and without it noticing.
//!
//! A host may be large, may have many threads, and may wait for children of its own. So the warden's
//! process is made the way `posix_spawn(3)` makes one, sharing memory until exec (`CLONE_VM` with
//! `CLONE_VFORK`), and not as a child of the host: an intermediate process makes it and exits at once.
//! The intermediate has no exit signal, so that the host gets no `SIGCHLD` for it and a `wait(2)` of the
//! host's own does not see it (`__WCLONE`, `wait(2)`).

use super::pidfd::Pidfd;
use super::signals::Set;
use super::stack::Stack;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// What the two processes share with the host while they live in its memory.
struct Shared {
    program: *const libc::c_char,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    /// Descriptors and the numbers that they get.
    moves: Vec<(RawFd, RawFd)>,
    inner_stack: *mut libc::c_void,
    /// Why exec did not happen, as far as the host can be told: 0 if it did.
    errno: AtomicI32,
    /// The number of the process that executes.
    made: AtomicI32,
}

extern "C" fn intermediate(shared: *mut libc::c_void) -> i32 {
    // SAFETY: the host sleeps in clone until we exit, and the structure is on its stack.
    let state = unsafe { &*shared.cast::<Shared>() };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is large enough and used by nobody else; we sleep until the child has
    // executed or exited.
    let made = unsafe { libc::clone(executed, state.inner_stack, flags, shared) };
    if made < 0 {
        state.errno.store(errno(), Ordering::Relaxed);
    }
    state.made.store(made, Ordering::Relaxed);
    // SAFETY: _exit ends this process alone: it shares memory with the host, and is no thread of it.
    unsafe { libc::_exit(0) }
}

extern "C" fn executed(shared: *mut libc::c_void) -> i32 {
    // SAFETY: as in `intermediate`.
    let state = unsafe { &*shared.cast::<Shared>() };
    for (from, to) in &state.moves {
        // SAFETY: this process has a table of descriptors of its own; dup2 clears close-on-exec.
        if unsafe { libc::dup2(*from, *to) } < 0 {
            state.errno.store(errno(), Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { libc::_exit(127) };
        }
    }
    // SAFETY: all three are null-terminated and outlive the call.
    unsafe { libc::execve(state.program, state.argv, state.env) };
    state.errno.store(errno(), Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { libc::_exit(127) }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Executes a program as a process that is not our child: it is a child of the nearest subreaper, or of
/// init. It gets the descriptors in `moves` at their numbers, and whatever else of ours is not closed by
/// exec. All signals are blocked in it.
///
/// Gives a pidfd of it where there are pidfds: to see that it has ended, and for nothing else, since it is no child of
/// ours whose number would be pinned.
///
/// # Errors
/// What clone or exec said. Nothing has been executed then.
pub fn detached(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    moves: &[(BorrowedFd<'_>, RawFd)],
) -> io::Result<Option<Pidfd>> {
    let pointers = |all: &[CString]| -> Vec<*const libc::c_char> {
        all.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // The sources stand above every number that is to be taken.
    let base = moves.iter().map(|(_, n)| n + 1).max().unwrap_or(3);
    let copies = moves
        .iter()
        .map(|(fd, n)| Ok((super::descriptors::copy_above(*fd, base)?, *n)))
        .collect::<io::Result<Vec<_>>>()?;
    let (outer, inner) = (Stack::new()?, Stack::new()?);
    let mut shared = Shared {
        program: program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        moves: copies.iter().map(|(fd, n)| (fd.as_raw_fd(), *n)).collect(),
        inner_stack: inner.top(),
        errno: AtomicI32::new(0),
        made: AtomicI32::new(0),
    };
    // A signal handler of the host must not run in a process that has the host's memory.
    let before = Set::all().block_and_remember()?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: as posix_spawn does it: a stack of its own, signals blocked, and this thread sleeps until
    // the intermediate has exited.
    let pid = unsafe { libc::clone(intermediate, outer.top(), flags, (&raw mut shared).cast()) };
    let made = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    if pid > 0 {
        let mut status = 0;
        // SAFETY: `status` has room for the answer. Somebody else can have reaped it only by asking for
        // children of clone as well, and then there is nothing left to do.
        while unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    before.block_exactly()?;
    made?;
    match shared.errno.load(Ordering::Relaxed) {
        // If it has died by now, nothing lives that could be taken for it but by whoever has its number next; and its
        // other ends say that it is gone.
        0 => Ok(Pidfd::open(shared.made.load(Ordering::Relaxed) as u32).ok()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
