//! `kc-ontty PROGRAM ARGS...`: leads a new session, takes its stdin, a terminal, as the controlling one, and
//! becomes the program. The half of a terminal test that must happen in the child.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use killcord_testkit::life;

fn main() -> io::Result<()> {
    // The alarm is kept over the exec: whatever the program is, it does not outlive a test that hangs.
    life::arm();
    let mut args = std::env::args_os().skip(1);
    let program = args.next().ok_or_else(|| life::usage("kc-ontty PROGRAM ARGS..."))?;
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    Err(Command::new(program).args(args).exec())
}
