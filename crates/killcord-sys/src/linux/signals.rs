//! Signal numbers, masks, and signals read from a descriptor (`signalfd(2)`).

use super::lend::call;
pub use crate::contract::signals::Arrived;
use rustix::process::Signal;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

pub use libc::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU,
    SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ,
};

/// A named signal's rustix form; real-time signals are not needed here.
pub(crate) fn from_number(signal: i32) -> io::Result<Signal> {
    Signal::from_named_raw(signal).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The name of a signal as `signal(7)` has it, or its number.
pub fn name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    usize::try_from(signal - 1)
        .ok()
        .and_then(|i| NAMES.get(i))
        .map_or_else(|| format!("signal {signal}"), |n| format!("SIG{n}"))
}

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Set(libc::sigset_t);

impl Set {
    /// Exactly these.
    pub fn of(signals: &[i32]) -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the whole set that it is given.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialised just above.
        let mut set = unsafe { set.assume_init() };
        for s in signals {
            // SAFETY: the set is initialised; a number that is no signal is refused by sigaddset.
            unsafe { libc::sigaddset(&raw mut set, *s) };
        }
        Self(set)
    }

    /// All signals.
    pub fn all() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises the whole set that it is given.
        unsafe { libc::sigfillset(set.as_mut_ptr()) };
        // SAFETY: initialised just above.
        Self(unsafe { set.assume_init() })
    }

    /// Makes this the mask of blocked signals of the calling thread.
    pub fn block_exactly(&self) -> io::Result<()> {
        // SAFETY: the set is initialised, and no old mask is asked for.
        let r = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        if r == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(r)) }
    }
}

impl Set {
    /// Makes this the mask of blocked signals of the calling thread and returns what was blocked before.
    pub fn block_and_remember(&self) -> io::Result<Self> {
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised, and there is room for the old mask.
        let r = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, before.as_mut_ptr()) };
        if r != 0 {
            return Err(io::Error::from_raw_os_error(r));
        }
        // SAFETY: a successful call has filled it.
        Ok(Self(unsafe { before.assume_init() }))
    }
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Set")
    }
}

/// Whether a signal is ignored by this process.
pub fn is_ignored(signal: i32) -> bool {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `old` has room for the answer.
    let r = unsafe { libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) };
    // SAFETY: zeroed is a valid sigaction, and a successful call has filled it.
    let old = unsafe { old.assume_init() };
    r == 0 && old.sa_sigaction == libc::SIG_IGN
}

/// Gives a signal its default disposition in this process.
pub fn reset(signal: i32) {
    // SAFETY: SIG_DFL installs no handler; an impossible number is refused by the call.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Whether every signal has its default disposition, and nobody gives it another.
static ALL_DEFAULT: AtomicBool = AtomicBool::new(false);

/// Gives every signal its default disposition in this process, for good: its copies need not do it again. For a
/// guard, which blocks them all.
pub fn reset_all() {
    for signal in 1..=LAST {
        // KILL and STOP are refused, and cannot be ignored anyway.
        let _ = dispose(signal, libc::SIG_DFL);
    }
    ALL_DEFAULT.store(true, Ordering::Relaxed);
}

/// Whether [`reset_all`] was called in this process or before it was forked.
pub(super) fn are_all_default() -> bool {
    ALL_DEFAULT.load(Ordering::Relaxed)
}

/// The last signal.
pub(super) const LAST: i32 = 64;

/// Ignores a signal or gives it its default disposition: a system call and nothing else, for a child that shares
/// our memory. Not `signal(3)`, which refuses the two signals that the C library keeps for itself and that
/// `posix_spawn(3)` leaves ignored.
pub(super) fn dispose(signal: i32, how: libc::sighandler_t) -> Result<(), i32> {
    // The kernel's own structure: the handler comes first, and no flag, restorer or masked signal follows.
    let action = [how, 0, 0, 0, 0, 0, 0, 0];
    let action = action.as_ptr() as usize;
    // SAFETY: what is passed is no handler; the structure is at least as large as the kernel's on every
    // architecture.
    unsafe { call(libc::SYS_rt_sigaction, [signal as usize, action, 0, size_of::<u64>()]) }.map(|_| ())
}

/// Blocked signals, as a descriptor to wait for.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// For these signals, which the caller has blocked.
    pub fn new(set: &Set) -> io::Result<Self> {
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that has arrived, if one has.
    pub fn read(&self) -> io::Result<Option<Arrived>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as large as the size that is given with it.
        let n = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if n < 0 {
            let e = io::Error::last_os_error();
            return match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(e),
            };
        }
        // SAFETY: zeroed is valid for this plain structure, and the kernel writes it whole.
        let info = unsafe { info.assume_init() };
        Ok(Some(Arrived {
            signal: info.ssi_signo as i32,
            by_kernel: info.ssi_code == libc::SI_KERNEL,
            sender: info.ssi_pid,
        }))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
