//! A hundred jobs at once on tokio; half of them are cancelled by dropping the future that waits, and are
//! gone all the same.
//!
//!     cargo run -p killcord --features tokio --example hundred_jobs

use killcord::{Owner, Stdio};
use std::time::Duration;

fn main() -> killcord::Result<()> {
    // Before the runtime: as a warden this process must have one thread.
    killcord::init();
    hundred_jobs()
}

#[tokio::main]
async fn hundred_jobs() -> killcord::Result<()> {
    let owner = Owner::new()?;
    let mut waiting = Vec::new();
    for number in 0..100 {
        let script = if number % 2 == 0 { "echo done" } else { "sleep 50 & wait" };
        let job = owner.command("sh").args(["-c", script]).stdout(Stdio::piped()).spawn()?;
        let limit = Duration::from_millis(500);
        waiting.push(tokio::spawn(tokio::time::timeout(limit, job.into_output_async(4096))));
    }
    let (mut done, mut cancelled) = (0, 0);
    for task in waiting {
        match task.await {
            Ok(Ok(output)) => {
                assert_eq!(output?.stdout.to_text(), "done\n");
                done += 1;
            }
            // The future was dropped, and the job with it: its keeper ends it.
            _ => cancelled += 1,
        }
    }
    println!("{done} done, {cancelled} cancelled");
    Ok(())
}
