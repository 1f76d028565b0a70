//! Starting a service: a copy of the starter becomes its owner, and lives as long as it does.

use super::files::{self, Place};
use super::is_name;
use super::log::Writer;
use crate::claim::Root;
use crate::error::{Error, Result, supported};
use crate::session::{Finished, Options, serve};
use killcord_model::id::JobId;
use killcord_model::verdict::Cause;
use killcord_model::wire::{Refusal, decode, encode};
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::process::{self, Fork};
use killcord_sys::{descriptors, signals, socket};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// What the service's owner tells its starter: the first thing, and the only one.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// The program is being executed.
    Started(JobId),
    /// Nothing ran, because of this.
    Refused(JobId, Refusal),
    /// Nothing ran; a line that says why.
    Failed(String),
    /// The guards were killed meanwhile: it may or may not have run.
    Unclear(JobId),
}

/// What a service's owner does beside following its job.
#[derive(Debug)]
pub(crate) struct Attendant {
    pub(crate) name: String,
    place: Place,
    log: Writer,
    /// Where the starter waits for the first word.
    starter: Option<OwnedFd>,
}

impl Attendant {
    /// The pipe with the service's output.
    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.log.pipe()
    }

    /// Writes what is there of the output. Returns whether more may come.
    pub(crate) fn drain(&mut self) -> bool {
        self.log.drain(&self.place)
    }

    /// Tells the starter that the program is being executed.
    pub(crate) fn started(&mut self, job: JobId) {
        // On a full disk it runs all the same; what of its output is lost is said at its end.
        let _ = self.log.open(&self.place).map(drop).and_then(|()| self.place.make_room());
        self.tell(&Word::Started(job));
    }

    fn tell(&mut self, word: &Word) {
        if let (Some(starter), Ok(text)) = (self.starter.take(), encode(word)) {
            // A starter that is gone has made its service all the same.
            let _ = socket::write(starter.as_fd(), &text);
        }
    }

    /// Writes down how it ended; one that never ran leaves nothing.
    pub(crate) fn finish(mut self, finished: &Finished) {
        self.log.drain_last(&self.place);
        if let Some(refusal) = &finished.refusal {
            // The name is free before the starter knows.
            let _ = self.place.discard();
            return self.tell(&Word::Refused(finished.job, refusal.clone()));
        }
        if self.starter.is_some() {
            // As above: its starter has not heard that it began, and hears now why.
            let _ = self.place.discard();
            return self.tell(&match finished.end.cause {
                Cause::WardenGone | Cause::KeeperGone => Word::Unclear(finished.job),
                Cause::LeaderExited | Cause::Timeout | Cause::Asked | Cause::OwnerGone => {
                    Word::Failed("it was ended before its program was executed".to_owned())
                }
            });
        }
        let mut exit = files::exit(finished);
        if let Some((bytes, why)) = self.log.lost {
            exit.how = format!("{}; {bytes} bytes of its output could not be written: {why}", exit.how);
        }
        // On a full disk nobody can be told.
        let _ = self.place.set_exit(&exit);
    }
}

/// Starts a service and returns when its program is being executed. For a process with one thread, which is not its
/// owner: that is a copy of this process, in a session of its own and with null standard streams. The service's
/// standard input is null, its output is kept.
///
/// # Errors
/// [`Error::ServiceRuns`] when there is one of this name; else why nothing ran.
pub fn start(options: &Options, name: &str) -> Result<JobId> {
    supported()?;
    if !is_name(name) {
        return Err(Error::ServiceName { name: name.to_owned() });
    }
    let root = Root::open(None)?;
    let place = Place::take(&root, name).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::ServiceRuns { name: name.to_owned() },
        _ => Error::Io { doing: "take the service's name", source },
    })?;
    let failed = Error::io("make the service's pipes");
    let (mine, theirs) = socket::pipe().map_err(&failed)?;
    let (output, input) = socket::pipe_reading_nonblocking().map_err(&failed)?;
    match process::fork().map_err(Error::io("fork the service's owner"))? {
        Fork::Child => {
            let attendant =
                Attendant { name: name.to_owned(), place, log: Writer::new(output), starter: Some(theirs) };
            become_owner(options, attendant, &input)
        }
        Fork::Parent(_) => {
            drop((theirs, output, input, place));
            hear_word(mine, &options.program.to_string_lossy())
        }
    }
}

fn hear_word(from: OwnedFd, program: &str) -> Result<JobId> {
    let mut text = Vec::new();
    let read = std::fs::File::from(from).read_to_end(&mut text);
    read.map_err(Error::io("wait for the service's owner"))?;
    match decode::<Word>(&text) {
        Ok(Word::Started(job)) => Ok(job),
        Ok(Word::Refused(_, refusal)) => Err(Error::from_refusal(refusal, program.as_bytes())),
        Ok(Word::Unclear(job)) => Err(Error::Unclear { job }),
        Ok(Word::Failed(why)) => Err(Error::ServiceFailed { why }),
        Err(_) => {
            Err(Error::ServiceFailed { why: "its owner was killed while it was being started".to_owned() })
        }
    }
}

/// Never returns.
fn become_owner(options: &Options, attendant: Attendant, input: &OwnedFd) -> ! {
    // Its starter is the parent that a service outlives.
    let options = Options { watch_parent: Some(false), control_fd: None, ack: false, ..options.clone() };
    let code = match detach(&attendant, &options, input) {
        Ok(()) => match serve(&options, attendant) {
            Ok(finished) => finished.exit_status(),
            // The starter has heard it.
            Err(_) => 1,
        },
        // The starter sees that nothing was said.
        Err(_) => 1,
    };
    process::exit_now(code)
}

/// Leaves the starter's session and gives up what is the starter's. What the job is to get besides is kept.
fn detach(attendant: &Attendant, options: &Options, input: &OwnedFd) -> io::Result<()> {
    let mut keep: Vec<_> = attendant.place.descriptors().iter().map(descriptors::number).collect();
    keep.extend([attendant.output()].iter().map(descriptors::number));
    keep.extend(attendant.starter.iter().map(descriptors::number));
    keep.extend(options.pass_fd.iter().map(|number| *number as i32));
    descriptors::set_standard_streams(input.as_fd())?;
    descriptors::close_all_but(&mut keep)?;
    process::new_session()?;
    process::set_name(c"killcord-service")?;
    // What its starter ignores is no reason for the service to be deaf.
    for signal in [signals::SIGHUP, signals::SIGINT, signals::SIGTERM, signals::SIGQUIT] {
        signals::reset(signal);
    }
    Ok(())
}

impl Attendant {
    /// Tells the starter why nothing was started.
    pub(crate) fn failed(mut self, why: &Error) {
        // As in `finish`.
        let _ = self.place.discard();
        self.tell(&Word::Failed(why.to_string()));
    }
}
