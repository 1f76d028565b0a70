//! `oom_score_adj` (`proc_pid_oom_score_adj(5)`: -1000 to 1000) of a child, by way of our own.
//!
//! The kernel gives processes that share memory one value: a child that lives in ours until exec would change
//! it for both. So it is ours that is raised before the child is made, which inherits it, and lowered again
//! when the child has left.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// What it was before it was first raised: the next child is made when the last may not have left.
static OWN: OnceLock<i32> = OnceLock::new();
/// By how much it has been raised.
static RAISED: AtomicI32 = AtomicI32::new(0);

/// Raises our own value for a child that is not made yet, where that takes no time from anybody. A child that is
/// to have this gets it for nothing; for any other it is changed again.
pub fn raise_ahead(more: i32) {
    raise(more);
}

/// Adds to our own value, for a child that is made next. Where `/proc` is missing or read-only nothing is changed:
/// that the OOM killer prefers a job is a kindness to its guards and no part of the boundary.
pub(super) fn raise(more: i32) {
    if RAISED.load(Ordering::Relaxed) != more {
        let _ = put(more);
    }
}

/// Undoes it. Whoever raised a value may lower it as far; a guard that stays as likely to be ended as its job is
/// still a guard.
pub(super) fn lower() {
    raise(0);
}

/// Makes it our own value and so much more.
fn put(more: i32) -> io::Result<()> {
    let file = open()?;
    let mut text = [0u8; 16];
    let read = if OWN.get().is_none() { rustix::io::read(&file, &mut text)? } else { 0 };
    let own = *OWN.get_or_init(|| text.get(..read).and_then(parse).unwrap_or(0));
    let (start, text) = decimal(own.saturating_add(more).clamp(-1000, 1000));
    rustix::io::pwrite(file.as_fd(), &text[start..], 0)?;
    RAISED.store(more, Ordering::Relaxed);
    Ok(())
}

/// The files in `/proc` of a guard, which is not dumpable, belong to root: for the moment of opening one, any
/// other user's guard is dumpable.
fn open() -> io::Result<OwnedFd> {
    let open = || rustix::fs::open("/proc/self/oom_score_adj", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    match open() {
        Err(rustix::io::Errno::ACCESS) => {
            super::process::set_dumpable(true)?;
            let file = open();
            super::process::set_dumpable(false)?;
            Ok(file?)
        }
        other => Ok(other?),
    }
}

fn parse(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}

/// A small number as text, without taking memory: where it starts in the array, and the array.
fn decimal(number: i32) -> (usize, [u8; 8]) {
    let mut text = [b'0'; 8];
    let (mut at, mut rest) = (8, number.unsigned_abs() % 1_000_000);
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    (at, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_text_and_back() {
        for number in [0, 7, 100, -1, -1000, 1000] {
            let (start, text) = decimal(number);
            assert_eq!(&text[start..], number.to_string().as_bytes());
            assert_eq!(parse(&text[start..]), Some(number));
        }
        assert_eq!(parse(b"100\n"), Some(100));
        assert_eq!(parse(b""), None);
    }
}
