//! Messages of the model on sockets of the system.

use killcord_model::spec::{Request, Unread};
use killcord_model::wire::{self, LARGEST_DATAGRAM, LARGEST_MESSAGE, ToWarden};
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::socket::{self, Received};
use serde::{Serialize, de::DeserializeOwned};
use std::io;

/// What came in.
#[derive(Debug)]
pub(crate) enum Incoming<T> {
    /// A message and its descriptors.
    Message(T, Vec<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Closed,
}

fn invalid(e: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e)
}

/// Whether a send failed because the other end is gone. With something unread at that end, by another thread
/// of ours for instance, the kernel says so by `ECONNRESET`, once (`unix(7)`); this message was not taken.
pub(crate) fn says_gone(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Sends one message.
pub(crate) fn send<T: Serialize>(to: BorrowedFd<'_>, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    socket::send(to, &wire::encode(message).map_err(invalid)?, fds)
}

/// Takes one message, without waiting.
pub(crate) fn receive<T: DeserializeOwned>(from: BorrowedFd<'_>) -> io::Result<Incoming<T>> {
    Ok(match socket::receive(from, LARGEST_DATAGRAM + 1)? {
        Received::Message(data, fds) => Incoming::Message(wire::decode(&data).map_err(invalid)?, fds),
        Received::Nothing => Incoming::Nothing,
        Received::Closed => Incoming::Closed,
    })
}

/// Sends a request, in a memory file when it is large.
pub(crate) fn send_request(to: BorrowedFd<'_>, request: &ToWarden, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let data = wire::encode(request).map_err(invalid)?;
    if data.len() <= LARGEST_DATAGRAM {
        return socket::send(to, &data, fds);
    }
    let memory = socket::into_memory(&data)?;
    let mut all = vec![memory.as_fd()];
    all.extend_from_slice(fds);
    send(to, &<ToWarden>::InMemory, &all)
}

/// A request as the warden reads it, and the message that it passes on.
pub(crate) type Passing = (Box<Request<Unread>>, Vec<u8>);

/// Takes a request, out of its memory file if it is in one.
pub(crate) fn receive_request(from: BorrowedFd<'_>) -> io::Result<Incoming<Passing>> {
    let (mut data, mut fds) = match socket::receive(from, LARGEST_DATAGRAM + 1)? {
        Received::Message(data, fds) => (data, fds),
        Received::Nothing => return Ok(Incoming::Nothing),
        Received::Closed => return Ok(Incoming::Closed),
    };
    let mut message = wire::decode(&data).map_err(invalid)?;
    if matches!(message, ToWarden::InMemory) && !fds.is_empty() {
        data = socket::out_of_memory(fds.remove(0), LARGEST_MESSAGE)?;
        message = wire::decode(&data).map_err(invalid)?;
    }
    match message {
        ToWarden::Start(request) => Ok(Incoming::Message((request, data), fds)),
        ToWarden::InMemory => Err(io::ErrorKind::InvalidData.into()),
    }
}
