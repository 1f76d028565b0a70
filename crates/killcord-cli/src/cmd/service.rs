//! `killcord run --detach`, `killcord logs` and `killcord wait`.

use crate::args::{Logs, Wait};
use crate::message::say;
use crate::paint::show;
use killcord::service::{self, Outcome};
use killcord::session::Options;
use killcord_model::status;
use std::io::{self, Write};
use std::time::Duration;

/// How often the output of a running service is looked at again.
const AGAIN: Duration = Duration::from_millis(100);

/// Starts a service, and returns when its program is being executed.
pub(super) fn start(options: &Options, name: &str) -> Result<i32, killcord::Error> {
    let job = service::start(options, name)?;
    show(&format!("{name} started: job {job}\n"));
    Ok(0)
}

/// Prints what a service has printed.
pub(crate) fn logs(args: &Logs) -> i32 {
    match print(args) {
        Ok(()) => 0,
        Err(e) => {
            say(&e.to_string());
            status::FAILED
        }
    }
}

fn print(args: &Logs) -> killcord::Result<()> {
    let failed = |source| killcord::Error::Io { doing: "read the service's output", source };
    let mut log = service::logs(None, &args.name)?;
    let mut out = io::stdout().lock();
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        // Asked before the last look, so that what came between the two is not missed.
        let goes_on = args.follow && log.goes_on().map_err(failed)?;
        loop {
            match log.read(&mut buffer).map_err(failed)? {
                0 => break,
                n => {
                    if log.has_missed() {
                        say("some of the output was put aside and removed before it could be read");
                    }
                    if out.write_all(&buffer[..n]).and_then(|()| out.flush()).is_err() {
                        // Whoever stopped reading does not want the rest.
                        return Ok(());
                    }
                }
            }
        }
        if !goes_on {
            return Ok(());
        }
        std::thread::sleep(AGAIN);
    }
}

/// Waits until a service is over, says how it ended, and returns its exit status.
pub(crate) fn wait(args: &Wait) -> i32 {
    match service::wait(None, &args.name) {
        Ok(Outcome::Ended(exit)) => {
            show(&format!("{}: {}, {} ago\n", args.name, exit.how, super::list::ago(exit.at)));
            exit.status
        }
        Ok(Outcome::OwnerKilled) => {
            say(&format!("{}: its owner was killed, and it was ended with it", args.name));
            status::GUARD_LOST
        }
        Err(e) => {
            say(&e.to_string());
            status::FAILED
        }
    }
}
