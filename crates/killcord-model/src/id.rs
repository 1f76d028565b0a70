//! Names of jobs and of processes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A job's name: 128 random bits, shown as 32 hexadecimal digits.
///
/// It is in the job's environment as `KILLCORD_JOB` and in the name of its cgroup, so that what is
/// left of a job can be told from everything else on the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u128);

/// The environment variable that carries the job's name.
pub const JOB_VARIABLE: &str = "KILLCORD_JOB";

/// What the name of a job's cgroup begins with.
pub const CGROUP_PREFIX: &str = "killcord-";

impl JobId {
    /// A job's name from random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// What stands in the environment of the job's processes, `KILLCORD_JOB=` and the name.
    #[must_use]
    pub fn assignment(self) -> String {
        format!("{JOB_VARIABLE}={self}")
    }

    /// The name of the job's cgroup directory.
    #[must_use]
    pub fn cgroup_name(self) -> String {
        format!("{CGROUP_PREFIX}{self}")
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// A text that is not a job's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a job id: 32 hexadecimal digits are")]
pub struct NotAJobId(pub String);

impl FromStr for JobId {
    type Err = NotAJobId;

    fn from_str(text: &str) -> Result<Self, NotAJobId> {
        let hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u128::from_str_radix(text, 16).ok())
            .flatten()
            .map(Self)
            .ok_or_else(|| NotAJobId(text.to_owned()))
    }
}

/// One process for a reader's eye: a number and when it started.
///
/// It names a process in a report. It is never enough to signal one: the number may have been given
/// to another process since.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The process number, as the keeper sees it (inside the namespace on boundary `namespace`).
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`, `proc_pid_stat(5)`).
    pub start: u64,
    /// The program's name, at most 15 bytes (`/proc/PID/comm`), with anything unprintable replaced.
    pub command: String,
    /// The state letter of `proc_pid_stat(5)`: `R`, `S`, `D`, `T`...
    pub state: char,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_reads_back_from_its_own_text() {
        let id = JobId::from_random([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0e0f");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(format!("{id:?}"), "JobId(000102030405060708090a0b0c0d0e0f)");
        assert_eq!(id.cgroup_name(), "killcord-000102030405060708090a0b0c0d0e0f");
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for bad in ["", "1", "+00102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0g"] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
    }
}
