//! The warden: the process from which keepers are forked, and the second line behind them.
//!
//! It has one thread, its own name, and no descriptor that is not its own. It watches its owner, hands
//! every request to a new keeper, and ends what a killed keeper leaves: orphans come to it, since it is
//! the next subreaper. It ends nothing else.

mod adopt;
mod callers;
mod serve;
mod spares;

use crate::claim::Claim;
use crate::hooks;
use crate::keeper::Handed;
use killcord_model::spec::Request;
use killcord_sys::os::OwnedFd;
use killcord_sys::{descriptors, process, signals, socket};
use std::io;

/// What a warden is made with.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Its end of the socket to the owner.
    pub(crate) control: OwnedFd,
    /// The owner's pidfd, where the kernel has them.
    pub(crate) owner: Option<OwnedFd>,
    /// The owner's number where it is our parent, to be compared with our parent's.
    pub(crate) owner_pid: Option<u32>,
    /// Whether to stay in the owner's session, in a group of our own, for jobs on its terminal.
    pub(crate) stay_in_session: bool,
    /// The owner's claim, which the warden holds as well.
    pub(crate) claim: Option<Claim>,
    /// Whether to see to the state directory in the background; else the owner does.
    pub(crate) sweeps: bool,
    /// The first job, for an owner that has it before it has a warden: a copy of the owner needs no
    /// message to know it.
    pub(crate) first: Option<(Request, Handed)>,
}

/// Becomes the warden in a process that was just forked for it. Never returns.
pub(crate) fn become_warden(mut setup: Setup) -> ! {
    let first = setup.first.take();
    let claim = setup.claim.take();
    hooks::point("warden.begins");
    let code = match prepare(setup, claim, first.as_ref()).and_then(|mut warden| warden.serve(first)) {
        Ok(()) => 0,
        // Nobody is left to tell: the owner sees the socket's end, the keepers the pipe's.
        Err(_) => 1,
    };
    process::exit_now(code)
}

fn prepare(
    setup: Setup,
    claim: Option<Claim>,
    first: Option<&(Request, Handed)>,
) -> io::Result<serve::Warden> {
    signals::Set::all().block_exactly()?;
    // Ignored, as an owner may have inherited it, SIGCHLD would have the kernel reap our children before we look.
    // The others are for the jobs, which would inherit them.
    signals::reset_all();
    let mut keep = vec![descriptors::number(&setup.control)];
    keep.extend(setup.owner.as_ref().map(descriptors::number));
    keep.extend(first.iter().flat_map(|(_, handed)| handed.descriptors()).map(|fd| descriptors::number(&fd)));
    keep.extend(claim.iter().flat_map(Claim::descriptors).map(|fd| descriptors::number(&fd)));
    descriptors::close_all_but(&mut keep)?;
    descriptors::detach_standard_streams()?;
    let title = process::Title::find();
    if let Some(title) = title {
        title.set("killcord-warden");
    }
    process::set_name(c"killcord-warden")?;
    if setup.stay_in_session {
        process::new_group()?;
    } else {
        process::new_session()?;
    }
    process::become_subreaper()?;
    process::set_dumpable(false)?;
    // A guard holds no mount and no directory of anybody.
    std::env::set_current_dir("/")?;
    let signals = signals::SignalFd::new(&signals::Set::of(&[signals::SIGCHLD]))?;
    hooks::point("warden.prepared");
    let (alive_read, alive_write) = socket::pipe()?;
    let (status_read, status_write) = socket::pipe_nonblocking()?;
    Ok(serve::Warden::new(
        setup,
        claim,
        serve::Channels { signals, alive_read, alive_write: Some(alive_write), status_read, status_write },
        title,
    ))
}
