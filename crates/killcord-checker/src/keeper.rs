//! A keeper's process: what it sees, and how it does what its job's decisions say.

use crate::world::{Fault, Leader, Life, Said, Setting, Status, Step, Word, World};
use killcord_model::job::{Effect, Event, Sight};
use killcord_model::record::State;
use killcord_model::status::ExitStatus;
use killcord_model::verdict::Fate;
use killcord_model::wire::{Order, Refusal, Report, Stage};

/// What happens to the one message that a step may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sends {
    Whole,
    Lost,
}

fn refusal() -> Refusal {
    Refusal::Failed { stage: Stage::Leader, errno: 0, what: Vec::new() }
}

impl World {
    /// What a keeper begins with.
    pub(crate) fn keeper_begins(&mut self, job: usize, warden: usize) {
        let keeper = &mut self.jobs[job].keeper;
        keeper.life = Life::Runs;
        keeper.warden = warden;
        keeper.deeds.extend([Step::Arm, Step::Look]);
    }

    /// Whether a keeper has something to do before it waits.
    pub(crate) fn keeper_is_busy(&self, job: usize) -> bool {
        let keeper = &self.jobs[job].keeper;
        keeper.life == Life::Runs && !keeper.deeds.is_empty()
    }

    /// Whether the next step of a keeper sends something that may be lost.
    pub(crate) fn keeper_sends(&self, job: usize) -> bool {
        matches!(
            self.jobs[job].keeper.deeds.front(),
            Some(Step::Arm | Step::Say(_) | Step::Tell(Status::Done(_)) | Step::Do(Effect::Report(_)))
        )
    }

    /// One step.
    pub(crate) fn keeper_steps(&mut self, setting: &Setting, job: usize, sends: Sends) {
        if let Some(step) = self.jobs[job].keeper.deeds.pop_front() {
            self.keeper_does(setting, job, step, sends);
        }
        self.keeper_decides(setting, job);
    }

    /// Decides until there is something to do that others see. Nobody can come between decisions.
    fn keeper_decides(&mut self, setting: &Setting, job: usize) {
        let now = self.now;
        let keeper = &mut self.jobs[job].keeper;
        while keeper.deeds.is_empty()
            && let Some(event) = keeper.events.pop_front()
        {
            let effects = keeper.mind.step(event, now).into_iter();
            keeper.deeds.extend(effects.filter(others_see).map(Step::Do));
        }
        if keeper.life == Life::Runs && keeper.deeds.is_empty() && keeper.mind.is_over() {
            self.keeper_ended(setting, job, Life::Done);
        }
    }

    fn keeper_does(&mut self, setting: &Setting, job: usize, step: Step, sends: Sends) {
        let lost = sends == Sends::Lost;
        match step {
            Step::Arm => {
                if !lost {
                    self.say(job, Word::Armed);
                } else if setting.fault != Some(Fault::StartsUntold) {
                    self.jobs[job].keeper.events.push_back(Event::NotStarted(refusal()));
                }
            }
            Step::Look => {
                let mut events = self.ends_seen(setting, job);
                events.push(Event::Armed);
                self.jobs[job].keeper.events.extend(events);
            }
            Step::Record(state) => {
                let affair = &mut self.jobs[job];
                affair.record = Some(state);
                affair.may_live |= state == State::Released;
            }
            Step::Clone => {
                let affair = &mut self.jobs[job];
                affair.leader = Leader::Child;
                affair.keeper.events.push_back(Event::Cloned);
            }
            Step::Tell(status) => self.tell(job, status, lost),
            Step::Clear => self.jobs[job].record = None,
            Step::Disarm => self.jobs[job].keeper.disarmed = true,
            Step::Say(word) => {
                if !lost {
                    self.say(job, word);
                }
                if matches!(word, Word::Ended(said) if said != Said::Kept) {
                    self.jobs[job].cord.far = false;
                    self.jobs[job].cord.orders.clear();
                }
            }
            Step::Do(effect) => self.keeper_carries_out(setting, job, &effect, lost),
        }
    }

    fn keeper_carries_out(&mut self, setting: &Setting, job: usize, effect: &Effect, lost: bool) {
        match effect {
            Effect::StartLeader => {
                let mut steps = [Step::Record(State::Started), Step::Clone];
                if setting.fault == Some(Fault::RecordsAfterTheStart) {
                    steps.reverse();
                }
                self.jobs[job].keeper.deeds.extend(steps);
            }
            Effect::Report(Report::NotStarted(_)) if !lost => self.say(job, Word::NotStarted),
            Effect::Signal(..) => {
                if self.jobs[job].must_live && self.jobs[job].lives() {
                    self.blame("a keeper signals a job that was let go");
                }
            }
            Effect::Kill => self.end_all(job, "a keeper ends a job that was let go"),
            Effect::Look => {
                let events = self.reaped(job);
                let lives = self.jobs[job].lives() && setting.fault != Some(Fault::SaysEmptyUnseen);
                let sight = if lives { Sight::Members } else { Sight::Empty };
                let keeper = &mut self.jobs[job].keeper;
                keeper.events.extend(events);
                keeper.events.push_back(Event::Seen(sight));
            }
            Effect::LetGo => {
                let mut steps =
                    [Step::Disarm, Step::Record(State::Released), Step::Tell(Status::Released(job))];
                if setting.fault == Some(Fault::TellsBeforeItDisarms) {
                    steps.rotate_left(1);
                }
                // The end is reported behind them.
                for step in steps.into_iter().rev() {
                    self.jobs[job].keeper.deeds.push_front(step);
                }
            }
            Effect::End { sight, fate, .. } => self.keeper_ends(job, *sight, *fate),
            Effect::Leave => {
                if self.jobs[job].record == Some(State::Released) {
                    self.jobs[job].keeper.deeds.push_back(Step::Clear);
                }
            }
            Effect::Report(_) | Effect::NoteLeftovers | Effect::NoteForced => {}
        }
    }

    /// The end: struck out if nothing is left, then said.
    fn keeper_ends(&mut self, job: usize, sight: Option<Sight>, fate: Option<Fate>) {
        let affair = &self.jobs[job];
        let said = match (sight, fate) {
            (_, Some(Fate::Released)) => Said::Released,
            (Some(Sight::Members), Some(Fate::Kept)) => Said::Kept,
            (None, _) => Said::NothingRan,
            (Some(Sight::Empty), _) if !affair.keeper.heard_exec => Said::NothingRan,
            (Some(Sight::Empty), _) => Said::Empty,
            (Some(Sight::Members), _) => Said::Survivors,
            (Some(Sight::Unknown), _) => Said::Unknown,
        };
        if matches!(said, Said::Empty | Said::NothingRan) && affair.lives() {
            self.blame("a keeper says Empty while a member lives");
        }
        if said == Said::NothingRan && self.jobs[job].runs > 0 {
            self.blame("a keeper says that nothing ran, and something did");
        }
        let mut steps = Vec::new();
        let over = matches!(said, Said::Empty | Said::NothingRan);
        if over {
            steps.push(Step::Clear);
        }
        steps.push(Step::Say(Word::Ended(said)));
        if over {
            steps.push(Step::Tell(Status::Done(job)));
        }
        for step in steps.into_iter().rev() {
            self.jobs[job].keeper.deeds.push_front(step);
        }
    }

    /// A pass of KILL over a whole job.
    pub(crate) fn end_all(&mut self, job: usize, blame: &'static str) {
        if self.jobs[job].must_live && self.jobs[job].lives() {
            self.blame(blame);
        }
        self.kill_leader(job);
        self.kill_member(job);
    }

    fn say(&mut self, job: usize, word: Word) {
        let cord = &mut self.jobs[job].cord;
        if cord.near && cord.far {
            cord.reports.push(word);
        }
    }

    fn tell(&mut self, job: usize, status: Status, lost: bool) {
        let warden = self.jobs[job].keeper.warden;
        if self.wardens[warden].life == Life::Runs && !lost {
            self.wardens[warden].pipe.push(status);
        }
        if status == Status::Released(job) {
            let affair = &mut self.jobs[job];
            affair.must_live = true;
            // Neither end concerns it any more.
            (affair.keeper.saw_owner_gone, affair.keeper.saw_warden_gone) = (true, true);
        }
    }

    /// What the ends of the cord and of the warden's pipe say.
    fn ends_seen(&mut self, setting: &Setting, job: usize) -> Vec<Event> {
        let (owner, mut events) = (self.owner, Vec::new());
        let affair = &mut self.jobs[job];
        let warden = self.wardens[affair.keeper.warden].life == Life::Runs;
        let deaf = setting.fault == Some(Fault::NobodyBehind);
        if !warden && !affair.keeper.saw_warden_gone && !deaf {
            affair.keeper.saw_warden_gone = true;
            events.push(Event::WardenGone);
        }
        if affair.keeper.saw_owner_gone {
            return events;
        }
        // A dead owner's last words come before its death.
        let count = if owner { affair.cord.orders.len().min(1) } else { affair.cord.orders.len() };
        let orders: Vec<Order> = affair.cord.orders.drain(..count).collect();
        let closed = !affair.cord.near && (!owner || orders.is_empty());
        events.extend(orders.into_iter().map(Event::Order));
        if closed && setting.fault != Some(Fault::IgnoresTheOwner) {
            affair.keeper.saw_owner_gone = true;
            events.push(Event::OwnerGone);
        }
        events
    }

    /// What the keeper learns by reaping.
    fn reaped(&mut self, job: usize) -> Vec<Event> {
        let affair = &mut self.jobs[job];
        let mut events = Vec::new();
        match std::mem::replace(&mut affair.leader, Leader::Gone) {
            Leader::Dead => {
                // A pipe that has ended without a word says that exec has happened, or that the child was killed.
                if !std::mem::replace(&mut affair.keeper.heard_exec, true) {
                    affair.keeper.deeds.push_back(Step::Say(Word::Started));
                    events.push(Event::Executed);
                }
                events.push(Event::LeaderExited(ExitStatus::Code(0)));
            }
            Leader::Failed => {
                events.extend([Event::NotStarted(refusal()), Event::LeaderExited(ExitStatus::Code(127))]);
            }
            other => affair.leader = other,
        }
        if std::mem::take(&mut affair.keeper.member_died) {
            events.push(Event::Changed);
        }
        events
    }

    /// Waits and sees what there is; `None` where nothing is.
    pub(crate) fn keeper_waits(&mut self, setting: &Setting, job: usize) -> Option<()> {
        let mut events = self.ends_seen(setting, job);
        let affair = &mut self.jobs[job];
        if affair.runs > 0 && !affair.keeper.heard_exec {
            affair.keeper.heard_exec = true;
            affair.keeper.deeds.push_back(Step::Say(Word::Started));
            events.push(Event::Executed);
        }
        events.extend(self.reaped(job));
        let now = self.now;
        let keeper = &mut self.jobs[job].keeper;
        if keeper.mind.deadline().is_some_and(|t| now >= t) {
            events.push(Event::Tick);
        }
        keeper.events.extend(events);
        if keeper.events.is_empty() {
            return None;
        }
        self.keeper_decides(setting, job);
        Some(())
    }
}

/// Whether an effect is more than a note of the keeper's own.
fn others_see(effect: &Effect) -> bool {
    match effect {
        Effect::Report(report) => matches!(report, Report::NotStarted(_)),
        Effect::NoteLeftovers | Effect::NoteForced => false,
        Effect::StartLeader
        | Effect::Signal(..)
        | Effect::Kill
        | Effect::Look
        | Effect::LetGo
        | Effect::End { .. }
        | Effect::Leave => true,
    }
}
