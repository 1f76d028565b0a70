//! System calls for the misbehaving fixtures of the tests, and for nothing else: the feature `fixture`
//! is never on in what is published.
//!
//! A fixture is a small program with one thread. What is unsound or at least unwise in a program with
//! threads (`fork`, closing descriptors that somebody else owns) is offered here as a safe function
//! because [`fork`] refuses to work in a process that has a second thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Pid;

pub mod trace;

/// The numbers of the system calls that `kc-deny` takes away.
pub mod nr {
    /// `clone`.
    pub const CLONE: i64 = libc::SYS_clone;
    /// `clone3`.
    pub const CLONE3: i64 = libc::SYS_clone3;
    /// `unshare`.
    pub const UNSHARE: i64 = libc::SYS_unshare;
    /// `setns`.
    pub const SETNS: i64 = libc::SYS_setns;
    /// `pidfd_open`.
    pub const PIDFD_OPEN: i64 = libc::SYS_pidfd_open;
    /// `pidfd_send_signal`.
    pub const PIDFD_SEND_SIGNAL: i64 = libc::SYS_pidfd_send_signal;
    /// `openat2`.
    pub const OPENAT2: i64 = libc::SYS_openat2;
    /// Everything that changes the table of mounts.
    pub const MOUNTS: &[i64] = &[
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
    ];
    /// The flags of `clone` that make a namespace.
    pub const NAMESPACE_FLAGS: &[u64] = &[
        libc::CLONE_NEWNS as u64,
        libc::CLONE_NEWCGROUP as u64,
        libc::CLONE_NEWUTS as u64,
        libc::CLONE_NEWIPC as u64,
        libc::CLONE_NEWUSER as u64,
        libc::CLONE_NEWPID as u64,
        libc::CLONE_NEWNET as u64,
    ];
    /// "No such system call".
    pub const ENOSYS: u32 = libc::ENOSYS as u32;
    /// "Operation not permitted".
    pub const EPERM: u32 = libc::EPERM as u32;
}

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old process, and the number of the new one, which is its unreaped child.
    Parent(Pid),
}

/// `fork(2)`.
///
/// A forked process has no alarm: it must call [`alarm`] for itself. It is refused where the process has more
/// than one thread, since a lock that another thread holds would stay locked in the child for ever.
pub fn fork() -> io::Result<Forked> {
    one_thread()?;
    // SAFETY: The process has one thread, so the child is a whole copy of it: no lock of the allocator or of
    // the standard library is held by somebody who does not exist there.
    forked(i64::from(unsafe { libc::fork() }))
}

/// `clone3(2)` with `set_tid`: a fork whose child gets exactly the process number `want`.
///
/// Fails with `EEXIST` while the number is in use (also as a group or session number), with `EPERM` without
/// `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`, with `EINVAL` for a number above `pid_max`, and with `ENOSYS`
/// where a filter hides `clone3`. The C library does not hear of this fork; the child should do little.
pub fn fork_with_pid(want: u32) -> io::Result<Forked> {
    one_thread()?;
    let want = libc::pid_t::try_from(want).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let tids = [want];
    let args = libc::clone_args {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: tids.as_ptr() as u64,
        set_tid_size: 1,
        cgroup: 0,
    };
    // SAFETY: `args` and the array it points to live over the call; without a stack and without CLONE_VM
    // the child runs on a copy of this stack, as after `fork`; there is one thread.
    forked(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) })
}

fn forked(result: i64) -> io::Result<Forked> {
    match result {
        0 => Ok(Forked::Child),
        _ => match i32::try_from(result).ok().filter(|pid| *pid > 0).and_then(Pid::from_raw) {
            Some(pid) => Ok(Forked::Parent(pid)),
            None => Err(io::Error::last_os_error()),
        },
    }
}

/// The directory of threads has a link for each of them beside its own two.
fn one_thread() -> io::Result<()> {
    match rustix::fs::stat("/proc/self/task") {
        Ok(found) if found.st_nlink > 3 => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "fork in a process with threads"))
        }
        // Without /proc nothing can be seen; the fixtures themselves start no thread.
        _ => Ok(()),
    }
}

/// `alarm(2)`: this process ends by `SIGALRM` after so many seconds, whatever happens.
///
/// The default action is restored and the signal unblocked, so that nothing inherited can switch the watchdog
/// off. It is kept over an exec and is not inherited by a fork. Zero seconds are taken as one, since zero
/// would mean "no alarm".
pub fn alarm(seconds: u32) {
    // SAFETY: SIG_DFL is a valid disposition for SIGALRM; no handler of this program is replaced.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    mask(libc::SIG_UNBLOCK, &set_of(&[libc::SIGALRM]));
    // SAFETY: `alarm` takes a number and touches no memory.
    unsafe { libc::alarm(seconds.max(1)) };
}

/// `_exit(2)`: no destructor, no exit handler, no flush of buffers that the parent holds too.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` ends the process and touches no memory.
    unsafe { libc::_exit(code) }
}

/// `signal(2)` with `SIG_IGN`; inherited by forks and kept over an exec.
pub fn ignore_signal(number: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition for every signal that may be changed; others give EINVAL.
    if unsafe { libc::signal(number, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// `prctl(PR_SET_CHILD_SUBREAPER)`: orphaned descendants become children of this process.
pub fn set_child_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// `close_range(2)` over everything: afterwards this process has no descriptor at all.
///
/// Whoever still holds an owned descriptor must not use or drop it any more (leave by [`exit_now`]).
pub fn close_all_descriptors() -> io::Result<()> {
    // SAFETY: It only closes descriptors; the caller is told that none may be used afterwards.
    if unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) } == 0 {
        return Ok(());
    }
    for fd in 0..4096 {
        // SAFETY: As above, for a kernel before 5.9; a number that is not open gives EBADF.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// `sigprocmask(2)`: blocks every signal but the watchdog's, so that [`wait_signal`] can see them all.
pub fn block_signals() {
    let mut all = set_of(&[]);
    // SAFETY: `all` is an initialised set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: `all` is an initialised set and SIGALRM a valid signal.
    unsafe { libc::sigdelset(&raw mut all, libc::SIGALRM) };
    mask(libc::SIG_SETMASK, &all);
}

/// `sigtimedwait(2)`: the number of the first blocked signal that arrives within `limit`, if one does.
///
/// `SIGCHLD` and `SIGALRM` are not waited for.
pub fn wait_signal(limit: Duration) -> io::Result<Option<i32>> {
    let mut awaited = set_of(&[]);
    // SAFETY: `awaited` is an initialised set.
    unsafe { libc::sigfillset(&raw mut awaited) };
    for not in [libc::SIGALRM, libc::SIGCHLD] {
        // SAFETY: `awaited` is an initialised set and `not` a valid signal.
        unsafe { libc::sigdelset(&raw mut awaited, not) };
    }
    let timeout = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    };
    // SAFETY: Both pointers are to live values; a null `siginfo` is allowed.
    let got = unsafe { libc::sigtimedwait(&raw const awaited, std::ptr::null_mut(), &raw const timeout) };
    if got > 0 {
        return Ok(Some(got));
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
        e => Err(e),
    }
}

/// `sigaction(2)`: from now on this process survives every signal that can be caught and writes it down; an
/// executed program starts with the defaults again, a fork keeps the handlers and what was written down.
///
/// `SIGCHLD`, which is no harm, and `SIGALRM`, the watchdog's, stay as they are. Interrupted calls are resumed.
pub fn record_signals() {
    extern "C" fn heard(number: i32) {
        HEARD.fetch_or(1 << (number - 1), Ordering::Relaxed);
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: All zeros is a valid value of the structure: the default action, no flags, an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = heard as extern "C" fn(i32) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    for number in 1..=64 {
        if ![libc::SIGCHLD, libc::SIGALRM].contains(&number) {
            // SAFETY: The handler does one atomic operation. A number that cannot be caught gives EINVAL.
            unsafe { libc::sigaction(number, &raw const *action, std::ptr::null_mut()) };
        }
    }
}

/// The numbers of the signals that came since [`record_signals`].
pub fn recorded_signals() -> Vec<i32> {
    let heard = HEARD.load(Ordering::Relaxed);
    (1..=64).filter(|number| heard & (1 << (number - 1)) != 0).collect()
}

static HEARD: AtomicU64 = AtomicU64::new(0);

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: Initialised by the line before.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: `set` is an initialised set; a number that is no signal gives an error and changes nothing.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

fn mask(how: i32, set: &libc::sigset_t) {
    // SAFETY: `set` is a live, initialised set, and the old one is not asked for.
    unsafe { libc::sigprocmask(how, set, std::ptr::null_mut()) };
}

/// A child of [`posix_spawn`], which nobody but its holder waits for.
#[derive(Debug)]
pub struct Spawned(Pid);

impl Spawned {
    /// `waitpid(2)`: the exit status, or 128 and the signal's number.
    pub fn wait(self) -> io::Result<i32> {
        loop {
            match rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) | Ok(None) => {}
                Err(e) => return Err(e.into()),
                Ok(Some((_, status))) => {
                    let signal = status.terminating_signal().map_or(0, |signal| 128 + signal);
                    return Ok(status.exit_status().unwrap_or(signal));
                }
            }
        }
    }
}

/// `posix_spawn(3)` of a program without arguments, as a C program starts one: what a start is compared with.
pub fn posix_spawn(program: &std::path::Path) -> io::Result<Spawned> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(program.as_os_str().as_bytes())?;
    let argv = [path.as_ptr().cast_mut(), std::ptr::null_mut()];
    let envp = [std::ptr::null_mut()];
    let (mut pid, none) = (0, std::ptr::null());
    // SAFETY: the path and both arrays are null-terminated and outlive the call; no actions and no attributes are given.
    let failed = unsafe {
        libc::posix_spawn(&raw mut pid, path.as_ptr(), none, std::ptr::null(), argv.as_ptr(), envp.as_ptr())
    };
    match Pid::from_raw(pid).filter(|_| failed == 0) {
        Some(pid) => Ok(Spawned(pid)),
        None => Err(io::Error::from_raw_os_error(failed)),
    }
}

/// `setsid(2)` between fork and exec, as a program does without killcord: what a start is compared with.
pub fn lead_a_session(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let lead = || rustix::process::setsid().map(|_| ()).map_err(io::Error::from);
    // SAFETY: `setsid` is a system call that touches no memory and takes no lock.
    unsafe { command.pre_exec(lead) };
}

/// `fcntl(F_SETLK)` on one byte: takes seat `number` of the file for this process, or says that it is taken.
///
/// The kernel gives the seat back when the process dies, of whatever cause, which makes the seats of a file a
/// count of living processes that no `SIGKILL` can falsify. A forked child does not inherit the seat, an
/// executed program keeps it, and closing any descriptor of the file gives it up.
pub fn take_seat(file: impl AsFd, number: u32) -> io::Result<bool> {
    let request = seat(number);
    // SAFETY: The descriptor is open for as long as it is borrowed, and `request` lives over the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLK, &raw const request) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            e => Err(e),
        },
    }
}

/// `fcntl(F_SETLK)` with `F_UNLCK`: gives up every seat that this process has in the file.
pub fn leave_seats(file: impl AsFd) -> io::Result<()> {
    let mut request = seat(0);
    request.l_type = libc::F_UNLCK as libc::c_short;
    // Zero means "to the end, wherever that is".
    request.l_len = 0;
    // SAFETY: The descriptor is open for as long as it is borrowed, and `request` lives over the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLK, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `fcntl(F_GETLK)`: whether another process sits on seat `number` of the file.
pub fn seat_taken(file: impl AsFd, number: u32) -> io::Result<bool> {
    let mut request = seat(number);
    // SAFETY: The descriptor is open for as long as it is borrowed, and `request` lives over the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GETLK, &raw mut request) } {
        0 => Ok(i32::from(request.l_type) != libc::F_UNLCK),
        _ => Err(io::Error::last_os_error()),
    }
}

fn seat(number: u32) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::from(number),
        l_len: 1,
        l_pid: 0,
    }
}

/// `unshare(2)` with `CLONE_NEWNS`: from now on the mounts of this thread are its own, and nobody else sees them.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: A mount namespace of its own, and with it a working directory, is no matter of memory.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
    let private = rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// A page of a file in memory (`mmap(2)`), for as long as this process lives.
#[derive(Debug)]
pub struct Mapped(());

/// Maps the first page of a file, for reading; the descriptor is not needed any more.
pub fn map(file: impl AsFd) -> io::Result<Mapped> {
    let (read, private) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::PRIVATE);
    // SAFETY: The kernel chooses a free place, which nothing ever reads.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, read, private, file, 0) }?;
    Ok(Mapped(()))
}

/// `exit(2)`, of this thread alone: the process goes on without its first thread, and is shown as a zombie.
pub fn end_this_thread() -> ! {
    loop {
        // SAFETY: Whatever this thread owns is leaked; the others go on. The call does not return.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// What this process inherited and Rust's start-up code changed before `main`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    /// `SIGPIPE` was ignored.
    pub sigpipe_ignored: bool,
    /// Which of the descriptors 0, 1 and 2 were open.
    pub standard_open: [bool; 3],
}

/// Reports the state that [`Inherited`] describes, seen before Rust's start-up code ran.
pub fn inherited() -> Inherited {
    // The hook is named here so that the linker cannot leave it out.
    std::hint::black_box(&raw const LOOK_EARLY);
    let bits = EARLY.load(Ordering::Relaxed);
    Inherited { sigpipe_ignored: bits & 1 != 0, standard_open: [bits & 2 != 0, bits & 4 != 0, bits & 8 != 0] }
}

static EARLY: AtomicU8 = AtomicU8::new(0);

// SAFETY: The section holds functions of exactly this type, which the loader calls once before `main`; this
// one makes system calls only and stores one byte.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_EARLY: extern "C" fn() = {
    extern "C" fn look() {
        let mut bits = 0;
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: A null new action only asks for the present one, which is written to `action`.
        unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: All zeros is a valid value of the structure, and the call wrote over it.
        if unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN {
            bits |= 1;
        }
        for fd in 0..3 {
            // SAFETY: F_GETFD only asks whether the number is open.
            if unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0 {
                bits |= 2 << fd;
            }
        }
        EARLY.store(bits, Ordering::Relaxed);
    }
    look
};
