//! The monotonic clock, for the event loops.

use std::time::Duration;

/// `CLOCK_MONOTONIC` (`clock_gettime(2)`): not affected by changes of the wall clock, and the same in
/// every process, so that a time can be handed on.
pub fn now() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
