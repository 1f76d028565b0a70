//! What can be configured, with its defaults.

use killcord_model::boundary::{Boundary, Choice};
use killcord_model::spec::Leftovers;
use regex::Regex;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Config {
    /// One command: `shell_run`.
    pub run: Run,
    /// Limits on each job.
    pub limits: Limits,
    /// Terminal sessions.
    pub sessions: Sessions,
    /// Calls of a client.
    pub calls: Calls,
    /// What jobs find in their environment.
    pub environment: Environment,
    /// What is refused.
    pub policy: Policy,
    /// The audit log.
    pub audit: Audit,
    /// What the server says about itself.
    pub log: Log,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// A command is ended after so many seconds, unless the call says another time.
    pub timeout_s: u64,
    /// A call is answered after so many seconds, with what there is.
    pub yield_s: u64,
    /// An answer has at most so many characters of output.
    pub max_chars: u64,
    /// What becomes of what a command leaves running.
    #[serde(serialize_with = "leftovers")]
    pub leftovers: Leftovers,
    /// The seconds between TERM and KILL.
    pub grace_s: u64,
    /// What holds a job.
    #[serde(serialize_with = "choice")]
    pub boundary: Choice,
    /// Nothing is started with a weaker boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require: Option<Boundary>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            timeout_s: 120,
            yield_s: 30,
            max_chars: 24_000,
            leftovers: Leftovers::End,
            grace_s: 5,
            boundary: Choice::Auto,
            require: None,
        }
    }
}

/// Limits on each job.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Limits {
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes and threads at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Processor time, in thousandths of one processor.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "processors")]
    pub cpu: Option<u32>,
}

/// Terminal sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sessions {
    /// So many at once.
    pub max: u64,
    /// A session that nobody has used for so many seconds is ended.
    pub idle_s: u64,
    /// A session is ended after so many seconds in any case.
    pub absolute_s: u64,
    /// Exit and output are kept for so many seconds after the end.
    pub kept_s: u64,
    /// So many bytes of output are kept for each session.
    pub buffer_bytes: u64,
    /// The width of a new terminal.
    pub columns: u16,
    /// Its height.
    pub rows: u16,
    /// What a session without a command runs; by default the user's own shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<PathBuf>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            max: 32,
            idle_s: 1800,
            absolute_s: 86_400,
            kept_s: 600,
            buffer_bytes: 1 << 20,
            columns: 120,
            rows: 30,
            shell: None,
        }
    }
}

/// Calls of a client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calls {
    /// So many are worked on at once; the others wait in order.
    pub at_once: u64,
    /// A message of a client is at most so long.
    pub max_line_bytes: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Self { at_once: 16, max_line_bytes: 4 << 20 }
    }
}

/// What jobs find in their environment.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Environment {
    /// Variables of the server that jobs get beside those that every job gets.
    pub pass: Vec<Pass>,
    /// Variables with values of their own.
    pub set: BTreeMap<String, String>,
}

/// A variable's name, or what the names of several begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// This one.
    Name(String),
    /// All that begin so: `PREFIX_*`.
    Prefix(String),
}

impl Pass {
    /// Whether a variable is meant.
    pub fn covers(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl Serialize for Pass {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What is refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Policy {
    /// Commands in which one of these is found are refused.
    pub deny: Vec<Pattern>,
    /// Every tool that starts or writes something is refused.
    pub read_only: bool,
}

impl Policy {
    /// The pattern because of which a command is refused. It is looked for in the command as it was given: a guard
    /// rail for an agent that errs, and no wall against one that wants through. A shell has many spellings for one
    /// thing.
    pub fn denied(&self, command: &str) -> Option<&str> {
        self.deny.iter().find(|pattern| pattern.0.is_match(command)).map(|pattern| pattern.0.as_str())
    }
}

/// A regular expression.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.as_str())
    }
}

/// The audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// Whether there is one.
    pub enabled: bool,
    /// Where it is; `None` is [`super::default_audit_directory`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// A file is closed, and the next one begun, when it has reached so many bytes.
    pub max_bytes: u64,
    /// So many files of each chain are kept.
    pub files: u64,
    /// Whether a call that cannot be recorded is refused.
    pub required: bool,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, directory: None, max_bytes: 16 << 20, files: 8, required: false }
    }
}

impl Audit {
    /// Where it is.
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(super::default_audit_directory)
    }
}

/// What the server says about itself, on standard error.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Log {
    /// How much.
    pub level: Level,
}

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What failed.
    Error,
    /// What is odd, too.
    #[default]
    Warn,
    /// Each call.
    Info,
    /// What helps to find out why.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The word in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

pub(super) const LEFTOVERS: [(&str, Leftovers); 3] =
    [("end", Leftovers::End), ("keep", Leftovers::Keep), ("release", Leftovers::Release)];

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference to the field")]
fn leftovers<S: Serializer>(policy: &Leftovers, to: S) -> Result<S::Ok, S::Error> {
    let word = LEFTOVERS.iter().find(|(_, p)| p == policy).map(|(word, _)| *word);
    to.serialize_str(word.ok_or_else(|| S::Error::custom("a policy without a word"))?)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference to the field")]
fn choice<S: Serializer>(choice: &Choice, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match choice {
        Choice::Auto => "auto",
        Choice::Exactly(boundary) => boundary.name(),
    })
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde gives a reference to the field"
)]
fn processors<S: Serializer>(thousandths: &Option<u32>, to: S) -> Result<S::Ok, S::Error> {
    match thousandths {
        Some(n) => to.serialize_f64(f64::from(*n) / 1000.0),
        None => to.serialize_none(),
    }
}

/// The effective values as TOML.
#[derive(Debug)]
pub struct Shown<'a>(pub &'a Config);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path that is no Unicode cannot have come from a file, which is.
        f.write_str(&toml::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}
