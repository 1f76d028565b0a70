//! Finding a job's processes by what they carry, when nothing else is left to tell them by: the kernel's audit
//! session, which no process can drop, and the job's name in the environment, which it can.

use super::pidfd::Pidfd;
use super::proc::Proc;
use super::process;
pub use crate::contract::mark::{Found, Sign};
use crate::contract::tree::Other;
use std::io;
use std::time::Duration;

/// What one process says of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// It is of the job.
    Ours,
    /// It carries the tag and is older than the job: then the tag is not the job's.
    Older,
    /// It is not of the job, or is gone, or is not ours to look at.
    Nothing,
}

/// Asks one process. `tags_read` is cleared where its tag cannot be read though it is there.
fn ask(proc: &mut Proc, pid: u32, sign: &Sign<'_>, tags_read: &mut bool) -> Says {
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH);
    let tagged = match sign.tag.map(|tag| proc.audit_session(pid).map(|found| found == tag)) {
        Some(Ok(tagged)) => tagged,
        Some(Err(e)) => {
            *tags_read &= gone(&e);
            false
        }
        None => false,
    };
    let named = !tagged && proc.has_variable(pid, sign.assignment).unwrap_or(false);
    if !tagged && !named {
        return Says::Nothing;
    }
    match proc.stat(pid) {
        Ok(stat) if stat.is_dead() => Says::Nothing,
        Ok(stat) if stat.start >= sign.not_before => Says::Ours,
        Ok(_) if tagged => Says::Older,
        Ok(_) | Err(_) => Says::Nothing,
    }
}

/// Whether a process carries the sign of one of these jobs. What cannot be read says nothing.
pub(super) fn is_anothers(proc: &mut Proc, pid: u32, others: &[Other]) -> bool {
    if others.is_empty() {
        return false;
    }
    let session = proc.audit_session(pid).ok();
    let tagged = |other: &Other| other.tag.is_some() && other.tag == session;
    others.iter().any(|other| tagged(other) || proc.has_variable(pid, &other.assignment).unwrap_or(false))
}

/// Counts the processes that carry one of the signs, and started when the job had. With `kill` each gets SIGKILL:
/// it is opened first and asked again behind the open handle; then it is waited for until it is gone, a moment at
/// most. Nobody is killed where we carry the sign ourselves, or where a process that carries the tag is older than
/// the job, so that the tag is somebody else's: then they are only counted. Init and processes that may not be
/// signalled are counted as well.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn find(sign: &Sign<'_>, kill: bool) -> io::Result<Found> {
    let mut proc = Proc::open()?;
    let mut found = Found { tags_read: true, ..Found::default() };
    let me = process::own_pid();
    let mut all = Vec::new();
    proc.all(&mut all)?;
    let mut ours = Vec::new();
    for pid in all {
        match ask(&mut proc, pid, sign, &mut found.tags_read) {
            Says::Ours => ours.push(pid),
            Says::Older => found.not_the_jobs_tag = true,
            Says::Nothing => {}
        }
    }
    found.count = ours.len();
    let spared = ours.contains(&me) || ours.contains(&1) || found.not_the_jobs_tag;
    if kill && !spared {
        kill_all(&mut proc, &ours, sign)?;
    }
    Ok(found)
}

fn kill_all(proc: &mut Proc, ours: &[u32], sign: &Sign<'_>) -> io::Result<()> {
    let mut ended = Vec::new();
    for pid in ours {
        let Ok(handle) = Pidfd::open(*pid) else { continue };
        let same = ask(proc, *pid, sign, &mut true) == Says::Ours;
        if same && handle.signal(libc::SIGKILL).is_ok() {
            ended.push(handle);
        }
    }
    for handle in &ended {
        handle.wait_ended(Some(Duration::from_millis(100)))?;
    }
    Ok(())
}
