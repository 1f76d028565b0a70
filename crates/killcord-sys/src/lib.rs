//! The system calls of killcord, and its only unsafe code.
//!
//! What a platform must provide is the list of modules in `stub`; nothing outside this crate asks which
//! platform it is. Functions are thin: they name the system call they make, the edge cases that were
//! met, and where the rule stands. They decide nothing.
//!
//! On every system but Linux, and with `--cfg killcord_stub`, the stub stands in: the same names, each of
//! which refuses.

mod contract;
#[cfg(all(feature = "fixture", target_os = "linux"))]
pub mod fixture;
#[cfg(all(target_os = "linux", not(killcord_stub)))]
mod linux;
#[cfg(any(not(target_os = "linux"), killcord_stub))]
mod stub;

#[cfg_attr(unix, path = "os/unix.rs")]
#[cfg_attr(windows, path = "os/windows.rs")]
pub mod os;

/// Error numbers that have a meaning beyond their kind. `errno(3)` of Linux; the same on every Unix.
pub mod errno {
    /// No such process.
    pub const ESRCH: i32 = 3;
    /// Input or output failed; what a terminal's controlling side reads when nobody has the terminal open.
    pub const EIO: i32 = 5;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
}

#[cfg(all(target_os = "linux", not(killcord_stub)))]
pub use linux::*;
#[cfg(any(not(target_os = "linux"), killcord_stub))]
pub use stub::*;
