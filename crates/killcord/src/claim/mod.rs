//! What an owner has on disk, and how others read it.
//!
//! A *claim* is a directory in the state root: `lease`, on which the owner and its guards hold a lock as long as
//! they live; `owner`, the marker, which says whose it is; `jobs/ID`, one record for each job; `tmp/ID`, the jobs'
//! own temporary directories; `control`, the socket of the warden. What lies in it is hostile input to everybody
//! who reads it, and nothing of it is a secret.

mod make;
mod read;
mod records;
mod root;
mod traces;

pub(crate) mod sweeper;

pub(crate) use make::{Claim, discard, seconds};
pub(crate) use read::{Marker, Reading, claims};
pub(crate) use records::{Form, Ready};
pub(crate) use root::Root;
pub use root::STATE_VARIABLE;

/// The lock.
const LEASE: &str = "lease";
/// The marker.
const OWNER: &str = "owner";
/// The jobs' records.
pub(crate) const JOBS: &str = "jobs";
/// The jobs' temporary directories.
const TMP: &str = "tmp";
/// The warden's socket.
pub(crate) const CONTROL: &str = "control";
/// What the name of a claim begins with.
const CLAIM: &str = "c";
/// What the name of something begins with that is being removed.
pub(crate) const TRASH: &str = ".trash-";
/// The directory of services in the state root.
pub(crate) const SERVICES: &str = "services";

/// Whether this is a name that we give: the prefix, and eight digits. A state root that somebody has named may have
/// directories of other makers in it.
fn is_made(prefix: &str, name: &[u8]) -> bool {
    let digit = |b: &u8| b.is_ascii_digit() || matches!(b, b'a'..=b'f');
    name.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.len() == 8 && rest.iter().all(digit))
}
