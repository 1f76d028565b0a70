//! The output of a service on disk: bounded, rotated.

use super::files::{LOG, OLD_LOG, Place};
use killcord_sys::files;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::socket;
use std::fs::File;
use std::io::{self, Write};

/// How large the output may grow before it is put aside, in bytes. One that was put aside is kept beside it.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Where the service's output comes from, and where it goes.
#[derive(Debug)]
pub(super) struct Writer {
    pipe: OwnedFd,
    file: Option<File>,
    written: u64,
    /// How many bytes could not be written, and why the last of them.
    pub(super) lost: Option<(u64, io::ErrorKind)>,
}

impl Writer {
    /// `pipe` must be one that never waits.
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Self { pipe, file: None, written: 0, lost: None }
    }

    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Writes what is there. Returns whether more may come.
    pub(super) fn drain(&mut self, place: &Place) -> bool {
        let mut buffer = vec![0u8; 64 * 1024];
        loop {
            match socket::read_some(self.pipe.as_fd(), &mut buffer) {
                Ok(Some([])) | Err(_) => return false,
                Ok(None) => return true,
                Ok(Some(data)) => {
                    // The service must not hang on a full disk.
                    if let Err(e) = self.write(place, data) {
                        let before = self.lost.map_or(0, |(bytes, _)| bytes);
                        self.lost = Some((before + data.len() as u64, e.kind()));
                    }
                }
            }
        }
    }

    fn write(&mut self, place: &Place, data: &[u8]) -> io::Result<()> {
        if self.file.is_some() && self.written + data.len() as u64 > LARGEST {
            self.file = None;
            self.written = 0;
            files::rename_at(place.dir.as_fd(), LOG.as_ref(), OLD_LOG.as_ref())?;
        }
        if self.file.is_none() {
            self.file = Some(files::append_at(place.dir.as_fd(), LOG.as_ref())?.into());
        }
        if let Some(file) = &mut self.file {
            file.write_all(data)?;
            self.written += data.len() as u64;
        }
        Ok(())
    }
}
