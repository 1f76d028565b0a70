//! An engine that an SDK starts: with `KILLCORD_SESSION=1` in its environment it starts itself again, contained, and
//! says so in the first line on its stdout. Then it does its work: each line of its input is a shell command, whose
//! status it answers.
//!
//!     echo 'echo hello' | KILLCORD_SESSION=1 cargo run -p killcord --example engine

use std::io::Write;
use std::process::Command;

fn main() -> std::io::Result<()> {
    killcord::init();
    if let Err(e) = killcord::contain_session_if_requested() {
        eprintln!("engine: not contained: {e}");
        std::process::exit(1);
    }
    let args: Vec<_> = std::env::args().skip(1).collect();
    println!("engine {} {args:?}", std::process::id());
    for line in std::io::stdin().lines() {
        let line = line?;
        if let Some(code) = line.strip_prefix("exit ") {
            std::process::exit(code.parse().unwrap_or(2));
        }
        let status = Command::new("sh").arg("-c").arg(&line).status()?;
        println!("{status}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
