//! The program that a probe puts into a boundary.

use killcord_sys::os::AsFd;
use killcord_sys::process::{self, Fork};
use killcord_sys::socket;
use std::io::{self, Read};

/// No witness lives longer, whatever happens to the prober.
const LIFE_SECONDS: u32 = 10;

/// How to execute a program that calls [`witness`]: usually the prober itself, in a hidden mode.
#[derive(Debug, Clone)]
pub struct Witness {
    /// The program, looked up in `PATH` when it has no slash.
    pub program: Vec<u8>,
    /// Its arguments without its name.
    pub args: Vec<Vec<u8>>,
}

/// What a witness does: lets a child escape to a session of its own, says from both processes that it is
/// there, by one byte each on standard output, and stays until standard input ends.
///
/// # Errors
/// Whatever stands in the way of that.
pub fn witness() -> io::Result<()> {
    let escapee = process::fork()? == Fork::Child;
    process::alarm(LIFE_SECONDS);
    if escapee {
        process::new_session()?;
    }
    socket::write(io::stdout().as_fd(), b"w")?;
    // Nothing is ever written to it.
    let mut end = [0u8; 1];
    let _ = io::stdin().read(&mut end)?;
    Ok(())
}
