//! An interactive shell on a terminal, as a person has it.

use killcord_testkit::procs::{self, PinnedProcess};
use killcord_testkit::{Scene, Terminal, Who, reachable};
use std::time::{Duration, Instant};

/// More than anything here takes on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The shell's prompt. It is never typed as such, so that it is not taken for its own echo.
pub(crate) const PROMPT: &str = "outer> ";

/// The prompt of a shell inside.
pub(crate) const INNER: &str = "inner> ";

/// The shell.
pub(crate) struct Shell {
    pub(crate) terminal: Terminal,
}

impl Shell {
    /// Starts it. `$K` is `killcord run --boundary ... --`, `$L` is `kc-leaf`.
    pub(crate) fn start(scene: &Scene, who: Who, boundary: &str) -> Self {
        let killcord = reachable(env!("CARGO_BIN_EXE_killcord").as_ref());
        let mut command = scene.command(who, "bash");
        command.args(["--norc", "-i"]).env("L", killcord_testkit::bin("kc-leaf"));
        command.env("K", format!("{} run --boundary {boundary} --", killcord.display()));
        command.env("LC_ALL", "C").env("HISTFILE", "/dev/null");
        let mut shell = Self { terminal: Terminal::start(&command) };
        // A terminal throws away what is on its way, in both directions, when it turns a key into a signal.
        shell.line("stty noflsh; PS1='out''er> '");
        shell.prompt();
        shell
    }

    /// Types a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\n"));
    }

    /// Types without a line's end.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.terminal.send(keys.as_bytes());
    }

    /// Waits until this has appeared.
    pub(crate) fn sees(&mut self, text: &str) {
        let seen = self.terminal.expect(text, SOON);
        assert!(seen.is_ok(), "{seen:?}");
    }

    /// Types this until that appears: a program that was interrupted throws away what is typed meanwhile.
    pub(crate) fn insists(&mut self, keys: &str, text: &str) {
        self.repeats(text, |terminal| terminal.send(keys.as_bytes()));
    }

    /// Resizes the window to 60 x 20 and types this until that appears. The kernel sends the signal just before
    /// it sets a terminal's new size, so that a quick program sees the old one.
    pub(crate) fn resizes(&mut self, keys: &str, text: &str) {
        self.repeats(text, |terminal| {
            terminal.resize(59, 20);
            terminal.resize(60, 20);
            terminal.send(keys.as_bytes());
        });
    }

    fn repeats(&mut self, text: &str, action: impl Fn(&mut Terminal)) {
        let deadline = Instant::now() + SOON;
        loop {
            action(&mut self.terminal);
            let seen = self.terminal.expect(text, Duration::from_millis(500));
            assert!(seen.is_ok() || Instant::now() < deadline, "{seen:?}");
            if seen.is_ok() {
                return;
            }
        }
    }

    /// Waits until the shell has the terminal again.
    pub(crate) fn prompt(&mut self) {
        self.sees(PROMPT);
    }

    /// Starts a shell inside, through killcord.
    pub(crate) fn enter_inner(&mut self) {
        self.line("$K bash --norc -i");
        self.line("PS1='inn''er> '");
        self.sees(INNER);
    }

    /// Types a word for a program that reads it and says that it got it.
    pub(crate) fn answers(&mut self, word: &str) {
        self.line(word);
        self.sees(&format!("got {word}."));
    }

    /// The exit status of what ran last.
    pub(crate) fn status(&mut self, expected: i32) {
        self.status_in(PROMPT, expected);
    }

    /// The same of a shell inside, with another prompt.
    pub(crate) fn status_in(&mut self, prompt: &str, expected: i32) {
        self.line("echo \"sta\"tus $?.");
        self.sees(&format!("status {expected}.\r\n"));
        self.sees(prompt);
    }

    /// The `killcord run` that is its child. The shell's copy that is about to execute it is awaited.
    pub(crate) fn killcord(&self) -> PinnedProcess {
        let deadline = Instant::now() + SOON;
        loop {
            let children = procs::children(self.terminal.pid()).into_iter();
            let mut found =
                children.filter_map(|pid| PinnedProcess::open(pid, |stat| stat.comm == "killcord"));
            if let Some(found) = found.next() {
                return found;
            }
            assert!(Instant::now() < deadline, "the shell has no child killcord");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
