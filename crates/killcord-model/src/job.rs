//! One job's life, as its keeper decides it.
//!
//! The keeper feeds [`Job::step`] with what it sees and carries out the effects in their order. What
//! must never happen is a state in which a program runs and nobody is going to end it once its owner is
//! gone; the tests below walk every state with every event, and random sequences, to show that there
//! is none.

use crate::ladder::{Climb, Due, Ladder, Signal};
use crate::spec::{Leftovers, Policy};
use crate::status::ExitStatus;
use crate::time::Time;
use crate::verdict::{Cause, Fate};
use crate::wire::{Order, Refusal, Report};
use std::time::Duration;

/// How long leftovers have to end by themselves before the ladder begins: the last process of a
/// pipeline that is still writing its output is not a leftover in anybody's eyes.
pub const DRAIN: Duration = Duration::from_millis(200);

/// What the keeper sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The boundary is armed and both owner and warden are watched.
    Armed,
    /// The leader's process exists, inside the boundary.
    Cloned,
    /// It was executed.
    Executed,
    /// It could not be made or executed; whatever there was of it exits by itself.
    NotStarted(Refusal),
    /// The leader was reaped.
    LeaderExited(ExitStatus),
    /// The leader was stopped by a signal of this number.
    LeaderStopped(i32),
    /// The leader was continued.
    LeaderContinued,
    /// Some other process was reaped, or the boundary says that something changed.
    Changed,
    /// The answer to [`Effect::Look`].
    Seen(Sight),
    /// An order from the owner.
    Order(Order),
    /// The owner is gone, or has closed the cord.
    OwnerGone,
    /// The warden is gone.
    WardenGone,
    /// The time that [`Job::deadline`] named has come.
    Tick,
}

/// What a look at the boundary shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sight {
    /// The kernel says that no member is left.
    Empty,
    /// There are members.
    Members,
    /// It cannot be seen.
    Unknown,
}

/// Whom a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum To {
    /// The leader alone.
    Leader,
    /// Every member of the boundary.
    Members,
}

/// What the keeper does, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Make the leader's process inside the boundary and execute the program. The answer, [`Event::Cloned`] or
    /// [`Event::NotStarted`], comes before any other event.
    StartLeader,
    /// Tell the owner.
    Report(Report),
    /// Send a signal.
    Signal(To, Signal),
    /// End every member by the boundary's own means, once.
    Kill,
    /// Look whether the boundary is empty and answer with [`Event::Seen`].
    Look,
    /// Write down who is there, as leftovers.
    NoteLeftovers,
    /// Write down who is there, as ended by force.
    NoteForced,
    /// Tell the warden that this job is let go, and stop being the leader's death.
    LetGo,
    /// Tell the owner how the job ended; with members in sight that are kept, that its leader has, and the
    /// job goes on.
    End {
        /// Why it ended.
        cause: Cause,
        /// What was seen last; `None` when nothing ever ran.
        sight: Option<Sight>,
        /// What became of the leftovers, if there were any.
        fate: Option<Fate>,
    },
    /// Remove what is left of the boundary and exit.
    Leave,
}

/// Whether the leader still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Leader {
    Runs,
    Gone,
}

/// Where in its life a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Life {
    /// Nothing runs yet.
    Waiting,
    /// The leader runs, or is on its way to exec.
    Running { timeout_at: Option<Time> },
    /// It could not be executed; its process is about to exit.
    Failing,
    /// The leader is gone; its leftovers have a moment.
    Draining { until: Time },
    /// The leader is gone; its leftovers may stay until the owner ends. The owner is told after the drain.
    Keeping { timeout_at: Option<Time>, tell_at: Option<Time> },
    /// On the ladder.
    Ending { climb: Climb, ask: Signal, cause: Cause, leader: Leader, fate: Option<Fate>, last_look: bool },
    /// Let go; the keeper stays the parent of what runs on.
    LetGo { leader: Leader },
    /// Over.
    Over,
}

/// A job in its keeper's eyes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    policy: Policy,
    life: Life,
    /// By which it ends when its owner is gone.
    orphaned: Ladder,
}

impl Job {
    /// A job that has not been started.
    pub fn new(policy: Policy) -> Self {
        Self { policy, life: Life::Waiting, orphaned: Ladder::short() }
    }

    /// The same on the owner's terminal, where nobody is asked first when the owner is gone: the shell has its
    /// terminal back by then, and a shell of the job that lived on for half a second would take it away again,
    /// which the outer one answers by exiting.
    #[must_use]
    pub fn on_owners_terminal(self) -> Self {
        Self { orphaned: Ladder::now(), ..self }
    }

    /// When [`Event::Tick`] is due at the latest.
    pub fn deadline(&self) -> Option<Time> {
        match self.life {
            Life::Running { timeout_at } => timeout_at,
            Life::Keeping { timeout_at, tell_at } => [timeout_at, tell_at].into_iter().flatten().min(),
            Life::Draining { until } => Some(until),
            Life::Ending { climb, .. } => Some(climb.deadline()),
            Life::Waiting | Life::Failing | Life::LetGo { .. } | Life::Over => None,
        }
    }

    /// Whether a program may be running for which this keeper answers.
    pub fn guards(&self) -> bool {
        !matches!(self.life, Life::Waiting | Life::Over | Life::LetGo { .. })
    }

    /// Whether the job has been let go.
    pub fn let_go(&self) -> bool {
        matches!(self.life, Life::LetGo { .. })
    }

    /// Whether the job is over and the keeper has nothing left to do.
    pub fn is_over(&self) -> bool {
        matches!(self.life, Life::Over)
    }

    /// Takes one event and says what to do.
    pub fn step(&mut self, event: Event, now: Time) -> Vec<Effect> {
        let mut effects = Vec::new();
        match self.life {
            Life::Waiting => self.waiting(event, now, &mut effects),
            Life::Running { .. } => self.running(event, now, &mut effects),
            Life::Failing => self.failing(&event, &mut effects),
            Life::Draining { .. } | Life::Keeping { .. } => self.left_over(&event, now, &mut effects),
            Life::Ending { .. } => self.ending(&event, now, &mut effects),
            Life::LetGo { leader } => self.released(leader, &event, &mut effects),
            Life::Over => {}
        }
        self.climb(now, &mut effects);
        effects
    }

    fn waiting(&mut self, event: Event, now: Time, out: &mut Vec<Effect>) {
        match event {
            Event::Armed => out.push(Effect::StartLeader),
            Event::Cloned => {
                let timeout_at = self.policy.timeout.map(|t| now.after(t));
                self.life = Life::Running { timeout_at };
            }
            Event::NotStarted(refusal) => {
                out.push(Effect::Report(Report::NotStarted(refusal)));
                self.finish(Cause::LeaderExited, None, None, out);
            }
            Event::OwnerGone => self.finish(Cause::OwnerGone, None, None, out),
            Event::WardenGone => self.finish(Cause::WardenGone, None, None, out),
            Event::Order(Order::End(_)) => self.finish(Cause::Asked, None, None, out),
            Event::Order(Order::Signal(_) | Order::Release | Order::Go | Order::HandOver | Order::Adopt)
            | Event::Executed
            | Event::LeaderExited(_)
            | Event::LeaderStopped(_)
            | Event::LeaderContinued
            | Event::Changed
            | Event::Seen(_)
            | Event::Tick => {}
        }
    }

    fn running(&mut self, event: Event, now: Time, out: &mut Vec<Effect>) {
        let Life::Running { timeout_at } = self.life else { return };
        let due = timeout_at.is_some_and(|t| now >= t);
        match event {
            Event::NotStarted(refusal) => {
                out.push(Effect::Report(Report::NotStarted(refusal)));
                self.life = Life::Failing;
            }
            Event::LeaderExited(status) => {
                out.push(Effect::Report(Report::Exited(status)));
                let until = now.after(DRAIN);
                self.life = match self.policy.leftovers {
                    Leftovers::Keep => Life::Keeping { timeout_at, tell_at: Some(until) },
                    Leftovers::End | Leftovers::Release => Life::Draining { until },
                };
                out.push(Effect::Look);
            }
            Event::LeaderStopped(signal) => out.push(Effect::Report(Report::Stopped { signal })),
            Event::LeaderContinued => out.push(Effect::Report(Report::Continued)),
            Event::Order(Order::Signal(signal)) => out.push(Effect::Signal(To::Leader, signal)),
            Event::Order(Order::Release) => self.let_it_go(Leader::Runs, out),
            Event::Order(Order::End(l)) => self.end(l, Cause::Asked, Leader::Runs, None, now, out),
            Event::OwnerGone => self.end(self.orphaned, Cause::OwnerGone, Leader::Runs, None, now, out),
            Event::WardenGone => self.end(Ladder::short(), Cause::WardenGone, Leader::Runs, None, now, out),
            Event::Tick if due => {
                let ladder = Ladder::with_grace(self.policy.grace);
                self.end(ladder, Cause::Timeout, Leader::Runs, None, now, out);
            }
            // Whom the job belongs to is between keeper and owner; it lives on either way.
            Event::Order(Order::Go | Order::HandOver | Order::Adopt)
            | Event::Tick
            | Event::Executed
            | Event::Armed
            | Event::Cloned
            | Event::Changed
            | Event::Seen(_) => {}
        }
    }

    /// The child of a failed exec exits by itself; nothing has run.
    fn failing(&mut self, event: &Event, out: &mut Vec<Effect>) {
        if matches!(event, Event::LeaderExited(_)) {
            self.finish(Cause::LeaderExited, None, None, out);
        }
    }

    /// The leader is gone: draining or keeping.
    fn left_over(&mut self, event: &Event, now: Time, out: &mut Vec<Effect>) {
        let fate = Some(Fate::Ended);
        let keeping = matches!(self.life, Life::Keeping { .. });
        let due = self.deadline().is_some_and(|t| now >= t);
        match event {
            Event::Changed => out.push(Effect::Look),
            Event::Seen(Sight::Empty) => {
                // Leftovers were noted only if there were any; the fate is then true of them.
                let fate = if keeping { Fate::Kept } else { Fate::EndedByThemselves };
                self.finish(Cause::LeaderExited, Some(Sight::Empty), Some(fate), out);
            }
            Event::Seen(_) => {
                out.push(Effect::NoteLeftovers);
                if self.policy.leftovers == Leftovers::Release {
                    self.let_it_go(Leader::Gone, out);
                }
            }
            Event::Order(Order::Release) => {
                out.push(Effect::NoteLeftovers);
                self.let_it_go(Leader::Gone, out);
            }
            Event::Order(Order::Signal(signal)) => out.push(Effect::Signal(To::Members, *signal)),
            Event::Order(Order::End(l)) => self.end(*l, Cause::Asked, Leader::Gone, fate, now, out),
            Event::OwnerGone => self.end(self.orphaned, Cause::OwnerGone, Leader::Gone, fate, now, out),
            Event::WardenGone => self.end(Ladder::short(), Cause::WardenGone, Leader::Gone, fate, now, out),
            Event::Tick if due && keeping => self.keep_on(now, out),
            Event::Tick if due => {
                self.end(Ladder::short(), Cause::LeaderExited, Leader::Gone, fate, now, out);
            }
            Event::Order(Order::Go | Order::HandOver | Order::Adopt)
            | Event::Tick
            | Event::Armed
            | Event::Cloned
            | Event::Executed
            | Event::NotStarted(_)
            | Event::LeaderExited(_)
            | Event::LeaderStopped(_)
            | Event::LeaderContinued => {}
        }
    }

    /// A deadline while leftovers are kept: the owner is told of them, or the job's time is up.
    fn keep_on(&mut self, now: Time, out: &mut Vec<Effect>) {
        let Life::Keeping { timeout_at, tell_at } = &mut self.life else { return };
        if timeout_at.is_some_and(|t| now >= t) {
            let ladder = Ladder::with_grace(self.policy.grace);
            self.end(ladder, Cause::Timeout, Leader::Gone, Some(Fate::Ended), now, out);
        } else if tell_at.take().is_some() {
            let (sight, fate) = (Some(Sight::Members), Some(Fate::Kept));
            out.push(Effect::End { cause: Cause::LeaderExited, sight, fate });
        }
    }

    fn ending(&mut self, event: &Event, now: Time, out: &mut Vec<Effect>) {
        let Life::Ending { climb, leader, cause, fate, last_look, .. } = &mut self.life else { return };
        match event {
            Event::LeaderExited(status) => {
                *leader = Leader::Gone;
                out.push(Effect::Report(Report::Exited(*status)));
                out.push(Effect::Look);
            }
            Event::Changed => out.push(Effect::Look),
            Event::Seen(sight) => {
                let over = *last_look || (*sight == Sight::Empty && *leader == Leader::Gone);
                if over {
                    let (cause, fate) = (*cause, *fate);
                    self.finish(cause, Some(*sight), fate, out);
                }
            }
            Event::Order(Order::End(ladder)) => climb.shorten(now.after(ladder.grace)),
            Event::OwnerGone => climb.shorten(now.after(self.orphaned.grace)),
            Event::WardenGone => climb.shorten(now.after(Ladder::short().grace)),
            Event::Order(Order::Signal(signal)) if *leader == Leader::Runs => {
                out.push(Effect::Signal(To::Leader, *signal));
            }
            // An order to end that was given is not taken back by a release behind it.
            Event::Order(Order::Signal(_) | Order::Release | Order::Go | Order::HandOver | Order::Adopt)
            | Event::NotStarted(_)
            | Event::Tick
            | Event::Armed
            | Event::Cloned
            | Event::Executed
            | Event::LeaderStopped(_)
            | Event::LeaderContinued => {}
        }
    }

    fn released(&mut self, leader: Leader, event: &Event, out: &mut Vec<Effect>) {
        match event {
            Event::LeaderExited(_) => {
                self.life = Life::LetGo { leader: Leader::Gone };
                out.push(Effect::Look);
            }
            Event::Changed => out.push(Effect::Look),
            Event::Seen(Sight::Empty) if leader == Leader::Gone => {
                self.life = Life::Over;
                out.push(Effect::Leave);
            }
            _ => {}
        }
    }

    fn let_it_go(&mut self, leader: Leader, out: &mut Vec<Effect>) {
        self.life = Life::LetGo { leader };
        out.push(Effect::LetGo);
        out.push(Effect::End {
            cause: if leader == Leader::Gone { Cause::LeaderExited } else { Cause::Asked },
            sight: Some(Sight::Members),
            fate: Some(Fate::Released),
        });
    }

    fn end(
        &mut self,
        ladder: Ladder,
        cause: Cause,
        leader: Leader,
        fate: Option<Fate>,
        now: Time,
        out: &mut Vec<Effect>,
    ) {
        if leader == Leader::Gone {
            out.push(Effect::NoteLeftovers);
        }
        if !ladder.grace.is_zero() {
            out.push(Effect::Signal(To::Members, ladder.ask));
            out.push(Effect::Signal(To::Members, Signal::Cont));
        }
        let climb = Climb::start(ladder, now);
        self.life = Life::Ending { climb, ask: ladder.ask, cause, leader, fate, last_look: false };
    }

    /// Takes whatever rung of the ladder is due after the event.
    fn climb(&mut self, now: Time, out: &mut Vec<Effect>) {
        let Life::Ending { climb, ask, leader, last_look, .. } = &mut self.life else { return };
        let first_kill = !climb.killing();
        // A ladder that began with INT has not asked in everybody's language yet, and what a shell starts
        // in the background ignores INT: TERM goes to whoever is left, also when the leader is gone.
        let unasked = *ask != Signal::Term;
        let leader_runs = *leader == Leader::Runs;
        match climb.due(now, leader_runs || unasked) {
            Due::Nothing => {}
            Due::HangUp => {
                if unasked {
                    out.push(Effect::Signal(To::Members, Signal::Term));
                }
                if leader_runs {
                    out.push(Effect::Signal(To::Members, Signal::Hup));
                }
                out.push(Effect::Signal(To::Members, Signal::Cont));
            }
            Due::Kill => {
                if first_kill {
                    out.push(Effect::NoteForced);
                }
                out.push(Effect::Kill);
                out.push(Effect::Look);
            }
            Due::GiveUp => {
                *last_look = true;
                out.push(Effect::Look);
            }
        }
    }

    fn finish(&mut self, cause: Cause, sight: Option<Sight>, fate: Option<Fate>, out: &mut Vec<Effect>) {
        self.life = Life::Over;
        out.push(Effect::End { cause, sight, fate });
        out.push(Effect::Leave);
    }
}

#[cfg(test)]
mod exact;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Stage;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn refusal() -> Refusal {
        Refusal::Failed { stage: Stage::Exec, errno: 2, what: b"x".to_vec() }
    }

    fn all_events() -> Vec<Event> {
        vec![
            Event::Armed,
            Event::Cloned,
            Event::Executed,
            Event::NotStarted(refusal()),
            Event::LeaderExited(ExitStatus::Code(0)),
            Event::LeaderStopped(20),
            Event::LeaderContinued,
            Event::Changed,
            Event::Seen(Sight::Empty),
            Event::Seen(Sight::Members),
            Event::Seen(Sight::Unknown),
            Event::Order(Order::Signal(Signal::Usr1)),
            Event::Order(Order::End(Ladder::with_grace(Duration::from_secs(5)))),
            Event::Order(Order::End(Ladder::now())),
            Event::Order(Order::Release),
            Event::OwnerGone,
            Event::WardenGone,
            Event::Tick,
        ]
    }

    fn policies() -> Vec<Policy> {
        let timeouts = [None, Some(Duration::from_secs(1))];
        let leftovers = [Leftovers::End, Leftovers::Keep, Leftovers::Release];
        timeouts
            .iter()
            .flat_map(|timeout| {
                leftovers.iter().map(|leftovers| Policy {
                    timeout: *timeout,
                    leftovers: *leftovers,
                    ..Policy::default()
                })
            })
            .collect()
    }

    /// A small world around the model: what really runs, and whether it obeys the kill.
    struct World {
        job: Job,
        now: Time,
        leader: bool,
        others: u32,
        owner: bool,
        let_go: bool,
        ended: u32,
        left: u32,
        reports_after_end: u32,
        empty_was_a_lie: bool,
        told_of_kept: u32,
    }

    impl World {
        fn new(policy: Policy) -> Self {
            Self {
                job: Job::new(policy),
                now: at(0),
                leader: false,
                others: 0,
                owner: true,
                let_go: false,
                ended: 0,
                left: 0,
                reports_after_end: 0,
                empty_was_a_lie: false,
                told_of_kept: 0,
            }
        }

        fn give(&mut self, event: Event) {
            if event == Event::OwnerGone {
                self.owner = false;
            }
            let mut queue = std::collections::VecDeque::from([event]);
            while let Some(event) = queue.pop_front() {
                for effect in self.job.step(event, self.now) {
                    match effect {
                        Effect::StartLeader => {
                            self.leader = true;
                            queue.push_back(Event::Cloned);
                        }
                        Effect::Kill => {
                            if self.leader {
                                self.leader = false;
                                queue.push_back(Event::LeaderExited(ExitStatus::Signal(9)));
                            }
                            self.others = 0;
                        }
                        Effect::Look => queue.push_back(Event::Seen(if self.leader || self.others > 0 {
                            Sight::Members
                        } else {
                            Sight::Empty
                        })),
                        Effect::LetGo => self.let_go = true,
                        Effect::End { sight: Some(Sight::Members), fate: Some(Fate::Kept), .. } => {
                            self.told_of_kept += 1;
                        }
                        Effect::End { sight, .. } => {
                            self.ended += 1;
                            if sight == Some(Sight::Empty) && (self.leader || self.others > 0) {
                                self.empty_was_a_lie = true;
                            }
                        }
                        Effect::Leave => self.left += 1,
                        Effect::Report(_) => self.reports_after_end += u32::from(self.ended > 0),
                        Effect::Signal(..) | Effect::NoteLeftovers | Effect::NoteForced => {}
                    }
                }
            }
        }

        /// Lets the clock run from deadline to deadline until nothing is due.
        fn run_clock(&mut self) {
            for _ in 0..1000 {
                match self.job.deadline() {
                    Some(t) => {
                        self.now = t.max(self.now.after(Duration::from_millis(1)));
                        self.give(Event::Tick);
                    }
                    None => return,
                }
            }
            panic!("a deadline that never ends: {:?}", self.job);
        }
    }

    /// Every state that a few events can reach.
    fn reachable() -> Vec<Job> {
        let jobs = policies().into_iter().map(Job::new);
        let mut found: Vec<Job> = jobs.flat_map(|job| [job.clone().on_owners_terminal(), job]).collect();
        let mut next = 0;
        while next < found.len() && found.len() < 4000 {
            for event in all_events() {
                let mut job = found[next].clone();
                job.step(event, at(10));
                if !found.contains(&job) {
                    found.push(job);
                }
            }
            next += 1;
        }
        assert!(next == found.len(), "the state space is larger than thought");
        found
    }

    #[test]
    fn every_state_with_every_event_has_an_answer_and_a_state_that_is_over_stays_so() {
        let states = reachable();
        assert!(states.len() > 30, "{}", states.len());
        for state in &states {
            for event in all_events() {
                let mut job = state.clone();
                let effects = job.step(event.clone(), at(20));
                if state.is_over() {
                    assert!(effects.is_empty() && job.is_over(), "{event:?}");
                }
                let ends = effects.iter().filter(|e| matches!(e, Effect::End { .. })).count();
                let leaves = effects.iter().filter(|e| matches!(e, Effect::Leave)).count();
                assert!(ends <= 1 && leaves <= 1);
                assert_eq!(leaves == 1, !state.is_over() && job.is_over(), "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn in_every_state_the_owners_death_leaves_a_deadline_or_nothing_to_guard() {
        for state in reachable() {
            for event in [Event::OwnerGone, Event::WardenGone] {
                let mut job = state.clone();
                job.step(event, at(20));
                let failing = matches!(job.life, Life::Failing);
                assert!(!job.guards() || job.deadline().is_some() || failing, "{state:?} -> {job:?}");
                if let Some(t) = job.deadline() {
                    assert!(t <= at(520), "{job:?}");
                }
            }
        }
    }

    #[test]
    fn a_leader_that_exits_alone_ends_its_job_at_once() {
        let mut w = World::new(Policy::default());
        w.give(Event::Armed);
        w.give(Event::Executed);
        w.leader = false;
        w.give(Event::LeaderExited(ExitStatus::Code(0)));
        assert_eq!((w.ended, w.left), (1, 1));
    }

    #[test]
    fn leftovers_drain_then_get_the_short_ladder() {
        let mut job = Job::new(Policy::default());
        job.step(Event::Armed, at(0));
        job.step(Event::Cloned, at(0));
        let effects = job.step(Event::LeaderExited(ExitStatus::Code(0)), at(1000));
        assert!(effects.contains(&Effect::Look));
        assert_eq!(job.step(Event::Seen(Sight::Members), at(1000)), [Effect::NoteLeftovers]);
        assert_eq!(job.deadline(), Some(at(1200)));
        let effects = job.step(Event::Tick, at(1200));
        assert!(effects.contains(&Effect::Signal(To::Members, Signal::Term)));
        assert_eq!(job.step(Event::Tick, at(1699)), []);
        assert!(job.step(Event::Tick, at(1700)).contains(&Effect::Kill));
        let effects = job.step(Event::Seen(Sight::Empty), at(1701));
        let end =
            Effect::End { cause: Cause::LeaderExited, sight: Some(Sight::Empty), fate: Some(Fate::Ended) };
        assert_eq!(effects, [end, Effect::Leave]);
    }

    #[test]
    fn the_owner_is_told_of_kept_leftovers_after_the_drain_and_again_at_the_end() {
        let policy = Policy { leftovers: Leftovers::Keep, ..Policy::default() };
        let mut job = Job::new(policy);
        job.step(Event::Armed, at(0));
        job.step(Event::Cloned, at(0));
        job.step(Event::LeaderExited(ExitStatus::Code(0)), at(1000));
        job.step(Event::Seen(Sight::Members), at(1000));
        let told = job.step(Event::Tick, at(1200));
        assert!(matches!(
            told[..],
            [Effect::End { fate: Some(Fate::Kept), sight: Some(Sight::Members), .. }]
        ));
        assert_eq!(job.deadline(), None);
        assert!(job.guards());
        let ended = job.step(Event::Seen(Sight::Empty), at(9000));
        assert!(matches!(ended[..], [Effect::End { sight: Some(Sight::Empty), .. }, Effect::Leave]));
    }

    #[test]
    fn the_end_is_not_reported_before_the_last_member_is_gone() {
        let mut job = Job::new(Policy::default());
        job.step(Event::Armed, at(0));
        job.step(Event::Cloned, at(0));
        job.step(Event::Order(Order::End(Ladder::with_grace(Duration::from_secs(5)))), at(0));
        let effects = job.step(Event::LeaderExited(ExitStatus::Signal(15)), at(10));
        assert!(effects.contains(&Effect::Look));
        assert_eq!(job.step(Event::Seen(Sight::Members), at(10)), []);
        assert_eq!(job.step(Event::Tick, at(600)), [], "no HUP when the leader is gone");
        let effects = job.step(Event::Tick, at(5000));
        assert_eq!(effects, [Effect::NoteForced, Effect::Kill, Effect::Look]);
    }

    #[test]
    fn a_boundary_that_never_empties_is_said_after_the_look() {
        let mut job = Job::new(Policy::default());
        job.step(Event::Armed, at(0));
        job.step(Event::Cloned, at(0));
        job.step(Event::Order(Order::End(Ladder::now())), at(0));
        job.step(Event::LeaderExited(ExitStatus::Signal(9)), at(1));
        let (mut kills, mut rounds) = (0, 0);
        let (effects, now) = loop {
            rounds += 1;
            let Some(now) = job.deadline().filter(|_| rounds < 1000) else { panic!("still ending") };
            let effects = job.step(Event::Tick, now);
            kills += usize::from(effects.contains(&Effect::Kill));
            if effects == [Effect::Look] {
                break (job.step(Event::Seen(Sight::Members), now), now);
            }
            job.step(Event::Seen(Sight::Members), now);
        };
        assert_eq!(now, at(2000));
        assert!(kills > 100, "KILL is repeated: {kills}");
        assert!(matches!(effects[0], Effect::End { sight: Some(Sight::Members), .. }));
    }

    #[test]
    fn on_the_owners_terminal_nobody_is_asked_when_the_owner_is_gone() {
        let asked = |job: Job| {
            let mut job = job;
            job.step(Event::Armed, at(0));
            job.step(Event::Cloned, at(0));
            job.step(Event::OwnerGone, at(0))
        };
        let job = Job::new(Policy::default());
        assert_eq!(asked(job.clone())[0], Effect::Signal(To::Members, Signal::Term));
        assert_eq!(asked(job.on_owners_terminal()), [Effect::NoteForced, Effect::Kill, Effect::Look]);
    }

    #[test]
    fn an_order_given_before_the_start_means_that_nothing_starts() {
        let mut job = Job::new(Policy::default());
        job.step(Event::OwnerGone, at(0));
        assert_eq!(job.step(Event::Armed, at(0)), []);
    }

    #[test]
    fn a_ladder_that_began_with_int_asks_with_term_as_well() {
        let mut job = Job::new(Policy::default());
        job.step(Event::Armed, at(0));
        job.step(Event::Cloned, at(0));
        let ladder = Ladder { ask: Signal::Int, grace: Duration::from_secs(5) };
        let effects = job.step(Event::Order(Order::End(ladder)), at(0));
        assert_eq!(effects[0], Effect::Signal(To::Members, Signal::Int));
        let effects = job.step(Event::Tick, at(500));
        assert_eq!(effects[0], Effect::Signal(To::Members, Signal::Term));
        assert_eq!(effects[1], Effect::Signal(To::Members, Signal::Hup));
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let events = all_events();
        (0..events.len()).prop_map(move |i| events[i].clone())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Whatever happened before: once the owner is gone, the clock alone ends what runs, unless it
        /// was let go, and the end is said once.
        #[test]
        fn no_sequence_leaves_a_started_job_that_nobody_will_end(
            which in 0..6usize,
            events in proptest::collection::vec((any_event(), 0..700u64, 0..3u32), 0..30),
        ) {
            let mut w = World::new(policies()[which]);
            w.give(Event::Armed);
            for (event, pause, born) in events {
                w.now = w.now.after(Duration::from_millis(pause));
                // The world decides what is seen and who exits; the model is told only the truth.
                match event {
                    Event::Seen(_) | Event::Armed | Event::Cloned => continue,
                    Event::LeaderExited(_) | Event::NotStarted(_) if !w.leader => continue,
                    Event::LeaderExited(_) => { w.leader = false; w.others += born; }
                    Event::Changed => w.others = w.others.saturating_sub(1),
                    Event::NotStarted(_) => {
                        w.give(event);
                        w.leader = false;
                        w.give(Event::LeaderExited(ExitStatus::Code(127)));
                        continue;
                    }
                    _ => {}
                }
                w.give(event);
            }
            w.give(Event::OwnerGone);
            w.run_clock();
            prop_assert!(!w.empty_was_a_lie);
            prop_assert_eq!(w.reports_after_end, 0);
            prop_assert!(w.told_of_kept <= 1);
            if w.let_go {
                prop_assert_eq!(w.ended, 1);
            } else {
                prop_assert!(!w.leader && w.others == 0, "left: {:?}", w.job);
                prop_assert_eq!((w.ended, w.left), (1, 1));
            }
        }
    }
}
