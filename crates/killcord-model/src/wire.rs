//! The messages between owner, warden and keeper, and how they stand in a datagram.
//!
//! A datagram is one version byte and one message in postcard's encoding. Descriptors travel beside
//! it (`SCM_RIGHTS`, `unix(7)`), in the order that each message states. Both ends are usually the same
//! executable; a program that links the library may meet an installed warden of another version, which
//! is what the version byte is for.

use crate::boundary::Boundary;
use crate::id::JobId;
use crate::ladder::{Ladder, Signal};
use crate::spec::{Bytes, Request};
use crate::status::ExitStatus;
use crate::verdict::{End, Verdict};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version of everything in this module.
pub const VERSION: u8 = 1;

/// The largest datagram that is sent as such; a larger message goes in a sealed memory file.
pub const LARGEST_DATAGRAM: usize = 64 * 1024;

/// The largest message that is read from a memory file. The kernel's own limit on arguments and
/// environment is 6 MiB at most (three quarters of `_STK_LIM`, `execve(2)`); what is larger is still
/// carried as far as exec, which then refuses it.
pub const LARGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// Owner to warden.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToWarden<L = Vec<Bytes>> {
    /// Start a job. Descriptors: the keeper's end of the cord, the working directory, the job's 0, 1
    /// and 2, then one for each of `spec.extra_fds`.
    Start(Box<Request<L>>),
    /// The message itself is in a memory file, which is the first descriptor; the others follow.
    InMemory,
}

/// Warden to owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FromWarden {
    /// The job's keeper was killed. The warden has ended what it left.
    KeeperLost {
        /// The job.
        job: JobId,
        /// What the warden saw at the end.
        verdict: Verdict,
    },
}

/// Owner to keeper, on the cord. Closing the cord is the order to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Start the program now, for a request that waits for it.
    Go,
    /// Send this signal to the leader.
    Signal(Signal),
    /// End the job. While it is ending already, this can only make it shorter.
    End(Ladder),
    /// Let the job go: it lives on without an owner.
    Release,
    /// The cord is about to be given to another process: until that one adopts the job, the cord alone
    /// counts.
    HandOver,
    /// From now on the sender is the owner. The descriptor beside it, where the kernel has them, is the
    /// sender's pidfd.
    Adopt,
}

/// Keeper to owner, on the cord.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Report {
    /// The boundary is armed, nothing runs yet. With boundary `cgroup` the descriptor beside it is the
    /// leaf's `cgroup.kill`, so that the owner can end the job if warden and keeper are killed; with
    /// `namespace` it is the pidfd of its init, whose end is the job's. A second one replaces the first:
    /// the boundary turned out weaker when the leader was to enter it.
    Armed {
        /// What holds the job.
        boundary: Boundary,
        /// What a reader should know about it on this machine.
        notes: Vec<String>,
    },
    /// The program is being executed. The descriptor beside it, where the kernel has them, is the
    /// leader's pidfd.
    Started {
        /// The leader's number as the keeper sees it.
        pid: u32,
    },
    /// Nothing ran.
    NotStarted(Refusal),
    /// The leader was stopped by this signal.
    Stopped {
        /// The signal's number.
        signal: i32,
    },
    /// The leader goes on.
    Continued,
    /// The leader ended, and its leftovers are being dealt with. Left out when there are none: the last
    /// report says it then.
    Exited(ExitStatus),
    /// The job is over: always the last report. Where leftovers are kept there is one before it, when
    /// the leader has ended ([`End::goes_on`]).
    Ended(Box<End>),
}

/// To a warden, at the socket in its claim, from any process of its user. The descriptor beside it is where the
/// answers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// End this job, or every job.
    Stop {
        /// Which one.
        job: Option<JobId>,
        /// Without asking its processes first.
        now: bool,
    },
}

/// From a warden, to who has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// The job is being ended. [`Answer::Over`] follows, one for each.
    Ending(JobId),
    /// It is over.
    Over(JobId),
    /// It was let go: nobody ends it any more.
    LetGo(JobId),
    /// There is no such job.
    NotRunning,
}

/// The steps of a start, in their order. The step is part of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Stage {
    /// Forking the keeper.
    Keeper = 1,
    /// Making the leader's process.
    Leader,
    /// Writing down the job on disk.
    Record,
    /// Making its temporary directory.
    TemporaryDirectory,
    /// Entering the job's cgroup or its limits.
    Cgroup,
    /// Making the session or entering the group.
    Session,
    /// Making the terminal the controlling one.
    Terminal,
    /// Putting the descriptors in their places.
    Descriptors,
    /// Changing to the working directory.
    Directory,
    /// Setting resource limits.
    ResourceLimits,
    /// Setting the nice value.
    Nice,
    /// Setting `oom_score_adj`.
    OomScore,
    /// Resetting signals.
    Signals,
    /// Executing the program.
    Exec,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 14] = [
        Self::Keeper,
        Self::Leader,
        Self::Record,
        Self::TemporaryDirectory,
        Self::Cgroup,
        Self::Session,
        Self::Terminal,
        Self::Descriptors,
        Self::Directory,
        Self::ResourceLimits,
        Self::Nice,
        Self::OomScore,
        Self::Signals,
        Self::Exec,
    ];

    /// The stage of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|s| *s as u8 == number)
    }

    /// What was being done, to go behind "failed to".
    pub fn doing(self) -> &'static str {
        match self {
            Self::Keeper => "fork the keeper",
            Self::Leader => "make the leader's process",
            Self::Record => "write down the job in the state directory",
            Self::TemporaryDirectory => "make the job's temporary directory",
            Self::Cgroup => "enter the job's cgroup",
            Self::Session => "make the job's session",
            Self::Terminal => "take the terminal",
            Self::Descriptors => "pass the descriptors",
            Self::Directory => "enter the working directory",
            Self::ResourceLimits => "set the resource limits",
            Self::Nice => "set the nice value",
            Self::OomScore => "set oom_score_adj",
            Self::Signals => "reset the signals",
            Self::Exec => "execute",
        }
    }
}

/// Why nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// A step of the start failed.
    Failed {
        /// The step.
        stage: Stage,
        /// The operating system's error number.
        errno: i32,
        /// The path or value that it failed on; empty when there is none.
        what: Vec<u8>,
    },
    /// No boundary that would do can be had here.
    Boundary {
        /// The weakest that was asked for.
        wanted: Boundary,
        /// What was tried and why it could not be had.
        tried: Vec<(Boundary, String)>,
    },
    /// A limit cannot be enforced here.
    Limit {
        /// Which one, as it is typed: `memory`, `pids` or `cpu`.
        which: String,
        /// Why, and what would help.
        why: String,
    },
}

/// A datagram that is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another version.
    #[error("protocol version {0} (this is version {VERSION}): use one version of killcord throughout")]
    Version(u8),
    /// Not a message.
    #[error("not a message of the protocol: {0}")]
    Malformed(String),
}

/// Encodes a message with its version byte.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    postcard::to_extend(message, vec![VERSION]).map_err(|e| WireError::Malformed(e.to_string()))
}

/// Puts a message of its own before one that is passed on as it came.
pub fn encode_before<T: Serialize>(message: &T, passed_on: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut before = encode(message)?;
    before.reserve_exact(passed_on.len());
    before.extend_from_slice(passed_on);
    Ok(before)
}

/// Decodes a message after its version byte.
pub fn decode<T: DeserializeOwned>(datagram: &[u8]) -> Result<T, WireError> {
    decode_before(datagram).map(|(message, _)| message)
}

/// Decodes a message, and says what stands behind it.
pub fn decode_before<T: DeserializeOwned>(datagram: &[u8]) -> Result<(T, &[u8]), WireError> {
    match datagram {
        [VERSION, message @ ..] => {
            postcard::take_from_bytes(message).map_err(|e| WireError::Malformed(e.to_string()))
        }
        [other, ..] => Err(WireError::Version(*other)),
        [] => Err(WireError::Malformed("empty".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::Choice;
    use crate::spec::{Limits, Policy, Spec, Unread};
    use proptest::prelude::*;

    #[test]
    fn every_stage_reads_back_from_its_number() {
        for stage in Stage::ALL {
            assert_eq!(Stage::from_number(stage as u8), Some(stage));
        }
        let said: std::collections::BTreeSet<_> = Stage::ALL.into_iter().map(Stage::doing).collect();
        assert!(said.len() == Stage::ALL.len() && said.contains("fork the keeper"), "{said:?}");
        assert_eq!(Stage::from_number(0), None);
        assert_eq!(Stage::from_number(15), None);
    }

    #[test]
    fn a_message_holds_more_than_any_exec_takes_and_a_datagram_less() {
        // What the kernel takes at most of arguments and environment: three quarters of `_STK_LIM`, 8 MiB.
        let exec = 6_291_456;
        assert_eq!((LARGEST_DATAGRAM, LARGEST_MESSAGE), (65_536, 67_108_864));
        assert!(LARGEST_DATAGRAM < exec && exec < LARGEST_MESSAGE);
    }

    #[test]
    fn another_version_is_named_and_an_empty_datagram_is_refused() {
        let good = encode(&Order::Release).unwrap_or_default();
        assert_eq!(decode::<Order>(&good), Ok(Order::Release));
        let mut other = good;
        other[0] = 9;
        assert_eq!(decode::<Order>(&other), Err(WireError::Version(9)));
        assert!(decode::<Order>(&[]).is_err());
    }

    #[test]
    fn a_request_whose_strings_are_read_over_says_the_rest_and_is_refused_where_it_is_cut() {
        let strings = |all: &[&[u8]]| all.iter().map(|s| Bytes(s.to_vec())).collect::<Vec<_>>();
        let mut spec =
            Spec::new(b"tool".to_vec(), strings(&[b"tool", b"-v"]), strings(&[b"A=\xff", b"", b"B=2"]));
        spec.extra_fds = vec![7, 9];
        let request = Request {
            job: JobId(3),
            spec,
            policy: Policy::default(),
            limits: Limits { pids: Some(5), ..Limits::default() },
            boundary: Choice::Exactly(Boundary::Tree),
            require: None,
            wait_for_go: true,
        };
        let sent = encode(&ToWarden::Start(Box::new(request.clone()))).unwrap();
        let Ok(ToWarden::Start(read)) = decode::<ToWarden<Unread>>(&sent) else { panic!("{sent:?}") };
        assert_eq!((read.job, &read.spec.program), (request.job, &request.spec.program));
        assert_eq!((read.spec.extra_fds, read.spec.session), (request.spec.extra_fds, request.spec.session));
        assert_eq!((read.limits, read.boundary, read.wait_for_go), (request.limits, request.boundary, true));
        for cut in 0..sent.len() {
            assert!(decode::<ToWarden<Unread>>(&sent[..cut]).is_err(), "{cut}");
        }
        // A number in the place of the strings is none of them.
        assert!(serde_json::from_str::<Unread>("7").unwrap_err().to_string().contains("runs of bytes"));
    }

    #[test]
    fn what_is_passed_on_stands_whole_behind_the_word_about_it() {
        let passed_on = encode(&Order::HandOver).unwrap();
        let both = encode_before(&Boundary::Cgroup, &passed_on).unwrap();
        assert_eq!(decode_before(&both), Ok((Boundary::Cgroup, passed_on.as_slice())));
    }

    proptest! {
        #[test]
        fn no_datagram_panics_the_reader(datagram in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut datagram = datagram;
            datagram.insert(0, VERSION);
            let _ = decode::<Order>(&datagram);
            let _ = decode::<Report>(&datagram);
            let _ = decode::<FromWarden>(&datagram);
            let whole = decode::<ToWarden>(&datagram);
            prop_assert_eq!(decode::<ToWarden<Unread>>(&datagram).is_ok(), whole.is_ok());
        }
    }
}
