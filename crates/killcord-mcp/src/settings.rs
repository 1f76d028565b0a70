//! What the server works with: the configuration, in the form in which it is used.

use crate::config::{self, Config};
use crate::session::Bounds;
use killcord::{Boundary, Choice, Leftovers, Limits};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The settings in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) yields: Duration,
    pub(crate) max_chars: usize,
    pub(crate) grace: Duration,
    pub(crate) leftovers: Leftovers,
    pub(crate) boundary: Choice,
    pub(crate) require: Option<Boundary>,
    pub(crate) limits: Limits,
    pub(crate) bounds: Bounds,
    /// How many bytes of each session's output are kept.
    pub(crate) capacity: usize,
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    /// Which takes command lines.
    pub(crate) shell: PathBuf,
    /// What a terminal without a command runs; the user's own shell otherwise.
    pub(crate) login_shell: Option<PathBuf>,
    pub(crate) at_once: usize,
    pub(crate) longest_line: usize,
    pub(crate) pass: Vec<config::Pass>,
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) policy: config::Policy,
}

impl Settings {
    /// What a configuration says, which has been checked.
    pub(crate) fn of(config: &Config) -> Self {
        let (run, sessions) = (&config.run, &config.sessions);
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            timeout: Duration::from_secs(run.timeout_s),
            yields: Duration::from_secs(run.yield_s),
            max_chars: number(run.max_chars),
            grace: Duration::from_secs(run.grace_s),
            leftovers: run.leftovers,
            boundary: run.boundary,
            require: run.require,
            limits: Limits { memory: config.limits.memory, pids: config.limits.pids, cpu: config.limits.cpu },
            bounds: Bounds {
                most: number(sessions.max),
                idle: Duration::from_secs(sessions.idle_s),
                absolute: Duration::from_secs(sessions.absolute_s),
                kept: Duration::from_secs(sessions.kept_s),
            },
            capacity: number(sessions.buffer_bytes),
            columns: sessions.columns,
            rows: sessions.rows,
            shell: usual_shell(),
            login_shell: sessions.shell.clone(),
            at_once: number(config.calls.at_once),
            longest_line: number(config.calls.max_line_bytes),
            pass: config.environment.pass.clone(),
            set: config.environment.set.clone(),
            policy: config.policy.clone(),
        }
    }
}

/// Agents write for bash; where there is none, the system's own shell.
fn usual_shell() -> PathBuf {
    let bash = Path::new("/bin/bash");
    if killcord_sys::os::is_executable(bash) { bash.into() } else { "/bin/sh".into() }
}
