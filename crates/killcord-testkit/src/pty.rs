//! A program on a terminal of its own, as a person would have it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

use crate::binaries::bin;
use crate::killcord::like;
use crate::own_child::OwnChild;
use crate::stream::{Stream, TimedOut};

/// A program whose session leads a real pseudo-terminal.
///
/// Dropping it kills the program (only it) and closes the terminal, which hangs up on what is left.
#[derive(Debug)]
pub struct Terminal {
    own: OwnChild,
    master: Stream,
    name: std::ffi::OsString,
}

impl Terminal {
    /// Starts the command with a terminal of 80 x 24 as its stdin, stdout, stderr and controlling terminal,
    /// leading a session. Program, arguments, environment and directory of `command` are kept.
    ///
    /// Panics if that fails.
    pub fn start(command: &Command) -> Self {
        Self::try_start(command).unwrap_or_else(|e| panic!("cannot start {command:?} on a terminal: {e}"))
    }

    fn try_start(command: &Command) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let name = std::ffi::OsStr::from_bytes(name.as_bytes()).to_owned();
        // `open` without NOCTTY could make it the terminal of the test itself.
        let slave = {
            use std::os::unix::fs::OpenOptionsExt;
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(OpenptFlags::NOCTTY.bits() as i32)
                .open(&name)?
        };
        if crate::is_root() {
            // A terminal of root that became another user's by `setpriv` must still be his to open.
            std::fs::set_permissions(&name, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
        }
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        let mut on_tty = Command::new(bin("kc-ontty"));
        on_tty.arg(command.get_program()).args(command.get_args());
        like(&mut on_tty, command);
        if command.get_envs().all(|(key, _)| key != "TERM") {
            on_tty.env("TERM", "xterm");
        }
        on_tty.stdin(Stdio::from(slave.try_clone()?)).stdout(Stdio::from(slave.try_clone()?)).stderr(slave);
        let own = OwnChild::start(&mut on_tty)?;
        // `on_tty` keeps copies of the terminal's end until it is dropped, which would hide the end of the stream.
        drop(on_tty);
        Ok(Self { own, master: Stream::new(master), name })
    }

    /// The number of the program, which leads the session.
    pub fn pid(&self) -> u32 {
        self.own.child.id()
    }

    /// The path of the terminal, like `/dev/pts/3`.
    pub fn name(&self) -> &std::ffi::OsStr {
        &self.name
    }

    /// Types these bytes; `\x03` is Ctrl-C, `\x1a` Ctrl-Z.
    pub fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match rustix::io::write(self.master.fd(), bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => panic!("cannot type on the terminal: {e}"),
            }
        }
    }

    /// Reads until `text` has appeared after what was expected before; returns all of the text so far.
    pub fn expect(&mut self, text: &str, limit: Duration) -> Result<String, TimedOut> {
        self.master.expect(text, limit)
    }

    /// Reads until nobody has the terminal open any more.
    pub fn read_to_end(&mut self, limit: Duration) -> Result<String, TimedOut> {
        self.master.read_to_end(limit)
    }

    /// Everything that has been read so far.
    pub fn text(&self) -> String {
        self.master.text()
    }

    /// Changes the size of the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(self.master.fd(), size).unwrap_or_else(|e| panic!("cannot resize the terminal: {e}"));
    }

    /// The number of the foreground process group.
    pub fn foreground_group(&self) -> Option<u32> {
        tcgetpgrp(self.master.fd()).ok().map(|pid| pid.as_raw_pid() as u32)
    }

    /// Closes the terminal, as one closes a window: the program is left to the hang-up.
    pub fn close(&mut self) -> io::Result<()> {
        self.master = Stream::new(std::fs::File::open("/dev/null")?.into());
        Ok(())
    }

    /// Sends a signal to the program through its pidfd.
    pub fn kill(&self, signal: Signal) {
        self.own.kill(signal);
    }

    /// Waits for the end of the program; `None` at the deadline. Its output goes on being read meanwhile only by
    /// `expect` and `read_to_end`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.own.wait(limit)
    }
}
