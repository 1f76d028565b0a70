//! Serving on standard input and output, until the client goes.

use crate::calls::{Counters, Desk};
use crate::config::{self, Config};
use crate::recorder::Recorder;
use crate::server::Server;
use crate::session::Registry;
use crate::settings::Settings;
use crate::wire::Wire;
use killcord::Owner;
use killcord_sys::os::{AsFd, OwnedFd, asynchronous};
use killcord_sys::{descriptors, process, signals};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long calls have that are under way when the client says nothing more.
const LAST_ANSWERS: Duration = Duration::from_millis(150);
/// How often sessions are looked at that nobody uses.
const TIDY: Duration = Duration::from_secs(1);

/// What ends the server.
enum Gone {
    /// Standard input is at its end, or the protocol is.
    Input,
    /// A signal.
    Signal(i32),
    /// The process that has started us.
    Parent,
}

/// Serves until the client is gone, and returns what to exit with. For a process with one thread, which does nothing
/// else: whatever ends it ends all jobs.
pub fn serve(config: Option<&Path>) -> i32 {
    let failed = |what: &str, e: &dyn std::fmt::Display| {
        // A closed stderr is no reason to fail: there is nobody to tell.
        let _ = writeln!(io::stderr(), "killcord: {what}: {e}");
        killcord_model::status::FAILED
    };
    let config = match config::load(config) {
        Ok(config) => config,
        Err(e) => return failed("the configuration cannot be used; nothing was started", &e),
    };
    speak(&config);
    let settings = Settings::of(&config);
    let recorder = match Recorder::open(&config.audit) {
        Ok(recorder) => Arc::new(recorder),
        Err(e) => return failed("nothing was started", &e),
    };
    // Before there is a thread: they are waited for, and no thread may be ended by them.
    let taken = signals::Set::of(&[signals::SIGTERM, signals::SIGINT, signals::SIGHUP]);
    // A log that may not grow any more (`RLIMIT_FSIZE`) is an error of the write, and not our end.
    let blocked = signals::Set::of(&[signals::SIGTERM, signals::SIGINT, signals::SIGHUP, signals::SIGXFSZ]);
    let signals = match blocked.block_exactly().and_then(|()| signals::SignalFd::new(&taken)) {
        Ok(signals) => signals,
        Err(e) => return failed("failed to prepare for signals", &e),
    };
    let mut builder = Owner::builder().boundary(settings.boundary).grace(settings.grace);
    if let Some(require) = settings.require {
        builder = builder.require(require);
    }
    let owner = match builder.build() {
        Ok(owner) => owner,
        Err(e) => return failed("failed to start the warden", &e),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failed("failed to start the runtime", &e),
    };
    let desk = Arc::new(Desk {
        registry: Registry::new(owner, Arc::clone(&recorder), settings.bounds),
        recorder,
        settings,
        counters: Counters::default(),
    });
    match runtime.block_on(until_gone(&desk, signals)) {
        // Every cord closes with us; the keepers end what is left. No thread is waited for.
        Ok(Gone::Input | Gone::Parent) => process::exit_now(0),
        Ok(Gone::Signal(signal)) => process::exit_now(128 + signal),
        Err(e) => failed("failed to serve", &e),
    }
}

/// Has what the server says about itself written to standard error: that of the protocol's library only where it goes
/// wrong.
fn speak(config: &Config) {
    let filter = format!("error,killcord_mcp={}", config.log.level.name());
    let filter = tracing_subscriber::EnvFilter::new(filter);
    let plain = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // A second server in one process speaks through the first one's.
    let _ = tracing_subscriber::util::SubscriberInitExt::try_init(plain.finish());
}

async fn until_gone(desk: &Arc<Desk>, signals: signals::SignalFd) -> io::Result<Gone> {
    let parent = watched_parent()?;
    let (reader, writer) = rmcp::transport::io::stdio_pipes();
    let ended = Arc::new(Notify::new());
    let wire = Wire::new(reader, writer, desk.settings.longest_line, Arc::clone(&ended));
    let server = Server::new(Arc::clone(desk));
    let protocol = tokio::spawn(async move {
        match rmcp::serve_server(server, wire).await {
            Ok(running) => drop(running.waiting().await),
            Err(e) => tracing::debug!("the protocol did not begin: {e}"),
        }
    });
    let tidying = async {
        loop {
            tokio::time::sleep(TIDY).await;
            desk.registry.tidy();
        }
    };
    let last_answers = async {
        ended.notified().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        () = last_answers => Ok(Gone::Input),
        _ = protocol => Ok(Gone::Input),
        signal = a_signal(signals) => signal.map(Gone::Signal),
        () = parent_gone(parent) => Ok(Gone::Parent),
        () = tidying => Ok(Gone::Input),
    }
}

async fn a_signal(signals: signals::SignalFd) -> io::Result<i32> {
    let readable = Readable::new(signals.as_fd().try_clone_to_owned()?)?;
    loop {
        readable.wait().await?;
        if let Some(arrived) = signals.read()? {
            return Ok(arrived.signal);
        }
    }
}

/// Our parent, if it can be watched: it may go without an end of our input, when somebody else holds the pipe.
fn watched_parent() -> io::Result<Option<OwnedFd>> {
    let Some(parent) = process::parent_pid().filter(|pid| *pid > 1) else { return Ok(None) };
    let Ok(handle) = killcord_sys::pidfd::Pidfd::open(parent) else { return Ok(None) };
    if process::parent_pid() == Some(parent) {
        Ok(Some(handle.into()))
    } else {
        Err(io::Error::other("the client is gone already"))
    }
}

async fn parent_gone(parent: Option<OwnedFd>) {
    let Some(readable) = parent.and_then(|fd| Readable::new(fd).ok()) else {
        return std::future::pending().await;
    };
    // A handle that cannot be waited for says nothing; the end of the input does.
    if readable.wait().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A descriptor of which only the readiness counts.
struct Readable(asynchronous::Receiver);

impl Readable {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        descriptors::never_wait(fd.as_fd())?;
        asynchronous::Receiver::from_owned_fd_unchecked(fd).map(Self)
    }

    async fn wait(&self) -> io::Result<()> {
        self.0.readable().await
    }
}
