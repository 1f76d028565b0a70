//! `kc-nest PROGRAM ARGS...`: runs the program and ends when nothing of it is left: neither the program nor any
//! process that ever came from it, whatever it did to get away.
//!
//! It is a subreaper, so every descendant that loses its parent becomes its child, and "no child left" (`ECHILD`)
//! means that no descendant is left. It signals nobody. Of the descriptors that it hands on it keeps none.
//!
//! Exit status: the program's, or 128+n for signal n. `$D/peak`, where there is such a file, gets the largest
//! resident set of all that has been waited for, in bytes.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use killcord_sys::fixture::set_child_subreaper;
use killcord_testkit::life;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

fn main() -> io::Result<ExitCode> {
    life::arm();
    set_child_subreaper()?;
    let mut args = std::env::args_os().skip(1);
    let program = args.next().ok_or_else(|| life::usage("kc-nest PROGRAM ARGS..."))?;
    let child = Command::new(program).args(args).spawn()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    let status = reap_all(Pid::from_child(&child))?;
    if let Some(dir) = std::env::var_os("D")
        && let Ok(mut peak) = OpenOptions::new().append(true).open(PathBuf::from(dir).join("peak"))
    {
        writeln!(peak, "{}", killcord_sys::child::used().largest)?;
    }
    let code = status.and_then(|s| s.exit_status().or(s.terminating_signal().map(|n| 128 + n)));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Waits until there is no child any more, and returns how the first one ended.
fn reap_all(first: Pid) -> io::Result<Option<WaitStatus>> {
    let mut status = None;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, ended))) if pid == first => status = Some(ended),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(status),
            Err(e) => return Err(e.into()),
        }
    }
}
