//! Starting the job of a session.

use super::follow::{Ends, follow};
use super::state::{About, Kind, Order, Session, State};
use crate::audit::Call;
use crate::recorder::Recorder;
use crate::terminal::screen::Screen;
use killcord::{Error, Leftovers, Limits, Owner, Stdio};
use killcord_sys::os::asynchronous::{Receiver, Sender};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::{descriptors, socket};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) place: Place,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) leftovers: Leftovers,
    pub(crate) limits: Limits,
    pub(crate) title: String,
    /// Whose call it is.
    pub(crate) call: Call,
    /// How many bytes of its output are kept.
    pub(crate) capacity: usize,
}

/// Where it runs.
#[derive(Debug)]
pub(crate) enum Place {
    /// Without a terminal, with this input.
    Pipe(Option<Vec<u8>>),
    /// On a terminal of this size.
    Terminal(u16, u16),
}

/// Starts it, and the task that follows it. The program is being executed when this returns.
///
/// The start itself waits for the program to be executed, which may hang on a file system, so it is not done on the
/// server's thread. If this future is dropped, what was started ends.
pub(super) async fn start(
    owner: &Owner,
    recorder: &Arc<Recorder>,
    id: String,
    start: Start,
) -> killcord::Result<Arc<Session>> {
    let owner = owner.clone();
    let (title, call) = (start.title.clone(), start.call.clone());
    let spawned = tokio::task::spawn_blocking(move || spawn(&owner, start));
    let (job, raw, kind, state) = spawned.await.map_err(|e| failed(io::Error::other(e)))??;
    let (orders, receiver) = mpsc::unbounded_channel::<Order>();
    let terminal = raw.terminal.as_ref().map(|terminal| terminal.as_fd().try_clone_to_owned());
    let terminal = terminal.transpose().map_err(failed)?;
    let about = About { id, kind, title, call };
    let session = Arc::new(Session::new(&job, about, terminal, orders, state));
    let ends = raw.into_ends().map_err(failed)?;
    tokio::spawn(follow(Arc::clone(&session), Arc::clone(recorder), job, ends, receiver));
    Ok(session)
}

fn failed(source: io::Error) -> Error {
    Error::Io { doing: "read the job's output", source }
}

/// The ends of a job's streams, not yet known to the runtime.
struct Raw {
    output: OwnedFd,
    input: Option<OwnedFd>,
    terminal: Option<killcord::Terminal>,
    unread: Vec<u8>,
}

impl Raw {
    fn into_ends(self) -> io::Result<Ends> {
        for fd in [Some(&self.output), self.input.as_ref()].into_iter().flatten() {
            descriptors::never_wait(fd.as_fd())?;
        }
        Ok(Ends {
            output: Some(Receiver::from_owned_fd_unchecked(self.output)?),
            input: self.input.map(Sender::from_owned_fd_unchecked).transpose()?,
            terminal: self.terminal,
            unread: self.unread,
        })
    }
}

fn spawn(owner: &Owner, start: Start) -> killcord::Result<(killcord::Job, Raw, Kind, State)> {
    let mut command = owner.command(&start.program);
    command.args(&start.arguments).env_clear().envs(start.environment);
    if let Some(directory) = &start.directory {
        command.current_dir(directory);
    }
    if let Some(timeout) = start.timeout {
        command.timeout(timeout);
    }
    command.grace(start.grace).leftovers(start.leftovers).limits(start.limits);
    match start.place {
        Place::Pipe(input) => {
            // An empty input is what a command has anyway; a pipe would be closed behind the last byte only.
            let input = input.filter(|input| !input.is_empty());
            let (read, write) = socket::pipe().map_err(failed)?;
            // One pipe for both, so that what belongs together stays together.
            let copy = write.try_clone().map_err(failed)?;
            command.stdout(Stdio::from(write)).stderr(Stdio::from(copy));
            if input.is_some() {
                command.stdin(Stdio::piped());
            }
            let mut job = command.spawn()?;
            // Only the job has the writing end now.
            drop(command);
            let stdin = job.stdin.take().map(OwnedFd::from);
            let raw = Raw { output: read, input: stdin, terminal: None, unread: input.unwrap_or_default() };
            Ok((job, raw, Kind::Run, State::new(start.capacity, None)))
        }
        Place::Terminal(columns, rows) => {
            let mut job = command.on_terminal(columns, rows).spawn()?;
            drop(command);
            let terminal = job.terminal.take().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
            let copy = || terminal.try_clone().map_err(failed).map(OwnedFd::from);
            let (output, input) = (copy()?, copy()?);
            let raw = Raw { output, input: Some(input), terminal: Some(terminal), unread: Vec::new() };
            let state = State::new(start.capacity, Some(Screen::new(columns, rows)));
            Ok((job, raw, Kind::Terminal, state))
        }
    }
}
