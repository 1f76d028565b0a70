//! A warden's process: what it sees, and how it does what its decisions say.

use crate::world::{Deed, Fault, Life, Request, Setting, Status, World, id, index};
use killcord_model::boundary::Boundary;
use killcord_model::job::Sight;
use killcord_model::record::State;
use killcord_model::warden::{Effect, Event};

impl World {
    /// Whether a warden has something to do before it waits.
    pub(crate) fn warden_is_busy(&self, warden: usize) -> bool {
        let it = &self.wardens[warden];
        it.life == Life::Runs && !it.deeds.is_empty()
    }

    /// One step.
    pub(crate) fn warden_steps(&mut self, setting: &Setting, warden: usize) {
        if let Some(deed) = self.wardens[warden].deeds.pop_front() {
            self.warden_does(setting, warden, deed);
        }
        self.warden_decides(setting, warden);
    }

    /// Gives it an event, and decides.
    pub(crate) fn warden_sees(&mut self, setting: &Setting, warden: usize, event: Event) {
        self.wardens[warden].events.push_back(event);
        self.warden_decides(setting, warden);
    }

    /// Decides until there is something to do that others see.
    pub(crate) fn warden_decides(&mut self, setting: &Setting, warden: usize) {
        let now = self.now;
        let it = &mut self.wardens[warden];
        while it.deeds.is_empty()
            && let Some(event) = it.events.pop_front()
        {
            let effects = it.mind.step(event, now).into_iter();
            it.deeds.extend(effects.filter(|e| !matches!(e, Effect::Forget(_))).map(Deed::Do));
        }
        if it.life == Life::Runs && it.deeds.is_empty() && it.mind.is_done() {
            self.warden_ended(setting, warden);
        }
    }

    fn warden_does(&mut self, setting: &Setting, warden: usize, deed: Deed) {
        match deed {
            Deed::Reserve(job) => self.jobs[job].record = Some(State::Reserved),
            Deed::Fork(job) => {
                self.keeper_begins(job, warden);
                self.wardens[warden].events.push_back(Event::Forked(id(job)));
            }
            Deed::EndOrphans(job) => self.end_orphans(setting, warden, job),
            Deed::Do(Effect::EndWhatIsLeft(name)) => {
                let job = index(name);
                if setting.boundary == Boundary::Cgroup {
                    self.end_all(job, "a warden ends the cgroup of a job that was let go");
                }
                self.warden_reaps(setting, warden);
                self.wardens[warden].deeds.push_front(Deed::EndOrphans(job));
            }
            Deed::Do(Effect::Look(name)) => {
                let sight = self.warden_looks(setting, warden, index(name));
                self.wardens[warden].events.push_back(Event::Seen(name, sight));
            }
            Deed::Do(Effect::Tell(name, sight)) => {
                let job = index(name);
                if sight == Sight::Empty {
                    if self.jobs[job].lives() {
                        self.blame("a warden says Empty while a member lives");
                    }
                    self.jobs[job].record = None;
                }
                if self.owner {
                    self.wardens[warden].said.push((job, sight));
                }
            }
            Deed::Do(Effect::KillKeeper(name)) => self.keeper_ended(setting, index(name), Life::Killed),
            // A spare has no job, nobody calls from outside, and nobody stops a keeper.
            Deed::Do(
                Effect::Forget(_)
                | Effect::ForkSpare
                | Effect::EndSpare
                | Effect::EndJob { .. }
                | Effect::ContinueKeeper(_),
            ) => {}
        }
    }

    /// Whose keeper is gone, and who is therefore a child of this warden.
    fn orphans(&self, warden: usize) -> Vec<usize> {
        let orphaned = |job: &usize| {
            let keeper = &self.jobs[*job].keeper;
            keeper.warden == warden && !matches!(keeper.life, Life::NotYet | Life::Runs)
        };
        (0..self.jobs.len()).filter(orphaned).collect()
    }

    fn end_orphans(&mut self, setting: &Setting, warden: usize, job: usize) {
        let every = setting.fault == Some(Fault::EndsEveryOrphan);
        for orphan in self.orphans(warden) {
            // Whatever bears the name of another job is that one's.
            if every || orphan == job {
                self.end_all(orphan, "a warden ends the orphans of a job that was let go");
            }
        }
    }

    fn warden_looks(&self, setting: &Setting, warden: usize, job: usize) -> Sight {
        let left = match setting.boundary {
            Boundary::Cgroup | Boundary::Namespace => self.jobs[job].lives(),
            _ => self.orphans(warden).iter().any(|orphan| *orphan == job && self.jobs[*orphan].lives()),
        };
        if left { Sight::Members } else { Sight::Empty }
    }

    /// Reads what keepers have said.
    pub(crate) fn warden_hears(&mut self, warden: usize) {
        let it = &mut self.wardens[warden];
        it.events.extend(it.pipe.drain(..).map(|status| match status {
            Status::Released(job) => Event::Released(id(job)),
            Status::Done(job) => Event::KeeperDone(id(job)),
        }));
    }

    /// Learns who has ended. What the dead had said is read before that is acted upon.
    pub(crate) fn warden_reaps(&mut self, setting: &Setting, warden: usize) {
        let mut ends = Vec::new();
        for (job, affair) in self.jobs.iter_mut().enumerate() {
            if affair.keeper.warden != warden {
                continue;
            }
            match affair.keeper.life {
                Life::Done => ends.push(Event::KeeperDone(id(job))),
                Life::Killed => {
                    // It is written down before it is said.
                    let reads = setting.fault != Some(Fault::ReapsBeforeHearing);
                    let let_go = reads && affair.record == Some(State::Released);
                    ends.extend(let_go.then_some(Event::Released(id(job))));
                    ends.push(Event::KeeperLost(id(job)));
                }
                Life::NotYet | Life::Runs | Life::Gone => continue,
            }
            affair.keeper.life = Life::Gone;
        }
        if std::mem::take(&mut self.wardens[warden].orphan_died) {
            ends.push(Event::Changed);
        }
        match setting.fault {
            Some(Fault::NobodyBehind) => return,
            Some(Fault::ReapsBeforeHearing) => {}
            _ => self.warden_hears(warden),
        }
        self.wardens[warden].events.extend(ends);
    }

    /// Whether there is somebody to be reaped.
    pub(crate) fn warden_can_reap(&self, warden: usize) -> bool {
        let dead = |job: &crate::world::Affair| {
            job.keeper.warden == warden && matches!(job.keeper.life, Life::Done | Life::Killed)
        };
        self.wardens[warden].orphan_died || self.jobs.iter().any(dead)
    }

    /// A request that waits in the socket of a warden.
    pub(crate) fn request_for(&self, warden: usize) -> Option<usize> {
        self.jobs.iter().position(|job| job.request == Request::Sent(warden))
    }

    /// Reads a request. Where nothing new may be started, it is closed with its cord.
    pub(crate) fn warden_takes(&mut self, warden: usize, job: usize) {
        self.jobs[job].request = Request::Taken(warden);
        if self.wardens[warden].mind.takes_no_more() {
            self.jobs[job].cord.far = false;
            return;
        }
        self.wardens[warden].deeds.extend([Deed::Reserve(job), Deed::Fork(job)]);
    }
}
