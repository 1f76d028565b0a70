//! Messages with descriptors between owner, warden and keeper: `SOCK_SEQPACKET` of `unix(7)`.

pub use crate::contract::socket::{Call, Received};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many descriptors one message carries at most; the kernel's own limit is 253 (`SCM_MAX_FD`).
pub const MOST_FDS: usize = 250;

/// Two connected ends, both closed by exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one datagram with descriptors beside it, without waiting for room and without SIGPIPE.
///
/// # Errors
/// `EPIPE` when the other end is gone, `EAGAIN` when its buffer is full, `EMSGSIZE` when the datagram is
/// larger than the buffer.
pub fn send(socket: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > MOST_FDS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
    }
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no room for the descriptors"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(data)], &mut control, flags)
    })?;
    if sent == data.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Tells the other end that nothing more comes, which it hears as if this end were closed, while what it says can still
/// be heard here.
pub fn send_no_more(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Write)?)
}

/// Closes a connection, whoever has copies of its descriptor.
pub fn close_for_all(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, rustix::net::Shutdown::Both)?)
}

/// Takes one datagram of at most `most` bytes, without waiting.
///
/// Its size is asked for first (`MSG_TRUNC` with `MSG_PEEK`, `recv(2)`): a buffer for the largest would
/// cost a guard more in page faults than everything else it does.
///
/// Descriptors for which this process has no free number are left out (`MSG_CTRUNC`): whoever needs them
/// counts them.
///
/// # Errors
/// A datagram that was cut short is an error: half a message is none.
pub fn receive(socket: BorrowedFd<'_>, most: usize) -> io::Result<Received> {
    let peek = RecvFlags::DONTWAIT | RecvFlags::PEEK | RecvFlags::TRUNC;
    let mut nothing = [0u8; 0];
    let size = match past_reset(|| rustix::net::recv(socket, &mut nothing, peek)) {
        Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return Ok(Received::Closed),
        Ok((_, size)) => size,
        Err(rustix::io::Errno::AGAIN) => return Ok(Received::Nothing),
        Err(e) => return Err(e.into()),
    };
    let mut data = vec![0u8; size.min(most)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(&mut data)];
    let message = past_reset(|| rustix::net::recvmsg(socket, &mut slices, &mut control, flags))?;
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fds.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut short"));
    }
    if message.bytes == 0 {
        return Ok(Received::Closed);
    }
    data.truncate(message.bytes);
    Ok(Received::Message(data, fds))
}

/// The path of a name below an open directory, however long that directory's own is: a socket's address holds 107
/// bytes (`unix(7)`).
fn address(directory: BorrowedFd<'_>, name: &str) -> io::Result<rustix::net::SocketAddrUnix> {
    Ok(rustix::net::SocketAddrUnix::new(super::descriptors::path(directory).join(name))?)
}

fn datagram_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// Makes a socket with a name, to which this user's processes can send datagrams; the kernel adds whose they are
/// (`SO_PASSCRED`). What stands at the name already is an error.
pub fn listen(directory: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let socket = datagram_socket()?;
    rustix::net::sockopt::set_socket_passcred(&socket, true)?;
    rustix::net::bind(&socket, &address(directory, name)?)?;
    Ok(socket)
}

/// Sends a datagram with descriptors to a socket with a name.
///
/// # Errors
/// `ECONNREFUSED` when nobody listens there any more, `ENOENT` when nothing is there.
pub fn call(directory: BorrowedFd<'_>, name: &str, data: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let socket = datagram_socket()?;
    rustix::net::connect(&socket, &address(directory, name)?)?;
    send(socket.as_fd(), data, fds)
}

/// Takes what was sent to a socket with a name, of at most `most` bytes, without waiting. What is longer is cut.
pub fn take_call(socket: BorrowedFd<'_>, most: usize) -> io::Result<Option<Call>> {
    let mut data = vec![0u8; most];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(&mut data)];
    let message = match rustix::net::recvmsg(socket, &mut slices, &mut control, flags) {
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
        message => message?,
    };
    let (mut fds, mut user) = (Vec::new(), None);
    for part in control.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
            RecvAncillaryMessage::ScmCredentials(sender) => user = Some(sender.uid.as_raw()),
            _ => {}
        }
    }
    data.truncate(message.bytes);
    Ok(Some(Call { data, fds, user }))
}

/// A reset is said once, before everything else, when the other end closed with a message of ours unread.
/// What it had sent before is still to be had, so the call is made again.
fn past_reset<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match rustix::io::retry_on_intr(&mut call) {
        Err(rustix::io::Errno::CONNRESET) => rustix::io::retry_on_intr(call),
        answer => answer,
    }
}

/// Puts a large message into a sealed memory file (`memfd_create(2)`).
pub fn into_memory(data: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("killcord-request", flags)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(data)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Reads a message out of a memory file, of at most `most` bytes.
pub fn out_of_memory(fd: OwnedFd, most: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(fd);
    let size = file.metadata()?.len();
    let size = usize::try_from(size).ok().filter(|s| *s <= most);
    let size = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the message is too large"))?;
    let mut data = vec![0; size];
    file.read_exact_at(&mut data, 0)?;
    Ok(data)
}

/// A pipe whose ends are closed by exec: (read end, write end).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// A pipe that never waits.
pub fn pipe_nonblocking() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::PipeFlags;
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

/// A pipe that never lets its reader wait.
pub fn pipe_reading_nonblocking() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    super::descriptors::never_wait(read.as_fd())?;
    Ok((read, write))
}

/// Reads what is there; `None` when there is nothing yet, an empty slice at the end.
pub fn read_some<'b>(fd: BorrowedFd<'_>, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
    match rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer)) {
        Ok(n) => Ok(Some(&buffer[..n])),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Waits for one byte: `true` if it came, `false` at the end of the pipe.
pub fn wait_for_byte(fd: &OwnedFd) -> io::Result<bool> {
    let mut file = std::fs::File::from(fd.try_clone()?);
    let mut byte = [0u8; 1];
    loop {
        match file.read(&mut byte) {
            Ok(n) => return Ok(n == 1),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Writes all of it; for messages of at most `PIPE_BUF` bytes, which the kernel never splits.
pub fn write(fd: BorrowedFd<'_>, data: &[u8]) -> io::Result<()> {
    let n = rustix::io::retry_on_intr(|| rustix::io::write(fd, data))?;
    if n == data.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Whether somebody listens on the stream socket at this path; nothing is said to them.
pub fn answers(path: &std::path::Path) -> bool {
    std::os::unix::net::UnixStream::connect(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_word_is_heard_from_an_end_that_did_not_read_ours() {
        let (ours, theirs) = pair().unwrap_or_else(|e| panic!("{e}"));
        send(ours.as_fd(), b"an order", &[]).unwrap_or_else(|e| panic!("{e}"));
        send(theirs.as_fd(), b"the last word", &[]).unwrap_or_else(|e| panic!("{e}"));
        drop(theirs);
        let heard = receive(ours.as_fd(), 64);
        assert!(matches!(&heard, Ok(Received::Message(m, _)) if m == b"the last word"), "{heard:?}");
        assert!(matches!(receive(ours.as_fd(), 64), Ok(Received::Closed)));
    }
}
