//! Waiting for children.

pub use crate::contract::child::{Change, Used, Wait};
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

fn wait4(which: i32, flags: i32) -> io::Result<Wait> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the answer, and no usage is asked for.
    match unsafe { libc::wait4(which, &raw mut status, flags, std::ptr::null_mut()) } {
        0 => Ok(Wait::Nothing),
        -1 => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ECHILD) => Ok(Wait::NoChildren),
            e if e.kind() == io::ErrorKind::Interrupted => Ok(Wait::Nothing),
            e => Err(e),
        },
        pid => Ok(Wait::Child(pid as u32, change(status))),
    }
}

fn change(status: i32) -> Change {
    if libc::WIFEXITED(status) {
        Change::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Change::Killed(libc::WTERMSIG(status))
    } else if libc::WIFSTOPPED(status) {
        Change::Stopped(libc::WSTOPSIG(status))
    } else {
        Change::Continued
    }
}

/// How a child of the standard library's ended.
pub fn change_of(status: std::process::ExitStatus) -> Change {
    use std::os::unix::process::ExitStatusExt;
    change(status.into_raw())
}

/// Takes the next change of any child, reaping those that ended, without waiting (`wait4(2)`).
///
/// `__WALL` so that children made with an exit signal of their own are seen too: without it, `ECHILD`
/// would not mean that there is none.
pub fn next() -> io::Result<Wait> {
    wait4(-1, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED | libc::__WALL)
}

/// The same for one child.
pub fn next_of(pid: u32) -> io::Result<Wait> {
    wait4(pid as i32, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED | libc::__WALL)
}

/// Waits until this child has ended, and reaps it.
pub fn wait_for(pid: u32) -> io::Result<Wait> {
    loop {
        match wait4(pid as i32, libc::__WALL)? {
            Wait::Nothing => {}
            other => return Ok(other),
        }
    }
}

/// Whether we have any child, ended or not. Nothing is reaped.
pub fn any() -> bool {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `info` has room for the answer.
    unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) == 0 }
}

/// Whether this child has ended, without reaping it (`WNOWAIT`, `waitid(2)`): its number, and that of
/// the group it leads, stay taken.
pub fn peek(pid: u32) -> io::Result<Option<Change>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `info` has room for the answer.
    if unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed is a valid siginfo_t, and the kernel fills it.
    let info = unsafe { info.assume_init() };
    // SAFETY: after waitid these are the fields that are set; zero when nothing has changed.
    if unsafe { info.si_pid() } == 0 {
        return Ok(None);
    }
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok(Some(if info.si_code == libc::CLD_EXITED { Change::Exited(status) } else { Change::Killed(status) }))
}

/// Signals one of our own children that has not been reaped: its number cannot be anybody else's.
/// Numbers that `kill(2)` takes for groups, for all, or for us are refused.
pub fn signal(child: u32, signal: i32) -> io::Result<()> {
    if child <= 1 || child == super::process::own_pid() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let pid = super::process::pid(child)?;
    Ok(rustix::process::kill_process(pid, super::signals::from_number(signal)?)?)
}

/// Signals a process group that an unreaped child of ours is in, which pins its number. Our own group is
/// refused, and so are 0 and 1.
pub fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    if group <= 1 || group == super::process::own_group() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let group = super::process::pid(group)?;
    Ok(rustix::process::kill_process_group(group, super::signals::from_number(signal)?)?)
}

/// `getrusage(RUSAGE_CHILDREN)`.
pub fn used() -> Used {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for the answer.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: zeroed is a valid rusage, and the kernel fills it.
    let usage = unsafe { usage.assume_init() };
    let duration = |t: libc::timeval| Duration::new(t.tv_sec as u64, (t.tv_usec as u32) * 1000);
    Used {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        largest: usage.ru_maxrss as u64 * 1024,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::{namespace, process};

    #[test]
    fn numbers_that_are_no_childs_are_refused() {
        let refused = |answer: io::Result<()>| answer.is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput);
        // As `kill(2)` takes them: our group, everybody, an init, groups by their negatives.
        for number in [0, 1, process::own_pid(), u32::MAX, (-(process::own_group() as i32)) as u32] {
            assert!(refused(signal(number, 0)) || refused(signal(number, libc::SIGCONT)), "{number}");
        }
        for group in [0, 1, process::own_group(), u32::MAX] {
            assert!(refused(signal_group(group, libc::SIGCONT)), "{group}");
        }
        // Only an init may say "everybody".
        assert!(refused(namespace::signal_all_but_init(libc::SIGCONT)));
    }
}
