//! `killcord demo`: a tree that outlives its killed owner, and the same tree with killcord.
//!
//! The tree is real: the demo executes itself as the owner and as the programs that get away, below a
//! shell. What is said about a process is what its pidfd says. Every process of the demo ends by itself
//! within half a minute, and at once when the demo is gone.

mod half;
mod picture;
mod role;

use crate::args::{self, BoundaryArg};
use crate::cmd::doctor::own_program;
use crate::message::say;
use crate::paint::{Look, Paint, show};
use clap::ValueEnum;
use half::{Half, Stop};
use killcord_model::status;
use killcord_sys::os::OsStringExt;
use killcord_sys::signals::{self, Set, SignalFd};
use picture::milliseconds;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// How long a person has to look at a picture; a pipe needs none.
const LOOK_AT_IT: Duration = Duration::from_millis(1500);
/// How long the first owner is dead before its tree is looked at again.
const A_WHILE: Duration = Duration::from_secs(1);
/// By when everything has to be gone in the second half: the promise of killcord.
const PROMISED: Duration = Duration::from_secs(2);

/// Plays, and returns 0 when the first half left processes and the second none.
pub(crate) fn demo(args: &args::Demo) -> i32 {
    if let Some(role) = &args.role {
        return role::play(role);
    }
    if killcord_sys::supported().is_err() {
        say(&killcord::Error::Unsupported.to_string());
        return status::FAILED;
    }
    // A caller may ignore it, and then the kernel reaps behind our back.
    signals::reset(signals::SIGCHLD);
    let stopping = [signals::SIGINT, signals::SIGTERM, signals::SIGHUP];
    let set = Set::of(&stopping.into_iter().filter(|n| !signals::is_ignored(*n)).collect::<Vec<_>>());
    let signals = match set.block_exactly().and_then(|()| SignalFd::new(&set)) {
        Ok(signals) => signals,
        Err(e) => {
            say(&format!("failed to prepare for signals: {e}"));
            return status::FAILED;
        }
    };
    let paint = Paint::of_stdout();
    let stage = Stage { paint, signals, me: OsString::from_vec(own_program()) };
    match stage.play(args.boundary) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(Stop::Signal(signal)) => 128 + signal,
        Err(Stop::Failed(why)) => {
            say(&why);
            status::FAILED
        }
    }
}

/// What both halves share.
struct Stage {
    paint: Paint,
    signals: SignalFd,
    me: OsString,
}

impl Stage {
    fn play(&self, boundary: BoundaryArg) -> Result<bool, Stop> {
        let paint = self.paint;
        let intro = "An owner starts a shell, and the shell four programs: a child, a child in a session of its \
                     own, a daemon, and a daemon with an emptied environment. Then the owner gets SIGKILL.";
        show(&paint.wrapped("", Look::Plain, intro));
        let left = self.without()?;
        let (count, gone, took) = self.with(boundary)?;
        let (look, text) = match (left, gone) {
            (0, _) => (
                Look::Bad,
                "Nothing outlived the owner even without killcord: this proves nothing.".to_owned(),
            ),
            (_, false) => (Look::Bad, "killcord left processes behind on this boundary.".to_owned()),
            (_, true) => {
                let took = milliseconds(took);
                let text = format!(
                    "Without killcord {left} processes outlived their owner; with it all {count} were gone {took} after its death."
                );
                (Look::Bold, text)
            }
        };
        show(&format!("\n{}", paint.wrapped("", look, &text)));
        Ok(left > 0 && gone)
    }

    fn title(&self, number: &str, text: &str) {
        show(&format!("\n{}  {}\n\n", self.paint.text(Look::Dim, number), self.paint.text(Look::Bold, text)));
    }

    fn look_at_it(&self, half: &mut Half) -> Result<(), Stop> {
        if self.paint.terminal { half.watch(LOOK_AT_IT, &self.signals, false) } else { Ok(()) }
    }

    /// The first half. Returns how many processes outlived their owner.
    fn without(&self) -> Result<usize, Stop> {
        self.title("1", "without killcord");
        let mut owner = Command::new(&self.me);
        owner.args(["demo", "--role", "owner"]);
        let mut half =
            Half::start(owner, &["owner", "shell", "plain", "setsid", "daemon", "bare"], &self.signals)?;
        show(&picture::before(&half, self.paint));
        self.look_at_it(&mut half)?;
        let owner = half.kill("owner")?;
        self.announce_kill(owner, "A second later");
        half.watch(A_WHILE, &self.signals, false)?;
        show(&picture::after(&half, self.paint));
        let left = half.left();
        let took = half.clear();
        let gone = match took {
            Some(took) => format!("gone {} later", milliseconds(took)),
            None => "some are still there".to_owned(),
        };
        let text = format!(
            "{left} processes run on without an owner. The demo ends them now, each by its pidfd: {gone}."
        );
        show(&format!("\n{}", self.paint.wrapped("   ", Look::Odd, &text)));
        Ok(left)
    }

    /// The second half. Returns how many processes there were, whether all are gone, and how long the last
    /// one took.
    fn with(&self, boundary: BoundaryArg) -> Result<(usize, bool, Duration), Stop> {
        let chosen = boundary.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
        let option =
            if boundary == BoundaryArg::Auto { String::new() } else { format!("--boundary {chosen} ") };
        self.title("2", &format!("with killcord: killcord run {option}-- sh ..."));
        let mut run = Command::new(&self.me);
        run.args(["run", "--boundary", &chosen, "--"]).arg(&self.me).args(["demo", "--role", "shell"]);
        let mut half = Half::start(run, &["shell", "plain", "setsid", "daemon", "bare"], &self.signals)?;
        show(&picture::before(&half, self.paint));
        self.look_at_it(&mut half)?;
        let owner = half.kill("killcord run")?;
        self.announce_kill(owner, "Until all were gone");
        half.watch(PROMISED, &self.signals, true)?;
        show(&picture::after(&half, self.paint));
        let (count, left) = (half.members().len(), half.left());
        if left > 0 {
            let text = format!("{left} processes are left. The demo ends them now, each by its pidfd.");
            show(&format!("\n{}", self.paint.wrapped("   ", Look::Bad, &text)));
            half.clear();
        }
        Ok((count, left == 0, half.last_end()))
    }

    fn announce_kill(&self, owner: u32, and: &str) {
        let kill = self.paint.text(Look::Bad, &format!("kill -9 {owner}"));
        show(&format!("\n   {kill}{}\n\n", self.paint.text(Look::Dim, &format!(" (the owner). {and}:"))));
    }
}
