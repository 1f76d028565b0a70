//! The order of ending: ask, hang up, kill, look that it is empty.
//!
//! TERM comes first and HUP half a second later, never together: an interactive shell ignores TERM and
//! ends on HUP, and a daemon that takes HUP for "reload" has had its TERM by then.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The signals that killcord passes on or sends by itself. Platform crates give them numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of signal(7), nothing to add")]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Term,
    Cont,
    Winch,
}

/// How long the leader has after TERM before it gets HUP.
pub const HANG_UP_AFTER: Duration = Duration::from_millis(500);
/// How long a job has between TERM and KILL unless it is said otherwise.
pub const GRACE: Duration = Duration::from_secs(5);
/// The grace when the owner is gone, and for what a leader left behind.
pub const SHORT_GRACE: Duration = Duration::from_millis(500);
/// How long to look for emptiness after the first KILL before saying what is left.
pub const LOOK: Duration = Duration::from_secs(2);
/// How often KILL is repeated while the boundary is not empty and nothing has been reaped meanwhile.
pub const KILL_AGAIN: Duration = Duration::from_millis(10);

/// A plan for ending a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ladder {
    /// The first signal; it goes to every member, and `CONT` behind it.
    pub ask: Signal,
    /// The time between the first signal and `KILL`. Zero means `KILL` at once, without asking.
    pub grace: Duration,
}

impl Ladder {
    /// TERM, HUP at half a second, KILL at the grace.
    pub fn with_grace(grace: Duration) -> Self {
        Self { ask: Signal::Term, grace }
    }

    /// For a job whose owner is gone.
    pub fn short() -> Self {
        Self::with_grace(SHORT_GRACE)
    }

    /// KILL at once.
    pub fn now() -> Self {
        Self::with_grace(Duration::ZERO)
    }
}

/// How far up the ladder a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Rung {
    Asked,
    HungUp,
    Killing { next: Time, give_up: Time },
}

/// What is due on the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// Send HUP to every member.
    HangUp,
    /// Kill by the boundary's own means.
    Kill,
    /// The time to see it empty is over.
    GiveUp,
}

/// A ladder that is being climbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Climb {
    started: Time,
    kill_at: Time,
    rung: Rung,
}

impl Climb {
    /// Starts to climb. The caller sends the first signal if the grace is not zero; `due` says the rest.
    pub fn start(ladder: Ladder, now: Time) -> Self {
        Self { started: now, kill_at: now.after(ladder.grace), rung: Rung::Asked }
    }

    /// Brings KILL forward to `at`; it is never put off.
    pub fn shorten(&mut self, at: Time) {
        self.kill_at = self.kill_at.min(at);
    }

    /// Whether KILL has been sent.
    pub fn killing(&self) -> bool {
        matches!(self.rung, Rung::Killing { .. })
    }

    /// Takes the next rung if its time has come. `leader_runs` decides about HUP.
    pub fn due(&mut self, now: Time, leader_runs: bool) -> Due {
        match self.rung {
            Rung::Killing { give_up, .. } if now >= give_up => Due::GiveUp,
            Rung::Killing { next, give_up } => {
                if now < next {
                    return Due::Nothing;
                }
                self.rung = Rung::Killing { next: now.after(KILL_AGAIN), give_up };
                Due::Kill
            }
            Rung::Asked | Rung::HungUp if now >= self.kill_at => {
                self.rung = Rung::Killing { next: now.after(KILL_AGAIN), give_up: now.after(LOOK) };
                Due::Kill
            }
            Rung::Asked if now >= self.started.after(HANG_UP_AFTER) => {
                self.rung = Rung::HungUp;
                if leader_runs { Due::HangUp } else { Due::Nothing }
            }
            Rung::Asked | Rung::HungUp => Due::Nothing,
        }
    }

    /// When `due` will have something new to say.
    pub fn deadline(&self) -> Time {
        match self.rung {
            Rung::Killing { next, give_up } => next.min(give_up),
            Rung::Asked => self.kill_at.min(self.started.after(HANG_UP_AFTER)),
            Rung::HungUp => self.kill_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    /// Runs the ladder on its own deadlines and lists what was due when.
    fn climb(ladder: Ladder, leader_runs: bool, until: u64) -> Vec<(u64, Due)> {
        let mut c = Climb::start(ladder, at(0));
        let mut seen = Vec::new();
        let mut now = at(0);
        while now <= at(until) {
            assert!(seen.len() < 1000, "a ladder without an end: {seen:?}");
            let due = c.due(now, leader_runs);
            if due != Due::Nothing {
                seen.push((now.0.as_millis() as u64, due));
            }
            if due == Due::GiveUp {
                break;
            }
            now = c.deadline().max(now.after(Duration::from_millis(1)));
        }
        seen
    }

    #[test]
    fn the_rungs_come_at_their_times() {
        let seen = climb(Ladder::with_grace(GRACE), true, 5001);
        assert_eq!(seen, [(500, Due::HangUp), (5000, Due::Kill)]);
    }

    #[test]
    fn hup_is_left_out_when_the_leader_is_gone() {
        let seen = climb(Ladder::with_grace(GRACE), false, 5001);
        assert_eq!(seen, [(5000, Due::Kill)]);
    }

    #[test]
    fn a_short_ladder_kills_at_half_a_second_without_hup() {
        assert_eq!(climb(Ladder::short(), true, 501), [(500, Due::Kill)]);
    }

    #[test]
    fn now_kills_at_once_and_gives_up_after_the_look() {
        let seen = climb(Ladder::now(), true, 10_000);
        assert_eq!(seen.first(), Some(&(0, Due::Kill)));
        assert_eq!(seen.last(), Some(&(2000, Due::GiveUp)));
        assert!(seen[..seen.len() - 1].iter().all(|(_, d)| *d == Due::Kill));
    }

    #[test]
    fn shortening_never_lengthens() {
        let mut c = Climb::start(Ladder::with_grace(GRACE), at(0));
        c.shorten(at(9000));
        assert_eq!(c.due(at(5000), true), Due::Kill);
        let mut c = Climb::start(Ladder::with_grace(GRACE), at(0));
        c.shorten(at(100));
        assert_eq!(c.due(at(99), true), Due::Nothing);
        assert_eq!(c.due(at(100), true), Due::Kill);
    }
}
