//! `killcord run` as a function: one command, with this process as its owner to the end.
//!
//! For a process that does nothing else: it takes signals, is a subreaper, shares its terminal with the
//! command, and must have one thread. Programs that do something else use [`crate::Owner`].

mod decide;
mod starter;
mod watch;

use crate::error::{Result, supported};
use crate::service::Attendant;
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JobId;
use killcord_model::ladder::Signal;
use killcord_model::spec::{Limits, Policy};
use killcord_model::status::{self, ExitStatus};
use killcord_model::verdict::{Cause, End};
use killcord_model::wire::{Refusal, Stage};
use killcord_sys::signals;
use std::ffi::OsString;
use std::io;

pub use starter::contain_session_if_requested;

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program; looked up in the `PATH` of `env` when it has no slash.
    pub program: OsString,
    /// The arguments, the first being the program's own name.
    pub argv: Vec<OsString>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
    /// When and how it ends.
    pub policy: Policy,
    /// Limits on the whole.
    pub limits: Limits,
    /// What holds it.
    pub boundary: Choice,
    /// The weakest boundary that will do.
    pub require: Option<Boundary>,
    /// Whether our parent's end is an order to end; `None` means unless started by an interactive shell.
    pub watch_parent: Option<bool>,
    /// Open descriptors to pass, beside 0, 1 and 2.
    pub pass_fd: Vec<u32>,
    /// A descriptor whose end is an order to end.
    pub control_fd: Option<u32>,
    /// Whether `TMPDIR` names a directory of the job's own, which goes with it.
    pub own_temporary_directory: bool,
    /// Whether to say on stdout that the session is contained, before the program is executed.
    pub ack: bool,
}

/// How it went.
#[derive(Debug)]
pub struct Finished {
    /// The job.
    pub job: JobId,
    /// How it ended.
    pub end: End,
    /// Why nothing ran, if nothing did.
    pub refusal: Option<Refusal>,
    /// The first signal of the first order to end, if there was one.
    pub asked: Option<Signal>,
    /// Whether the line was written that says that the session is contained.
    pub acknowledged: bool,
    /// What went wrong in waiting for it.
    pub trouble: Vec<String>,
}

/// Runs a command and returns when nothing of it is left.
///
/// # Errors
/// What failed before anything was started; a session that could not be acknowledged is one of that.
pub fn run(options: &Options) -> Result<Finished> {
    supported()?;
    watch::Runner::start(options)?.follow()
}

/// The same for a service, whose owner this process is.
pub(crate) fn serve(options: &Options, attendant: Attendant) -> Result<Finished> {
    watch::Runner::start_service(options, attendant)?.follow()
}

impl Finished {
    /// What to exit with: the program's own status, 128 and the signal's number, 124 for a timeout, 125
    /// when nothing ran, 126 and 127 when it could not be executed or was not found, 137 when a guard was
    /// killed and the leader's own end could not be seen.
    ///
    /// A job that was asked to end before its program ran shows the signal that asked, as the program
    /// itself would have a moment later.
    pub fn exit_status(&self) -> i32 {
        if let Some(refusal) = &self.refusal {
            return status_of_refusal(refusal);
        }
        match (self.end.cause, self.end.status) {
            (Cause::Timeout, _) => status::TIMED_OUT,
            (_, Some(status)) => status.as_shell(),
            (Cause::Asked, None) => {
                let asked = self.asked.unwrap_or(Signal::Term);
                let number = decide::TAKEN.iter().find(|(_, signal)| *signal == Some(asked));
                ExitStatus::Signal(number.map_or(signals::SIGTERM, |(number, _)| *number)).as_shell()
            }
            (_, None) => status::GUARD_LOST,
        }
    }
}

fn status_of_refusal(refusal: &Refusal) -> i32 {
    match refusal {
        Refusal::Failed { stage: Stage::Exec, errno, .. } => {
            match io::Error::from_raw_os_error(*errno).kind() {
                io::ErrorKind::NotFound => status::NOT_FOUND,
                io::ErrorKind::ArgumentListTooLong => status::FAILED,
                _ => status::NOT_EXECUTABLE,
            }
        }
        Refusal::Failed { .. } | Refusal::Boundary { .. } | Refusal::Limit { .. } => status::FAILED,
    }
}
