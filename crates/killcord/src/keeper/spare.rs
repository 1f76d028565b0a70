//! A keeper that was forked ahead of its job, and waits for it.
//!
//! It holds no job, so nothing is lost with it, and it ends with the warden: by a death signal, so that a stopped one
//! ends as well, and by the end of its socket, of which the warden has the only other end. With a job it is a keeper
//! like any other: then the signal is taken off, since a keeper has to end its job when the warden is gone.

use super::{Done, Handed, Setup, become_keeper, enter_session, identity};
use crate::arm::Held;
use crate::claim::Claim;
use crate::hooks;
use killcord_model::boundary::Boundary;
use killcord_model::spec::{OOM_SCORE_ADJ, Request};
use killcord_model::wire::{self, LARGEST_DATAGRAM, ToWarden};
use killcord_sys::cgroup::{Leaf, Own};
use killcord_sys::descriptors;
use killcord_sys::leader;
use killcord_sys::limits::Limits;
use killcord_sys::namespace::Through;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::process::{self, Title};
use killcord_sys::signals;
use killcord_sys::socket::{self, MOST_FDS, Received};
use killcord_sys::tree::Tree;
use std::io;
use std::rc::Rc;

/// What a spare is made with: the warden's, but for the socket.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    pub(crate) socket: OwnedFd,
    /// The warden's number.
    pub(crate) warden: u32,
    /// Our own cgroup, if it has been looked for.
    pub(crate) own: Option<Rc<Own>>,
    pub(crate) owner: Option<&'a OwnedFd>,
    pub(crate) alive: &'a OwnedFd,
    pub(crate) status: &'a OwnedFd,
    pub(crate) title: Option<Title>,
    pub(crate) claim: Option<&'a Claim>,
}

/// A job on its way to the spare.
#[derive(Debug)]
struct Order {
    request: Box<Request>,
    handed: Handed,
    held: Held,
}

/// Becomes a spare in a process that was just forked for it. Never returns.
pub(crate) fn become_spare(ahead: &Ahead<'_>) -> ! {
    let done = prepare(ahead);
    match done.and_then(|done| Ok((done, wait(ahead)?))) {
        Ok((done, Some(Order { request, handed, held }))) => become_keeper(Setup {
            request: &request,
            handed: &handed,
            held,
            limits: Limits::default(),
            go: None,
            through: Through::Privilege,
            ids: (process::own_uid(), process::own_gid()),
            owner: ahead.owner,
            alive: ahead.alive,
            status: ahead.status,
            title: ahead.title,
            claim: ahead.claim,
            ahead: done,
        }),
        Ok((_, None)) => process::exit_now(0),
        // The cord is closed with us, before anything was said on it; the status tells the warden.
        Err(_) => process::exit_now(1),
    }
}

/// Does what every keeper does and none needs its job for.
fn prepare(ahead: &Ahead<'_>) -> io::Result<Done> {
    if let Some(title) = ahead.title {
        title.set("killcord-spare");
    }
    process::set_name(c"killcord-spare")?;
    process::set_parent_death_signal(signals::SIGKILL)?;
    if process::parent_pid() != Some(ahead.warden) {
        // It ended before the signal was armed.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut keep = [&ahead.socket, ahead.alive, ahead.status].map(descriptors::number).to_vec();
    keep.extend(ahead.own.iter().map(|own| descriptors::number(&own.dir())));
    keep.extend(ahead.owner.map(descriptors::number));
    keep.extend(ahead.claim.iter().flat_map(|c| c.descriptors()).map(|fd| descriptors::number(&fd)));
    descriptors::close_all_but(&mut keep)?;
    leader::raise_ahead(OOM_SCORE_ADJ);
    // What is missing of it the keeper tries again, and says so then.
    let done = Done {
        tree: Tree::new().ok(),
        identity: identity(),
        tag: enter_session(),
        ready: ahead.claim.and_then(|claim| claim.make_ready().ok()),
    };
    hooks::point("keeper.is_spare");
    Ok(done)
}

/// Waits for a job; `None` when there will be none.
fn wait(ahead: &Ahead<'_>) -> io::Result<Option<Order>> {
    loop {
        // What was handed over is taken, whoever has ended since: the keeper looks for the living before it
        // starts anything.
        match socket::receive(ahead.socket.as_fd(), LARGEST_DATAGRAM + 1)? {
            Received::Message(data, fds) => {
                hooks::point("keeper.is_given");
                process::set_parent_death_signal(0)?;
                return take(&data, fds, ahead.own.as_ref()).map(Some);
            }
            Received::Closed => return Ok(None),
            Received::Nothing => {}
        }
        // The warden's death closes the socket. The pipe also ends when the warden gives up its owner.
        let [_, gone] = poll::wait(
            [(Some(ahead.socket.as_fd()), Interest::Read), (Some(ahead.alive.as_fd()), Interest::Gone)],
            None,
        )?;
        if gone {
            return Ok(None);
        }
    }
}

/// A job as one message, where it is one that a spare can take: one that needs nothing but what a message carries.
/// `message` is the owner's, with the whole request.
pub(crate) fn pack<'a>(
    message: &[u8],
    handed: &'a Handed,
    held: &'a Held,
) -> Option<(Vec<u8>, Vec<BorrowedFd<'a>>)> {
    let mut fds = match held {
        Held::Cgroup { leaf, .. } => vec![leaf.dir(), leaf.events(), leaf.kill_file()?],
        Held::Tree | Held::Group => Vec::new(),
        // Its keeper is the init of a namespace that is made with it.
        Held::Namespace => return None,
    };
    fds.extend(handed.descriptors());
    let job = wire::encode_before(&held.boundary(), message).ok()?;
    (fds.len() <= MOST_FDS && job.len() <= LARGEST_DATAGRAM).then_some((job, fds))
}

fn take(data: &[u8], mut fds: Vec<OwnedFd>, own: Option<&Rc<Own>>) -> io::Result<Order> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let unread = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    let (boundary, message) = wire::decode_before(data).map_err(unread)?;
    let ToWarden::Start(request) = wire::decode(message).map_err(unread)? else {
        return Err(invalid("no request"));
    };
    let held = match boundary {
        Boundary::Tree => Held::Tree,
        Boundary::Group => Held::Group,
        Boundary::Cgroup => {
            let rest = fds.split_off(fds.len().min(3));
            let parts = std::mem::replace(&mut fds, rest);
            let parts = <[OwnedFd; 3]>::try_from(parts).map_err(|_| invalid("no cgroup"))?;
            let own = Rc::clone(own.ok_or_else(|| invalid("no cgroup of our own"))?);
            Held::Cgroup { own, job: request.job, leaf: Leaf::from_open(parts)? }
        }
        Boundary::Namespace | Boundary::Uncontained => return Err(invalid("no job for a spare")),
    };
    // For lack of numbers some may not have come; without all of them it is no request.
    let handed = Handed::from_descriptors(fds, &request).ok_or_else(|| invalid("descriptors are missing"))?;
    Ok(Order { request, handed, held })
}
