//! What can go wrong, and what may have run by then.

use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::wire::{Refusal, Stage};
use std::io;
use std::path::PathBuf;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed. [`Error::nothing_ran`] says of each whether something may have run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// killcord does not know this system yet. Nothing ran.
    #[error("not supported here yet: Linux only so far")]
    Unsupported,
    /// There is no warden to be had. Nothing ran.
    #[error(
        "no warden: call killcord::init() first in main, or install `killcord` \
         (KILLCORD_BIN names it, else PATH is searched); {why}"
    )]
    NoWarden {
        /// What was tried.
        why: String,
    },
    /// A step of the start failed. Nothing ran.
    #[error("failed to {} {}: {source}", stage.doing(), path.display())]
    NotStarted {
        /// The step.
        stage: Stage,
        /// The program, or the path that exec failed on.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// No boundary as strong as required can be had here. Nothing ran.
    #[error("no boundary as strong as {wanted} can be had here ({})", list(tried))]
    Weaker {
        /// The weakest that was asked for.
        wanted: Boundary,
        /// What was tried, and why it could not be had.
        tried: Vec<(Boundary, String)>,
    },
    /// A limit cannot be enforced here. Nothing ran.
    #[error("the {which} limit cannot be enforced here: {why}")]
    Limit {
        /// `memory`, `pids` or `cpu`.
        which: String,
        /// Why, and what would help.
        why: String,
    },
    /// The guards went while the program was being started: it may or may not have run. It was not
    /// started again, and what there was of it has been ended.
    #[error("job {job}: its guards were killed while it was being started: it may or may not have run")]
    Unclear {
        /// The job.
        job: JobId,
    },
    /// A descriptor that was to be passed is not open. Nothing ran.
    #[error("descriptor {number}: {source}")]
    Descriptor {
        /// Its number.
        number: u32,
        /// What the operating system said.
        source: io::Error,
    },
    /// The parent whose end is to be watched is gone already. Nothing ran.
    #[error("the parent is gone already")]
    ParentGone,
    /// The state directory cannot be used. Nothing ran.
    #[error(
        "state directory {}: {why}; remove it, or name another one that is yours alone by {}",
        path.display(), crate::claim::STATE_VARIABLE
    )]
    State {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What the operating system said; `None` when it could be used, and must not.
        source: Option<io::Error>,
    },
    /// A service of this name runs already. Nothing ran.
    #[error("{name} runs already: `killcord stop {name}` ends it, `killcord logs {name}` shows its output")]
    ServiceRuns {
        /// Its name.
        name: String,
    },
    /// This cannot be the name of a service. Nothing ran.
    #[error("{name:?} cannot be the name of a service: use up to 64 letters, digits, '.', '_' and '-'")]
    ServiceName {
        /// What was to be its name.
        name: String,
    },
    /// There is no service of this name.
    #[error(
        "there is no service {name}, or its exit has been read: `killcord list` shows those that there are"
    )]
    NoSuchService {
        /// The name.
        name: String,
    },
    /// The service could not be started. Nothing ran.
    #[error("{why}")]
    ServiceFailed {
        /// Why not.
        why: String,
    },
    /// Nothing of this name runs.
    #[error("{what} is not running{}", before.as_ref().map(|how| format!(": {how}")).unwrap_or_default())]
    NotRunning {
        /// What was asked for.
        what: String,
        /// How a service of this name ended.
        before: Option<String>,
    },
    /// The beginning of an id that several jobs have.
    #[error("{what} may be {} or {}: give more of it", two[0], two[1])]
    Ambiguous {
        /// What was asked for.
        what: String,
        /// Two of them.
        two: [JobId; 2],
    },
    /// A warden cannot be called.
    #[error("the warden of {} does not answer: {source}", claim.display())]
    NoAnswer {
        /// The claim of its owner.
        claim: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A system call of the owner's own failed.
    #[error("failed to {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Whether this system is one on which jobs can be held at all.
pub(crate) fn supported() -> Result<()> {
    killcord_sys::supported().map_err(|_| Error::Unsupported)
}

fn list(tried: &[(Boundary, String)]) -> String {
    let tried: Vec<String> = tried.iter().map(|(b, why)| format!("{b}: {why}")).collect();
    if tried.is_empty() {
        "choice and requirement contradict each other".to_owned()
    } else {
        tried.join("; ")
    }
}

impl Error {
    /// Whether it is certain that nothing ran.
    pub fn nothing_ran(&self) -> bool {
        !matches!(self, Self::Unclear { .. } | Self::Io { .. })
    }

    /// For `map_err`: an error of a system call of our own.
    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// From what a keeper or warden answered.
    pub(crate) fn from_refusal(refusal: Refusal, program: &[u8]) -> Self {
        use killcord_sys::os::OsStrExt;
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        match refusal {
            Refusal::Failed { stage, errno, what } => Self::NotStarted {
                stage,
                path: if what.is_empty() { path(program) } else { path(&what) },
                source: io::Error::from_raw_os_error(errno),
            },
            Refusal::Boundary { wanted, tried } => Self::Weaker { wanted, tried },
            Refusal::Limit { which, why } => Self::Limit { which, why },
        }
    }
}
