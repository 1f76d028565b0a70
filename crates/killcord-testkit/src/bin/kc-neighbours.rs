//! `kc-neighbours ROUNDS SIGNAL -- PROGRAM ARGS...`: a parent and a sibling that must hear of nothing.
//!
//! The parent leads a process group (its session's, when it leads that), the sibling is in it, and both write
//! down every signal that comes, but for `CHLD` and the watchdog's. In each round the parent starts the program in
//! the same group, sends it the signal (`TERM`, `INT`, `KILL`, or `none`) after 0 to 10 ms, and waits for it.
//!
//! Prints `parent SIGNALS`, `sibling SIGNALS` and `status CODES`, each sorted and once, and exits with 0. A signal
//! that cannot be caught ends it or the sibling, which is to be seen as well.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use killcord_sys::fixture::{Forked, exit_now, fork, record_signals, recorded_signals};
use killcord_testkit::{Signal, life};
use rustix::process::{Pid, getpgrp, getpid, kill_process, setpgid};

fn main() -> io::Result<()> {
    life::arm();
    record_signals();
    if getpgrp() != getpid() {
        setpgid(None, None)?;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rounds, signal, dashes, program @ ..] = args.as_slice() else { return Err(wrong()) };
    let rounds: u64 = rounds.parse().map_err(|_| wrong())?;
    let signal = match signal.as_str() {
        "TERM" => Some(Signal::TERM),
        "INT" => Some(Signal::INT),
        "KILL" => Some(Signal::KILL),
        "none" => None,
        _ => return Err(wrong()),
    };
    if dashes != "--" || program.is_empty() {
        return Err(wrong());
    }
    // The sibling lives until this pipe ends, and says on the other what it heard.
    let (until, hold) = io::pipe()?;
    let (mut said, say) = io::pipe()?;
    if let Forked::Child = fork()? {
        life::arm();
        drop((hold, said));
        sibling(until, say);
    }
    drop((until, say));
    let codes: BTreeSet<i32> =
        (0..rounds).map(|round| one(program, signal, round % 11)).collect::<io::Result<_>>()?;
    drop(hold);
    let mut heard = Vec::new();
    said.read_to_end(&mut heard)?;
    // The sibling says a byte when it ends by itself, then the numbers.
    let Some((b'!', heard)) = heard.split_first() else {
        return Err(io::Error::other("the sibling was ended"));
    };
    life::say(&format!("parent {:?}", recorded_signals()))?;
    life::say(&format!("sibling {heard:?}"))?;
    life::say(&format!("status {codes:?}"))
}

fn wrong() -> io::Error {
    life::usage("kc-neighbours ROUNDS TERM|INT|KILL|none -- PROGRAM ARGS...")
}

fn one(program: &[String], signal: Option<Signal>, after_ms: u64) -> io::Result<i32> {
    let mut command = Command::new(&program[0]);
    let mut child = command.args(&program[1..]).stdin(Stdio::null()).spawn()?;
    if let Some(signal) = signal {
        std::thread::sleep(Duration::from_millis(after_ms));
        // Our own child, and not reaped; that it has ended already is no failure.
        let _ = kill_process(Pid::from_child(&child), signal);
    }
    let status = child.wait()?;
    Ok(status.code().or(status.signal().map(|n| 128 + n)).unwrap_or(-1))
}

fn sibling(mut until: io::PipeReader, mut say: io::PipeWriter) -> ! {
    use std::io::Write;
    let ended = until.read_to_end(&mut Vec::new());
    let mut heard = vec![b'!'];
    heard.extend(recorded_signals().into_iter().map(|n| n as u8));
    let said = ended.and_then(|_| say.write_all(&heard));
    exit_now(i32::from(said.is_err()))
}
