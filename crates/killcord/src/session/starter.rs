//! Starting an engine contained, for SDKs: the engine's own process starts it again inside a boundary.

use super::{Options, run};
use crate::error::{Error, supported};
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JobId;
use killcord_model::spec::{Limits, Policy};
use killcord_model::status;
use killcord_model::wire::VERSION;
use killcord_sys::process;
use std::io::{self, Write};

/// The request for a contained session, in the environment.
const REQUEST: &str = "KILLCORD_SESSION";
/// The number of a descriptor whose end ends the session, in the environment.
const CONTROL: &str = "KILLCORD_CONTROL_FD";

/// Writes the line that says that the session is contained, as the first on stdout, in one write.
pub(super) fn acknowledge(boundary: Boundary, job: JobId) -> io::Result<()> {
    let line = format!(
        "{{\"killcord\":\"session\",\"protocol\":{VERSION},\"contained\":true,\"boundary\":\"{boundary}\",\
         \"ends_escapees\":{},\"job\":\"{job}\"}}\n",
        boundary.ends_escapees()
    );
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// For an engine that an SDK starts: if the environment says `KILLCORD_SESSION=1`, runs this executable
/// again, with the same arguments, contained, and never returns: this process is the owner then, ends
/// the engine when its parent goes or `KILLCORD_CONTROL_FD` (a number) ends, and exits with the
/// engine's status when nothing of it is left. The first line on stdout, before the engine runs, is
/// the acknowledgement that `killcord run --ack` writes.
///
/// Otherwise it returns at once. A request is taken out of the environment before anything else sees it.
///
/// To be called after [`crate::init`] and before everything else: no thread may have been started.
///
/// # Errors
/// When the session cannot be contained. Nothing has run; the caller decides whether that is the end.
pub fn contain_session_if_requested() -> Result<(), Error> {
    if std::env::var_os(REQUEST).is_none_or(|v| v != "1") {
        return Ok(());
    }
    supported()?;
    let control = std::env::var(CONTROL).ok();
    process::remove_variables(&[REQUEST, CONTROL]).map_err(Error::io("take the request for a session"))?;
    let control_fd = control
        .map(|text| text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, text)))
        .transpose()
        .map_err(Error::io("read KILLCORD_CONTROL_FD"))?;
    let finished = run(&Options {
        // This very executable, also when its file has been replaced.
        program: "/proc/self/exe".into(),
        argv: std::env::args_os().collect(),
        env: std::env::vars_os().collect(),
        policy: Policy::default(),
        limits: Limits::default(),
        boundary: Choice::Auto,
        require: None,
        watch_parent: Some(true),
        pass_fd: Vec::new(),
        control_fd,
        ack: true,
    })?;
    if let Some(refusal) = finished.refusal {
        return Err(Error::from_refusal(refusal, b"/proc/self/exe"));
    }
    // Nothing of this process is needed any more; what it has printed has been flushed.
    process::exit_now(if finished.end.status.is_some() { finished.exit_status() } else { status::GUARD_LOST })
}
