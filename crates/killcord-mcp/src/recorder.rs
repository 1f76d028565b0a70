//! What is recorded of each call: before something is started, and after it is over.

use crate::audit;
use crate::audit::{AuditError, Call, Event, Log, Output, What};
use crate::config;
use crate::session::Session;
use killcord::{End, Verdict};

/// The audit log, if there is one.
#[derive(Debug)]
pub(crate) struct Recorder(Option<Log>);

impl Recorder {
    /// Opens the log that is configured.
    ///
    /// # Errors
    /// Where calls that cannot be recorded are to be refused, and no log can be opened.
    pub(crate) fn open(config: &config::Audit) -> Result<Self, AuditError> {
        Ok(Self(if config.enabled { Some(Log::open(config)?) } else { None }))
    }

    /// Records something that is about to be done.
    ///
    /// # Errors
    /// Where it must not be done without.
    pub(crate) fn before(&self, call: &Call, what: What) -> Result<(), String> {
        let Some(log) = &self.0 else { return Ok(()) };
        let recorded = log.record(Event { call: call.clone(), what });
        self.say_once();
        match recorded {
            Err(e) if log.is_required() => Err(format!("nothing was done, since it cannot be recorded: {e}")),
            _ => Ok(()),
        }
    }

    /// Records something that has happened.
    pub(crate) fn after(&self, call: &Call, what: What) {
        // What has happened cannot be refused any more; the log counts what it could not write.
        let _ = self.before(call, what);
    }

    /// Records the end of a session.
    pub(crate) fn end(&self, session: &Session, end: &End, output: Output) {
        let verdict = match end.verdict {
            Verdict::Empty(_) => "empty",
            Verdict::Unconfirmed(_) => "unconfirmed",
            Verdict::Survivors(_) => "survivors",
            Verdict::Refused => "refused",
        };
        let end = audit::End {
            output: Some(output),
            exit: end.status,
            cause: Some(end.cause.name().to_owned()),
            verdict: Some(verdict.to_owned()),
            boundary: Some(end.boundary.name().to_owned()),
            duration: end.duration,
        };
        self.after(&session.call, What::End(end));
    }

    /// The first failure is said, the others are counted.
    fn say_once(&self) {
        if let Some(why) = self.0.as_ref().and_then(Log::take_first_failure) {
            tracing::error!("the audit log: {why}");
        }
    }

    /// How many records were written, and how many could not be.
    pub(crate) fn counters(&self) -> Option<audit::Counters> {
        self.0.as_ref().map(Log::counters)
    }
}
