//! Finding a job's processes by the mark in their environment, when nothing else is left to tell them by.

use super::pidfd::Pidfd;
use super::proc::Proc;
use super::process;
use std::io;
use std::time::Duration;

/// Kills every process whose environment, as it was executed with, holds this `NAME=value`, and waits for
/// each until it is gone. Returns how many there were.
///
/// The mark is 128 random bits, so that a process that has it was started below the job. Each is opened
/// first and looked at again behind the open handle; ourselves and init are left out. Processes of other
/// users, and those that gave up their environment, cannot be seen.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn end(assignment: &str) -> io::Result<usize> {
    let mut proc = Proc::open()?;
    let me = process::own_pid();
    let mut all = Vec::new();
    proc.all(&mut all)?;
    let mut ended = Vec::new();
    for pid in all {
        let other = pid > 1 && pid != me;
        if !other || !proc.has_variable(pid, assignment).unwrap_or(false) {
            continue;
        }
        let Ok(handle) = Pidfd::open(pid) else { continue };
        if proc.has_variable(pid, assignment).unwrap_or(false) && handle.signal(libc::SIGKILL).is_ok() {
            ended.push(handle);
        }
    }
    for handle in &ended {
        handle.wait_ended(Some(Duration::from_millis(100)))?;
    }
    Ok(ended.len())
}
