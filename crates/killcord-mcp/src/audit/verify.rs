//! The checking end: every byte of a chain is looked at.

use super::chain::{self, Found, Head};
use super::directory::parse_name;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So many problems are named; more are counted.
const NAMED: usize = 100;
/// How often files may vanish while they are being looked at.
const ATTEMPTS: u32 = 10;
/// How long a writer may be in the middle of a record.
const WRITING: Duration = Duration::from_millis(50);

/// The log could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}: {source}", path.display())]
pub struct VerifyError {
    /// What could not be read.
    pub path: PathBuf,
    /// The system's own words.
    pub source: io::Error,
}

/// What was found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Each chain, in the order of their numbers.
    pub chains: Vec<ChainReport>,
    /// What is wrong, of which at most a hundred are named.
    pub problems: Vec<Problem>,
    /// How many there are.
    pub problem_count: usize,
    /// Whether a record has the hash that was expected, where one was.
    pub expected_found: Option<bool>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.problem_count == 0 && self.expected_found != Some(false)
    }
}

/// One chain.
#[derive(Debug, Clone, Serialize)]
pub struct ChainReport {
    /// Its files, the oldest first.
    pub files: Vec<PathBuf>,
    /// How many lines were read as records.
    pub records: u64,
    /// Where it begins.
    pub begins: Begins,
    /// The sequence number of its last record.
    pub last_seq: u64,
    /// The hash of its last record: noted elsewhere, it shows later that nothing was cut off.
    pub last_hash: String,
    /// How often a record that was cut by a failure was closed by the next server.
    pub recovered: u64,
}

/// Where a chain begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Begins {
    /// With the first record that was ever written to it.
    AtTheFirst,
    /// With the oldest file that is still there; older ones were removed, by rotation or by somebody.
    WithTheOldestFile,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What kind of wrong.
    pub kind: Kind,
    /// In words.
    pub what: String,
}

/// What kind of wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Its bytes are not those that were hashed.
    Changed,
    /// It is no record of this log.
    Foreign,
    /// Records before it are missing.
    Missing,
    /// It stands where another belongs: moved, repeated or inserted.
    OutOfPlace,
    /// It does not name the hash of the record before.
    Unlinked,
    /// It ends without a newline.
    Cut,
}

/// Checks a directory with all its chains, or one file by itself.
///
/// # Errors
/// [`VerifyError`] when something could not be read.
pub fn verify(path: &Path, expect: Option<&str>) -> Result<Report, VerifyError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match once(path, expect) {
            // A server that runs may have removed its oldest file since the names were read.
            Err(e) if e.source.kind() == io::ErrorKind::NotFound && e.path != path && attempts < ATTEMPTS => {
            }
            done => return done,
        }
    }
}

fn once(path: &Path, expect: Option<&str>) -> Result<Report, VerifyError> {
    let mut check = Check { expect, ..Check::default() };
    for files in chains(path)?.into_values() {
        check.chain(&files)?;
    }
    let mut report = check.report;
    report.expected_found = expect.map(|_| check.found);
    Ok(report)
}

/// Chains by number, each with the paths of its files by theirs.
pub(super) type Chains = BTreeMap<u32, BTreeMap<u64, PathBuf>>;

/// The chains of a directory; a file is a chain by itself, under the number that its name gives, or none.
pub(super) fn chains(path: &Path) -> Result<Chains, VerifyError> {
    let failed = |source| VerifyError { path: path.to_owned(), source };
    let mut chains = Chains::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A directory, a link or a FIFO of such a name is nothing that a server made.
            if let Some((chain, number)) = parse_name(&entry.file_name())
                && entry.file_type().map_err(failed)?.is_file()
            {
                chains.entry(chain).or_default().insert(number, entry.path());
            }
        }
    } else {
        // One that is not there is told as such.
        std::fs::metadata(path).map_err(failed)?;
        let (chain, number) = path.file_name().and_then(parse_name).unwrap_or((0, 0));
        chains.entry(chain).or_default().insert(number, path.to_owned());
    }
    Ok(chains)
}

#[derive(Default)]
struct Check<'a> {
    expect: Option<&'a str>,
    found: bool,
    report: Report,
}

/// What the next record has to go on from.
#[derive(Default)]
struct Before {
    /// Sequence number and hash, as the last record says them.
    last: Option<(u64, String)>,
    /// What stands behind the last newline of the file before.
    cut: Option<(PathBuf, u64, Vec<u8>)>,
    number: Option<u64>,
    /// Whether the file that is read now has one before it.
    has_file: bool,
}

impl Check<'_> {
    fn wrong(&mut self, file: &Path, line: u64, kind: Kind, what: impl Into<String>) {
        self.report.problem_count += 1;
        if self.report.problems.len() < NAMED {
            self.report.problems.push(Problem { file: file.to_owned(), line, kind, what: what.into() });
        }
    }

    fn chain(&mut self, files: &BTreeMap<u64, PathBuf>) -> Result<(), VerifyError> {
        let begins =
            if files.keys().next() == Some(&1) { Begins::AtTheFirst } else { Begins::WithTheOldestFile };
        let mut chain = ChainReport {
            files: files.values().cloned().collect(),
            records: 0,
            begins,
            last_seq: 0,
            last_hash: chain::NONE.to_owned(),
            recovered: 0,
        };
        let mut before = Before::default();
        let newest = files.keys().next_back().copied();
        for (number, path) in files {
            self.file(*number, path, &mut before, &mut chain, Some(*number) == newest)?;
        }
        if let Some((path, line, cut)) = before.cut {
            let what = format!("the last record is cut: {} bytes without a newline", cut.len());
            self.wrong(&path, line, Kind::Cut, what);
        }
        if let Some((seq, hash)) = before.last {
            (chain.last_seq, chain.last_hash) = (seq, hash);
        }
        self.report.chains.push(chain);
        Ok(())
    }

    fn file(
        &mut self,
        number: u64,
        path: &Path,
        before: &mut Before,
        chain: &mut ChainReport,
        newest: bool,
    ) -> Result<(), VerifyError> {
        let failed = |source| VerifyError { path: path.to_owned(), source };
        if let Some(last) = before.number
            && number != last + 1
        {
            self.wrong(
                path,
                0,
                Kind::Missing,
                format!("the files {} to {} are missing", last + 1, number - 1),
            );
        }
        before.has_file = before.number.replace(number).is_some();
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let (mut line, mut count) = (Vec::new(), 0);
        loop {
            line.clear();
            if file.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                break;
            }
            if newest && !line.ends_with(b"\n") {
                // A server may be in the middle of writing this line.
                std::thread::sleep(WRITING);
                file.read_until(b'\n', &mut line).map_err(failed)?;
            }
            count += 1;
            if line.ends_with(b"\n") {
                line.pop();
                self.record(&line, (number, path, count), before, chain);
            } else {
                self.settle_cut(None, path, before);
                before.cut = Some((path.to_owned(), count, std::mem::take(&mut line)));
            }
        }
        if count == 0 && !newest {
            self.wrong(path, 0, Kind::Missing, "the file is empty");
        }
        Ok(())
    }

    /// What the file before ended with has to be what the first record of this one says of it.
    fn settle_cut(&mut self, head: Option<&Head>, path: &Path, before: &mut Before) -> bool {
        let said = head.and_then(|head| head.cut_bytes.zip(head.cut_sha256.as_deref()));
        match (before.cut.take(), said) {
            (None, None) => false,
            (Some((_, _, cut)), Some((bytes, hash)))
                if cut.len() as u64 == bytes && chain::sha256(&cut) == hash =>
            {
                true
            }
            (Some((file, line, cut)), _) => {
                let what = format!("the record is cut: {} bytes without a newline", cut.len());
                self.wrong(&file, line, Kind::Cut, what);
                false
            }
            (None, Some(_)) if !before.has_file => false,
            (None, Some((bytes, _))) => {
                let what =
                    format!("it says that {bytes} bytes of a cut record stand before it, which are missing");
                self.wrong(path, 1, Kind::Missing, what);
                false
            }
        }
    }

    fn record(
        &mut self,
        line: &[u8],
        (number, path, count): (u64, &Path, u64),
        before: &mut Before,
        chain: &mut ChainReport,
    ) {
        let head = match chain::read(line) {
            Found::Foreign => {
                self.settle_cut(None, path, before);
                self.wrong(path, count, Kind::Foreign, "not a record of this log");
                return;
            }
            Found::Changed(head) => {
                let what = format!("record {} was changed: its hash is not that of its bytes", head.seq);
                self.wrong(path, count, Kind::Changed, what);
                head
            }
            Found::Intact(head) => head,
        };
        chain.records += 1;
        if count == 1 {
            chain.recovered += u64::from(self.settle_cut(Some(&head), path, before));
        }
        self.place(&head, (number, path, count));
        if let Some((kind, what)) = unlinked(&head, before.last.as_ref(), number) {
            self.wrong(path, count, kind, what);
        }
        self.found |= self.expect.is_some_and(|hash| hash.eq_ignore_ascii_case(&head.hash));
        before.last = Some((head.seq, head.hash));
    }

    /// The first record of a file, and no other, says that it is, and of which.
    fn place(&mut self, head: &Head, (number, path, count): (u64, &Path, u64)) {
        // By itself a file has the number 0, and may be any.
        let is_first = head.file.is_some();
        if is_first != (count == 1) || (number > 0 && head.file.is_some_and(|file| file != number)) {
            let what = match head.file {
                Some(file) => format!("record {} is the first of file {file}", head.seq),
                None => format!("record {} is not the first of its file", head.seq),
            };
            self.wrong(path, count, Kind::OutOfPlace, what);
        }
    }
}

/// What is wrong between a record and the one before it, if something is.
fn unlinked(head: &Head, last: Option<&(u64, String)>, number: u64) -> Option<(Kind, String)> {
    match last {
        None if number == 1 && (head.seq != 1 || head.prev != chain::NONE) => {
            let what = format!("the chain begins with record {}: those before it are missing", head.seq);
            Some((Kind::Missing, what))
        }
        Some((seq, _)) if head.seq > seq + 1 => Some((
            Kind::Missing,
            match head.seq - seq - 1 {
                1 => format!("record {} is missing", seq + 1),
                _ => format!("records {} to {} are missing", seq + 1, head.seq - 1),
            },
        )),
        Some((seq, _)) if head.seq <= *seq => {
            let what = format!("record {} stands behind record {seq}: moved, repeated or inserted", head.seq);
            Some((Kind::OutOfPlace, what))
        }
        Some((seq, hash)) if head.prev != *hash => {
            let what =
                format!("record {} does not go on from record {seq}: one of them was replaced", head.seq);
            Some((Kind::Unlinked, what))
        }
        None | Some(_) => None,
    }
}
