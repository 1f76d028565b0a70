//! What stands on disk of an owner and its jobs, and how it is read back.
//!
//! Each file is one JSON object of at most [`LARGEST`] bytes, written beside its name and renamed, so that it
//! is there as a whole or not at all. It says who, never what with: no environment and no arguments. A file
//! that cannot be understood, and one of a newer version, says nothing, and what is not known stays.

use crate::boundary::Boundary;
use crate::id::JobId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The version that is written. Every older one is read.
pub const VERSION: u32 = 1;

/// The largest record that is read or written, in bytes.
pub const LARGEST: usize = 4096;

/// The longest name of a program that is kept, in characters.
const LONGEST_NAME: usize = 64;

/// Within which a process number and a start time mean one process and no other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// `/proc/sys/kernel/random/boot_id`: new with each start of the machine (`random(4)`).
    pub boot: String,
    /// The inode of the pid namespace (`/proc/self/ns/pid`, `namespaces(7)`).
    pub pid_namespace: u64,
    /// The inode of the time namespace, which shifts start times; 0 where the kernel has none.
    pub time_namespace: u64,
}

/// One process of a [`Place`]. It names a process; it is never enough to signal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

/// The marker of a claim: whose it is. The file `owner`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Where the owner's number means something.
    pub place: Place,
    /// The owner.
    pub process: Process,
    /// Its program's name.
    pub program: String,
    /// When the claim was made, in seconds since 1970. For a reader's eye: nothing hangs on it.
    pub since: u64,
    /// The name of the service that it runs, if it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// How far a job is, as its record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its place is taken. Nothing of it can have run.
    Reserved,
    /// Its program may run.
    Started,
    /// It was let go: nobody ends it any more.
    Released,
}

/// What is known of a job. The file `jobs/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// Where the numbers in here mean something.
    pub place: Place,
    /// How far it is.
    pub state: State,
    /// What holds it; while it is reserved, the strongest that is going to be tried.
    pub boundary: Boundary,
    /// The directory of its cgroup, if it may have one. It ends with the job's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// The directories of v1 cgroups that limit it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// The kernel's audit session of all its processes, where it could be tagged with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<u32>,
    /// Its keeper, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeper: Option<Process>,
    /// Its program's name.
    pub program: String,
    /// When it was started, in seconds since 1970. For a reader's eye: nothing hangs on it.
    pub since: u64,
}

/// How a service ended. The file `exit`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exit {
    /// The job.
    pub job: String,
    /// What `killcord run` would have exited with.
    pub status: i32,
    /// One line about how it ended, for a reader.
    pub how: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// A record that says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A newer version, which may mean anything.
    #[error("version {0} (this is version {VERSION}): made by a newer killcord")]
    Newer(u32),
    /// Not a record.
    #[error("not a record: {0}")]
    Malformed(String),
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    what: T,
}

/// The text of a record.
///
/// # Errors
/// When it would be larger than any that is read.
pub fn encode<T: Serialize>(what: &T) -> Result<Vec<u8>, Unreadable> {
    let malformed = |e: &dyn std::fmt::Display| Unreadable::Malformed(e.to_string());
    let mut text = serde_json::to_vec(&Versioned { v: VERSION, what }).map_err(|e| malformed(&e))?;
    text.push(b'\n');
    if text.len() > LARGEST { Err(malformed(&"too large")) } else { Ok(text) }
}

/// Reads a record back.
///
/// # Errors
/// What is not a whole record of a known version says nothing.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unreadable> {
    let malformed = |e: serde_json::Error| Unreadable::Malformed(e.to_string());
    // Whatever else a newer one has in it need not be readable here.
    match serde_json::from_slice::<Version>(text).map_err(malformed)?.v {
        VERSION => serde_json::from_slice::<Versioned<T>>(text).map(|r| r.what).map_err(malformed),
        0 => Err(Unreadable::Malformed("version 0".to_owned())),
        newer => Err(Unreadable::Newer(newer)),
    }
}

/// A program's name for a record: what stands behind the last slash, without anything unprintable.
#[must_use]
pub fn program_name(program: &[u8]) -> String {
    let name = program.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let text = String::from_utf8_lossy(name);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(LONGEST_NAME).collect()
}

impl JobId {
    /// The name of the job's own temporary directory. It is short, since programs put sockets there, whose
    /// whole path may have 107 bytes (`unix(7)`).
    #[must_use]
    pub fn directory_name(self) -> String {
        self.to_string()[..12].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> Place {
        Place { boot: "b".to_owned(), pid_namespace: 1, time_namespace: 2 }
    }

    fn job() -> Job {
        Job {
            place: place(),
            state: State::Started,
            boundary: Boundary::Cgroup,
            leaf: Some("/sys/fs/cgroup/killcord-1".to_owned()),
            limits: vec!["/sys/fs/cgroup/pids/killcord-1".to_owned()],
            tag: Some(7),
            keeper: Some(Process { pid: 5, start: 6 }),
            program: "make".to_owned(),
            since: 9,
        }
    }

    #[test]
    fn a_record_reads_back() {
        let text = encode(&job()).unwrap();
        assert_eq!(decode::<Job>(&text), Ok(job()));
        // What a later version adds to this one is not in the way.
        let more = String::from_utf8(text).unwrap().replace("\"v\":1", "\"v\":1,\"new\":[]");
        assert_eq!(decode::<Job>(more.as_bytes()), Ok(job()));
    }

    #[test]
    fn no_part_of_a_record_is_one() {
        let text = encode(&job()).unwrap();
        // The last byte is the line's end.
        for cut in 0..text.len() - 2 {
            assert!(decode::<Job>(&text[..cut]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn a_newer_version_says_nothing_whatever_it_looks_like() {
        assert_eq!(decode::<Job>(b"{\"v\":2}"), Err(Unreadable::Newer(2)));
        assert_eq!(decode::<Job>(b"{\"v\":2,\"state\":{\"x\":1}}"), Err(Unreadable::Newer(2)));
        assert!(matches!(decode::<Job>(b"{\"v\":0}"), Err(Unreadable::Malformed(_))));
    }

    #[test]
    fn a_number_that_is_no_process_is_refused() {
        for pid in ["-1", "4294967296", "1.5", "\"1\""] {
            let text = format!("{{\"pid\":{pid},\"start\":1}}");
            assert!(serde_json::from_str::<Process>(&text).is_err(), "{pid}");
        }
    }

    #[test]
    fn a_record_has_a_size_and_not_a_byte_more() {
        let of = |n: usize| encode(&Job { program: "x".repeat(n), ..job() });
        let rest = of(0).unwrap().len();
        assert_eq!(of(LARGEST - rest).map(|text| text.len()), Ok(LARGEST));
        assert!(matches!(of(LARGEST - rest + 1), Err(Unreadable::Malformed(_))));
    }

    #[test]
    fn a_jobs_directory_has_the_beginning_of_its_name() {
        assert_eq!(JobId::from_random([0xab; 16]).directory_name(), "abababababab");
    }

    #[test]
    fn a_programs_name_is_no_path_and_no_secret() {
        assert_eq!(program_name(b"/usr/bin/make"), "make");
        assert_eq!(program_name(b"a\x1b[2J"), "a?[2J");
        assert_eq!(program_name(&[b'a'; 500]).len(), LONGEST_NAME);
        assert_eq!(program_name(b""), "");
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<Job>(&bytes);
            let _ = decode::<Owner>(&bytes);
            let _ = decode::<Exit>(&bytes);
        }
    }
}
