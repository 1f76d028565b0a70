//! When the owner goes, everything it started stops.
//!
//! A program that starts processes, an agent, a tool server, a CI runner, makes an [`Owner`] and starts
//! its commands through it. Each becomes a [`Job`]: the command with every process that comes from it.
//! A job ends as a whole when its handle is dropped, when its time is up, and when the owner goes, for
//! whatever reason: a return, a panic, `exit`, a crash or `kill -9`.
//!
//! ```
//! use std::time::Duration;
//!
//! fn main() -> killcord::Result<()> {
//!     killcord::init(); // becomes the warden when it is started as one
//!     let owner = killcord::Owner::new()?;
//!     let mut job = owner.command("true").timeout(Duration::from_secs(60)).spawn()?;
//!     let end = job.wait()?;
//!     assert!(end.success());
//!     Ok(())
//! }
//! ```
//!
//! # Processes
//! The owner asks its *warden* for jobs: one small process per owner, the same executable executed again
//! in a mode that [`init`] dispatches, or an installed `killcord`. The warden forks one *keeper* per job.
//! The keeper is the job's guard: it arms the [`Boundary`], starts the program inside it, holds the far end
//! of the *cord*, and ends everything by one *ladder*. Nothing of that runs in the owner: no signal
//! handler, no thread, no `waitpid`, and cancelling whoever waits never cancels a teardown.
//!
//! # Where to begin
//! [`Owner::command`] and [`Command`] say what to start, [`Job`] is what was started, [`End`] how it ended and
//! [`Output`] what it printed. [`Job::into_fd`] and [`Job::adopt`] hand a job to another process.
//! [`contain_session_if_requested`] is for engines that an SDK starts, [`Builder::allow_uncontained`] for hosts
//! that can have no warden. [`Error::nothing_ran`] says what an error leaves open. The feature `tokio` adds async
//! waits and streams, which are safe to drop.
//!
//! Linux only so far: elsewhere everything compiles and says [`Error::Unsupported`].

pub mod adopt;
mod arm;
#[cfg(feature = "tokio")]
mod asynchronous;
mod claim;
mod command;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod hooks;
mod job;
mod keeper;
mod link;
mod list;
mod marked;
mod message;
mod numbers;
mod output;
mod owner;
pub mod probe;
mod recover;
pub mod service;
pub mod session;
pub mod stop;
mod terminal;
mod uncontained;
mod warden;

pub use claim::STATE_VARIABLE;
pub use claim::sweeper::{Options as SweepOptions, Swept, sweep};
pub use command::{Command, Stdio};
pub use error::{Error, Result};
pub use job::Job;
pub use killcord_model as model;
pub use killcord_model::boundary::{Boundary, Choice};
pub use killcord_model::id::{JobId, Member};
pub use killcord_model::ladder::{Ladder, Signal};
pub use killcord_model::spec::{Leftovers, Limits};
pub use killcord_model::status::ExitStatus;
pub use killcord_model::verdict::{Cause, End, Evidence, Fate, Members, Usage, Verdict};
pub use list::{Job as ListedJob, List, Owner as ListedOwner, list};
pub use output::{Captured, Output};
pub use owner::{Builder, Owner, init};
pub use session::contain_session_if_requested;
pub use terminal::Terminal;
