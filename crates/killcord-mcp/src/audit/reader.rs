//! The reading end: records as they stand, from all chains, and those that come.

use super::verify::{VerifyError, chains};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// One record.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The line as it stands in the file.
    pub line: String,
    /// Its members; none where it is no JSON object.
    pub members: Map<String, Value>,
}

impl Entry {
    /// A member that is a text, or nothing.
    pub fn text(&self, name: &str) -> &str {
        self.members.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A member that is a whole number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.members.get(name).and_then(Value::as_i64)
    }
}

/// Reads a log, and goes on where it was.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    positions: BTreeMap<PathBuf, u64>,
}

impl Reader {
    /// Of a directory or of a file.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), positions: BTreeMap::new() }
    }

    /// The records that were not read yet, by their time; those of one chain stay in their order as long as the clock
    /// goes forward. A line without its newline is left for the next time.
    ///
    /// # Errors
    /// [`VerifyError`] when something could not be read.
    pub fn read(&mut self) -> Result<Vec<Entry>, VerifyError> {
        let mut entries = Vec::new();
        for path in chains(&self.path)?.into_values().flat_map(BTreeMap::into_values) {
            let failed = |source| VerifyError { path: path.clone(), source };
            let mut file = match File::open(&path) {
                // Rotated away since its name was read.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && path != self.path => continue,
                opened => opened.map_err(failed)?,
            };
            let from = self.positions.entry(path.clone()).or_default();
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(*from)).map_err(failed)?;
            file.read_to_end(&mut bytes).map_err(failed)?;
            let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            *from += end as u64;
            for line in bytes[..end].split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
                let members = serde_json::from_slice(line).unwrap_or_default();
                entries.push(Entry { line: String::from_utf8_lossy(line).into_owned(), members });
            }
        }
        entries.sort_by(|a, b| a.text("time").cmp(b.text("time")));
        Ok(entries)
    }
}
