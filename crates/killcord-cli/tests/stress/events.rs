//! What happens to an owner and its guards.

use crate::den::Den;
use crate::dice::Dice;
use crate::round::Round;
use killcord_testkit::{Guards, PinnedProcess, Signal};
use std::time::{Duration, Instant};

/// The time of a job whose time is up.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(400);
/// What is promised for the death of a guard or an owner.
pub(crate) const DEATH: Duration = Duration::from_secs(2);
/// What is promised for an order to end: the grace of every job here, 0.5 s, and the look.
pub(crate) const ORDER: Duration = Duration::from_millis(2500);
/// The drain and the short ladder for what a leader leaves, and the look.
pub(crate) const LEFTOVERS: Duration = Duration::from_millis(2700);
/// For what must happen and is not measured.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// One of killcord's own processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Owner,
    Warden,
    Keeper,
}

pub(crate) const VICTIMS: [Victim; 3] = [Victim::Owner, Victim::Warden, Victim::Keeper];

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing: the job ends by itself.
    Itself,
    /// Its time is up.
    Timeout,
    /// TERM or INT to the owner.
    Order(Signal),
    /// HUP, which the program gets, and TERM.
    HangUp,
    /// TERM, and at once another one.
    Twice,
    /// SIGKILL to these at the same instant.
    Kill(Vec<Victim>),
    /// A guard is stopped; TERM or SIGKILL to the owner; the guard goes on.
    Stop(Victim, Signal),
    /// The reader of the output goes; on a terminal, the terminal.
    Vanish,
    /// SIGKILL to the leader.
    Leader,
    /// SIGKILL to a member, and TERM to the owner.
    Member,
    /// Ctrl-C on the terminal, and TERM to the owner.
    Key,
}

impl Event {
    /// One for a job that stays.
    pub(crate) fn any(dice: &mut Dice) -> Self {
        match dice.below(20) {
            0..2 => Self::Timeout,
            2 => Self::Order(Signal::TERM),
            3 => Self::Order(Signal::INT),
            4 => Self::HangUp,
            5 => Self::Twice,
            6..14 => Self::Kill(dice.some(&VICTIMS)),
            14..16 => {
                let guard = dice.pick(&[Victim::Warden, Victim::Keeper]);
                Self::Stop(guard, dice.pick(&[Signal::TERM, Signal::KILL]))
            }
            16 => Self::Vanish,
            17..19 => Self::Leader,
            _ => Self::Member,
        }
    }

    /// What it is called in the table.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Itself => "ended by itself".to_owned(),
            Self::Timeout => "its time was up".to_owned(),
            Self::Order(signal) => format!("{} to the owner", short(*signal)),
            Self::HangUp => "HUP and TERM to the owner".to_owned(),
            Self::Twice => "TERM twice to the owner".to_owned(),
            Self::Kill(victims) => format!("KILL: {victims:?}"),
            Self::Stop(guard, signal) => {
                format!("{guard:?} stopped, {} to the owner, continued", short(*signal))
            }
            Self::Vanish => "the reader of the output vanished".to_owned(),
            Self::Leader => "KILL: leader".to_owned(),
            Self::Member => "KILL: a member".to_owned(),
            Self::Key => "Ctrl-C on the terminal, TERM to the owner".to_owned(),
        }
    }

    /// Whether nobody is left who could end the job, so that the next sweep has to.
    pub(crate) fn takes_all(&self) -> bool {
        matches!(self, Self::Kill(victims) if victims.len() == VICTIMS.len())
    }
}

fn short(signal: Signal) -> &'static str {
    match signal {
        Signal::TERM => "TERM",
        Signal::INT => "INT",
        _ => "KILL",
    }
}

/// From when on, and how long what follows may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) since: Instant,
    pub(crate) lasts: Duration,
}

impl Bound {
    pub(crate) fn now(lasts: Duration) -> Self {
        Self { since: Instant::now(), lasts }
    }
}

/// The guards below an owner, as soon as they and the leader are there, or will never be.
pub(crate) fn guards(owner: &PinnedProcess, limit: Duration) -> Guards {
    let until = Instant::now() + limit;
    loop {
        let found = Guards::find(owner.pid, Duration::ZERO);
        if found.leader.is_some() || !owner.is_alive() || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Round<'_> {
    /// Lets it happen to an owner that is held, and says what is promised from then on.
    pub(crate) fn happen(&mut self, event: &Event, den: &mut Den, owner: &PinnedProcess) -> Bound {
        match event {
            Event::Itself => {
                // Its own time is not what is measured.
                let _ = owner.wait_gone(SOON);
                Bound::now(DEATH)
            }
            Event::Timeout => Bound { since: den.begun, lasts: TIMEOUT + ORDER },
            Event::Order(signal) => self.order(owner, *signal),
            Event::HangUp => {
                let _ = owner.kill(Signal::HUP);
                std::thread::sleep(self.dice.ms(200));
                self.order(owner, Signal::TERM)
            }
            Event::Twice => {
                let _ = owner.kill(Signal::TERM);
                std::thread::sleep(self.dice.ms(100));
                self.order(owner, Signal::TERM)
            }
            Event::Kill(victims) => self.kill_victims(victims, owner),
            Event::Stop(guard, signal) => self.stop(*guard, *signal, owner),
            Event::Vanish => {
                den.vanish();
                std::thread::sleep(self.dice.ms(200));
                self.order(owner, Signal::TERM)
            }
            Event::Leader => {
                if let Some(leader) = guards(owner, SOON).leader {
                    self.kill(&[&leader]);
                    return Bound::now(LEFTOVERS);
                }
                self.order(owner, Signal::TERM)
            }
            Event::Member => {
                let members = self.scene.pin();
                let names: Vec<&str> = members.names();
                if !names.is_empty()
                    && let Some(member) = members.get(self.dice.pick(&names))
                {
                    self.kill(&[member]);
                }
                std::thread::sleep(self.dice.ms(200));
                self.order(owner, Signal::TERM)
            }
            Event::Key => {
                den.send(b"\x03");
                std::thread::sleep(self.dice.ms(300));
                self.order(owner, Signal::TERM)
            }
        }
    }

    pub(crate) fn order(&self, owner: &PinnedProcess, signal: Signal) -> Bound {
        let _ = owner.kill(signal);
        // On a terminal it stops with its job, as a shell has it, and hears nothing until it goes on.
        if owner.stat().is_some_and(|stat| stat.state == 'T') {
            let _ = owner.kill(Signal::CONT);
        }
        if signal == Signal::KILL {
            self.campaign.tally.killed(&self.kind, 1);
            return Bound::now(DEATH);
        }
        Bound::now(ORDER)
    }

    pub(crate) fn kill_victims(&self, victims: &[Victim], owner: &PinnedProcess) -> Bound {
        let only_owner = victims == [Victim::Owner];
        let found = if only_owner { Guards::default() } else { guards(owner, SOON) };
        let found: Vec<&PinnedProcess> = victims
            .iter()
            .filter_map(|victim| match victim {
                Victim::Owner => Some(owner),
                Victim::Warden => found.warden.as_ref(),
                Victim::Keeper => found.keeper.as_ref(),
            })
            .collect();
        self.kill(&found);
        if found.len() < victims.len() {
            // The job was over before they were there, or was never begun; whoever is left may go.
            let _ = owner.kill(Signal::KILL);
        }
        Bound::now(DEATH)
    }

    fn stop(&mut self, guard: Victim, signal: Signal, owner: &PinnedProcess) -> Bound {
        let found = guards(owner, SOON);
        let stopped = if guard == Victim::Warden { found.warden } else { found.keeper };
        let Some(stopped) = stopped else { return self.order(owner, signal) };
        let _ = stopped.kill(Signal::STOP);
        std::thread::sleep(self.dice.ms(300));
        let bound = self.order(owner, signal);
        std::thread::sleep(self.dice.ms(1000));
        let _ = stopped.kill(Signal::CONT);
        Bound::now(bound.lasts)
    }

    /// SIGKILL to all of these. Several are stopped first, so that none of them acts upon the end of another.
    pub(crate) fn kill(&self, victims: &[&PinnedProcess]) {
        if victims.len() > 1 {
            for victim in victims {
                // It may have ended by itself, here and below.
                let _ = victim.kill(Signal::STOP);
            }
            let stopped =
                |victim: &PinnedProcess| victim.stat().is_none_or(|s| s.state == 'T' || s.is_dead());
            let until = Instant::now() + DEATH;
            while !victims.iter().all(|victim| stopped(victim)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let killed = victims.iter().filter(|victim| victim.kill(Signal::KILL).is_ok()).count();
        self.campaign.tally.killed(&self.kind, killed as u32);
    }
}
