//! Choices that are made by the first bytes of an input; the rest is what is read.

use std::path::Path;

/// Bytes that are taken from the front. At their end everything is 0 or empty.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn number(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// So many bytes, or what there is.
    pub(crate) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Everything up to this byte, which is passed over.
    pub(crate) fn until(&mut self, end: u8) -> &'a [u8] {
        let taken = self.take(self.0.iter().position(|byte| *byte == end).unwrap_or(self.0.len()));
        let _ = self.byte();
        taken
    }
}

/// A directory of a run's own, in memory where there is such a place: a fuzzer makes and removes thousands a second.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let within = |dir: &Path| tempfile::Builder::new().prefix("killcord-fuzzed-").tempdir_in(dir);
    within(memory).or_else(|_| within(&std::env::temp_dir())).unwrap()
}
