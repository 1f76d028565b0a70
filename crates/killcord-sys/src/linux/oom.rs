//! `oom_score_adj` (`proc_pid_oom_score_adj(5)`: -1000 to 1000) of a child, by way of our own.
//!
//! The kernel gives processes that share memory one value: a child that lives in ours until exec would change
//! it for both. So it is ours that is raised before the child is made, which inherits it, and lowered again
//! when the child has left.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// What it was before it was first raised: the next child is made when the last may not have left.
static OWN: OnceLock<i32> = OnceLock::new();

/// Our own value, raised. Dropping it leaves it raised.
#[derive(Debug)]
pub(super) struct Raised {
    file: OwnedFd,
    own: i32,
}

impl Raised {
    /// Adds to our own value. `None` where `/proc` is missing or read-only: that the OOM killer prefers a job
    /// is a kindness to its guards and no part of the boundary.
    pub(super) fn by(more: i32) -> Option<Self> {
        if more == 0 {
            return None;
        }
        let file = open().ok()?;
        let mut text = [0u8; 16];
        let read = rustix::io::read(&file, &mut text).ok()?;
        let own = *OWN.get_or_init(|| text.get(..read).and_then(parse).unwrap_or(0));
        let raised = Self { file, own };
        raised.put(own.saturating_add(more).clamp(-1000, 1000)).ok()?;
        Some(raised)
    }

    /// Undoes it. Whoever raised a value may lower it as far.
    pub(super) fn lower(&self) {
        // A guard that stays as likely to be ended as its job is still a guard.
        let _ = self.put(self.own);
    }

    fn put(&self, score: i32) -> io::Result<()> {
        let (start, text) = decimal(score);
        rustix::io::pwrite(self.file.as_fd(), &text[start..], 0)?;
        Ok(())
    }
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
