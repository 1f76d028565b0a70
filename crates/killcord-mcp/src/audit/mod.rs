//! The audit log: what was asked of this server and what came of it, so that a later change is seen.
//!
//! The problem: an agent runs commands on somebody's machine. What ran has to be known afterwards, from a record
//! that says when it has been touched, and that does not itself become a store of passwords and outputs.
//!
//! The processes: each server that runs takes one *chain* of the directory, by a lock that the kernel lets go when
//! the server ends, however it ends. Two servers of one user write two chains and never wait for each other; the
//! next server goes on with a chain that is free. A chain is a row of files, `audit-1.000001.jsonl` and so on, of
//! which the newest is written to. One record is one line and one `write(2)`.
//!
//! The promise: each record carries the hash of the one before, through rotation and restart, so that a changed,
//! missing, moved, inserted or cut record is found by [`verify()`]. What is not promised: whoever may write to the
//! files can cut the end of a chain off and write another one, or remove a whole chain. Somebody who has noted a hash
//! elsewhere finds that too.

mod chain;
mod directory;
mod event;
mod log;
mod mask;
mod reader;
mod time;
mod verify;

pub(crate) use time::compact;

pub use event::{Call, Digest, End, Event, Output, What};
pub use log::{AuditError, Counters, Log};
pub use mask::{MASKED, WITHHELD, arguments as mask_arguments, is_secret_name, text as mask};
pub use reader::{Entry, Reader};
pub use time::{parse as parse_time, rfc3339};
pub use verify::{Begins, ChainReport, Kind, Problem, Report, VerifyError, verify};
