//! A started program, its output, and its end within a deadline.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::own_child::OwnChild;
use crate::procs::{any_readable, readable};
use crate::stream::Stream;

/// A child of the test with pipes on stdin, stdout and stderr; dropping it kills it (only it) and reaps it.
#[derive(Debug)]
pub struct Running {
    own: OwnChild,
    /// Its standard output; the end of it proves that no process holds it any more.
    pub stdout: Stream,
    /// Its standard error.
    pub stderr: Stream,
}

impl Running {
    /// Starts the program with pipes. Its stdin is an open pipe that nothing is written to; see [`Running::send`].
    ///
    /// Panics if it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut own = OwnChild::start(command).unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let (Some(stdout), Some(stderr)) = (own.child.stdout.take(), own.child.stderr.take()) else {
            panic!("no pipes on {command:?}")
        };
        Self { own, stdout: Stream::new(stdout.into()), stderr: Stream::new(stderr.into()) }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.own.child.id()
    }

    /// Sends it a signal through its pidfd; a program that has ended is left alone.
    pub fn kill(&self, signal: Signal) {
        self.own.kill(signal);
    }

    /// Writes to its stdin.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.own.child.stdin {
            stdin.write_all(bytes).unwrap_or_else(|e| panic!("cannot write to a fixture: {e}"));
        }
    }

    /// Closes its stdin.
    pub fn close_stdin(&mut self) {
        self.own.child.stdin = None;
    }

    /// Blocks until one of its streams or its own end (unless that is known) has something to say.
    fn read_what_comes(&mut self, its_end: bool, deadline: Instant) {
        let mut awaited = Vec::new();
        awaited.extend((!self.stdout.has_ended()).then(|| self.stdout.fd().as_fd()));
        awaited.extend((!self.stderr.has_ended()).then(|| self.stderr.fd().as_fd()));
        awaited.extend(its_end.then(|| self.own.as_fd()));
        if any_readable(&awaited, deadline) {
            let now = Instant::now();
            self.stdout.read_some(now);
            self.stderr.read_some(now);
        }
    }

    fn has_exited(&self) -> bool {
        readable(self.own.as_fd(), Instant::now())
    }

    /// Waits for its own end, whoever still holds its output; `None` at the deadline.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.own.wait(limit)
    }
}

/// A program that has ended, with what it wrote.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    /// From the start to its own end.
    pub elapsed: Duration,
}

impl Finished {
    /// The exit status as a shell shows it: 128+n for signal n.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }
}

/// Runs a program with an empty stdin to its end **and** to the end of its output, or panics at the limit with
/// what there was.
pub fn run(command: &mut Command, limit: Duration) -> Finished {
    let begun = Instant::now();
    let mut running = Running::start(command);
    running.close_stdin();
    let mut elapsed = None;
    while elapsed.is_none() || !running.stdout.has_ended() || !running.stderr.has_ended() {
        if begun.elapsed() >= limit {
            let (out, err) = (running.stdout.text(), running.stderr.text());
            let own =
                elapsed.map_or("still runs".to_owned(), |e| format!("ended after {e:?}, its output is held"));
            panic!("{command:?} {own} at {limit:?}; stdout {out:?}, stderr {err:?}");
        }
        running.read_what_comes(elapsed.is_none(), begun + limit);
        if elapsed.is_none() && running.has_exited() {
            elapsed = Some(begun.elapsed());
        }
    }
    let status = running.own.reap();
    let (stdout, stderr) = (running.stdout.text(), running.stderr.text());
    Finished { status, stdout, stderr, elapsed: elapsed.unwrap_or_default() }
}
