//! Writes records to an audit log until it is ended: what the tests of the log kill, and let run into a full disk.
//!
//! `audit_writer DIRECTORY COUNT MAX_BYTES [FILLER]`. With a file to remove, it does so after the first failure, goes
//! on, and checks the log itself, which may be on a disk that nobody else sees. It ends by itself after 50 seconds.

use killcord_mcp::audit::{Call, Event, Log, What, verify};
use killcord_mcp::config::Audit;
use std::path::{Path, PathBuf};

fn main() {
    killcord_sys::process::alarm(50);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, count, max_bytes, filler @ ..] = &words[..] else {
        eprintln!("audit_writer DIRECTORY COUNT MAX_BYTES [FILLER]");
        std::process::exit(2)
    };
    let count: u64 = count.parse().unwrap_or(1);
    let max_bytes = max_bytes.parse().unwrap_or(4096);
    let directory = PathBuf::from(directory);
    let config = Audit { directory: Some(directory.clone()), max_bytes, files: 1000, ..Audit::default() };
    let log = match Log::open(&config) {
        Ok(log) => log,
        Err(e) => {
            println!("{e}");
            std::process::exit(1)
        }
    };
    for n in 0..count {
        let arguments = serde_json::json!({ "command": format!("echo {n}"), "cwd": "/" });
        let call = Call { tool: Some("shell_run".to_owned()), ..Call::default() };
        if log.record(Event { call, what: What::Start { arguments } }).is_err()
            && log.counters().failed == 3
            && let Some(filler) = filler.first()
        {
            println!("failed: {}", log.take_first_failure().unwrap_or_default());
            report(&directory);
            if let Err(e) = std::fs::remove_file(filler) {
                println!("{e}");
            }
        }
        if n == 0 {
            println!("writing");
        }
    }
    println!("{:?}", log.counters());
    if !filler.is_empty() {
        report(&directory);
    }
}

fn report(directory: &Path) {
    match verify(directory, None) {
        Ok(report) => println!("intact {} {:?}", report.is_intact(), report.problems),
        Err(e) => println!("{e}"),
    }
}
