//! Kernel audit sessions as a mark on a job: inherited by all descendants, not removable without
//! `CAP_AUDIT_CONTROL`, and set without privilege where the login uid is unset (containers, services).
//!
//! See `CONFIG_AUDITSYSCALL`, and `audit_set_loginuid` in the kernel's `kernel/auditsc.c`.

use std::io;

/// What `/proc/self/loginuid` and `/proc/self/sessionid` read as when nobody has logged in.
pub const UNSET: u32 = u32::MAX;

fn read_number(path: &str) -> io::Result<u32> {
    let text = super::proc::read_file(path)?;
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, path.to_owned()))
}

/// Gives this process an audit session of its own and returns its number.
///
/// # Errors
/// `EPERM` where the login uid is set already, `ENOENT` on kernels without audit, and whatever reading
/// and writing in `/proc` can say (a process that is not dumpable may not write there).
pub fn enter_session() -> io::Result<u32> {
    if read_number("/proc/self/loginuid")? != UNSET {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let uid = rustix::process::getuid().as_raw();
    std::fs::write("/proc/self/loginuid", uid.to_string())?;
    match read_number("/proc/self/sessionid")? {
        UNSET => Err(io::Error::from_raw_os_error(libc::ENOTSUP)),
        session => Ok(session),
    }
}
