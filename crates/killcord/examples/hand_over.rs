//! A program that hands a job to another process, which is its owner from then on.
//!
//! A launcher starts a dev server, say, and gives it to the daemon that is to look after it. The daemon here is
//! this program in another role; it gets the cord as its standard input. The launcher may go then: the daemon's
//! death is what ends the job.
//!
//!     cargo run -p killcord --example hand_over

use killcord::{Job, JobId, Ladder, Owner};
use std::error::Error;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    killcord::init();
    match std::env::args().nth(1) {
        None => launcher(),
        Some(id) => daemon(id.parse()?),
    }
}

fn launcher() -> Result<(), Box<dyn Error>> {
    let owner = Owner::new()?;
    let job = owner.command("sleep").arg("50").spawn()?;
    println!("launcher {} hands job {} over", std::process::id(), job.id());
    let mut daemon = Command::new("/proc/self/exe");
    daemon.arg(job.id().to_string()).stdin(job.into_fd()?);
    let mut started = daemon.spawn()?;
    // With the command goes our copy of the cord, and with the owner our claim to anything.
    drop((daemon, owner));
    let status = started.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the daemon failed: {status}").into()) }
}

fn daemon(id: JobId) -> Result<(), Box<dyn Error>> {
    let cord = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut job = Job::adopt(cord, id)?;
    println!("daemon {} adopts job {id}", std::process::id());
    match job.wait_timeout(Duration::from_millis(200))? {
        None => println!("job {id} still runs"),
        Some(end) => return Err(format!("the job is over: {end:?}").into()),
    }
    // Standard input is a second copy of the cord: the order, not the drop, is what ends the job here.
    job.end(Ladder::short())?;
    println!("ended: {:?}", job.wait()?.verdict);
    Ok(())
}
