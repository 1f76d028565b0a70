//! A job's output, bounded: head, tail and the true count.

use crate::error::{Error, Result};
use crate::job::Job;
use crate::numbers::now;
use killcord_model::job::DRAIN;
use killcord_model::time::Time;
use killcord_model::verdict::End;
use killcord_sys::os::{AsFd, BorrowedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::socket;
use std::collections::VecDeque;

/// What was kept of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes behind the head.
    pub tail: VecDeque<u8>,
    /// How many bytes there were in all.
    pub total: u64,
    keep: usize,
}

impl Captured {
    pub(crate) fn new(keep: usize) -> Self {
        Self { keep: keep / 2, ..Self::default() }
    }

    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.keep.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        bytes = &rest[rest.len().saturating_sub(self.keep)..];
        let over = (self.tail.len() + bytes.len()).saturating_sub(self.keep);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(bytes);
    }

    /// How many bytes between head and tail were not kept.
    pub fn left_out(&self) -> u64 {
        self.total - self.head.len() as u64 - self.tail.len() as u64
    }

    /// Head and tail as text, with a line between them that says how much is missing. What is not UTF-8 is
    /// replaced.
    pub fn to_text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        match self.left_out() {
            0 => String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned(),
            missing => {
                let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
                format!("{head}\n[{missing} bytes left out]\n{tail}")
            }
        }
    }
}

/// How a job ended and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended. Leftovers that still held a stream are named there.
    pub end: End,
    /// Its standard output, or all that was printed on its terminal.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
}

/// Reads until the job is over and its streams are empty.
pub(crate) fn collect(job: &mut Job, keep: usize) -> Result<Output> {
    job.stdin = None;
    let mut out = Captured::new(keep);
    let mut err = Captured::new(keep);
    let mut end: Option<(End, Time)> = None;
    let mut buffer = vec![0u8; 64 * 1024];
    let (stdout, stderr) = (job.stdout.take(), job.stderr.take());
    let terminal = job.terminal.take();
    let mut first = stdout.as_ref().map(AsFd::as_fd).or(terminal.as_ref().map(AsFd::as_fd));
    let mut second = stderr.as_ref().map(AsFd::as_fd);
    loop {
        let over = end.is_some();
        let left = end.as_ref().map(|(_, until)| until.since(now()));
        if over && ((first.is_none() && second.is_none()) || left.is_some_and(|l| l.is_zero())) {
            break;
        }
        let cord = (!over).then(|| job.as_fd());
        let due = (!over).then(|| job.due_in()).flatten();
        let left = left.into_iter().chain(due).min();
        let places = [(cord, Interest::Read), (first, Interest::Read), (second, Interest::Read)];
        let ready = poll::wait(places, left).map_err(Error::io("wait for the job's output"))?;
        let [ended, a, b] = ready;
        if a {
            read(&mut first, &mut out, &mut buffer);
        }
        if b {
            read(&mut second, &mut err, &mut buffer);
        }
        let due = !over && job.due_in().is_some_and(|d| d.is_zero());
        if (ended || due)
            && let Some(seen) = job.hear()
        {
            end = Some((seen, now().after(DRAIN)));
        }
    }
    let end = match end {
        Some((end, _)) => end,
        None => job.wait()?,
    };
    Ok(Output { end, stdout: out, stderr: err })
}

/// Reads once; the end of the stream takes it out of the loop.
fn read(fd: &mut Option<BorrowedFd<'_>>, into: &mut Captured, buffer: &mut [u8]) {
    let Some(stream) = *fd else { return };
    match socket::read_some(stream, buffer) {
        Ok(Some(bytes)) if !bytes.is_empty() => into.take(bytes),
        Ok(None) => {}
        // The end; a terminal says it by EIO.
        Ok(Some(_)) | Err(_) => *fd = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(keep: usize, pieces: &[&str]) -> Captured {
        let mut c = Captured::new(keep);
        for p in pieces {
            c.take(p.as_bytes());
        }
        c
    }

    #[test]
    fn what_fits_is_kept_whole_whatever_the_pieces() {
        for pieces in [&["abcdefgh"][..], &["abc", "defgh"], &["a", "b", "c", "d", "e", "f", "g", "h"]] {
            let c = captured(8, pieces);
            assert_eq!((c.to_text().as_str(), c.total, c.left_out()), ("abcdefgh", 8, 0));
        }
    }

    #[test]
    fn of_more_the_head_the_tail_and_the_count_are_kept() {
        for pieces in [&["0123456789"][..], &["01234", "56789"], &["0", "12345678", "9"]] {
            let c = captured(4, pieces);
            assert_eq!(c.to_text(), "01\n[6 bytes left out]\n89");
            assert_eq!((c.total, c.left_out()), (10, 6));
        }
    }
}
