//! `kc-inject LOG AIM -- PROGRAM ARGS...`: runs the program, and has one of its processes die, or fail, at one system
//! call: without a hook in it, and at exactly one.
//!
//! AIM is `count`, or `WHO:CALL:N:ACTION`. WHO is a process by its descent: `0` is the program, `0.1` the first
//! process that it starts, `0.1.2` the second one of that; `*` is every process. CALL is the name of a system call or
//! `*`; N counts those calls of that process from 1. ACTION is `kill` (SIGKILL before the call is made), `error=NUMBER`
//! (the call is not made, and fails so) or `always=NUMBER` (this one and all later ones). A `close` is made, and fails
//! nevertheless, as the kernel has it: the descriptor is gone, whatever it says.
//!
//! What `strace` cannot do is to tell one followed process from another: its `when=` counts for each of them, so that
//! the warden and the keeper would both be hit. The rest is what `strace -f` does.
//!
//! A process other than the program that executes something is let go: jobs are not traced. One that executes the
//! program again (the warden of a library) is not. After the one hit all
//! are, each at its next call, so that what follows runs at its own speed. The log has a line `WHO CALL` for each call
//! that was counted, and `hit MILLISECONDS WHO CALL` at once for one that was hit, in monotonic time. It ends with the
//! program, with its status, and kills nobody.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use killcord_sys::fixture::trace::{self, Stop};
use killcord_sys::fixture::{Forked, exit_now, fork};
use killcord_testkit::{Signal, life};
use rustix::process::{Pid, kill_process};
use syscalls::Sysno;

fn main() -> io::Result<ExitCode> {
    life::arm();
    let mut args = std::env::args_os().skip(1);
    let (Some(log), Some(aim), Some(_), Some(program)) = (args.next(), args.next(), args.next(), args.next())
    else {
        return Err(life::usage("kc-inject LOG AIM -- PROGRAM ARGS..."));
    };
    let aim =
        Aim::parse(&aim.to_string_lossy()).ok_or_else(|| life::usage("AIM is count or WHO:CALL:N:ACTION"))?;
    let root = start(&program, &args.collect::<Vec<_>>())?;
    let mut tracer = Tracer::new(Path::new(&log), aim, root)?;
    let code = tracer.follow()?;
    tracer.log.flush()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Forks the program, traced from its exec on.
fn start(program: &OsString, args: &[OsString]) -> io::Result<Pid> {
    let (mut go, mut traced) = io::pipe()?;
    match fork()? {
        Forked::Child => {
            drop(traced);
            let mut byte = [0];
            let failed = match go.read_exact(&mut byte) {
                Ok(()) => Command::new(program).args(args).exec(),
                Err(e) => e,
            };
            // Nobody else says so.
            let _ = life::say(&format!("kc-inject: {failed}"));
            exit_now(127)
        }
        Forked::Parent(root) => {
            trace::seize(root)?;
            traced.write_all(b"!")?;
            Ok(root)
        }
    }
}

/// What a process executes; it is stopped, so that the number is its own.
fn executable(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok()
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Kill,
    Fail { errno: i32, always: bool },
}

/// What is to be hit.
#[derive(Debug)]
struct Aim {
    who: String,
    call: String,
    nth: u64,
    /// `None` for a mere count.
    action: Option<Action>,
}

impl Aim {
    fn parse(text: &str) -> Option<Self> {
        if text == "count" {
            return Some(Self { who: "*".into(), call: "*".into(), nth: 1, action: None });
        }
        let [who, call, nth, action] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
        let action = match action.split_once('=') {
            None if action == "kill" => Action::Kill,
            Some(("error", errno)) => Action::Fail { errno: errno.parse().ok()?, always: false },
            Some(("always", errno)) => Action::Fail { errno: errno.parse().ok()?, always: true },
            _ => return None,
        };
        Some(Self { who: who.into(), call: call.into(), nth: nth.parse().ok()?, action: Some(action) })
    }

    fn fits(&self, who: &str, call: &str) -> bool {
        (self.who == "*" || self.who == who) && (self.call == "*" || self.call == call)
    }
}

/// A process that is traced.
#[derive(Debug, Default)]
struct Tracee {
    /// Its descent; not known yet when it is reported before its parent says that it has started it.
    who: Option<String>,
    /// How many it has started.
    started: u32,
    /// How many of its calls fitted.
    fitting: u64,
    /// What the call that it is in is going to fail with.
    fails: Option<i32>,
    /// Whether it waits, stopped, for its descent to be known.
    held: bool,
}

struct Tracer {
    log: BufWriter<std::fs::File>,
    aim: Aim,
    root: Pid,
    /// Whether the program has been executed: what comes before is ours.
    runs: bool,
    /// What it is.
    program: Option<PathBuf>,
    tracees: HashMap<Pid, Tracee>,
    /// Whether all that was to be done is done.
    done: bool,
}

impl Tracer {
    fn new(log: &Path, aim: Aim, root: Pid) -> io::Result<Self> {
        let log = BufWriter::new(OpenOptions::new().append(true).create(true).open(log)?);
        let first = Tracee { who: Some("0".into()), ..Tracee::default() };
        Ok(Self {
            log,
            aim,
            root,
            runs: false,
            program: None,
            tracees: HashMap::from([(root, first)]),
            done: false,
        })
    }

    /// Until the program has ended: its status.
    fn follow(&mut self) -> io::Result<i32> {
        let mut code = None;
        while let Some((pid, stop)) = trace::next()? {
            match stop {
                Stop::Ended(status) => {
                    self.tracees.remove(&pid);
                    if pid == self.root {
                        code = Some(status);
                    }
                }
                _ => self.stopped(pid, stop)?,
            }
            // Whoever is left is let go by our end; but not in a call that was prevented, and not where all of
            // them are to fail.
            let always = matches!(self.aim.action, Some(Action::Fail { always: true, .. }));
            let failing = self.tracees.values().any(|tracee| tracee.fails.is_some());
            if let Some(code) = code
                && !always
                && !failing
            {
                return Ok(code);
            }
        }
        code.ok_or_else(|| io::Error::other("the program was not seen to end"))
    }

    fn stopped(&mut self, pid: Pid, stop: Stop) -> io::Result<()> {
        let tracee = self.tracees.entry(pid).or_default();
        if tracee.who.is_none() {
            tracee.held = true;
            return Ok(());
        }
        match stop {
            Stop::Calls(number) if self.runs && !self.done => return self.at_call(pid, number),
            Stop::Called => {
                if let Some(errno) = tracee.fails.take() {
                    trace::answer(pid, errno)?;
                }
            }
            Stop::Started(new) => self.started(pid, new)?,
            Stop::Executed if pid == self.root => {
                self.runs = true;
                self.program = executable(pid);
            }
            Stop::Executed if self.program.is_some() && executable(pid) == self.program => {}
            Stop::Executed => return self.let_go(pid, 0),
            Stop::Stopped => return trace::stay_stopped(pid),
            Stop::Calls(_) | Stop::Signal(_) | Stop::Other | Stop::Ended(_) => {}
        }
        let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
        // What has just been started is let go as well: it would be stopped for ever otherwise.
        if self.done { self.let_go(pid, signal) } else { trace::resume(pid, signal) }
    }

    fn let_go(&mut self, pid: Pid, signal: i32) -> io::Result<()> {
        self.tracees.remove(&pid);
        trace::let_go(pid, signal)
    }

    fn started(&mut self, by: Pid, new: Pid) -> io::Result<()> {
        let Some(parent) = self.tracees.get_mut(&by) else { return Ok(()) };
        parent.started += 1;
        let who = parent.who.as_ref().map(|who| format!("{who}.{}", parent.started));
        let tracee = self.tracees.entry(new).or_default();
        tracee.who = who;
        if std::mem::take(&mut tracee.held) { trace::resume(new, 0) } else { Ok(()) }
    }

    fn at_call(&mut self, pid: Pid, number: u64) -> io::Result<()> {
        let known = usize::try_from(number).ok().and_then(Sysno::new);
        let call = known.map_or_else(|| number.to_string(), |known| known.name().to_owned());
        let Some(tracee) = self.tracees.get_mut(&pid) else { return Ok(()) };
        let who = tracee.who.clone().unwrap_or_default();
        let Some(action) = self.aim.action else {
            writeln!(self.log, "{who} {call}")?;
            return trace::resume(pid, 0);
        };
        let fits = self.aim.fits(&who, &call);
        tracee.fitting += u64::from(fits);
        let always = matches!(action, Action::Fail { always: true, .. });
        if !fits || (tracee.fitting != self.aim.nth && !(always && tracee.fitting > self.aim.nth)) {
            return trace::resume(pid, 0);
        }
        writeln!(self.log, "hit {} {who} {call}", life::now_ms())?;
        self.log.flush()?;
        self.done = !always;
        match action {
            // It is stopped, so that the number is its own. Being killed ends the stop.
            Action::Kill => kill_process(pid, Signal::KILL).map_err(Into::into),
            Action::Fail { errno, .. } => {
                tracee.fails = Some(errno);
                if call != "close" {
                    trace::prevent(pid)?;
                }
                trace::resume(pid, 0)
            }
        }
    }
}
