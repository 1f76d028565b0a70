//! `kc-fds`: prints what a program inherits as one line of JSON: open descriptors and what they are, blocked and
//! ignored signals, session, process group, controlling terminal.
//!
//! Rust's start-up code opens the descriptors 0 to 2 where they are closed and ignores SIGPIPE; what is printed is
//! the state before that.

use std::fmt::Write;
use std::fs;
use std::io;

use killcord_sys::fixture::inherited;
use killcord_testkit::{life, procs};

fn main() -> io::Result<()> {
    life::arm();
    let early = inherited();
    let mut fds: Vec<(usize, String)> = Vec::new();
    // The listing itself has a descriptor, which is gone when its link is read.
    let listed: Vec<_> = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.path()).collect();
    for path in listed {
        let Some(number) = path.file_name().and_then(|n| n.to_str()?.parse::<usize>().ok()) else { continue };
        let Ok(target) = fs::read_link(&path) else { continue };
        if early.standard_open.get(number).copied().unwrap_or(true) {
            fds.push((number, target.to_string_lossy().into_owned()));
        }
    }
    fds.sort();
    let fds: Vec<String> = fds
        .into_iter()
        .map(|(fd, target)| format!("{{\"fd\":{fd},\"target\":{}}}", quoted(&target)))
        .collect();

    let status = fs::read_to_string("/proc/self/status")?;
    let mask = |field: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
        found.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or_default()
    };
    let sigpipe = 1 << 12;
    let ignored = if early.sigpipe_ignored { mask("SigIgn:") } else { mask("SigIgn:") & !sigpipe };
    let own = procs::stat(std::process::id()).ok_or_else(|| io::Error::other("no /proc/self/stat"))?;
    life::say(&format!(
        "{{\"fds\":[{}],\"blocked\":{:?},\"ignored\":{:?},\"pid\":{},\"session\":{},\"group\":{},\"tty\":{},\"umask\":{}}}",
        fds.join(","),
        numbers(mask("SigBlk:")),
        numbers(ignored),
        own.pid,
        own.session,
        own.group,
        // The device number; 0 means that there is no controlling terminal.
        own.tty,
        status
            .lines()
            .find_map(|l| u32::from_str_radix(l.strip_prefix("Umask:")?.trim(), 8).ok())
            .unwrap_or_default(),
    ))
}

/// The numbers of the signals in a mask of `/proc`.
fn numbers(mask: u64) -> Vec<u32> {
    (0..64).filter(|bit| mask & (1 << bit) != 0).map(|bit| bit + 1).collect()
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Writing to a string cannot fail.
            c if c < ' ' => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
