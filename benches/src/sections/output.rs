//! How fast a job's output is read.

use super::{ours, owner, well};
use crate::measure::{Case, Found, Unit, Variant};
use crate::{Result, Setup};
use killcord::{Boundary, Stdio as JobStdio};
use killcord_sys::fixture;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    let size: usize = if setup.quick { 64 << 20 } else { 512 << 20 };
    let case = Case {
        section: "Output: more is better",
        name: format!("{} MiB through a pipe", size >> 20),
        unit: Unit::Rate,
        yardstick: Some("std::process".to_owned()),
        ..Case::default()
    };
    let plain = move |own_session: bool| {
        let mut command = Command::new(&setup.own);
        command.args(["role:write", &size.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        if own_session {
            fixture::lead_a_session(&mut command);
        }
        rate(size, || of_child(command))
    };
    let mut variants = vec![
        Variant::new("std::process", move || plain(false)),
        // The kernel's scheduler has writer and reader in different groups then (`sched(7)`, autogroup).
        Variant::new("std::process, pre_exec(setsid)", move || plain(true)),
    ];
    for boundary in [Boundary::Tree, Boundary::Cgroup] {
        let owner = owner(setup, boundary)?;
        variants.push(Variant::new(ours(boundary), move || {
            let mut command = owner.command(&setup.own);
            command.args(["role:write", &size.to_string()]).stdout(JobStdio::piped());
            rate(size, || {
                let mut job = command.spawn().map_err(|e| e.to_string())?;
                let read = drain(job.stdout.take().ok_or("no stdout")?);
                well(&job.wait().map_err(|e| e.to_string())?)?;
                read
            })
        }));
    }
    found.interleave(&case, setup.rounds(12, 4), variants);
    terminal(setup, found)
}

fn terminal(setup: &Setup, found: &mut Found) -> Result<()> {
    let size: usize = if setup.quick { 4 << 20 } else { 32 << 20 };
    let script = "script -q -c";
    let case = Case {
        section: "Output: more is better",
        name: format!("{} MiB through a terminal", size >> 20),
        unit: Unit::Rate,
        yardstick: Some(script.to_owned()),
        ..Case::default()
    };
    let line = format!("'{}' role:write {size}", setup.own.display());
    let (for_tmux, for_script) = (line.clone(), line);
    let mut variants = vec![
        Variant::new(script, move || {
            let mut command = Command::new("script");
            command.args(["-q", "-c", &for_script, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
            rate(size, || of_child(command))
        }),
        Variant::new("tmux", move || {
            // A server of its own, which ends with its last session.
            let socket = format!("killcord-bench-{}", std::process::id());
            let tmux = |args: &[&str]| {
                let status =
                    Command::new("tmux").args(["-L", &socket, "-f", "/dev/null"]).args(args).status();
                status.map_err(|e| format!("tmux: {e}")).map(|_| ())
            };
            let told = format!("{for_tmux}; tmux -L {socket} wait-for -S over");
            rate(size, || {
                tmux(&["new-session", "-d", "-x", "80", "-y", "24", &told])?;
                tmux(&["wait-for", "over"])?;
                Ok(size as u64)
            })
        }),
    ];
    for boundary in [Boundary::Tree, Boundary::Cgroup] {
        let owner = owner(setup, boundary)?;
        variants.push(Variant::new(ours(boundary), move || {
            let mut command = owner.command(&setup.own);
            command.args(["role:write", &size.to_string()]).on_terminal(80, 24);
            rate(size, || {
                let mut job = command.spawn().map_err(|e| e.to_string())?;
                let read = drain(job.terminal.take().ok_or("no terminal")?);
                well(&job.wait().map_err(|e| e.to_string())?)?;
                read
            })
        }));
    }
    found.interleave(&case, setup.rounds(12, 4), variants);
    Ok(())
}

/// What a child that has a pipe for its output printed, all of it read.
fn of_child(mut command: Command) -> Result<u64> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let read = drain(child.stdout.take().ok_or("no stdout")?);
    child.wait().map_err(|e| e.to_string())?;
    read
}

/// Reads to the end, as a program does that looks at what it reads.
fn drain(mut from: impl Read) -> Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let mut all = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(n) => all += n as u64,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// MB in a second; a terminal adds a carriage return to each line, which is not counted.
fn rate(size: usize, read: impl FnOnce() -> Result<u64>) -> Result<f64> {
    let begun = Instant::now();
    let read = read()?;
    if read < size as u64 {
        return Err(format!("{read} bytes of {size} came"));
    }
    Ok(size as f64 / 1e6 / begun.elapsed().as_secs_f64())
}
