//! Services: `killcord run --detach`, and `stop`, `wait`, `list` and `logs` beside.

use crate::den::{Den, Io};
use crate::events::{Bound, DEATH, Event, ORDER, SOON, VICTIMS, Victim};
use crate::payload::Payload;
use crate::round::{Excuse, Round, describe};
use killcord_testkit::{PinnedProcess, Signal, Who};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What is done to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Stop,
    StopNow,
    Kill(Vec<Victim>),
    /// Its starter is killed in the middle; what has come of it is stopped.
    Starter,
    /// TERM to its owner.
    Term,
}

impl Round<'_> {
    pub(crate) fn service(&mut self) {
        let payload = Payload::that_stays(&mut self.dice, self.boundary, self.who == Who::User);
        let end = match self.dice.below(9) {
            0..2 => End::Stop,
            2 => End::StopNow,
            3..7 => End::Kill(self.dice.some(&VICTIMS)),
            7 => End::Starter,
            _ => End::Term,
        };
        let end =
            if !self.campaign.tagged && end == End::Kill(VICTIMS.to_vec()) { End::StopNow } else { end };
        self.what = format!("{payload:?}, {end:?}");
        // Unique, also where one round is repeated.
        let name = format!("s{}", self.campaign.services.fetch_add(1, Ordering::Relaxed));
        let mut command =
            self.killcord(&["run", "--detach", "--name", &name, "--ttl", "45", "--grace", "0.5"]);
        command.args(["--boundary", self.boundary, "--", "sh", "-c", &payload.script()]);
        self.campaign.tally.started(&self.kind, 1);
        self.campaign.tally.event(&format!("payload: {}", payload.name()));
        let mut den = Den::start(&self.corner, &command, Io::Pipes);
        let starter = den.program.take();
        if end == End::Starter {
            std::thread::sleep(self.dice.ms(40));
            if let Some(starter) = &starter {
                self.kill(&[starter]);
            }
        } else if starter.as_ref().is_some_and(|starter| !starter.wait_gone(SOON)) {
            let there = den.left().iter().map(describe).collect::<Vec<_>>().join("; ");
            self.fault(&format!("the starter does not come back: {there}"));
        }
        self.beside(&name);
        let bound = self.end_service(&end, &name, &den);
        let gone = if end == End::Kill(VICTIMS.to_vec()) {
            self.settle_by_sweeps(&den)
        } else {
            self.settle(&den, bound, Excuse::Nobody)
        };
        self.read_exit(&name, &end, &den);
        if gone {
            self.look_behind(&mut den, None);
        }
    }

    /// Somebody looks at it.
    fn beside(&mut self, name: &str) {
        let what = self.dice.pick(&["list", "logs", "nothing"]);
        match what {
            "list" => drop(self.campaign.call(self.who, &["list", "--json"])),
            "logs" => drop(self.campaign.call(self.who, &["logs", name])),
            _ => {}
        }
        std::thread::sleep(self.dice.ms(200));
    }

    fn end_service(&mut self, end: &End, name: &str, den: &Den) -> Bound {
        let event = match end {
            End::Stop => "killcord stop".to_owned(),
            End::StopNow => "killcord stop --now".to_owned(),
            End::Kill(victims) => Event::Kill(victims.clone()).name(),
            End::Starter => "KILL: the starter of a service".to_owned(),
            End::Term => Event::Order(Signal::TERM).name(),
        };
        self.campaign.tally.event(&event);
        match end {
            End::Stop => self.stop_service(&["stop", name], den),
            End::StopNow => self.stop_service(&["stop", "--now", name], den),
            End::Starter => self.stop_what_there_is(name, den),
            End::Kill(victims) => match owner_of(den) {
                Some(owner) => self.happen_to_service(&Event::Kill(victims.clone()), &owner),
                None => self.lost(den),
            },
            End::Term => match owner_of(den) {
                Some(owner) => self.happen_to_service(&Event::Order(Signal::TERM), &owner),
                None => self.lost(den),
            },
        }
    }

    fn happen_to_service(&mut self, event: &Event, owner: &PinnedProcess) -> Bound {
        match event {
            Event::Kill(victims) => self.kill_victims(victims, owner),
            _ => self.order(owner, Signal::TERM),
        }
    }

    /// On a machine that is slow enough, its time was up, and it is over: its exit says how.
    fn lost(&self, den: &Den) -> Bound {
        if den.is_empty() {
            return Bound::now(DEATH);
        }
        self.fault(&format!("there is no owner of the service: {:?}; {}", den.left(), den.errors()));
        Bound::now(DEATH)
    }

    fn stop_service(&self, args: &[&str], den: &Den) -> Bound {
        let done = self.campaign.call(self.who, args);
        // On a machine that is slow enough, its time was up before the order came.
        let over = done.code() == 1 && done.stderr.contains(" is not running: ");
        if done.code() != 0 && !over {
            self.fault(&format!("{args:?}: {done:?}; {:?}", den.left()));
        }
        Bound::now(ORDER)
    }

    /// Its starter was killed: either the service is there, or nothing of it will be.
    fn stop_what_there_is(&self, name: &str, den: &Den) -> Bound {
        let until = Instant::now() + SOON;
        while !den.is_empty() && Instant::now() < until {
            if self.campaign.call(self.who, &["stop", "--now", name]).code() == 0 {
                break;
            }
            den.wait_empty(Duration::from_millis(50));
        }
        Bound::now(DEATH)
    }

    /// The exit is read once, and nothing of the service is kept then.
    fn read_exit(&self, name: &str, end: &End, den: &Den) {
        if matches!(end, End::Kill(victims) if victims.contains(&Victim::Owner)) {
            self.campaign.sweep(self.number, self.who);
        }
        let done = self.campaign.call(self.who, &["wait", name]);
        // Of a starter that was killed there may be no service.
        if done.code() == 125 && *end != End::Starter {
            let said = (den.output.text(), den.errors());
            self.fault(&format!("its exit cannot be read: {done:?}; the starter said {said:?}"));
        }
    }
}

fn owner_of(den: &Den) -> Option<PinnedProcess> {
    let until = Instant::now() + SOON;
    loop {
        if let Some(owner) = den.children("killcord-servic").pop() {
            return Some(owner);
        }
        if den.is_empty() || Instant::now() > until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
