//! Reading the output of a service, while it is written.

use super::files::{self, LOG, OLD_LOG, Place};
use crate::error::Result;
use killcord_sys::files as system;
use killcord_sys::os::AsFd;
use std::fs::File;
use std::io;
use std::path::Path;

/// Device and inode.
type Identity = (u64, u64);

/// The output of a service, from the oldest that is kept.
#[derive(Debug)]
pub struct Log {
    place: Place,
    /// What is being read: a log that was put aside is read to its end.
    file: Option<(File, Identity)>,
    /// What comes then, once it is there: nothing is written to the one before it any more.
    next: Option<(File, Identity)>,
    /// Whether something was put aside and removed before it was read.
    missed: bool,
}

/// Opens the output of a service, which may run or may be over.
///
/// # Errors
/// [`crate::Error::NoSuchService`] when there is none of this name.
pub fn logs(state: Option<&Path>, name: &str) -> Result<Log> {
    Ok(Log { place: files::find(state, name)?, file: None, next: None, missed: false })
}

impl Log {
    /// Takes some of the output; an empty answer when there is no more for now.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((file, _)) = &mut self.file {
                let n = io::Read::read(file, buffer)?;
                if n > 0 {
                    return Ok(n);
                }
            }
            // One more look at the one before it, since it has been put aside only after that read.
            if let Some(next) = self.next.take() {
                self.file = Some(next);
            } else if self.find_next()? {
                if self.file.is_none() {
                    self.file = self.next.take();
                }
            } else {
                return Ok(0);
            }
        }
    }

    /// Whether the service still runs, so that more may come.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn goes_on(&self) -> io::Result<bool> {
        self.place.is_held()
    }

    /// Whether some of the output was written and removed faster than it was read. Asking forgets it.
    pub fn has_missed(&mut self) -> bool {
        std::mem::take(&mut self.missed)
    }

    /// Finds the file that comes after the one that is being read.
    fn find_next(&mut self) -> io::Result<bool> {
        // The newer first: if it is put aside between the two, both are the same.
        let (new, old) = (self.open(LOG)?, self.open(OLD_LOG)?);
        let is =
            |file: &Option<(File, Identity)>, known: Identity| matches!(file, Some((_, i)) if *i == known);
        let current = self.file.as_ref().map(|(_, identity)| *identity);
        self.next = match current {
            None => old.or(new),
            Some(current) if is(&new, current) => None,
            Some(current) if is(&old, current) => new,
            Some(_) => {
                let next = old.or(new);
                self.missed |= next.is_some();
                next
            }
        };
        Ok(self.next.is_some())
    }

    fn open(&self, name: &str) -> io::Result<Option<(File, Identity)>> {
        match system::open_own_at(self.place.dir.as_fd(), name.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            file => {
                let file = file?;
                let identity = system::about(file.as_fd())?.identity;
                Ok(Some((file.into(), identity)))
            }
        }
    }
}
