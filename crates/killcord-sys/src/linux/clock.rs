//! The monotonic clock, for the event loops.

use std::time::Duration;

/// `CLOCK_MONOTONIC` (`clock_gettime(2)`): not affected by changes of the wall clock, and the same in
/// every process, so that a time can be handed on.
///
/// By way of the C library: what rustix asks the kernel about the vDSO is not true under valgrind.
pub fn now() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the time is valid. This clock is always there, so the call does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
