//! What the warden decides: it is where keepers are born, and the second line behind them.
//!
//! It ends nothing as long as the keepers do their work. When a keeper is killed, its orphans come to
//! the warden (which is their next subreaper), and the warden ends them; a keeper that somebody stopped is
//! continued; and when the owner is gone and a keeper does not finish in time, the warden ends the keeper too.

use crate::id::JobId;
use crate::job::Sight;
use crate::ladder::{KILL_AGAIN, LOOK, SHORT_GRACE};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long keepers have to end their jobs by themselves once the owner is gone.
pub const KEEPERS_HAVE: Duration =
    Duration::from_millis(SHORT_GRACE.as_millis() as u64 + LOOK.as_millis() as u64 + 500);

/// How long a keeper stays stopped before it is continued: a stopped one hears no order and no timer. Whoever stops several
/// guards to kill them in one instant is done by then.
pub const CONTINUE_AFTER: Duration = Duration::from_millis(500);

/// What the warden sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A keeper was forked for this job.
    Forked(JobId),
    /// The keeper says that this job is let go.
    Released(JobId),
    /// The keeper exited by itself: its job is over.
    KeeperDone(JobId),
    /// The keeper was killed, or failed.
    KeeperLost(JobId),
    /// Somebody has stopped the keeper.
    KeeperStopped(JobId),
    /// Another child was reaped.
    Changed,
    /// The answer to [`Effect::Look`] for this job.
    Seen(JobId, Sight),
    /// The job has another owner now, or is on its way to one.
    HandedOver(JobId),
    /// Somebody from outside the owner wants this job to end.
    Stop {
        /// The job.
        job: JobId,
        /// Without asking its processes first.
        now: bool,
    },
    /// The owner wants nothing more of us: it has closed the socket. Its jobs may live on.
    Retired,
    /// The owner is gone.
    OwnerGone,
    /// A request has been answered, and the next may be like it: one for a keeper that was forked ahead.
    SpareWanted,
    /// The spare keeper has got a job, or has ended, or could not be forked.
    SpareGone,
    /// The time that [`Warden::deadline`] named has come.
    Tick,
}

/// What the warden does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// End what a killed keeper left: its leaf, and the orphans.
    EndWhatIsLeft(JobId),
    /// Look whether anything is left of this job and answer with [`Event::Seen`].
    Look(JobId),
    /// Tell the owner what became of a job whose keeper is lost.
    Tell(JobId, Sight),
    /// Remove what is left of the job's boundary and forget it.
    Forget(JobId),
    /// End a keeper that did not finish.
    KillKeeper(JobId),
    /// Continue a keeper that was stopped.
    ContinueKeeper(JobId),
    /// Have the keeper end its job.
    EndJob {
        /// The job.
        job: JobId,
        /// Without asking its processes first.
        now: bool,
    },
    /// Fork a keeper that waits for a job.
    ForkSpare,
    /// End the one that waits: no job can come.
    EndSpare,
}

/// What a job is to the warden, for who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holding {
    /// It ends when it is told to, or is being ended.
    Guarded,
    /// It was let go.
    LetGo,
}

/// Whose the orphans are that come to a warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Orphans {
    /// Of a job whose keeper is lost: parentage is enough to end them.
    OfTheLost,
    /// They may be of a job that was let go: only what bears the lost job's name or tag is ended.
    OfAnybody,
}

/// The keeper that is forked ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Spare {
    /// There is to be none.
    #[default]
    Never,
    /// There is none until the next request has been answered: whoever has asked once may ask again, and one
    /// that ends by itself is not forked again and again.
    None,
    /// One is there.
    There,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ward {
    Guarded,
    /// Guarded for another owner than ours, whose death the keeper watches.
    Elsewhere,
    LetGo,
    /// The keeper is lost; what it left is being ended.
    Lost {
        again: Time,
        give_up: Time,
    },
}

/// The warden's view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Warden {
    jobs: BTreeMap<JobId, Ward>,
    /// When these are continued: their keepers are there, and were stopped. One that somebody else continues stays here,
    /// since whoever does that and stops it again must not begin the time anew; to one that runs it is nothing.
    stopped: BTreeMap<JobId, Time>,
    owner_gone: Option<Time>,
    retired: bool,
    /// A caretaker of a released job was killed: its orphans cannot be told from others by parentage.
    spare_orphans: bool,
    spare: Spare,
}

impl Warden {
    /// For an owner that starts one job after the other: a keeper is forked ahead of each but the first.
    pub fn with_spare() -> Self {
        Self { spare: Spare::None, ..Self::default() }
    }

    /// The jobs that are not over.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// What a job is to us; `None` when it is over, or was never ours.
    pub fn holding(&self, job: JobId) -> Option<Holding> {
        self.jobs.get(&job).map(|ward| match ward {
            Ward::Guarded | Ward::Elsewhere | Ward::Lost { .. } => Holding::Guarded,
            Ward::LetGo => Holding::LetGo,
        })
    }

    /// Whose the orphans that come to the warden can be.
    ///
    /// A released job's keeper stays as the parent of what was let go. When that keeper is killed, its
    /// orphans come here like those of any other, and a released job is never ended.
    pub fn orphans(&self) -> Orphans {
        let let_go = self.spare_orphans || self.jobs.values().any(|ward| *ward == Ward::LetGo);
        if let_go { Orphans::OfAnybody } else { Orphans::OfTheLost }
    }

    /// Whether the warden has nothing left to do: no request can come, and no job needs it.
    pub fn is_done(&self) -> bool {
        self.takes_no_more() && self.jobs.values().all(|w| *w == Ward::LetGo)
    }

    /// Whether nothing new may be started.
    pub fn takes_no_more(&self) -> bool {
        self.retired || self.owner_gone.is_some()
    }

    /// Whether the owner is known to be gone.
    pub fn owner_is_gone(&self) -> bool {
        self.owner_gone.is_some()
    }

    /// When [`Event::Tick`] is due at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let guarded = self.jobs.values().any(|w| *w == Ward::Guarded);
        let keepers = self.owner_gone.filter(|_| guarded).map(|t| t.after(KEEPERS_HAVE));
        let lost = self.jobs.values().filter_map(|w| match w {
            Ward::Lost { again, give_up } => Some((*again).min(*give_up)),
            Ward::Guarded | Ward::Elsewhere | Ward::LetGo => None,
        });
        lost.chain(keepers).chain(self.stopped.values().copied()).min()
    }

    /// Takes one event and says what to do.
    pub fn step(&mut self, event: Event, now: Time) -> Vec<Effect> {
        match event {
            Event::Forked(job) => {
                self.jobs.insert(job, Ward::Guarded);
                Vec::new()
            }
            Event::Released(job) => {
                if let Some(ward @ (Ward::Guarded | Ward::Elsewhere)) = self.jobs.get_mut(&job) {
                    *ward = Ward::LetGo;
                }
                Vec::new()
            }
            Event::HandedOver(job) => {
                if let Some(ward @ Ward::Guarded) = self.jobs.get_mut(&job) {
                    *ward = Ward::Elsewhere;
                }
                Vec::new()
            }
            Event::KeeperDone(job) => {
                self.stopped.remove(&job);
                match self.jobs.remove(&job) {
                    Some(_) => vec![Effect::Forget(job)],
                    None => Vec::new(),
                }
            }
            Event::KeeperLost(job) => self.keeper_lost(job, now),
            Event::KeeperStopped(job) => {
                self.keeper_stopped(job, now);
                Vec::new()
            }
            // A job whose keeper is lost is being ended already.
            Event::Stop { job, now } => match self.jobs.get(&job) {
                Some(Ward::Guarded | Ward::Elsewhere) => vec![Effect::EndJob { job, now }],
                Some(Ward::LetGo | Ward::Lost { .. }) | None => Vec::new(),
            },
            Event::Changed => self.lost_jobs().map(Effect::Look).collect(),
            Event::Seen(job, sight) => self.seen(job, sight, now),
            Event::Retired => {
                self.retired = true;
                self.no_more_spares()
            }
            Event::OwnerGone => {
                self.owner_gone.get_or_insert(now);
                self.no_more_spares()
            }
            Event::SpareWanted => {
                if self.spare == Spare::None {
                    self.spare = Spare::There;
                    return vec![Effect::ForkSpare];
                }
                Vec::new()
            }
            Event::SpareGone => {
                if self.spare == Spare::There {
                    self.spare = Spare::None;
                }
                Vec::new()
            }
            Event::Tick => self.tick(now),
        }
    }

    fn no_more_spares(&mut self) -> Vec<Effect> {
        match std::mem::take(&mut self.spare) {
            Spare::There => vec![Effect::EndSpare],
            Spare::Never | Spare::None => Vec::new(),
        }
    }

    fn lost_jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.iter().filter(|(_, w)| matches!(w, Ward::Lost { .. })).map(|(job, _)| *job)
    }

    fn keeper_stopped(&mut self, job: JobId, now: Time) {
        if let Some(Ward::Guarded | Ward::Elsewhere | Ward::LetGo) = self.jobs.get(&job) {
            self.stopped.entry(job).or_insert(now.after(CONTINUE_AFTER));
        }
    }

    fn keeper_lost(&mut self, job: JobId, now: Time) -> Vec<Effect> {
        self.stopped.remove(&job);
        match self.jobs.get_mut(&job) {
            Some(Ward::LetGo) => {
                self.jobs.remove(&job);
                self.spare_orphans = true;
                // The keeper may have died before it told the owner, who waits for an answer then.
                vec![Effect::Tell(job, Sight::Unknown), Effect::Forget(job)]
            }
            Some(ward @ (Ward::Guarded | Ward::Elsewhere)) => {
                *ward = Ward::Lost { again: now.after(KILL_AGAIN), give_up: now.after(LOOK) };
                vec![Effect::EndWhatIsLeft(job), Effect::Look(job)]
            }
            Some(Ward::Lost { .. }) | None => Vec::new(),
        }
    }

    fn seen(&mut self, job: JobId, sight: Sight, now: Time) -> Vec<Effect> {
        let Some(Ward::Lost { give_up, .. }) = self.jobs.get(&job) else { return Vec::new() };
        if sight == Sight::Empty || now >= *give_up {
            self.jobs.remove(&job);
            return vec![Effect::Tell(job, sight), Effect::Forget(job)];
        }
        Vec::new()
    }

    fn tick(&mut self, now: Time) -> Vec<Effect> {
        let late = self.owner_gone.is_some_and(|t| now >= t.after(KEEPERS_HAVE));
        // Each stop is answered once, and the next one, which is reported anew, after as long.
        let due = |at: &Time| now >= *at;
        let stopped = self.stopped.iter().filter(|(_, at)| due(at));
        let mut effects: Vec<Effect> = stopped.map(|(job, _)| Effect::ContinueKeeper(*job)).collect();
        self.stopped.retain(|_, at| !due(at));
        for (job, ward) in &mut self.jobs {
            match ward {
                Ward::Guarded if late => effects.push(Effect::KillKeeper(*job)),
                Ward::Lost { again, give_up } if now >= *again || now >= *give_up => {
                    *again = now.after(KILL_AGAIN);
                    effects.push(Effect::EndWhatIsLeft(*job));
                    effects.push(Effect::Look(*job));
                }
                Ward::Guarded | Ward::Elsewhere | Ward::LetGo | Ward::Lost { .. } => {}
            }
        }
        // A keeper that cannot even be killed is asked for again only after a while.
        if late {
            self.owner_gone = Some(now);
        }
        effects
    }
}

#[cfg(test)]
mod exact;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }
    const A: JobId = JobId(1);
    const B: JobId = JobId(2);

    #[test]
    fn a_killed_keepers_job_is_ended_and_told_once() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        let effects = w.step(Event::KeeperLost(A), at(10));
        assert_eq!(effects, [Effect::EndWhatIsLeft(A), Effect::Look(A)]);
        assert_eq!(w.step(Event::Seen(A, Sight::Members), at(10)), []);
        assert_eq!(w.deadline(), Some(at(20)));
        assert_eq!(w.step(Event::Tick, at(20)), [Effect::EndWhatIsLeft(A), Effect::Look(A)]);
        let effects = w.step(Event::Seen(A, Sight::Empty), at(21));
        assert_eq!(effects, [Effect::Tell(A, Sight::Empty), Effect::Forget(A)]);
        assert_eq!(w.step(Event::Seen(A, Sight::Empty), at(22)), []);
    }

    #[test]
    fn what_cannot_be_ended_is_told_when_the_look_is_over() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        w.step(Event::KeeperLost(A), at(0));
        w.step(Event::Tick, at(2000));
        let effects = w.step(Event::Seen(A, Sight::Members), at(2000));
        assert_eq!(effects, [Effect::Tell(A, Sight::Members), Effect::Forget(A)]);
    }

    #[test]
    fn a_released_job_is_never_ended() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        assert_eq!(w.orphans(), Orphans::OfTheLost);
        w.step(Event::Released(A), at(1));
        assert_eq!(w.orphans(), Orphans::OfAnybody, "its keeper may be killed at any moment");
        w.step(Event::OwnerGone, at(2));
        assert!(w.is_done());
        assert_eq!(w.step(Event::Tick, at(99_999)), []);
        let told = [Effect::Tell(A, Sight::Unknown), Effect::Forget(A)];
        assert_eq!(w.step(Event::KeeperLost(A), at(3)), told, "an owner that was not told yet waits for it");
        assert_eq!(w.orphans(), Orphans::OfAnybody);
    }

    #[test]
    fn a_retired_warden_stays_for_its_jobs_and_hurries_nobody() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        w.step(Event::Retired, at(0));
        assert!(!w.is_done() && w.takes_no_more());
        assert_eq!(w.deadline(), None);
        w.step(Event::KeeperDone(A), at(50_000));
        assert!(w.is_done());
    }

    #[test]
    fn a_job_of_another_owner_outlives_ours() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        w.step(Event::HandedOver(A), at(0));
        w.step(Event::OwnerGone, at(0));
        assert!(!w.is_done());
        assert_eq!((w.deadline(), w.step(Event::Tick, at(99_999))), (None, Vec::new()));
        assert_eq!(w.step(Event::KeeperLost(A), at(3))[0], Effect::EndWhatIsLeft(A));
    }

    #[test]
    fn a_keeper_that_does_not_finish_after_the_owners_death_is_killed() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        w.step(Event::Forked(B), at(0));
        w.step(Event::OwnerGone, at(0));
        assert!(!w.is_done());
        w.step(Event::KeeperDone(B), at(100));
        assert_eq!(w.deadline(), Some(at(3000)));
        assert_eq!(w.step(Event::Tick, at(2999)), []);
        assert_eq!(w.step(Event::Tick, at(3000)), [Effect::KillKeeper(A)]);
        let effects = w.step(Event::KeeperLost(A), at(3001));
        assert_eq!(effects[0], Effect::EndWhatIsLeft(A));
        w.step(Event::Seen(A, Sight::Empty), at(3002));
        assert!(w.is_done());
    }

    #[test]
    fn a_stopped_keeper_is_continued_and_as_often_as_it_is_stopped() {
        let mut w = Warden::default();
        w.step(Event::Forked(A), at(0));
        for round in [1000, 1500, 7000] {
            assert_eq!(
                (w.step(Event::KeeperStopped(A), at(round)), w.deadline()),
                (vec![], Some(at(round + 500)))
            );
            assert_eq!(w.step(Event::Tick, at(round + 499)), []);
            assert_eq!(w.step(Event::Tick, at(round + 500)), [Effect::ContinueKeeper(A)]);
            // Once for each stop: what comes of it is reported.
            assert_eq!((w.deadline(), w.step(Event::Tick, at(round + 501))), (None, Vec::new()));
        }
    }

    #[test]
    fn a_spare_is_forked_after_an_answer_and_never_for_itself() {
        let mut w = Warden::with_spare();
        assert_eq!((w.deadline(), w.step(Event::Tick, at(50))), (None, Vec::new()));
        assert_eq!(w.step(Event::SpareWanted, at(100)), [Effect::ForkSpare]);
        // A keeper of another kind was forked beside it: it is still there.
        assert_eq!(w.step(Event::SpareWanted, at(101)), []);
        // Somebody kills it: there is no other before the next answer.
        assert_eq!(w.step(Event::SpareGone, at(300)), []);
        assert_eq!((w.deadline(), w.step(Event::Tick, at(999))), (None, Vec::new()));
        assert_eq!(w.step(Event::SpareWanted, at(1000)), [Effect::ForkSpare]);
    }

    #[test]
    fn a_spare_does_not_outlive_the_last_request() {
        for last in [Event::Retired, Event::OwnerGone] {
            let mut w = Warden::with_spare();
            w.step(Event::SpareWanted, at(0));
            assert_eq!(w.step(last, at(1)), [Effect::EndSpare]);
            assert_eq!(w.step(last, at(2)), []);
            assert_eq!(w.step(Event::SpareGone, at(3)), []);
            assert_eq!(w.step(Event::SpareWanted, at(4)), []);
        }
    }

    #[test]
    fn a_warden_for_one_job_forks_no_spare() {
        assert_eq!(Warden::default().step(Event::SpareWanted, at(0)), []);
    }

    proptest! {
        /// Once the owner is gone, the warden always has a deadline or is done.
        #[test]
        fn the_warden_never_waits_for_ever(steps in proptest::collection::vec((0..10u8, 0..3u128, 0..900u64), 0..40)) {
            let mut w = Warden::default();
            let mut now = at(0);
            for (kind, job, pause) in steps {
                now = now.after(Duration::from_millis(pause));
                let job = JobId(job);
                let event = match kind {
                    0 => Event::Forked(job),
                    1 => Event::Released(job),
                    2 => Event::KeeperDone(job),
                    3 => Event::KeeperLost(job),
                    4 => Event::Changed,
                    5 => Event::Seen(job, Sight::Members),
                    6 => Event::Seen(job, Sight::Empty),
                    7 => Event::HandedOver(job),
                    8 => Event::KeeperStopped(job),
                    _ => Event::Tick,
                };
                let released = w.jobs.get(&job) == Some(&Ward::LetGo);
                let effects = w.step(event, now);
                prop_assert!(!(released && effects.contains(&Effect::EndWhatIsLeft(job))));
                // Whose keeper is lost, or who is over, has none that could be continued.
                let guarded = |job: &JobId| w.jobs.get(job).is_some_and(|w| !matches!(w, Ward::Lost { .. }));
                prop_assert!(w.stopped.keys().all(guarded));
                let first = w.stopped.values().min();
                prop_assert!(first.is_none_or(|first| w.deadline().is_some_and(|at| at <= *first)));
            }
            w.step(Event::OwnerGone, now);
            let elsewhere = w.jobs.values().any(|w| *w == Ward::Elsewhere);
            prop_assert!(w.is_done() || w.deadline().is_some() || elsewhere);
        }
    }
}
