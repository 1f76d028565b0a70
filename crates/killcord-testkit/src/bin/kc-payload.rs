//! `kc-payload [--leader stay|exit] [--ignore-term] [--only NAMES] [--code N]`: a leader with five escapees, or those
//! of the names with commas between them, each gone from its parent in another way:
//!
//! - `plain`, a child;
//! - `setsid`, a child in a session of its own;
//! - `daemon`, double-forked, in a session of its own, on `/dev/null`;
//! - `bare`, a daemon that executed itself with an empty environment and has no descriptor at all;
//! - `hopper`, which changes its process number every 3 ms, for 20 s, and keeps stdout open: the end of the
//!   job's output proves it gone, since no pidfd can hold it.
//!
//! Each writes itself down in `$D/ids` and then says so on a pipe of its own, whose end the leader awaits (the
//! bare one closes it last, so that it has no descriptor by then). When all are there the leader, which is in
//! `ids` as `leader`, prints `ready` and stays, or exits with 0 or that code.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use killcord_sys::fixture::{Forked, alarm, close_all_descriptors, exit_now, fork, ignore_signal};
use killcord_testkit::{Signal, life, record};
use rustix::process::{Pid, setsid};

/// How long the hopper hops, and how long it stays what it is.
const HOPS_MS: u64 = 20_000;
const HOP_MS: u64 = 3;

fn main() -> io::Result<()> {
    life::arm();
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if let [inner, ids, pipe] = args.as_slice()
        && inner == "--bare"
    {
        bare(Path::new(ids), pipe);
    }
    let (mut stay, mut ignore_term, mut code) = (true, false, 0);
    let mut only = None;
    let mut args = args.iter().map(|arg| arg.to_str());
    while let Some(arg) = args.next() {
        match arg {
            Some("--leader") => match args.next().flatten() {
                Some("stay") => stay = true,
                Some("exit") => stay = false,
                _ => return Err(life::usage("--leader stay|exit")),
            },
            Some("--ignore-term") => ignore_term = true,
            Some("--only") => only = args.next().flatten(),
            Some("--code") => code = args.next().flatten().and_then(|n| n.parse().ok()).unwrap_or(code),
            _ => return Err(life::usage("see the head of kc-payload")),
        }
    }
    if ignore_term {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            ignore_signal(signal.as_raw())?;
        }
    }
    let dir = std::env::var_os("D").ok_or_else(|| life::usage("kc-payload needs the variable D"))?;
    let ids = PathBuf::from(dir).join("ids");
    record(&ids, "leader")?;
    for (name, escapee, is_nobodys) in ESCAPEES {
        if only.is_some_and(|only| only.split(',').all(|wanted| wanted != name)) {
            continue;
        }
        let first = start(&ids, escapee)?;
        if is_nobodys {
            // The first process is only the one that forks; reaped, it leaves neither a parent nor a zombie.
            life::reap(first)?;
        }
    }
    life::say("ready")?;
    if stay {
        life::sleep_until(life::now_ms() + u64::from(life::LIFE) * 1000);
    }
    exit_now(code)
}

/// Each with its name, and whether it is a grandchild of the leader that loses its parent.
const ESCAPEES: [(&str, Escapee, bool); 5] = [
    ("plain", plain, false),
    ("setsid", leave_session, false),
    ("daemon", daemon, true),
    ("bare", start_bare, true),
    ("hopper", start_hopper, true),
];

/// What an escapee does in its first process; it returns only with an error.
type Escapee = fn(&Path, io::PipeWriter) -> io::Result<()>;

/// Forks an escapee and waits until the pipe of its own has said a byte and has ended.
fn start(ids: &Path, escapee: Escapee) -> io::Result<Pid> {
    let (mut up, told) = io::pipe()?;
    match fork()? {
        Forked::Child => {
            life::arm();
            drop(up);
            let failed = escapee(ids, told).err();
            // Without the byte the leader fails, and says that it did.
            exit_now(failed.map_or(0, |_| 1));
        }
        Forked::Parent(first) => {
            drop(told);
            let mut said = Vec::new();
            up.read_to_end(&mut said)?;
            if said != b"!" {
                return Err(io::Error::other("an escapee did not come up"));
            }
            Ok(first)
        }
    }
}

fn plain(ids: &Path, told: io::PipeWriter) -> io::Result<()> {
    come_up(ids, "plain", told)?;
    rest()
}

fn leave_session(ids: &Path, told: io::PipeWriter) -> io::Result<()> {
    setsid()?;
    come_up(ids, "setsid", told)?;
    rest()
}

fn daemon(ids: &Path, told: io::PipeWriter) -> io::Result<()> {
    become_daemon()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    come_up(ids, "daemon", told)?;
    rest()
}

fn start_bare(ids: &Path, told: io::PipeWriter) -> io::Result<()> {
    become_daemon()?;
    let pipe = OwnedFd::from(told);
    // Kept over the exec; its number is passed on.
    rustix::io::fcntl_setfd(&pipe, rustix::io::FdFlags::empty())?;
    let own = std::env::current_exe()?;
    let mut again = Command::new(own);
    again.arg("--bare").arg(ids).arg(pipe.as_fd().as_raw_fd().to_string()).env_clear();
    Err(again.exec())
}

/// The second life of `bare`. Its first arguments are all that it knows: there is no environment.
fn bare(ids: &Path, pipe: &OsStr) -> ! {
    let come_up = || -> io::Result<()> {
        record(ids, "bare")?;
        // Opening it anew and closing everything ends this copy and the inherited one alike.
        let mut told = OpenOptions::new().write(true).open(Path::new("/proc/self/fd").join(pipe))?;
        told.write_all(b"!")?;
        std::mem::forget(told);
        close_all_descriptors()
    };
    let code = i32::from(come_up().is_err());
    if code == 0 {
        life::sleep_until(life::now_ms() + u64::from(life::LIFE) * 1000);
    }
    exit_now(code)
}

fn start_hopper(ids: &Path, told: io::PipeWriter) -> io::Result<()> {
    become_daemon()?;
    // Of its descriptors only stdout is kept.
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    rustix::thread::set_name(c"kc-hopper")?;
    come_up(ids, "hopper", told)?;
    let until = life::now_ms() + HOPS_MS;
    // The scene that is over takes its list along, and the hopper goes too: a test that fails cannot pin it.
    while life::now_ms() < until && ids.exists() {
        life::sleep_until(life::now_ms() + HOP_MS);
        match fork() {
            Ok(Forked::Child) => alarm(until.saturating_sub(life::now_ms()).div_ceil(1000) as u32),
            Ok(Forked::Parent(_)) => exit_now(0),
            // The limit on processes is reached; the next hop may succeed.
            Err(_) => {}
        }
    }
    exit_now(0)
}

/// A session of its own, then a fork whose parent exits: nobody's child.
fn become_daemon() -> io::Result<()> {
    setsid()?;
    match fork()? {
        Forked::Child => {
            life::arm();
            Ok(())
        }
        Forked::Parent(_) => exit_now(0),
    }
}

/// Writes this process down, and only then tells the leader.
fn come_up(ids: &Path, name: &str, mut told: io::PipeWriter) -> io::Result<()> {
    record(ids, name)?;
    told.write_all(b"!")
}

fn rest() -> ! {
    life::sleep_until(life::now_ms() + u64::from(life::LIFE) * 1000);
    exit_now(0)
}
