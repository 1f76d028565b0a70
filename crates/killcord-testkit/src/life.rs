//! What every fixture does first and last: a watchdog, the deadline, the end.

use std::io::{self, Write};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use rustix::time::{ClockId, clock_gettime};

/// No process of a fixture lives longer than this, whatever happens to the test.
pub const LIFE: u32 = 60;

/// Arms the watchdog of this process. A fork does not inherit it, so each forked child calls this again.
pub fn arm() {
    killcord_sys::fixture::alarm(LIFE);
}

/// Milliseconds of the monotonic clock, which every process of the machine reads alike: a deadline in them can
/// be handed to an executed program.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// Waits until the monotonic clock shows `deadline_ms`; signals that are ignored do not shorten it.
pub fn sleep_until(deadline_ms: u64) {
    std::thread::sleep(Duration::from_millis(deadline_ms.saturating_sub(now_ms())));
}

/// Waits for the end of one child, which is reaped.
pub fn reap(pid: Pid) -> io::Result<WaitStatus> {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Prints one line on stdout, at once.
pub fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// A number of seconds, at most the life of a fixture.
pub fn seconds(text: &str) -> io::Result<Duration> {
    match text.parse::<f64>() {
        Ok(n) if n >= 0.0 && n.is_finite() => Ok(Duration::from_secs_f64(n.min(f64::from(LIFE)))),
        _ => Err(usage(&format!("not a number of seconds: {text:?}"))),
    }
}

/// The error of a wrong command line.
pub fn usage(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.to_owned())
}
