//! Callers of a warden's socket who do not keep to what is agreed.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_model::wire::{Call, encode};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn connect(control: &Path) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(control).unwrap()).unwrap();
    socket
}

fn send(socket: &OwnedFd, data: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    rustix::net::sendmsg(socket, &[IoSlice::new(data)], &mut control, SendFlags::empty())
}

/// A call about a job whose id is almost this one's.
fn about_another(job: &str) -> Vec<u8> {
    let other = if job.starts_with('0') { "1" } else { "0" };
    encode(&Call::Stop { job: Some(format!("{other}{}", &job[1..]).parse().unwrap()), now: true }).unwrap()
}

/// Sends what is no call, with and without descriptors.
pub(crate) fn send_garbage(control: &Path) {
    let (socket, null) = (connect(control), std::fs::File::open("/dev/null").unwrap());
    let long = vec![0; 100_000];
    for data in [&b""[..], b"\0", b"\x01", b"\x01\x00\x00", &[0xff; 256], &[1; 257], &long] {
        for fds in [&[][..], &[null.as_fd()], &[null.as_fd(); 253]] {
            send(&socket, data, fds).unwrap();
        }
    }
}

/// Asks, and gives for the answer a socket in which there is no room, and a descriptor that is none.
pub(crate) fn never_read(control: &Path, job: &str) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK;
    let (mine, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    while rustix::net::send(&theirs, &[0; 1000], SendFlags::empty()).is_ok() {}
    let (socket, null) = (connect(control), std::fs::File::open("/dev/null").unwrap());
    send(&socket, &about_another(job), &[theirs.as_fd()]).unwrap();
    send(&socket, &about_another(job), &[null.as_fd()]).unwrap();
    mine
}

/// Sends so many that mean nothing, as fast as they are taken.
pub(crate) fn flood(control: &Path, calls: u32, done: &AtomicBool) {
    let socket = connect(control);
    for _ in 0..calls {
        send(&socket, b"garbage", &[]).unwrap();
    }
    done.store(true, Ordering::Relaxed);
}

/// How many descriptors a process has, where we may look.
pub(crate) fn descriptors_of(pid: u32) -> Option<usize> {
    std::fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}
