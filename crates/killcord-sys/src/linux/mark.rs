//! Finding a job's processes by what they carry, when nothing else is left to tell them by: the kernel's audit
//! session, which no process can drop, and the job's name in the environment, which it can.

use super::clock;
use super::pidfd::Pidfd;
use super::proc::Proc;
use super::process;
pub use crate::contract::mark::{Found, Sign};
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

/// Counts the processes that carry one of the signs, and started when the job had. With `kill` each gets SIGKILL in a
/// second walk, as soon as it is met: it is opened first and asked again behind the open handle; behind the walk it is
/// waited for until it is gone, a moment at most. Nobody is killed where we carry the sign ourselves, or where a process
/// that carries the tag is older than the job, so that the tag is somebody else's: then they are only counted. Init and
/// processes that may not be signalled are counted as well.
///
/// Where none is found though new processes came faster than they could be asked, `tags_read` is false: one of them may
/// be one that changes its number.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn find(sign: &Sign<'_>, kill: bool) -> io::Result<Found> {
    let mut proc = Proc::open()?;
    let mut found = Found { tags_read: true, ..Found::default() };
    let me = process::own_pid();
    let mut ours = Vec::new();
    let met_all = walk(&mut proc, |proc, pid| {
        match ask(proc, pid, sign, &mut found.tags_read) {
            Says::Ours => ours.push(pid),
            Says::Older => found.not_the_jobs_tag = true,
            Says::Nothing => {}
        }
        // One that changes its number would be met under each of them.
        ours.is_empty()
    })?;
    found.count = ours.len();
    found.tags_read &= met_all || !ours.is_empty();
    let spared = ours.contains(&me) || ours.contains(&1) || found.not_the_jobs_tag;
    if kill && !spared && !ours.is_empty() {
        kill_all(&mut proc, sign)?;
    }
    Ok(found)
}

/// How long a walk goes on for the sake of new processes.
const WALK: Duration = Duration::from_millis(200);

/// Calls `each` for every process, and for those that have come meanwhile, as long as it wants them. Says whether it has
/// met them all.
///
/// The table is read number by number, while a process that executes `fork` and ends every few milliseconds changes its
/// own: by the time that it is asked under one number it has the next. So the numbers that were given out meanwhile are
/// asked as well, the newest first, until there is none or each was met alive: whoever lives then has been asked, alive,
/// under the number that it has.
fn walk(proc: &mut Proc, mut each: impl FnMut(&mut Proc, u32) -> bool) -> io::Result<bool> {
    let until = clock::now() + WALK;
    let mut all = Vec::new();
    let mut last = proc.last_number()?;
    proc.all(&mut all)?;
    all.sort_unstable();
    let (mut go_on, mut missed) = ask_all(proc, all.iter().rev().copied(), &mut each);
    while go_on && missed {
        let newest = proc.last_number()?;
        // Numbers that begin anew are not told apart; and a machine that is all a bomb's has no end.
        if newest < last || clock::now() >= until {
            return Ok(false);
        }
        (go_on, missed) = ask_all(proc, (last + 1..=newest).rev(), &mut each);
        last = newest;
    }
    Ok(go_on)
}

/// Says whether more are wanted, and whether one was not met alive.
fn ask_all(
    proc: &mut Proc,
    numbers: impl Iterator<Item = u32>,
    each: &mut impl FnMut(&mut Proc, u32) -> bool,
) -> (bool, bool) {
    let (mut go_on, mut missed) = (true, false);
    for pid in numbers {
        go_on = each(proc, pid);
        missed |= proc.stat(pid).map_or(true, |stat| stat.is_dead());
    }
    (go_on, missed)
}

fn kill_all(proc: &mut Proc, sign: &Sign<'_>) -> io::Result<()> {
    let mut ended = Vec::new();
    // Whether all were met is what the next look says.
    walk(proc, |proc, pid| {
        if ask(proc, pid, sign, &mut true) == Says::Ours
            && let Ok(handle) = Pidfd::open(pid)
            && ask(proc, pid, sign, &mut true) == Says::Ours
            && handle.signal(libc::SIGKILL).is_ok()
        {
            ended.push(handle);
        }
        true
    })?;
    for handle in &ended {
        handle.wait_ended(Some(Duration::from_millis(100)))?;
    }
    Ok(())
}
