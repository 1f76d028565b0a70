//! Starting an engine contained, for SDKs: the engine's own process starts it again inside a boundary.

use super::{Finished, Options, run};
use crate::error::{Error, supported};
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JobId;
use killcord_model::spec::{Limits, Policy};
use killcord_model::verdict::Verdict;
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
/// Otherwise it returns at once. What there is of a request is taken out of the environment in both cases.
///
/// To be called after [`crate::init`] and before everything else: no thread may have been started.
///
/// # Errors
/// When the session cannot be contained. Nothing has run; the caller decides whether that is the end.
pub fn contain_session_if_requested() -> Result<(), Error> {
    let Some(request) = std::env::var_os(REQUEST) else { return Ok(()) };
    let control = std::env::var_os(CONTROL);
    process::remove_variables(&[REQUEST, CONTROL]).map_err(Error::io("take the request for a session"))?;
    if request != "1" {
        return Ok(());
    }
    supported()?;
    let control_fd = control
        .map(|text| text.to_str().and_then(|text| text.parse().ok()).ok_or(text))
        .transpose()
        .map_err(|text| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no number", text.display()))
        })
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
        own_temporary_directory: true,
        ack: true,
    })?;
    if let Some(refusal) = &finished.refusal {
        let error = Error::from_refusal(refusal.clone(), b"/proc/self/exe");
        if !finished.acknowledged {
            return Err(error);
        }
        // Who asked believes it to be contained: the caller must not go on without.
        let _ = writeln!(io::stderr(), "killcord: {error}");
    }
    complain(&finished);
    // Nothing of this process is needed any more; what it has printed has been flushed.
    process::exit_now(finished.exit_status())
}

/// Says on stderr what went wrong, as `killcord run` does.
fn complain(finished: &Finished) {
    let verdict = match &finished.end.verdict {
        Verdict::Survivors(members) => Some(format!("{} processes could not be ended", members.count)),
        Verdict::Unconfirmed(why) => Some(format!("not known whether all is gone: {why}")),
        Verdict::Empty(_) | Verdict::Refused => None,
    };
    for line in finished.trouble.iter().cloned().chain(verdict) {
        // A closed stderr is no reason to fail: there is nobody to tell.
        let _ = writeln!(io::stderr(), "killcord: {line}");
    }
}
