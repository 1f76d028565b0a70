//! The output of a service on disk: bounded, rotated.

use super::files::{LOG, OLD_LOG, Place};
use killcord_sys::files;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::socket;
use std::fs::File;
use std::io::{self, Write};

/// How large the output may grow before it is put aside, in bytes. One that was put aside is kept beside it.
const LARGEST: u64 = 4 * 1024 * 1024;

/// How much is read at once.
const BUFFER: usize = 64 * 1024;
/// So often it is read before its owner looks at anything else again.
const READS: usize = 16;
/// And at the end, when the job is over: a pipe holds 1 MiB at most (`pipe(7)`), unless root has made it larger.
const LAST_READS: usize = 256;

/// Where the service's output comes from, and where it goes.
#[derive(Debug)]
pub(super) struct Writer {
    pipe: OwnedFd,
    buffer: Vec<u8>,
    file: Option<File>,
    written: u64,
    /// How many bytes could not be written, and why the last of them.
    pub(super) lost: Option<(u64, io::ErrorKind)>,
}

impl Writer {
    /// `pipe` must be one that never waits.
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Self { pipe, buffer: Vec::new(), file: None, written: 0, lost: None }
    }

    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Writes some of what is there: a job that never stops writing must not make its owner deaf. Returns whether
    /// more may come.
    pub(super) fn drain(&mut self, place: &Place) -> bool {
        self.read(place, READS)
    }

    /// Writes what is left when the job is over.
    pub(super) fn drain_last(&mut self, place: &Place) {
        self.read(place, LAST_READS);
    }

    fn read(&mut self, place: &Place, times: usize) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(BUFFER, 0);
        let mut more = true;
        for _ in 0..times {
            match socket::read_some(self.pipe.as_fd(), &mut buffer) {
                Ok(Some(data @ [_, ..])) => self.keep(place, data),
                Ok(None) => break,
                Ok(Some([])) | Err(_) => {
                    more = false;
                    break;
                }
            }
        }
        self.buffer = buffer;
        more
    }

    /// The service must not hang on a full disk: what cannot be written is counted and lost.
    fn keep(&mut self, place: &Place, mut data: &[u8]) {
        while !data.is_empty() {
            match self.write(place, data) {
                Ok(n) => data = &data[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let before = self.lost.map_or(0, |(bytes, _)| bytes);
                    self.lost = Some((before + data.len() as u64, e.kind()));
                    return;
                }
            }
        }
    }

    /// Opens the file that is written to.
    pub(super) fn open(&mut self, place: &Place) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = files::append_at(place.dir.as_fd(), LOG.as_ref())?;
            // One that could not be put aside is longer than none.
            self.written = files::about(file.as_fd())?.size;
            self.file = Some(file.into());
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, place: &Place, data: &[u8]) -> io::Result<usize> {
        if self.file.is_some() && self.written + data.len() as u64 > LARGEST {
            self.file = None;
            files::rename_at(place.dir.as_fd(), LOG.as_ref(), OLD_LOG.as_ref())?;
        }
        let n = self.open(place)?.write(data)?;
        self.written += n as u64;
        if n == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(n) }
    }
}
