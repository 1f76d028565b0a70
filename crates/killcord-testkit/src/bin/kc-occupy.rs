//! `kc-occupy PID SECONDS [--group]`: an innocent process appears under exactly this number, as it happens when
//! numbers are recycled. With `--group` it leads a session and a process group of that number too.
//!
//! Prints `ok PID STARTTIME` when the innocent one is there. Exit status 0: it lived its time and no signal came.
//! 128+n, and a line `signal n`: that signal came (STOP and CONT are seen too). 3: the number was not to be had.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use killcord_sys::fixture::{Forked, alarm, block_signals, exit_now, fork, fork_with_pid, wait_signal};
use killcord_testkit::{Signal, life, procs};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, kill_process};

/// How long it is tried to get the number: whoever had it may still be about to be reaped.
const PATIENCE_MS: u64 = 10_000;

fn main() -> io::Result<ExitCode> {
    life::arm();
    let mut args = std::env::args().skip(1);
    let (Some(pid), Some(seconds)) = (args.next(), args.next()) else {
        return Err(life::usage("kc-occupy PID SECONDS [--group]"));
    };
    let pid = pid.parse::<u32>().map_err(|_| life::usage("PID is a number"))?;
    let seconds = life::seconds(&seconds)?;
    let group = args.next().is_some_and(|arg| arg == "--group");

    let (mut ready, there) = io::pipe()?;
    let until = life::now_ms() + PATIENCE_MS;
    let child = loop {
        match appear(pid) {
            Ok(Some(Forked::Child)) => {
                drop(ready);
                innocent(seconds, group, there);
            }
            Ok(Some(Forked::Parent(child))) => break child,
            Ok(None) if life::now_ms() < until => {}
            Ok(None) => {
                life::say("could not get the pid")?;
                return Ok(ExitCode::from(3));
            }
            Err(e) => return Err(e),
        }
    };
    drop(there);
    // The byte says that it leads its group and hears every signal.
    ready.read_exact(&mut [0])?;
    let start = procs::start_time(pid).ok_or_else(|| io::Error::other("it is gone already"))?;
    life::say(&format!("ok {pid} {start}"))?;
    judge(child)
}

/// One attempt; `None` where another one may succeed.
fn appear(want: u32) -> io::Result<Option<Forked>> {
    match fork_with_pid(want) {
        Ok(forked) => return Ok(Some(forked)),
        Err(e) if e.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(None);
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => return Err(e),
        // Not allowed, or no such call: by trying all numbers, beginning with the right one where that is allowed.
        Err(_) => {}
    }
    // Without the right to write it, the plain loop still comes round where `pid_max` is small.
    let _ = std::fs::write("/proc/sys/kernel/ns_last_pid", want.saturating_sub(1).to_string());
    match fork()? {
        Forked::Child if std::process::id() == want => Ok(Some(Forked::Child)),
        Forked::Child => exit_now(0),
        Forked::Parent(child) if child.as_raw_pid() as u32 == want => Ok(Some(Forked::Parent(child))),
        Forked::Parent(child) => life::reap(child).map(|_| None),
    }
}

fn innocent(seconds: Duration, group: bool, mut there: io::PipeWriter) -> ! {
    alarm(life::LIFE);
    block_signals();
    let named = rustix::thread::set_name(c"kc-innocent");
    let ready = named.map_err(io::Error::from).and_then(|()| {
        if group {
            rustix::process::setsid()?;
        }
        there.write_all(b"!")
    });
    drop(there);
    match ready.and_then(|()| wait_signal(seconds)) {
        Ok(None) => exit_now(0),
        Ok(Some(signal)) => exit_now(128 + signal),
        Err(_) => exit_now(1),
    }
}

/// Waits for the innocent one, stops included, and says what became of it.
fn judge(child: Pid) -> io::Result<ExitCode> {
    let status = loop {
        match rustix::process::waitpid(Some(child), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    if status.stopped() {
        // Our own child, and not reaped: the number is still its own.
        kill_process(child, Signal::KILL)?;
        life::reap(child)?;
    }
    let by_signal = status.terminating_signal().or(status.stopping_signal());
    let code = by_signal.map_or(status.exit_status().unwrap_or(1), |signal| 128 + signal);
    if code > 128 {
        life::say(&format!("signal {}", code - 128))?;
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
