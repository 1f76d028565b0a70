//! Waiting for something to happen in a session.

use super::state::Session;
use crate::arguments::{Until, Wait};
use crate::terminal::prompt::looks_like_prompt;
use regex::{Regex, RegexBuilder};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// How long a wait takes at most unless it is said otherwise, and at all.
const TIMEOUT: f64 = 10.0;
const LONGEST: f64 = 600.0;
/// For how long nothing must come for "quiet", unless it is said otherwise.
const QUIET: Duration = Duration::from_millis(300);
/// The longest silence that can be waited for, in milliseconds.
const LONGEST_QUIET: u64 = 60_000;
/// How large a pattern may be, compiled, in bytes.
const LARGEST_PATTERN: usize = 1 << 20;
/// So much of the new output is looked at for a pattern or a prompt.
const LOOKED_AT: u64 = 256 * 1024;

/// Why a wait is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    Quiet,
    Exited,
    Matched(String),
    Stopped(String),
    Prompt,
    TimedOut(Duration),
    /// Nothing was to be waited for.
    Asked,
}

impl Why {
    /// For the status line.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Quiet => Some("quiet".to_owned()),
            Self::Exited => Some("exited".to_owned()),
            Self::Matched(text) => Some(format!("matched {text:?}")),
            Self::Stopped(text) => Some(format!("stopped at {text:?}")),
            Self::Prompt => Some("prompt".to_owned()),
            Self::TimedOut(after) => Some(format!("nothing of it within {}s", after.as_secs_f64())),
            Self::Asked => None,
        }
    }
}

/// What to wait for, checked.
#[derive(Debug)]
pub(crate) struct Watch {
    until: Until,
    pattern: Option<Regex>,
    stop: Option<Regex>,
    quiet: Duration,
    timeout: Duration,
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).multi_line(true).size_limit(LARGEST_PATTERN).build();
    built.map_err(|e| format!("the pattern {pattern:?} is no regular expression: {e}"))
}

impl Watch {
    /// # Errors
    /// A line that says what does not fit.
    pub(crate) fn new(wait: &Wait) -> Result<Self, String> {
        let pattern = wait.pattern.as_deref().map(compile).transpose()?;
        let until = wait.until.unwrap_or(if pattern.is_some() { Until::Text } else { Until::Quiet });
        if until == Until::Text && pattern.is_none() {
            return Err("wait until text needs a pattern".to_owned());
        }
        let seconds = wait.timeout_s.unwrap_or(TIMEOUT);
        if !(0.0..=LONGEST).contains(&seconds) {
            return Err(format!("timeout_s is {seconds}: 0 to {LONGEST} seconds can be waited for"));
        }
        if wait.quiet_ms.is_some_and(|quiet| quiet > LONGEST_QUIET) {
            return Err(format!("quiet_ms is more than {LONGEST_QUIET}"));
        }
        Ok(Self {
            until,
            pattern,
            stop: wait.stop.as_deref().map(compile).transpose()?,
            quiet: wait.quiet_ms.map_or(QUIET, Duration::from_millis),
            timeout: Duration::from_secs_f64(seconds),
        })
    }

    /// For the end, for so long.
    pub(crate) fn for_exit(timeout: Duration) -> Self {
        let (pattern, stop, quiet) = (None, None, QUIET);
        Self { until: Until::Exit, pattern, stop, quiet, timeout }
    }

    /// Waits, looking at output from `from` on. Dropping the future stops the waiting.
    pub(crate) async fn wait(&self, session: &Session, from: u64) -> Why {
        let _waiting = Waiting::on(session);
        let begun = Instant::now();
        let deadline = begun + self.timeout;
        loop {
            let changed = session.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let due = match self.look(session, from, begun) {
                Ok(why) => return why,
                Err(due) => due.unwrap_or(deadline).min(deadline),
            };
            let waited = timeout_at(due.into(), changed).await;
            if waited.is_err() && Instant::now() >= deadline {
                return self.look(session, from, begun).unwrap_or(Why::TimedOut(self.timeout));
            }
        }
    }

    /// Whether it has happened; else when to look again though nothing has changed.
    fn look(&self, session: &Session, from: u64, begun: Instant) -> Result<Why, Option<Instant>> {
        let state = session.state();
        // The last of it: what came before has been looked at, as it came.
        let newest = state.ring.produced().saturating_sub(LOOKED_AT);
        let text = || state.text_from(from.max(newest), LOOKED_AT as usize + 4).text;
        if let Some(found) = self.stop.as_ref().and_then(|stop| found(stop, &text())) {
            return Ok(Why::Stopped(found));
        }
        if let Some(found) = self.pattern.as_ref().and_then(|pattern| found(pattern, &text())) {
            return Ok(Why::Matched(found));
        }
        if state.is_over() || state.end().is_some_and(killcord::End::goes_on) {
            return Ok(Why::Exited);
        }
        let quiet_at = state.last_output.max(begun) + self.quiet;
        let quiet = Instant::now() >= quiet_at;
        match self.until {
            Until::Exit | Until::Text => Err(None),
            Until::Quiet if quiet => Ok(Why::Quiet),
            Until::Prompt if quiet && looks_like_prompt(&state.unfinished()) => Ok(Why::Prompt),
            Until::Prompt if quiet => Err(None),
            Until::Quiet | Until::Prompt => Err(Some(quiet_at)),
        }
    }
}

fn found(pattern: &Regex, text: &str) -> Option<String> {
    pattern.find(text).map(|found| found.as_str().chars().take(200).collect())
}

/// A session that somebody waits for is not idle.
struct Waiting<'a>(&'a Session);

impl<'a> Waiting<'a> {
    fn on(session: &'a Session) -> Self {
        session.state().waiting += 1;
        Self(session)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        state.last_used = Instant::now();
    }
}
