//! What each tool does.

mod listing;
mod progress;
mod run;
mod sessions;

pub(crate) use progress::Progress;

use crate::answer::Answer;
use crate::arguments::read;
use crate::audit::{Call, What};
use crate::recorder::Recorder;
use crate::session::{Refused, Registry, Session, Start, Watch, Why};
use crate::settings::Settings;
use crate::text;
use crate::tools::Name;
use rmcp::model::JsonObject;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// What calls work on.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) registry: Registry,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) call: Call,
    /// As they came, for the record.
    pub(crate) arguments: JsonObject,
    pub(crate) cancelled: CancellationToken,
    /// Where it is asked for.
    pub(crate) progress: Option<Progress>,
}

impl Turn {
    fn raw(&self) -> serde_json::Value {
        serde_json::Value::Object(self.arguments.clone())
    }
}

/// What has been done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) panicked: AtomicU64,
}

/// Carries out a call. `None` when it was cancelled: nobody hears an answer.
pub(crate) async fn call(desk: &Desk, tool: Name, turn: &Turn) -> Option<Answer> {
    desk.counters.calls.fetch_add(1, Ordering::Relaxed);
    match dispatch(desk, tool, turn).await {
        Ok(Some(answer)) => Some(answer),
        Ok(None) => {
            desk.cancelled(turn);
            None
        }
        Err(why) => {
            desk.refuse(turn, &why);
            Some(Answer::wrong(why))
        }
    }
}

/// For a call of a tool that there is not: which there are.
pub(crate) fn unknown(desk: &Desk, tool: &str, turn: &Turn) -> String {
    desk.counters.calls.fetch_add(1, Ordering::Relaxed);
    let known: Vec<&str> = Name::ALL.into_iter().map(Name::text).collect();
    let why = format!("Unknown tool: {}; the tools are {}", title(None, tool), known.join(", "));
    desk.refuse(turn, &why);
    why
}

async fn dispatch(desk: &Desk, tool: Name, turn: &Turn) -> Result<Option<Answer>, String> {
    let arguments = turn.arguments.clone();
    match tool {
        Name::ShellRun => run::run(desk, read(arguments)?, turn).await,
        Name::ShellSpawn => sessions::spawn(desk, read(arguments)?, turn).await,
        Name::SessionWrite => sessions::write(desk, read(arguments)?, turn).await,
        Name::SessionRead => sessions::look(desk, read(arguments)?, turn).await,
        Name::SessionResize => sessions::resize(desk, &read(arguments)?).map(Some),
        Name::SessionSignal => sessions::signal(desk, &read(arguments)?, turn).map(Some),
        Name::SessionKill => sessions::kill(desk, &read(arguments)?, turn).await,
        Name::SessionList => read::<crate::arguments::Nothing>(arguments).map(|_| Some(listing::list(desk))),
        Name::ServerInfo => read::<crate::arguments::Nothing>(arguments).map(|_| Some(listing::info(desk))),
    }
}

impl Desk {
    /// Counts and records a call that is refused.
    fn refuse(&self, turn: &Turn, why: &str) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.recorder.after(&turn.call, What::Refused { arguments: turn.raw(), why: why.to_owned() });
    }

    /// Counts and records a call that was cancelled, at work or before its turn.
    pub(crate) fn cancelled(&self, turn: &Turn) {
        self.counters.cancelled.fetch_add(1, Ordering::Relaxed);
        self.recorder.after(&turn.call, What::Cancelled);
    }

    /// The session that is meant, or which there are.
    fn session(&self, id: &str) -> Result<Arc<Session>, String> {
        self.registry.find(id).ok_or_else(|| {
            let all = self.registry.all();
            let known: Vec<&str> = all.iter().map(|session| session.id.as_str()).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            format!("there is no session {id}; sessions: {known}")
        })
    }

    /// Whether anything may be started or typed.
    fn may_act(&self) -> Result<(), String> {
        if self.settings.policy.read_only {
            return Err("this server is read-only: sessions can be read and listed".to_owned());
        }
        Ok(())
    }

    /// Whether this command line may run.
    fn may_run(&self, command: &str) -> Result<(), String> {
        self.may_act()?;
        match self.settings.policy.denied(command) {
            Some(pattern) => Err(format!("denied by the configuration: {pattern}")),
            None => Ok(()),
        }
    }

    /// Records what is to be started, and starts it. `None` when the call is cancelled meanwhile.
    async fn start(&self, start: Start, turn: &Turn) -> Result<Option<Arc<Session>>, String> {
        self.recorder.before(&turn.call, What::Start { arguments: turn.raw() })?;
        tokio::select! {
            // Dropped, it takes what it has started along.
            started = self.registry.start(start) => started.map(Some).map_err(|refused| self.refused(refused)),
            () = turn.cancelled.cancelled() => Ok(None),
        }
    }

    /// Why nothing was started, and what can be done about it.
    fn refused(&self, refused: Refused) -> String {
        match refused {
            Refused::Full(live) => {
                let mut idle: Vec<_> = self.registry.all();
                idle.retain(|session| !session.state().is_over());
                idle.sort_by_key(|session| std::cmp::Reverse(session.state().idle()));
                let idle = idle.iter().take(5).map(|session| {
                    format!("{} ({}, idle {}s)", session.id, session.title, session.state().idle().as_secs())
                });
                let idle: Vec<String> = idle.collect();
                format!(
                    "{live} sessions run, which is the limit: end one by session_kill: {}",
                    idle.join(", ")
                )
            }
            Refused::Failed(e) if e.nothing_ran() => format!("nothing was started: {e}"),
            Refused::Failed(e) => format!("it may or may not have run: {e}"),
        }
    }
}

/// Waits, unless the call is cancelled, and tells its progress meanwhile.
async fn waited(watch: &Watch, session: &Session, from: u64, turn: &Turn) -> Option<Why> {
    let progress = turn.progress.as_ref();
    let mut wait = std::pin::pin!(watch.wait(session, from));
    loop {
        let due = async {
            match progress {
                Some(progress) => progress.due().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            why = &mut wait => return Some(why),
            () = turn.cancelled.cancelled() => return None,
            () = due => {}
        }
        let told = async {
            if let Some(progress) = progress {
                progress.tell(session).await;
            }
        };
        // The end of the wait does not interrupt it: nothing is told behind the answer.
        tokio::select! {
            () = told => {}
            () = turn.cancelled.cancelled() => return None,
        }
    }
}

/// The working directory, which must be one.
fn directory(given: Option<&str>) -> Result<Option<PathBuf>, String> {
    let Some(given) = given else { return Ok(None) };
    let path = match given.strip_prefix("~/") {
        Some(rest) => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(rest),
        None => PathBuf::from(given),
    };
    match std::fs::metadata(&path) {
        Ok(about) if about.is_dir() => Ok(Some(path)),
        Ok(_) => Err(format!("cwd {given} is no directory")),
        Err(e) => Err(format!("cwd {given}: {e}; the server's own is {}", own_directory().display())),
    }
}

fn own_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned())
}

/// A title for lists: what was given, or the beginning of the command.
fn title(given: Option<&str>, command: &str) -> String {
    let text = given.unwrap_or(command);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect()
}

/// Names and values that the system takes.
fn check_environment(env: &std::collections::BTreeMap<String, String>) -> Result<(), String> {
    match env
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        Some((name, _)) => {
            Err(format!("env {name:?} cannot be the name of a variable, or its value has a zero byte"))
        }
        None => Ok(()),
    }
}

/// Seconds of a call, within bounds.
fn time(name: &str, given: Option<f64>, usual: std::time::Duration) -> Result<std::time::Duration, String> {
    match given {
        None => Ok(usual),
        Some(seconds) if (0.0..=86_400.0).contains(&seconds) => {
            Ok(std::time::Duration::from_secs_f64(seconds))
        }
        Some(seconds) => Err(format!("{name} is {seconds}: give 0 to 86400 seconds")),
    }
}

/// What machines are told of a session.
fn meta(session: &Session) -> serde_json::Value {
    let state = session.state();
    let end = state.end();
    let status = end.and_then(|end| end.status);
    serde_json::json!({
        "id": session.id,
        "kind": session.kind.name(),
        "job": session.job.to_string(),
        "boundary": session.boundary.map(killcord::Boundary::name),
        "running": end.is_none(),
        "exit": status.map(killcord::ExitStatus::as_shell),
        "cause": end.map(|end| end.cause.name()),
        "verdict": end.map(|end| verdict(&end.verdict)),
        "bytes": state.bytes,
        "lines": state.lines,
        "cursor": state.ring.produced(),
        "dropped": state.ring.dropped(),
    })
}

fn verdict(verdict: &killcord::Verdict) -> &'static str {
    match verdict {
        killcord::Verdict::Empty(_) => "empty",
        killcord::Verdict::Unconfirmed(_) => "unconfirmed",
        killcord::Verdict::Survivors(_) => "survivors",
        killcord::Verdict::Refused => "refused",
    }
}

/// Parts of a status line about how much there is.
fn amount(bytes: u64, lines: u64) -> String {
    match (bytes, lines) {
        (0, _) => "no output".to_owned(),
        (bytes, 0) => text::size(bytes),
        (bytes, 1) => format!("1 line, {}", text::size(bytes)),
        (bytes, lines) => format!("{lines} lines, {}", text::size(bytes)),
    }
}
