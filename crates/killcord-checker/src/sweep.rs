//! A sweep of another owner, by the rules that ship.

use crate::world::{Fault, Life, Setting, World};
use killcord_model::boundary::Boundary;
use killcord_model::record::{self, Place, Process, State};
use killcord_model::sweep::{self, JobsProof, KeeperProof, LeaseProof, OwnerProof, Seen, Traces, Verdict};

fn place() -> Place {
    Place { boot: "boot".to_owned(), pid_namespace: 1, time_namespace: 1 }
}

/// The record of a job in this state.
fn recorded(setting_boundary: Boundary, state: State) -> record::Job {
    record::Job {
        place: place(),
        state,
        boundary: setting_boundary,
        leaf: None,
        limits: Vec::new(),
        tag: Some(1),
        keeper: Some(Process { pid: 1, start: 1 }),
        program: String::new(),
        since: 0,
    }
}

impl World {
    fn owner_proof(&self) -> OwnerProof {
        let marker = record::Owner {
            place: place(),
            process: Process { pid: 2, start: 1 },
            program: String::new(),
            since: 0,
            service: None,
        };
        let seen = if self.owner { Seen::Process { start: 1, dead: false } } else { Seen::Gone };
        sweep::owner(&marker, &place(), seen)
    }

    fn lease_proof(&self) -> LeaseProof {
        let held = self.owner
            || self.wardens.iter().any(|warden| warden.life == Life::Runs)
            || self.jobs.iter().any(|job| job.keeper.life == Life::Runs);
        if held { LeaseProof::Held } else { LeaseProof::Free }
    }

    fn keeper_proof(&self, job: usize) -> KeeperProof {
        let runs = self.jobs[job].keeper.life == Life::Runs;
        let seen = if runs { Seen::Process { start: 1, dead: false } } else { Seen::Gone };
        sweep::keeper(&recorded(Boundary::Tree, State::Started), &place(), seen)
    }

    /// Whether a sweep would end what is left of a job.
    pub(crate) fn sweep_would_end(&self, setting: &Setting, job: usize) -> bool {
        self.jobs[job].record.is_some_and(|state| {
            let record = recorded(setting.boundary, state);
            let by_rule =
                sweep::may_end(&record, self.owner_proof(), self.lease_proof(), self.keeper_proof(job));
            let wrong = setting.fault == Some(Fault::SweepsTheReleased);
            by_rule || (wrong && self.lease_proof() == LeaseProof::Free)
        })
    }

    /// Whether there is something for a sweep to do.
    pub(crate) fn sweep_finds_something(&self, setting: &Setting) -> bool {
        let ends =
            (0..self.jobs.len()).any(|job| self.sweep_would_end(setting, job) && self.jobs[job].lives());
        ends || (self.jobs.iter().any(|job| job.record.is_some()) && self.claim_may_go(setting))
    }

    fn claim_may_go(&self, setting: &Setting) -> bool {
        let proofs = self.jobs.iter().filter_map(|job| {
            let traces =
                Traces { found: usize::from(job.lives()), leaf_empty: !job.lives(), tags_read: true };
            Some(sweep::job(&recorded(setting.boundary, job.record?), &place(), traces))
        });
        let jobs = proofs.fold(JobsProof::Over, sweep::both);
        sweep::verdict(self.owner_proof(), self.lease_proof(), jobs) == Verdict::Remove
    }

    /// Ends what may be ended, and removes the claim if that may be.
    pub(crate) fn sweep(&mut self, setting: &Setting) {
        for job in 0..self.jobs.len() {
            if self.sweep_would_end(setting, job) {
                self.end_all(job, "a sweep ends a job that was let go");
            }
        }
        if self.claim_may_go(setting) {
            for job in 0..self.jobs.len() {
                if self.jobs[job].record.take().is_some() && self.jobs[job].lives() {
                    self.blame("a sweep removes the claim of a job that runs");
                }
            }
        }
    }
}
