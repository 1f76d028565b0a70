//! A tmux of our own, on a socket and with a home that nobody else has.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use killcord_testkit::Need;

use super::{COLUMNS, ROWS};

pub(crate) const MISSING: Need = Need::Program("tmux");

/// Its server is ended when this is dropped. Each pane ends by itself within a minute, and the server with the last.
pub(crate) struct Tmux {
    home: tempfile::TempDir,
}

/// What a terminal shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) lines: Vec<String>,
    /// Column and line, from 1.
    pub(crate) cursor: (u16, u16),
    pub(crate) alternate: bool,
}

impl Tmux {
    /// `None` where there is no tmux.
    pub(crate) fn new() -> Option<Self> {
        let there = Command::new("tmux").arg("-V").output().is_ok_and(|output| output.status.success());
        there.then(|| {
            let home = tempfile::tempdir().unwrap();
            let settings = "set -g status off\nset -g default-shell /bin/sh\nset -g allow-rename on\n";
            std::fs::write(home.path().join("settings"), settings).unwrap();
            let tmux = Self { home };
            // So that the server does not end between two screens, just when the next one is asked for.
            tmux.run(&["new-session", "-d", "-s", "keeper", "exec sleep 55"]);
            tmux
        })
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(["-u", "-L", "screens"]).env("TMUX_TMPDIR", self.home.path());
        command.args(["-f", &self.path("settings")]).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it shows for these bytes.
    pub(crate) fn show(&self, bytes: &[u8]) -> Shown {
        std::fs::write(self.path("bytes"), bytes).unwrap();
        // The title is the last thing that it gets: when it has that, it has all of it.
        let script = "stty raw -echo; cat bytes; printf '\\033]2;the-end\\033\\\\'; exec sleep 50";
        let (columns, rows) = (COLUMNS.to_string(), ROWS.to_string());
        let home = self.home.path().display().to_string();
        self.run(&["new-session", "-d", "-s", "screen", "-x", &columns, "-y", &rows, "-c", &home, script]);
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.run(&["display-message", "-p", "-t", "screen", "#{pane_title}"]).trim() != "the-end" {
            assert!(Instant::now() < deadline, "tmux does not get to the end of the bytes");
            std::thread::sleep(Duration::from_millis(10));
        }
        let text = self.run(&["capture-pane", "-p", "-t", "screen"]);
        let state = "#{cursor_x} #{cursor_y} #{alternate_on} #{pane_width} #{pane_height}";
        let state = self.run(&["display-message", "-p", "-t", "screen", state]);
        let state: Vec<u16> = state.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(state[3..], [COLUMNS, ROWS]);
        self.run(&["kill-session", "-t", "screen"]);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.resize(usize::from(ROWS), String::new());
        // Behind the last column tmux counts one more.
        Shown { lines, cursor: ((state[0] + 1).min(COLUMNS), state[1] + 1), alternate: state[2] == 1 }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // Only the server on our own socket.
        if Path::new(&self.path("settings")).exists() {
            let mut command = Command::new("tmux");
            command.env("TMUX_TMPDIR", self.home.path()).args(["-L", "screens", "kill-server"]);
            // There may be none any more.
            let _ = command.output();
        }
    }
}
