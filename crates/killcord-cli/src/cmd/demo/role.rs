//! The programs of the demo's tree: each gets away from its parent in its own manner.
//!
//! Standard output is a socket to the demo. On it each program says once which role it is, and sends a
//! pidfd of itself, which is right in whatever pid namespace it stands. The socket's end means that the
//! demo is gone, and then the program ends as well.

use super::super::doctor::own_program;
use killcord_sys::os::OsStringExt;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::pidfd::Pidfd;
use killcord_sys::poll::{self, Interest};
use killcord_sys::process::{self, Fork};
use killcord_sys::signals::Set;
use killcord_sys::{descriptors, os, socket};
use std::ffi::{CStr, OsString};
use std::io;
use std::process::Command;

/// No process of the demo lives longer, whatever happens.
const LIFE_SECONDS: u32 = 30;

/// What the shell is given. Its own arguments are the path of this program.
const SCRIPT: &str = r#"for role in plain setsid daemon bare; do "$0" demo --role $role & done; wait"#;

/// Plays a role and returns the exit status.
pub(super) fn play(role: &str) -> i32 {
    process::alarm(LIFE_SECONDS);
    // The demo has blocked signals for itself.
    let unblocked = Set::of(&[]).block_exactly();
    let played = unblocked.and_then(|()| match role {
        "owner" => owner(),
        "shell" => shell(),
        "plain" => plain(),
        "setsid" => setsid(),
        "daemon" => daemon(),
        "bare" => bare(),
        "bare-inside" => bare_inside(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    });
    i32::from(played.is_err())
}

fn owner() -> io::Result<()> {
    let me = OsString::from_vec(own_program());
    // Not waited for: the owner ends before its shell.
    let _shell = Command::new(me).args(["demo", "--role", "shell"]).spawn()?;
    appear(c"owner")?;
    stay(io::stdout().as_fd())
}

/// An exec keeps the watchdog and the pidfd.
fn shell() -> io::Result<()> {
    appear(c"shell")?;
    let me = OsString::from_vec(own_program());
    Err(os::execute(Command::new("sh").arg("-c").arg(SCRIPT).arg(me)))
}

fn plain() -> io::Result<()> {
    appear(c"plain")?;
    stay(io::stdout().as_fd())
}

fn setsid() -> io::Result<()> {
    process::new_session()?;
    appear(c"setsid")?;
    stay(io::stdout().as_fd())
}

fn daemon() -> io::Result<()> {
    leave_parent()?;
    std::env::set_current_dir("/")?;
    appear(c"daemon")?;
    let line = detach()?;
    stay(line.as_fd())
}

/// A daemon that executes itself anew, so that its environment is empty in the kernel's eyes too.
fn bare() -> io::Result<()> {
    leave_parent()?;
    let me = OsString::from_vec(own_program());
    process::alarm(LIFE_SECONDS);
    Err(os::execute(Command::new(me).args(["demo", "--role", "bare-inside"]).env_clear()))
}

fn bare_inside() -> io::Result<()> {
    appear(c"bare")?;
    let line = detach()?;
    stay(line.as_fd())
}

/// Forks twice, with a session of its own in between, and returns in the last of the three when the other
/// two are gone.
fn leave_parent() -> io::Result<()> {
    let (gone, held) = socket::pipe()?;
    if process::fork()? != Fork::Child {
        process::exit_now(0);
    }
    process::new_session()?;
    if process::fork()? != Fork::Child {
        process::exit_now(0);
    }
    process::alarm(LIFE_SECONDS);
    drop(held);
    let _ = socket::wait_for_byte(&gone)?;
    Ok(())
}

/// Tells the demo who this is.
fn appear(role: &CStr) -> io::Result<()> {
    process::set_name(role)?;
    let me = OwnedFd::from(Pidfd::open(process::own_pid())?);
    socket::send(io::stdout().as_fd(), role.to_bytes(), &[me.as_fd()])
}

/// Gives the standard streams up as a daemon does, but for the line to the demo.
fn detach() -> io::Result<OwnedFd> {
    let line = io::stdout().as_fd().try_clone_to_owned()?;
    descriptors::detach_standard_streams()?;
    Ok(line)
}

/// Stays until the demo is gone or the watchdog barks.
fn stay(line: BorrowedFd<'_>) -> io::Result<()> {
    while !poll::wait([(Some(line), Interest::Gone)], None)?[0] {}
    Ok(())
}
