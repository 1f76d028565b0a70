//! What must hold in every state, and what must come about in one of them.

use crate::act::Act;
use crate::world::{Life, Said, Setting, View, World};
use stateright::{Model, Property};

/// The property that nobody is left alone.
pub const GUARDED: &str = "a started program has somebody who is going to end it";
/// The property that the end comes.
pub const ENDED: &str = "when nothing more happens by itself, a job without an owner is over";
/// The property that acts break.
pub const KEPT: &str = "no act breaks a promise";
/// The property of requests.
pub const ONCE: &str = "a request is started at most once";

impl Model for Setting {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![if self.calm { World::with_all_running(self) } else { World::new(self) }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        world.acts(self, acts);
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        Some(world.after(self, act))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(GUARDED, |setting: &Self, world: &World| world.everybody_is_guarded(setting)),
            Property::always(ENDED, |setting: &Self, world: &World| world.is_over_when_it_rests(setting)),
            Property::always(KEPT, |_: &Self, world: &World| world.broken.is_none()),
            Property::always(ONCE, |setting: &Self, world: &World| world.runs_at_most_once(setting)),
            Property::sometimes("a program runs to its end", |_: &Self, world: &World| {
                world.jobs.iter().any(|job| job.runs == 1 && job.view == View::Over(Said::Empty))
            }),
            Property::sometimes(
                "a job that was let go outlives owner, warden and keeper",
                |_: &Self, world: &World| {
                    let alone = !world.owner && world.wardens.iter().all(|warden| warden.life != Life::Runs);
                    let keeperless =
                        |job: &crate::world::Affair| job.must_live && job.keeper.life != Life::Runs;
                    alone && world.jobs.iter().any(|job| keeperless(job) && job.member)
                },
            ),
            Property::sometimes("an owner cannot tell whether something ran", |_: &Self, world: &World| {
                world.jobs.iter().any(|job| job.view == View::Unclear)
            }),
            Property::sometimes("only a sweep can end what is left", |setting: &Self, world: &World| {
                (0..world.jobs.len()).any(|job| world.jobs[job].member && world.sweep_would_end(setting, job))
            }),
        ]
    }
}

impl World {
    fn everybody_is_guarded(&self, setting: &Setting) -> bool {
        (0..self.jobs.len()).all(|job| {
            let affair = &self.jobs[job];
            !affair.lives()
                || affair.may_live
                || self.keeper_guards(job)
                || self.warden_guards(job)
                || (self.owner && (affair.cord.near || matches!(affair.view, View::Lost { .. })))
                || self.is_left_to_a_sweep(setting, job)
        })
    }

    fn keeper_guards(&self, job: usize) -> bool {
        let keeper = &self.jobs[job].keeper;
        let decided = keeper.mind.guards() || keeper.mind.let_go();
        keeper.life == Life::Runs && (decided || self.is_being_started(job))
    }

    /// The warden knows of the job, and of its keeper's death if there is one to be known of.
    fn warden_guards(&self, job: usize) -> bool {
        let warden = &self.wardens[self.jobs[job].keeper.warden];
        let name = crate::world::id(job);
        let knows = warden.mind.holding(name).is_some()
            || warden.events.contains(&killcord_model::warden::Event::Forked(name));
        warden.life == Life::Runs && knows
    }

    /// What is left to a sweep: keeper and warden were killed, and the owner is gone, or lives on and has dropped the job.
    /// The sweep comes when the owner is gone, whatever caretakers of other jobs live then.
    fn is_left_to_a_sweep(&self, setting: &Setting, job: usize) -> bool {
        let affair = &self.jobs[job];
        let alone = affair.keeper.life != Life::Runs && self.wardens[affair.keeper.warden].life != Life::Runs;
        let ownerless = !self.owner || !affair.cord.near;
        alone && ownerless && self.when_the_owner_is_gone().sweep_would_end(setting, job)
    }

    fn when_the_owner_is_gone(&self) -> Self {
        let mut later = self.clone();
        later.owner_ended();
        later
    }

    fn is_over_when_it_rests(&self, setting: &Setting) -> bool {
        let left = |job: usize| {
            let affair = &self.jobs[job];
            let ownerless = !self.owner || !affair.cord.near;
            // Of what was dropped, if both guards are killed, a sweep ends the rest when its owner is gone.
            let waits = self.owner && self.is_left_to_a_sweep(setting, job);
            affair.lives() && !affair.may_live && ownerless && !waits
        };
        if !(0..self.jobs.len()).any(left) {
            return true;
        }
        let mut acts = Vec::new();
        self.acts(setting, &mut acts);
        acts.into_iter().any(Act::is_progress)
    }

    fn runs_at_most_once(&self, setting: &Setting) -> bool {
        let each = self.jobs.iter().all(|job| job.runs <= 1);
        each && (!setting.again || self.jobs.iter().map(|job| job.runs).sum::<u8>() <= 1)
    }
}
