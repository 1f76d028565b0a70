//! `killcord stop`: ends jobs and services of other owners, through their wardens.

use crate::args::Stop;
use crate::message::say;
use crate::paint::show;
use killcord::Error;
use killcord::stop::{self, Stopped};
use killcord_model::status;

/// Stops each, and returns the worst exit status: 1 for what was not running, 125 for what could not be asked.
pub(crate) fn stop(args: &Stop) -> i32 {
    args.what.iter().map(|what| one(what, args.now)).max().unwrap_or(0)
}

fn one(what: &str, now: bool) -> i32 {
    match stop::find(None, what).and_then(|target| stop::stop(None, &target, now)) {
        Ok(Stopped::Over) => {
            show(&format!("{what} stopped\n"));
            0
        }
        Ok(Stopped::LetGo) => {
            say(&format!("{what} was let go: killcord does not hold it any more"));
            1
        }
        Ok(Stopped::NotRunning) => {
            say(&format!("{what} is not running"));
            1
        }
        Err(e @ Error::NotRunning { .. }) => {
            say(&e.to_string());
            1
        }
        Err(e) => {
            say(&e.to_string());
            status::FAILED
        }
    }
}
