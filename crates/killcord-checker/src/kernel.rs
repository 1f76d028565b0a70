//! What the kernel does by itself.

use crate::world::{Leader, Life, Request, Setting, World};
use killcord_model::boundary::Boundary;

impl World {
    /// Kills the leader of a job; it stays to be reaped.
    pub(crate) fn kill_leader(&mut self, job: usize) {
        let affair = &mut self.jobs[job];
        if matches!(affair.leader, Leader::Child | Leader::Runs) {
            affair.leader = Leader::Dead;
        }
        self.reap_what_nobody_waits_for(job);
    }

    /// Kills the other process of a job.
    pub(crate) fn kill_member(&mut self, job: usize) {
        if std::mem::take(&mut self.jobs[job].member) {
            self.member_ended(job);
        }
    }

    /// Its parent has something to reap: the keeper, or the warden behind it.
    pub(crate) fn member_ended(&mut self, job: usize) {
        let keeper = &mut self.jobs[job].keeper;
        let warden = keeper.warden;
        if keeper.life == Life::Runs {
            keeper.member_died = true;
        } else if self.wardens[warden].life == Life::Runs {
            self.wardens[warden].orphan_died = true;
        }
    }

    /// A keeper has ended: its end of the cord is closed, the leader gets its death signal, and with a namespace's init
    /// all the others end (`pid_namespaces(7)`).
    pub(crate) fn keeper_ended(&mut self, setting: &Setting, job: usize, life: Life) {
        let affair = &mut self.jobs[job];
        affair.keeper.life = life;
        affair.keeper.deeds.clear();
        affair.keeper.events.clear();
        affair.cord.far = false;
        affair.cord.orders.clear();
        let warden = affair.keeper.warden;
        self.kill_leader(job);
        if setting.boundary == Boundary::Namespace {
            self.kill_member(job);
        }
        if self.wardens[warden].life != Life::Runs {
            self.jobs[job].keeper.life = Life::Gone;
        }
        self.reap_what_nobody_waits_for(job);
    }

    /// A warden has ended: what was in its socket is closed, and an init whose parent it was dies of that.
    pub(crate) fn warden_ended(&mut self, setting: &Setting, warden: usize) {
        let it = &mut self.wardens[warden];
        it.life = Life::Gone;
        it.deeds.clear();
        it.events.clear();
        it.pipe.clear();
        it.orphan_died = false;
        for job in 0..self.jobs.len() {
            let affair = &mut self.jobs[job];
            let mine = affair.keeper.warden == warden;
            match affair.request {
                Request::Sent(to) if to == warden => affair.cord.far = false,
                // It had not forked the keeper yet.
                Request::Taken(by) if by == warden && affair.keeper.life == Life::NotYet => {
                    affair.cord.far = false;
                }
                _ => {}
            }
            match affair.keeper.life {
                Life::Runs if mine && setting.boundary == Boundary::Namespace && !affair.keeper.disarmed => {
                    if affair.must_live {
                        self.blame("a warden's death ends a job that was let go");
                    }
                    self.keeper_ended(setting, job, Life::Gone);
                }
                Life::Done | Life::Killed if mine => affair.keeper.life = Life::Gone,
                _ => {}
            }
            self.reap_what_nobody_waits_for(job);
        }
    }

    /// An owner has ended: its ends are closed.
    pub(crate) fn owner_ended(&mut self) {
        self.owner = false;
        for affair in &mut self.jobs {
            affair.cord.near = false;
            affair.cord.reports.clear();
        }
        for warden in &mut self.wardens {
            warden.said.clear();
        }
    }

    /// A dead leader whose parent is gone too is reaped by somebody whom that does not matter to.
    fn reap_what_nobody_waits_for(&mut self, job: usize) {
        let affair = &mut self.jobs[job];
        if matches!(affair.leader, Leader::Dead | Leader::Failed) && affair.keeper.life != Life::Runs {
            affair.leader = Leader::Gone;
            let warden = affair.keeper.warden;
            if self.wardens[warden].life == Life::Runs {
                self.wardens[warden].orphan_died = true;
            }
        }
    }
}
