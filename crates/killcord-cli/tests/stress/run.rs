//! `killcord run`, on pipes, on a terminal, and inside another one.

use crate::den::{Den, Io};
use crate::dice::Dice;
use crate::events::{Event, SOON};
use crate::payload::{HELD, Payload};
use crate::round::{Excuse, Round};
use killcord_testkit::Who;
use killcord_testkit::is_root;
use std::time::{Duration, Instant};

/// How it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Terminal,
    /// Below another `killcord run`.
    Nested,
}

struct Plan {
    payload: Payload,
    event: Event,
    /// The instant is anywhere in the start, and not when all are up.
    early: bool,
    /// `--leftovers`.
    leftovers: &'static str,
}

impl Plan {
    fn new(dice: &mut Dice, style: Style, boundary: &str, may_take_all: bool) -> Self {
        match dice.below(10) {
            0 => {
                let payload = Payload::Brief(dice.below(120) as u8);
                Self { payload, event: Event::Itself, early: false, leftovers: "end" }
            }
            1 if boundary != "group" => {
                let leftovers = dice.pick(&["end", "keep", "release"]);
                // A terminal hangs up on what is left in its session when the owner, which leads that, is back. In a nest
                // of two, the inner one ends what is left before the outer one sees anything of it.
                let leftovers = match style {
                    Style::Terminal if leftovers == "release" => "end",
                    Style::Nested => "end",
                    Style::Terminal | Style::Plain => leftovers,
                };
                let event = match leftovers {
                    "keep" => Event::any(dice),
                    _ => Event::Itself,
                };
                // There is no leader any more.
                let event = if event == Event::Leader { Event::Member } else { event };
                Self { payload: Payload::Holder, event, early: false, leftovers }.allowed(may_take_all)
            }
            _ => {
                let payload = Payload::that_stays(dice, boundary, true);
                let event = match style {
                    Style::Terminal if dice.one_in(4) => Event::Key,
                    Style::Terminal if dice.one_in(4) => Event::Vanish,
                    _ => Event::any(dice),
                };
                let early = event != Event::Timeout && dice.one_in(2);
                Self { payload, event, early, leftovers: "end" }.allowed(may_take_all)
            }
        }
    }

    /// Where no sweep can find what is left of all, the table promises nothing then.
    fn allowed(mut self, may_take_all: bool) -> Self {
        if self.event.takes_all() && !may_take_all {
            self.event = Event::Timeout;
            self.early = false;
        }
        self
    }
}

impl Round<'_> {
    pub(crate) fn run(&mut self, style: Style) {
        let may_take_all = self.campaign.tagged || ["cgroup", "namespace"].contains(&self.boundary);
        let plan = Plan::new(&mut self.dice, style, self.boundary, may_take_all);
        let Plan { payload, event, early, leftovers } = &plan;
        self.what = format!("{payload:?}, {event:?}, early {early}, leftovers {leftovers}, {style:?}");
        let mut command =
            self.killcord(&["run", "--boundary", self.boundary, "--grace", "0.5", "--leftovers", leftovers]);
        if *event == Event::Timeout {
            command.args(["--timeout", "0.4"]);
        }
        if matches!(payload, Payload::Bomb(_)) && is_root() && self.who == Who::Root {
            command.args(["--pids", "200"]);
        }
        command.arg("--");
        if style == Style::Nested {
            // Whoever ends the outer job kills the inner owner, whose claim then stays as unknown until the next boot: its
            // numbers mean something in a namespace that is gone, or the audit session is the outer job's.
            command.args([
                "sh",
                "-c",
                "umask 077; mkdir inner; export KILLCORD_STATE_DIR=$D/inner; exec \"$@\"",
                "sh",
            ]);
            command.arg(self.campaign.killcord.path()).args(["run", "--grace", "0.5", "--"]);
        }
        let script =
            payload.script().replace("held", if *leftovers == "release" { "released" } else { "held" });
        command.args(["sh", "-c", &script]);
        let io = if style == Style::Terminal { Io::Terminal } else { Io::Pipes };
        self.campaign.tally.started(&self.kind, if style == Style::Nested { 2 } else { 1 });
        self.campaign.tally.event(&event.name());
        self.campaign.tally.event(&format!("payload: {}", payload.name()));
        let mut den = Den::start(&self.corner, &command, io);
        self.watch(&mut den, &plan);
    }

    fn watch(&mut self, den: &mut Den, plan: &Plan) {
        let brief = matches!(plan.payload, Payload::Brief(_));
        if plan.early {
            std::thread::sleep(self.dice.ms(60));
        } else if !brief && plan.event != Event::Timeout {
            if !den.output.wait_word("ready", SOON) {
                self.fault("the job is not up after 15 s");
            }
            std::thread::sleep(self.dice.ms(200));
        }
        let released = plan.leftovers == "release";
        // It may have been over before it could be held.
        let owner = den.program.take();
        let bound = owner.as_ref().map(|owner| self.happen(&plan.event, den, owner));
        let bound = bound.unwrap_or(crate::events::Bound::now(crate::events::DEATH));
        if released {
            self.released_live(den);
        }
        let excuse = match self.boundary {
            _ if released => Excuse::Released,
            "group" => Excuse::LeftTheGroup,
            _ => Excuse::Nobody,
        };
        let gone =
            if plan.event.takes_all() { self.settle_by_sweeps(den) } else { self.settle(den, bound, excuse) };
        if gone {
            self.look_behind(den, status_of(plan));
        }
    }

    /// What was let go is nobody's to end. One that was only just started may not have written itself down.
    fn released_live(&self, den: &Den) {
        let until = Instant::now() + SOON;
        let names = loop {
            let names: Vec<String> = self.scene.alive().into_iter().map(|alive| alive.name).collect();
            if ["released", "released-out"].iter().all(|name| names.iter().any(|n| n == name)) {
                break names;
            }
            if Instant::now() >= until {
                self.fault(&format!("what was released does not live: {names:?}; {:?}", den.left()));
                break names;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.campaign.tally.note("released, seen to live, ended here", names.len() as u32);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where it can only be one.
fn status_of(plan: &Plan) -> Option<i32> {
    match (&plan.event, plan.payload) {
        (Event::Itself, Payload::Brief(code)) => Some(i32::from(code)),
        (Event::Itself, Payload::Holder) => Some(HELD),
        (Event::Timeout, _) => Some(124),
        _ => None,
    }
}
