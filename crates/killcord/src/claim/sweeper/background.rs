//! The sweep at the start of an owner: a process of its own, which delays nobody.
//!
//! It is a guard of its owner as well. Where a warden takes the place of one that was killed, it ends what keepers left that
//! were killed with that one: the handle of such a job may be dropped, and its owner live for years.

use super::super::read::keeper;
use super::super::{CLAIM, Claim, Root, TRASH, is_made};
use super::{Options, Sweep, Swept};
use crate::error::Error;
use crate::hooks;
use killcord_model::id::JOB_VARIABLE;
use killcord_model::sweep;
use killcord_sys::os::{AsFd, OsStrExt};
use killcord_sys::process::{self, Fork};
use killcord_sys::{descriptors, files, signals};
use std::ffi::OsStr;
use std::time::Duration;

/// How long a sweep at the start of an owner may take.
const IN_BACKGROUND: Duration = Duration::from_secs(20);
/// And after how many seconds it is ended if it has not.
const AT_MOST: u32 = 30;

/// Whether there is anything to sweep: something else than the claim of this name.
fn has_others(root: &Root, own: Option<&OsStr>) -> bool {
    let other = |name: &[u8]| {
        (is_made(CLAIM, name) || is_made(TRASH, name)) && own.is_none_or(|own| own.as_bytes() != name)
    };
    files::has_name(root.as_fd(), other).unwrap_or(false)
}

/// Whether a keeper of this claim was killed whose job nobody has struck out since.
fn has_lost(claim: &Claim) -> bool {
    let Ok((names, _)) = files::names(claim.jobs.as_fd(), usize::MAX) else { return false };
    let jobs = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    let records = jobs.filter_map(|job| claim.recorded(job));
    records.into_iter().any(|record| sweep::has_lost_its_keeper(&record, keeper(&record, &claim.place)))
}

/// Whether it is for this process to sweep. In a job it is for the job's owner: what sweeps on behind our own end
/// would be a leftover there.
pub(crate) fn is_ours() -> bool {
    std::env::var_os(JOB_VARIABLE).is_none()
}

/// Forks a process that sweeps, if there is anything but our own claim with jobs that have their keepers: bounded, with
/// nothing of ours open, and only when nobody else wants a processor. For a process with one thread. Returns its number:
/// an unreaped child.
pub(crate) fn in_background(claim: &Claim) -> Option<u32> {
    let (root, own) = (claim.path.parent()?, claim.path.file_name()?);
    let root = Root::existing(Some(root)).ok()??;
    if !has_others(&root, Some(own)) && !has_lost(claim) {
        return None;
    }
    match process::fork_alone().ok()? {
        Fork::Parent(pid) => Some(pid),
        Fork::Child => {
            hooks::point("sweep.forked");
            let swept = become_sweeper(&root, own);
            process::exit_now(i32::from(swept.is_err()));
        }
    }
}

fn become_sweeper(root: &Root, own: &OsStr) -> crate::Result<()> {
    let failed = Error::io("prepare a sweep");
    // A warden has all signals blocked, that of the alarm among them.
    signals::Set::of(&[]).block_exactly().map_err(&failed)?;
    process::alarm(AT_MOST);
    descriptors::close_all_but(&mut [descriptors::number(root)]).map_err(&failed)?;
    descriptors::detach_standard_streams().map_err(&failed)?;
    process::new_session().map_err(&failed)?;
    process::set_name(c"killcord-sweep").map_err(&failed)?;
    std::env::set_current_dir("/").map_err(&failed)?;
    process::yield_to_all();
    let options = Options { dry_run: false, within: Some(IN_BACKGROUND) };
    Sweep::new(root, Some(own), options, |_: &Swept| {}).run().map(|_| ())
}
