//! The output of a program, read up to an event and never longer than a deadline.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::procs::readable;

/// What did not come in time, and what had come instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedOut {
    /// What was waited for.
    pub awaited: String,
    /// The text so far.
    pub text: String,
    /// Whether the stream has ended, so that it will never come.
    pub ended: bool,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.ended { "the stream ended" } else { "the time was over" };
        write!(f, "{how} before {}; the text so far is {:?}", self.awaited, self.text)
    }
}

impl std::error::Error for TimedOut {}

/// The reading end of a pipe or a terminal, with everything read from it so far.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
    bytes: Vec<u8>,
    /// `expect` looks only at what no earlier `expect` has matched.
    matched: usize,
    ended: bool,
}

impl Stream {
    /// Reads from this descriptor.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, bytes: Vec::new(), matched: 0, ended: false }
    }

    /// Reads until `text` has come after what was expected before; returns all of the text so far.
    pub fn expect(&mut self, text: &str, limit: Duration) -> Result<String, TimedOut> {
        let deadline = Instant::now() + limit;
        loop {
            let rest = &self.bytes[self.matched..];
            if let Some(at) = rest.windows(text.len().max(1)).position(|window| window == text.as_bytes()) {
                self.matched += at + text.len();
                return Ok(self.text());
            }
            if !self.read_some(deadline) {
                return Err(TimedOut { awaited: format!("{text:?}"), text: self.text(), ended: self.ended });
            }
        }
    }

    /// Reads to the end of the stream: the last copy of the other end has been closed, as the kernel does when
    /// the last process that holds it is gone.
    pub fn read_to_end(&mut self, limit: Duration) -> Result<String, TimedOut> {
        let deadline = Instant::now() + limit;
        while self.read_some(deadline) {}
        if self.ended {
            return Ok(self.text());
        }
        Err(TimedOut { awaited: "its end".to_owned(), text: self.text(), ended: false })
    }

    /// The text so far; bytes that are no text are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Whether the end has been read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The descriptor, for a terminal's writes and settings.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// False at the end of the stream and at the deadline.
    pub(crate) fn read_some(&mut self, deadline: Instant) -> bool {
        if self.ended || !readable(self.fd.as_fd(), deadline) {
            return false;
        }
        let mut buffer = [0; 16384];
        match rustix::io::read(&self.fd, &mut buffer) {
            // A terminal says EIO, not "end", when its last user is gone.
            Ok(0) | Err(Errno::IO) => self.ended = true,
            Ok(n) => self.bytes.extend_from_slice(&buffer[..n]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(e) => panic!("reading a fixture's output: {e}"),
        }
        !self.ended
    }
}
