//! A minimal tool call of an agent: a command with a timeout, its output bounded, and what was printed
//! before the timeout kept.
//!
//!     cargo run -p killcord --example tool_call -- sh -c 'echo partial; sleep 60'

use killcord::{Cause, Owner, Stdio};
use std::time::Duration;

fn main() -> killcord::Result<()> {
    killcord::init();
    let mut args = std::env::args_os().skip(1);
    let program = args.next().unwrap_or_else(|| "sh".into());
    let mut args: Vec<_> = args.collect();
    if args.is_empty() {
        args = vec!["-c".into(), "echo partial; sleep 60 & sleep 60".into()];
    }

    let owner = Owner::new()?;
    let job = owner
        .command(program)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .timeout(Duration::from_secs(1))
        .grace(Duration::from_secs(1))
        .spawn()?;
    let output = job.into_output(24_000)?;

    let how = match (output.end.cause, output.end.status) {
        (Cause::Timeout, _) => "timed out".to_owned(),
        (_, Some(status)) => format!("exit status {}", status.as_shell()),
        (_, None) => "its guards were killed".to_owned(),
    };
    println!("[{how} in {:.2?} | {} bytes]", output.end.duration, output.stdout.total);
    println!("{}", output.stdout.to_text());
    println!("[boundary {}; {:?}]", output.end.boundary, output.end.verdict);
    Ok(())
}
