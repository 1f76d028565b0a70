//! What to run, how, and under which limits.

use crate::boundary::{Boundary, Choice};
use crate::id::JobId;
use crate::ladder::{GRACE, Signal};
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What happens to processes that are still there when the leader has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Leftovers {
    /// They get a short drain and then the short ladder.
    #[default]
    End,
    /// They stay until they end by themselves or the owner ends.
    Keep,
    /// They are let go.
    Release,
}

/// Where the leader's session and terminal come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Session {
    /// A session of its own without a terminal.
    Own,
    /// A session of its own whose controlling terminal is descriptor 0 of the job (a pty's slave).
    OwnTerminal,
    /// The owner's session and this process group of it, for a terminal that is already there.
    Shared {
        /// The owner's process group.
        group: u32,
    },
}

/// One resource limit of the leader (`setrlimit(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// The platform's number of the resource (`RLIMIT_*`).
    pub resource: u32,
    /// The soft limit, `None` for infinity.
    pub soft: Option<u64>,
    /// The hard limit, `None` for infinity.
    pub hard: Option<u64>,
}

/// Limits on the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// How many processes and threads at once.
    pub pids: Option<u32>,
    /// Processor time in thousandths of one processor.
    pub cpu: Option<u32>,
}

impl Limits {
    /// Whether no limit is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What to execute and with which attributes. Descriptors travel beside it.
///
/// `L` is what arguments and environment are read as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec<L = Vec<Bytes>> {
    /// The program as it was named; looked up in the `PATH` of `env` when it has no slash.
    #[serde(with = "bytes")]
    pub program: Vec<u8>,
    /// The arguments, the first being the program's own name.
    pub argv: L,
    /// The environment as `NAME=value`.
    pub env: L,
    /// The file mode creation mask; the warden's own otherwise.
    pub umask: Option<u32>,
    /// Resource limits to set.
    pub rlimits: Vec<ResourceLimit>,
    /// The nice value to set.
    pub nice: Option<i32>,
    /// What is added to the owner's `oom_score_adj`, so that the OOM killer prefers the job.
    pub oom_score_adj: i32,
    /// Session and terminal.
    pub session: Session,
    /// The descriptor numbers in the job of those passed beside 0 to 2, in their order.
    pub extra_fds: Vec<u32>,
    /// Whether `TMPDIR` is to name a directory of the job's own, which goes with it.
    pub own_temporary_directory: bool,
    /// Signals that stay ignored in the job; all others are reset (`nohup` in a terminal).
    pub ignored: Vec<Signal>,
}

impl Spec {
    /// In a session of its own, with its standard streams alone, and all else as the owner has it.
    pub fn new(program: Vec<u8>, argv: Vec<Bytes>, env: Vec<Bytes>) -> Self {
        Self {
            program,
            argv,
            env,
            umask: None,
            rlimits: Vec::new(),
            nice: None,
            oom_score_adj: OOM_SCORE_ADJ,
            session: Session::Own,
            extra_fds: Vec::new(),
            own_temporary_directory: true,
            ignored: Vec::new(),
        }
    }
}

/// How much the OOM killer prefers a job to its guards.
pub const OOM_SCORE_ADJ: i32 = 100;

/// When and how a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// How long the job may run.
    pub timeout: Option<Duration>,
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// What happens to leftovers.
    pub leftovers: Leftovers,
}

impl Default for Policy {
    fn default() -> Self {
        Self { timeout: None, grace: GRACE, leftovers: Leftovers::default() }
    }
}

/// A job as the owner asks the warden for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request<L = Vec<Bytes>> {
    /// The job's name.
    pub job: JobId,
    /// What to execute.
    pub spec: Spec<L>,
    /// When and how it ends.
    pub policy: Policy,
    /// Limits on the whole.
    pub limits: Limits,
    /// The boundary to use.
    pub boundary: Choice,
    /// The weakest boundary that will do.
    pub require: Option<Boundary>,
    /// Whether to start nothing before [`crate::wire::Order::Go`].
    pub wait_for_go: bool,
}

/// Bytes that a system call takes: no text encoding is assumed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bytes(#[serde(with = "bytes")] pub Vec<u8>);

/// Arguments or an environment that was read over: the warden passes them on, and a copy of each string would be a page
/// that it and the keeper it forks next no longer share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'de> Visitor<'de> for Strings {
            type Value = Unread;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("runs of bytes")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unread, A::Error> {
                while seq.next_element::<&'de [u8]>()?.is_some() {}
                Ok(Unread)
            }
        }
        d.deserialize_seq(Strings)
    }
}

/// Serde for byte strings: as one run of bytes instead of a sequence of numbers.
mod bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    pub(super) fn serialize<S: Serializer>(value: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        struct Run;
        impl Visitor<'_> for Run {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a run of bytes")
            }
            fn visit_bytes<E: Error>(self, v: &[u8]) -> Result<Vec<u8>, E> {
                Ok(v.to_vec())
            }
        }
        d.deserialize_bytes(Run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn one_limit_is_enough_for_limits_to_be_there() {
        let none = Limits::default();
        assert!(none.is_empty());
        for some in [
            Limits { memory: Some(1), ..none },
            Limits { pids: Some(1), ..none },
            Limits { cpu: Some(1), ..none },
        ] {
            assert!(!some.is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_text_go_over_the_wire_as_they_are() {
        let spec = Spec::new(vec![0xff, 0], vec![Bytes(vec![0xfe])], vec![Bytes(b"A=\xff".to_vec())]);
        let sent = wire::encode(&spec).unwrap();
        assert_eq!(wire::decode::<Spec>(&sent), Ok(spec));
        // Where they stand is said by whoever reads something else there.
        let text = serde_json::from_str::<Bytes>("7").unwrap_err().to_string();
        assert!(text.contains("a run of bytes"), "{text}");
    }
}
