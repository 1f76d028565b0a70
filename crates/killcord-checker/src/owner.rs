//! The owner: a program with the library, and what the library does in it. What the program wants is anything.

use crate::world::{Fault, Life, Request, Said, Setting, View, Warden, Word, World};
use killcord_model::boundary::Boundary;
use killcord_model::job::Sight;
use killcord_model::record::State;

impl World {
    /// The warden that a request goes to: the one that runs, or a fresh one, once.
    fn warden_for_a_request(&mut self) -> Option<usize> {
        let running = self.wardens.iter().position(|warden| warden.life == Life::Runs);
        if running.is_none() && self.wardens.len() < 2 {
            self.wardens.push(Warden::new());
            return Some(self.wardens.len() - 1);
        }
        running
    }

    /// Whether the owner may ask for a job now.
    pub(crate) fn may_request(&self, setting: &Setting, job: usize) -> bool {
        let fresh = self.jobs[job].request == Request::Unsent && self.jobs[job].view == View::Silent;
        if job == 0 || !setting.again {
            return self.owner && fresh;
        }
        // The same once more, for who was told that nothing ran.
        let unclear = setting.fault == Some(Fault::RetriesAfterUnclear) && self.jobs[0].view == View::Unclear;
        self.owner && fresh && (self.jobs[0].view == View::NotStarted || unclear)
    }

    /// Hands a request over; without a warden nothing is started.
    pub(crate) fn request(&mut self, job: usize) {
        match self.warden_for_a_request() {
            Some(warden) => {
                let affair = &mut self.jobs[job];
                affair.request = Request::Sent(warden);
                (affair.cord.near, affair.cord.far) = (true, true);
            }
            None => self.jobs[job].view = View::NotStarted,
        }
    }

    /// Whether there is something on the cord for the owner: a report, or its end.
    pub(crate) fn owner_can_hear(&self, job: usize) -> bool {
        let affair = &self.jobs[job];
        let waits = matches!(affair.view, View::Silent | View::Armed | View::Running)
            || matches!(affair.view, View::Over(Said::Kept));
        self.owner && affair.cord.near && waits && (!affair.cord.reports.is_empty() || !affair.cord.far)
    }

    /// Takes the next report, or sees the end of the cord.
    pub(crate) fn owner_hears(&mut self, setting: &Setting, job: usize) {
        let affair = &mut self.jobs[job];
        if affair.cord.reports.is_empty() {
            return self.owner_sees_the_end(setting, job);
        }
        let word = affair.cord.reports.remove(0);
        let started = matches!(affair.view, View::Running | View::Over(_));
        affair.view = match word {
            Word::Armed => View::Armed,
            Word::Started => View::Running,
            Word::NotStarted => View::NotStarted,
            Word::Ended(Said::NothingRan) if !started => View::NotStarted,
            Word::Ended(said) => View::Over(said),
        };
        self.owner_concludes(job);
    }

    /// What is written in `not_started` and `Lost` of the library.
    fn owner_sees_the_end(&mut self, setting: &Setting, job: usize) {
        self.jobs[job].view = match self.jobs[job].view {
            View::Silent => View::NotStarted,
            // The record says that it was let go: it is not ended.
            View::Running | View::Over(_) if self.jobs[job].record == Some(State::Released) => {
                self.jobs[job].cord.near = false;
                View::Over(Said::Released)
            }
            view => {
                if setting.boundary == Boundary::Cgroup {
                    self.kill_leader(job);
                    self.kill_member(job);
                }
                View::Lost { running: view != View::Armed }
            }
        };
        self.owner_concludes(job);
    }

    fn owner_concludes(&mut self, job: usize) {
        let affair = &mut self.jobs[job];
        if affair.view == View::NotStarted {
            affair.cord.near = false;
            affair.cord.reports.clear();
            if affair.runs > 0 || affair.lives() {
                self.blame("an owner says that nothing ran, and something did");
            }
        }
    }

    /// What a warden has said of a job whose keeper it lost.
    pub(crate) fn verdict_for(&self, job: usize) -> Option<(usize, usize)> {
        let at = |warden: usize| self.wardens[warden].said.iter().position(|(of, _)| *of == job);
        (0..self.wardens.len()).find_map(|warden| Some((warden, at(warden)?)))
    }

    /// Takes the warden's word.
    pub(crate) fn owner_is_told(&mut self, job: usize, warden: usize, at: usize) {
        let (_, sight) = self.wardens[warden].said.remove(at);
        let said = if sight == Sight::Empty { Said::Empty } else { Said::Survivors };
        self.owner_has_lost(job, said);
    }

    /// No word comes: whatever bears the job's name is ended from here.
    pub(crate) fn owner_ends_by_mark(&mut self, job: usize) {
        self.kill_leader(job);
        self.kill_member(job);
        self.jobs[job].record = None;
        self.owner_has_lost(job, Said::Unknown);
    }

    fn owner_has_lost(&mut self, job: usize, said: Said) {
        let affair = &mut self.jobs[job];
        affair.view = match affair.view {
            View::Lost { running: false } => View::Unclear,
            _ => View::Over(said),
        };
        affair.cord.near = false;
    }
}
