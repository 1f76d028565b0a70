//! How an MCP client starts a stdio server: contained, with the streams passed through untouched.
//!
//! The server gets this program's own standard streams, so that nothing is copied and nothing is delayed. It
//! ends when the client closes its input, as the protocol has it, and so does everything that it started. When
//! this wrapper is killed, or the client with it, the server goes too.
//!
//!     cargo run -p killcord --example mcp_wrapper -- npx some-mcp-server

use killcord::{Owner, Stdio};
use std::process::ExitCode;

fn main() -> ExitCode {
    killcord::init();
    match serve() {
        Ok(code) => code,
        Err(e) => {
            eprintln!("mcp_wrapper: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> killcord::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let server = args.next().unwrap_or_else(|| "cat".into());
    let owner = Owner::new()?;
    let mut job = owner
        .command(server)
        .args(args)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()?;
    let end = job.wait()?;
    if let Some((members, fate)) = end.leftovers.filter(|(members, _)| members.count > 0) {
        let names: Vec<&str> = members.named.iter().map(|m| m.command.as_str()).collect();
        eprintln!("mcp_wrapper: {} left behind: {} ({})", members.count, names.join(", "), fate.name());
    }
    // 128 and the number when a signal ended it, as a shell says it; 137 when that could not be seen.
    let status = end.status.map_or(137, killcord::ExitStatus::as_shell);
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)))
}
