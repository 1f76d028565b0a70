//! The writing end: one chain, one writer, one `write(2)` for each record.
//!
//! Nothing is synced to the disk record by record: a record survives the end of this process at once, and a loss of
//! power only once the kernel has written it. What a full disk cut off is taken back; what a loss of power cut off
//! stays, and the next server says so in the first record of a new file.

use super::chain::{self, Found};
use super::directory::{Directory, file_name};
use super::event::{About, Event, Record};
use super::time::rfc3339;
use crate::config;
use killcord_sys::files;
use killcord_sys::os::{AsFd, OwnedFd};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// More than any record is long.
const WINDOW: u64 = 512 * 1024;

/// Why something was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The directory cannot be trusted or used.
    #[error("the audit directory {} cannot be used: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What the system said.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
}

impl AuditError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

/// What the log has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that were written.
    pub written: u64,
    /// Records that could not be written.
    pub failed: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// The log of one server. To be shared between threads; one of them writes at a time.
#[derive(Debug)]
pub struct Log {
    config: config::Audit,
    directory: PathBuf,
    server: String,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sink: Sink,
    counters: Counters,
    /// Records that could not be written since the last that could: the next one says so.
    lost: u64,
    /// The first failure, until somebody has fetched it.
    first_failure: Option<String>,
}

/// Whether there is a file to write to.
#[derive(Debug, Default)]
enum Sink {
    /// Nothing is recorded, by configuration.
    Off,
    /// There was none yet.
    #[default]
    Closed,
    /// There was one, which had come so far. Its chain is still this server's.
    Left(Position, Arc<OwnedFd>),
    Open(Box<Chain>),
}

/// Where a chain has come to.
#[derive(Debug, Clone)]
struct Position {
    chain: u32,
    number: u64,
    seq: u64,
    prev: String,
}

/// A chain that this server has.
#[derive(Debug)]
struct Chain {
    directory: Directory,
    /// Held for as long as the chain is.
    lock: Arc<OwnedFd>,
    file: File,
    size: u64,
    at: Position,
}

/// How the newest file of a chain was found.
#[derive(Default)]
struct Tail {
    /// Sequence number and hash of its last intact record.
    last: Option<(u64, String)>,
    size: u64,
    /// What stands after its last newline.
    cut: Vec<u8>,
    /// The last whole line is no intact record.
    damaged: bool,
}

impl Log {
    /// Opens the log. Where it need not be, a directory that cannot be used is a failure like any later one: it is
    /// counted, reported once, and tried again with the next record.
    ///
    /// # Errors
    /// [`AuditError`], only if the log is required.
    pub fn open(config: &config::Audit) -> Result<Self, AuditError> {
        let mut random = [0u8; 8];
        let directory = config.directory();
        killcord_sys::random::fill(&mut random).map_err(AuditError::io("name a server for", &directory))?;
        let server = chain::hex(&random);
        let sink = if config.enabled { Sink::Closed } else { Sink::Off };
        let inner = Mutex::new(Inner { sink, ..Inner::default() });
        let log = Self { config: config.clone(), directory, server, inner };
        if config.enabled
            && let Err(e) = log.with_chain(SystemTime::now(), |_| Ok(()))
            && config.required
        {
            return Err(e);
        }
        Ok(log)
    }

    /// Whether a call must be refused when it cannot be recorded.
    pub fn is_required(&self) -> bool {
        self.config.enabled && self.config.required
    }

    /// The name of this server in its records.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Where the records are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes one record.
    ///
    /// # Errors
    /// [`AuditError`]. Whether the call goes on is for [`Log::is_required`] to say.
    pub fn record(&self, event: Event) -> Result<(), AuditError> {
        self.record_at(event, SystemTime::now())
    }

    /// Writes one record of this time.
    ///
    /// # Errors
    /// As [`Log::record`].
    pub fn record_at(&self, event: Event, now: SystemTime) -> Result<(), AuditError> {
        if !self.config.enabled {
            return Ok(());
        }
        // What takes long is done before the lock.
        let (event, about) = event.into_about();
        self.with_chain(now, |go| go.append(event, about))
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// The first failure, once.
    pub fn take_first_failure(&self) -> Option<String> {
        self.lock().first_failure.take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Whoever panicked has left a chain that is checked against its file before the next write.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with an open chain, and keeps count.
    fn with_chain(
        &self,
        now: SystemTime,
        then: impl FnOnce(&mut Go<'_>) -> Result<(), AuditError>,
    ) -> Result<(), AuditError> {
        let mut inner = self.lock();
        let mut sink = std::mem::take(&mut inner.sink);
        let lost = inner.lost;
        let mut counters = Counters::default();
        let done = (|| {
            let mut go = Go { log: self, now: rfc3339(now), lost, counters: &mut counters, sink: &mut sink };
            go.ready()?;
            then(&mut go)
        })();
        inner.sink = sink;
        inner.counters.written += counters.written;
        inner.counters.bytes += counters.bytes;
        if counters.written > 0 {
            inner.lost = 0;
        }
        if let Err(e) = &done {
            if inner.counters.failed == 0 {
                inner.first_failure = Some(e.to_string());
            }
            inner.counters.failed += 1;
            inner.lost += 1;
        }
        done
    }
}

/// One turn at the chain.
struct Go<'a> {
    log: &'a Log,
    now: String,
    /// Still to be said in a record.
    lost: u64,
    counters: &'a mut Counters,
    sink: &'a mut Sink,
}

/// What the first record of a file says beside what every record says.
#[derive(Default)]
struct First {
    file: Option<u64>,
    cut: Option<Vec<u8>>,
}

impl Go<'_> {
    /// Sees to it that there is an open chain, whose file is as it was left.
    fn ready(&mut self) -> Result<(), AuditError> {
        let left = match std::mem::take(self.sink) {
            Sink::Off => {
                *self.sink = Sink::Off;
                return Ok(());
            }
            Sink::Open(chain) if chain.is_as_it_was() => {
                *self.sink = Sink::Open(chain);
                return Ok(());
            }
            // Somebody has cut, removed or continued the file: what this server knows goes on in a new one.
            Sink::Open(chain) => Some((chain.at.clone(), Arc::clone(&chain.lock))),
            Sink::Left(at, lock) => Some((at, lock)),
            Sink::Closed => None,
        };
        if let Some((at, lock)) = left.clone() {
            *self.sink = Sink::Left(at, lock);
        }
        self.open(left)
    }

    fn open(&mut self, left: Option<(Position, Arc<OwnedFd>)>) -> Result<(), AuditError> {
        let directory = Directory::open(&self.log.directory)?;
        // The lock is never let go in between: a child that is just being started may have a copy of it, which would
        // keep this server from its own chain.
        let left = left.filter(|(at, lock)| directory.has_lock(at.chain, lock));
        let (chain, lock) = match &left {
            Some((at, lock)) => (at.chain, Arc::clone(lock)),
            None => directory.take_chain().map(|(chain, lock)| (chain, Arc::new(lock)))?,
        };
        let left = left.map(|(at, _)| at);
        let numbers = directory.numbers(chain)?;
        let newest = numbers.last().copied();
        let mut tail = Tail::default();
        // The newest file may have no intact record at all; then an older one has the last.
        for number in numbers.iter().rev() {
            let found = read_tail(&directory, chain, *number)?;
            if Some(*number) == newest {
                tail = found;
            } else {
                tail.last = found.last;
            }
            if tail.last.is_some() {
                break;
            }
        }
        let (seq, prev) = match (&left, tail.last.take()) {
            (Some(at), _) => (at.seq, at.prev.clone()),
            (None, Some((seq, hash))) => (seq, hash),
            (None, None) => (0, chain::NONE.to_owned()),
        };
        let number = newest.unwrap_or(0).max(left.as_ref().map_or(0, |at| at.number));
        let at = Position { chain, number, seq, prev };
        // An empty one is of a server that ended before its first record.
        let is_empty = newest == Some(number) && tail.size == 0;
        let is_whole = left.is_none() && tail.cut.is_empty() && !tail.damaged && newest.is_some();
        let event = if newest.is_none() && left.is_none() || is_whole { "opened" } else { "recovered" };
        if is_empty || is_whole {
            let name = file_name(chain, number);
            let path = directory.file_path(chain, number);
            let file =
                files::append_at(directory.fd.as_fd(), &name).map_err(AuditError::io("open", &path))?;
            let mut open = Chain { directory, lock, file: file.into(), size: tail.size, at };
            let first = First { file: (tail.size == 0).then_some(number), cut: None };
            self.write(&mut open, event, About::server(), first)?;
            *self.sink = Sink::Open(Box::new(open));
            return Ok(());
        }
        let cut = (!tail.cut.is_empty()).then_some(tail.cut);
        let (file, size, at) = self.new_file(&directory, at, event, cut)?;
        *self.sink = Sink::Open(Box::new(Chain { directory, lock, file, size, at }));
        Ok(())
    }

    /// Makes the next file with its first record, or no file at all; then removes the oldest.
    fn new_file(
        &mut self,
        directory: &Directory,
        mut at: Position,
        event: &'static str,
        cut: Option<Vec<u8>>,
    ) -> Result<(File, u64, Position), AuditError> {
        at.number += 1;
        let name = file_name(at.chain, at.number);
        let path = directory.file_path(at.chain, at.number);
        let file = files::make_file_at(directory.fd.as_fd(), &name)
            .and_then(|_| files::append_at(directory.fd.as_fd(), &name))
            .map_err(AuditError::io("make", &path))?;
        let (mut file, mut size) = (File::from(file), 0);
        let first = First { file: Some(at.number), cut };
        if let Err(e) = self.write_to(&mut file, &mut size, &mut at, &path, (event, About::server(), first)) {
            // A file without a first record is of no use; if it cannot be removed, it is empty and is gone on with.
            let _ = files::unlink_at(directory.fd.as_fd(), &name);
            return Err(e);
        }
        for old in directory.numbers(at.chain)? {
            if old + self.log.config.files <= at.number {
                // One that cannot be removed now is tried again with the next.
                let _ = files::unlink_at(directory.fd.as_fd(), &file_name(at.chain, old));
            }
        }
        Ok((file, size, at))
    }

    /// Appends a record, in a new file if this one has no room.
    fn append(&mut self, event: &'static str, about: About) -> Result<(), AuditError> {
        let Sink::Open(mut chain) = std::mem::take(self.sink) else { return Ok(()) };
        if chain.size >= self.log.config.max_bytes {
            match self.new_file(&chain.directory, chain.at.clone(), "rotated", None) {
                Ok((file, size, at)) => (chain.file, chain.size, chain.at) = (file, size, at),
                Err(e) => {
                    *self.sink = Sink::Open(chain);
                    return Err(e);
                }
            }
        }
        let written = self.write(&mut chain, event, about, First::default());
        // A file that could not be brought back to what it was is left; the next record begins another.
        *self.sink = if chain.is_as_it_was() { Sink::Open(chain) } else { Sink::Left(chain.at, chain.lock) };
        written
    }

    fn write(
        &mut self,
        c: &mut Chain,
        event: &'static str,
        about: About,
        first: First,
    ) -> Result<(), AuditError> {
        let path = c.directory.file_path(c.at.chain, c.at.number);
        self.write_to(&mut c.file, &mut c.size, &mut c.at, &path, (event, about, first))
    }

    /// The line of a record with its newline, and its hash.
    fn line(&self, at: &Position, event: &'static str, about: &About, first: &First) -> (String, String) {
        let record = Record {
            seq: at.seq + 1,
            time: self.now.clone(),
            event,
            server: &self.log.server,
            about: about.clone(),
            file: first.file,
            cut_bytes: first.cut.as_ref().map(|cut| cut.len() as u64),
            cut_sha256: first.cut.as_ref().map(|cut| chain::sha256(cut)),
            lost: self.lost,
            prev: &at.prev,
        };
        // Strings, numbers and JSON values can always be written.
        let (mut line, hash) = chain::seal(&serde_json::to_string(&record).unwrap_or_default());
        line.push('\n');
        (line, hash)
    }

    /// One `write(2)`. What came through of it in vain is taken back.
    fn write_to(
        &mut self,
        file: &mut File,
        size: &mut u64,
        at: &mut Position,
        path: &Path,
        (event, about, first): (&'static str, About, First),
    ) -> Result<(), AuditError> {
        let (line, hash) = self.line(at, event, &about, &first);
        let written = loop {
            match file.write(line.as_bytes()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(n) if n < line.len() => {
                    // Why there was room for a part only is what the system says to the rest.
                    let why = file.write(&line.as_bytes()[n..]).err();
                    break Err(why.unwrap_or_else(|| io::ErrorKind::WriteZero.into()));
                }
                done => break done.map(|_| ()),
            }
        };
        if let Err(e) = written {
            // If it cannot be taken back, the size shows it before the next record.
            let _ = file.set_len(*size);
            return Err(AuditError::io("write to", path)(e));
        }
        *size += line.len() as u64;
        (at.seq, at.prev) = (at.seq + 1, hash);
        self.lost = 0;
        self.counters.written += 1;
        self.counters.bytes += line.len() as u64;
        Ok(())
    }
}

impl Chain {
    /// Whether the file still has a name, and ends where the last record did.
    fn is_as_it_was(&self) -> bool {
        files::about(self.file.as_fd()).is_ok_and(|about| about.links > 0 && about.size == self.size)
    }
}

/// Reads the end of a file.
fn read_tail(directory: &Directory, chain: u32, number: u64) -> Result<Tail, AuditError> {
    let path = directory.file_path(chain, number);
    let file = files::open_own_at(directory.fd.as_fd(), &file_name(chain, number));
    let mut file = File::from(file.map_err(AuditError::io("open", &path))?);
    let read = (|| {
        let size = file.seek(SeekFrom::End(0))?;
        let mut window = WINDOW;
        loop {
            let from = size.saturating_sub(window);
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            (&mut file).take(size - from).read_to_end(&mut bytes)?;
            // Without a newline nothing is known yet about what is cut.
            if from == 0 || bytes[1..].contains(&b'\n') {
                return Ok(tail_of(&bytes, from == 0, size));
            }
            window = window.saturating_mul(8);
        }
    })();
    read.map_err(AuditError::io("read", &path))
}

fn tail_of(bytes: &[u8], whole: bool, size: u64) -> Tail {
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut lines: Vec<&[u8]> = bytes[..end].split(|b| *b == b'\n').collect();
    // Behind the last newline is nothing; before the first of a window may be half a line.
    lines.pop();
    if !whole && !lines.is_empty() {
        lines.remove(0);
    }
    let mut tail = Tail { size, cut: bytes[end..].to_vec(), ..Tail::default() };
    for line in lines.iter().rev() {
        if let Found::Intact(head) = chain::read(line) {
            tail.last = Some((head.seq, head.hash));
            break;
        }
        tail.damaged = true;
    }
    tail
}
