//! Everything that can happen next.

use crate::keeper::Sends;
use crate::world::{Leader, Life, Request, Setting, View, World};
use killcord_model::job::Event;
use killcord_model::ladder::{GRACE, Ladder};
use killcord_model::warden;
use killcord_model::wire::Order;

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// The owner asks for a job.
    Request(usize),
    /// The owner gives an order.
    Order(usize, Wish),
    /// The owner closes the cord.
    Close(usize),
    /// The owner wants nothing more of its warden.
    Retire(usize),
    /// The owner reads on a cord.
    OwnerHears(usize),
    /// The owner takes a warden's word about a lost job.
    OwnerIsTold(usize),
    /// The owner ends what bears a job's name.
    OwnerEndsByMark(usize),
    /// The warden goes on.
    WardenSteps(usize),
    /// The warden reads what keepers have said.
    WardenHears(usize),
    /// The warden reaps.
    WardenReaps(usize),
    /// The warden reads a request.
    WardenTakes(usize, usize),
    /// The warden sees that the owner is gone.
    WardenSeesOwnerGone(usize),
    /// The warden sees that its deadline is over.
    WardenTicks(usize),
    /// The keeper goes on.
    KeeperSteps(usize),
    /// The keeper goes on, and what it sends is lost.
    KeeperSendsInVain(usize),
    /// The keeper waits, and sees what there is.
    KeeperWaits(usize),
    /// The leader executes the program.
    Exec(usize),
    /// The leader cannot.
    ExecFails(usize),
    /// The program starts another process.
    Forks(usize),
    /// The leader ends by itself.
    LeaderExits(usize),
    /// The other process ends by itself.
    MemberExits(usize),
    /// The clock comes to the next deadline.
    Advance,
    /// Somebody kills the owner.
    KillOwner,
    /// Somebody kills a warden.
    KillWarden(usize),
    /// Somebody kills a keeper.
    KillKeeper(usize),
    /// Another owner's sweep comes by.
    Sweep,
}

/// What an owner may want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// The ladder with the usual grace.
    End,
    /// KILL at once.
    EndNow,
    /// To let it go.
    Release,
}

impl Act {
    /// Whether it comes by itself: nobody has to want it, and no program has to exit.
    pub(crate) fn is_progress(self) -> bool {
        match self {
            Self::Request(_)
            | Self::Order(..)
            | Self::Close(_)
            | Self::Retire(_)
            | Self::KeeperSendsInVain(_)
            | Self::Forks(_)
            | Self::LeaderExits(_)
            | Self::MemberExits(_)
            | Self::KillOwner
            | Self::KillWarden(_)
            | Self::KillKeeper(_) => false,
            Self::OwnerHears(_)
            | Self::OwnerIsTold(_)
            | Self::OwnerEndsByMark(_)
            | Self::WardenSteps(_)
            | Self::WardenHears(_)
            | Self::WardenReaps(_)
            | Self::WardenTakes(..)
            | Self::WardenSeesOwnerGone(_)
            | Self::WardenTicks(_)
            | Self::KeeperSteps(_)
            | Self::KeeperWaits(_)
            | Self::Exec(_)
            | Self::ExecFails(_)
            | Self::Advance
            | Self::Sweep => true,
        }
    }
}

impl World {
    /// What can happen now.
    pub(crate) fn acts(&self, setting: &Setting, acts: &mut Vec<Act>) {
        for job in 0..self.jobs.len() {
            self.acts_of_the_owner(setting, job, acts);
            self.acts_of_a_keeper(setting, job, acts);
            self.acts_of_a_program(setting, job, acts);
        }
        for warden in 0..self.wardens.len() {
            self.acts_of_a_warden(warden, acts);
        }
        if self.owner && self.kills > 0 {
            acts.push(Act::KillOwner);
        }
        // A step takes no time. What lies in a pipe may lie there for long.
        let busy = (0..self.jobs.len()).any(|job| self.keeper_is_busy(job))
            || (0..self.wardens.len()).any(|warden| self.warden_is_busy(warden));
        if !busy && self.next_deadline().is_some() {
            acts.push(Act::Advance);
        }
        if self.sweep_finds_something(setting) {
            acts.push(Act::Sweep);
        }
    }

    fn acts_of_the_owner(&self, setting: &Setting, job: usize, acts: &mut Vec<Act>) {
        let affair = &self.jobs[job];
        if self.may_request(setting, job) {
            acts.push(Act::Request(job));
        }
        if self.owner && affair.cord.near && affair.cord.far && affair.request != Request::Unsent {
            let wishes = [Wish::Release, Wish::End, Wish::EndNow].into_iter();
            let wishes = wishes.take(if setting.calm { usize::from(job == 0) } else { 3 });
            if affair.orders > 0 {
                acts.extend(wishes.map(|wish| Act::Order(job, wish)));
            }
            if !setting.calm {
                acts.push(Act::Close(job));
            }
        }
        if self.owner_can_hear(job) {
            acts.push(Act::OwnerHears(job));
        }
        if self.owner && matches!(affair.view, View::Lost { .. }) {
            if self.verdict_for(job).is_some() {
                acts.push(Act::OwnerIsTold(job));
            }
            // The warden is gone, or is not waited for any longer.
            acts.push(Act::OwnerEndsByMark(job));
        }
    }

    fn acts_of_a_keeper(&self, setting: &Setting, job: usize, acts: &mut Vec<Act>) {
        if self.jobs[job].keeper.life != Life::Runs {
            return;
        }
        if self.keeper_is_busy(job) {
            acts.push(Act::KeeperSteps(job));
            if self.losses > 0 && self.keeper_sends(job) {
                acts.push(Act::KeeperSendsInVain(job));
            }
        } else if self.clone().keeper_waits(setting, job).is_some() {
            acts.push(Act::KeeperWaits(job));
        }
        if self.kills > 0 {
            acts.push(Act::KillKeeper(job));
        }
    }

    fn acts_of_a_program(&self, setting: &Setting, job: usize, acts: &mut Vec<Act>) {
        let affair = &self.jobs[job];
        match affair.leader {
            Leader::Child => acts.push(Act::Exec(job)),
            Leader::Runs if !affair.forked => acts.push(Act::Forks(job)),
            Leader::NotYet | Leader::Runs | Leader::Dead | Leader::Failed | Leader::Gone => {}
        }
        if setting.calm {
            return;
        }
        match affair.leader {
            Leader::Child => acts.push(Act::ExecFails(job)),
            Leader::Runs => acts.push(Act::LeaderExits(job)),
            Leader::NotYet | Leader::Dead | Leader::Failed | Leader::Gone => {}
        }
        if affair.member {
            acts.push(Act::MemberExits(job));
        }
    }

    fn acts_of_a_warden(&self, warden: usize, acts: &mut Vec<Act>) {
        let it = &self.wardens[warden];
        if it.life != Life::Runs {
            return;
        }
        if self.kills > 0 {
            acts.push(Act::KillWarden(warden));
        }
        if self.warden_is_busy(warden) {
            return acts.push(Act::WardenSteps(warden));
        }
        if !it.pipe.is_empty() {
            acts.push(Act::WardenHears(warden));
        }
        if self.warden_can_reap(warden) {
            acts.push(Act::WardenReaps(warden));
        }
        let closed = self.jobs.iter().all(|job| !job.cord.near && job.request != Request::Unsent);
        if self.owner && closed && !it.saw_retired && self.request_for(warden).is_none() {
            acts.push(Act::Retire(warden));
        }
        if let Some(job) = self.request_for(warden) {
            acts.push(Act::WardenTakes(warden, job));
        }
        if !self.owner && !it.saw_owner_gone {
            acts.push(Act::WardenSeesOwnerGone(warden));
        }
        // The clock is looked at last, when all that there is has been read.
        let unread = !it.pipe.is_empty() || self.warden_can_reap(warden);
        if !unread && it.mind.deadline().is_some_and(|t| self.now >= t) {
            acts.push(Act::WardenTicks(warden));
        }
    }

    /// The next deadline that is not over.
    fn next_deadline(&self) -> Option<killcord_model::time::Time> {
        let running = self.jobs.iter().filter(|job| job.keeper.life == Life::Runs);
        let keepers = running.filter_map(|job| job.keeper.mind.deadline());
        let running = self.wardens.iter().filter(|warden| warden.life == Life::Runs);
        let wardens = running.filter_map(|warden| warden.mind.deadline());
        keepers.chain(wardens).filter(|t| *t > self.now).min()
    }

    /// A world in which every job runs, and has a process beside its leader.
    pub(crate) fn with_all_running(setting: &Setting) -> Self {
        let mut world = Self::new(setting);
        loop {
            let mut acts = Vec::new();
            world.acts(setting, &mut acts);
            let leads_there = |act: &Act| matches!(act, Act::Request(_) | Act::Forks(_)) || act.is_progress();
            match acts.into_iter().find(leads_there) {
                Some(act) => world.act(setting, act),
                None => return world,
            }
        }
    }

    /// The world after an act.
    pub(crate) fn after(&self, setting: &Setting, act: Act) -> Self {
        let mut next = self.clone();
        next.act(setting, act);
        next
    }

    fn act(&mut self, setting: &Setting, act: Act) {
        match act {
            Act::Request(job) => self.request(job),
            Act::Order(job, wish) => self.order(job, wish),
            Act::Close(job) => {
                let cord = &mut self.jobs[job].cord;
                cord.near = false;
                cord.reports.clear();
            }
            Act::Retire(warden) => {
                self.wardens[warden].saw_retired = true;
                self.warden_sees(setting, warden, warden::Event::Retired);
            }
            Act::OwnerHears(job) => self.owner_hears(setting, job),
            Act::OwnerIsTold(job) => {
                if let Some((warden, at)) = self.verdict_for(job) {
                    self.owner_is_told(job, warden, at);
                }
            }
            Act::OwnerEndsByMark(job) => self.owner_ends_by_mark(job),
            Act::WardenSteps(warden) => self.warden_steps(setting, warden),
            Act::WardenHears(warden) => {
                self.warden_hears(warden);
                self.warden_decides(setting, warden);
            }
            Act::WardenReaps(warden) => {
                self.warden_reaps(setting, warden);
                self.warden_decides(setting, warden);
            }
            Act::WardenTakes(warden, job) => self.warden_takes(warden, job),
            Act::WardenSeesOwnerGone(warden) => {
                self.wardens[warden].saw_owner_gone = true;
                self.warden_sees(setting, warden, warden::Event::OwnerGone);
            }
            Act::WardenTicks(warden) => self.warden_sees(setting, warden, warden::Event::Tick),
            Act::KeeperSteps(job) => self.keeper_steps(setting, job, Sends::Whole),
            Act::KeeperSendsInVain(job) => {
                self.losses -= 1;
                self.keeper_steps(setting, job, Sends::Lost);
            }
            Act::KeeperWaits(job) => {
                let _ = self.keeper_waits(setting, job);
            }
            Act::Exec(job) => {
                self.jobs[job].leader = Leader::Runs;
                self.jobs[job].runs += 1;
            }
            Act::ExecFails(job) => self.jobs[job].leader = Leader::Failed,
            Act::Forks(job) => (self.jobs[job].forked, self.jobs[job].member) = (true, true),
            Act::LeaderExits(job) => self.jobs[job].leader = Leader::Dead,
            Act::MemberExits(job) => self.kill_member(job),
            Act::Advance => self.now = self.next_deadline().unwrap_or(self.now),
            Act::KillOwner => {
                self.kills -= 1;
                self.owner_ended();
            }
            Act::KillWarden(warden) => {
                self.kills -= 1;
                self.warden_ended(setting, warden);
            }
            Act::KillKeeper(job) => {
                self.kills -= 1;
                self.keeper_ended(setting, job, Life::Killed);
            }
            Act::Sweep => self.sweep(setting),
        }
    }

    fn order(&mut self, job: usize, wish: Wish) {
        let affair = &mut self.jobs[job];
        affair.orders -= 1;
        affair.cord.orders.push(match wish {
            Wish::End => Order::End(Ladder::with_grace(GRACE)),
            Wish::EndNow => Order::End(Ladder::now()),
            Wish::Release => Order::Release,
        });
    }

    /// Whether a leader's child may have been told to a keeper that has not been told.
    pub(crate) fn is_being_started(&self, job: usize) -> bool {
        self.jobs[job].keeper.events.contains(&Event::Cloned)
    }
}
