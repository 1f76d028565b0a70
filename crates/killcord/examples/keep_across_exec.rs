//! A program that keeps a job while it executes itself anew, as a server does that updates itself.
//!
//! The cord is a descriptor like any other. Here it becomes the standard input of the next life, which finds it
//! there and adopts the job. Were exec to fail, or the next life not to care, the cord would be closed and the job
//! ended: it is never without an owner.
//!
//!     cargo run -p killcord --example keep_across_exec

use killcord::{Job, JobId, Ladder, Owner};
use std::error::Error;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    killcord::init();
    match std::env::args().nth(1) {
        None => first_life(),
        Some(id) => next_life(id.parse()?),
    }
}

fn first_life() -> Result<(), Box<dyn Error>> {
    let owner = Owner::new()?;
    let job = owner.command("sleep").arg("50").spawn()?;
    println!("started job {}", job.id());
    let mut again = Command::new("/proc/self/exe");
    again.arg(job.id().to_string()).stdin(job.into_fd()?);
    // It returns only when it fails.
    Err(again.exec().into())
}

fn next_life(id: JobId) -> Result<(), Box<dyn Error>> {
    // Standard input stays open as a second copy, so that dropping the job would not be the last close: the
    // job is ended by an order, or by this process's end.
    let cord = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut job = Job::adopt(cord, id)?;
    match job.wait_timeout(Duration::from_millis(200))? {
        None => println!("after exec: job {id} still runs"),
        Some(end) => return Err(format!("the job has not survived: {end:?}").into()),
    }
    job.end(Ladder::short())?;
    println!("ended: {:?}", job.wait()?.verdict);
    Ok(())
}
