//! One run of a scenario: to a point, to the kill there, and to its end.

use crate::cell::Cell;
use crate::promises;
use crate::scenario::Scenario;
use killcord_testkit::claims::TEN;
use killcord_testkit::points::{Gate, Paused, Trace};
use killcord_testkit::victims::{Found, Victim};
use killcord_testkit::{Corner, Nest, PinnedProcess, Running, Scene, Signal};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a run may take to come to a point.
const REACHED_WITHIN: Duration = Duration::from_secs(15);
/// From the end of the leader to the order to end what is kept: its owner has heard of it by then, usually.
const KEPT_FOR: Duration = Duration::from_millis(300);

pub(crate) struct Round<'c, 'a> {
    pub(crate) cell: &'c Cell<'a>,
    pub(crate) scenario: Scenario,
    pub(crate) nest: Nest,
    pub(crate) trace: Trace,
    /// What guards that were killed before have left, for a sweep.
    pub(crate) left: Option<Nest>,
    /// The `killcord stop` of the scenario.
    pub(crate) stop: Option<Running>,
    pub(crate) scene: Scene,
    /// Removed when the scene has ended whoever is left in it.
    pub(crate) corner: Corner,
    gate: Option<Gate>,
    point: Option<String>,
    acts: u32,
    leader_over: Option<Instant>,
}

/// Who was killed, and what was so at that instant.
pub(crate) struct Kill {
    pub(crate) victims: Vec<Victim>,
    pub(crate) leader: Option<PinnedProcess>,
    /// No guard is left to end anything.
    pub(crate) nobody_guards: bool,
    /// The job is let go, whoever was killed.
    pub(crate) let_go: bool,
    /// From when on the bound counts.
    pub(crate) since: Instant,
    /// What went wrong in killing.
    pub(crate) trouble: Option<String>,
}

impl Kill {
    /// Whether one of those was killed that guard the job.
    pub(crate) fn hit_a_guard(&self) -> bool {
        self.victims.iter().any(|v| matches!(v, Victim::Owner | Victim::Warden | Victim::Keeper))
    }
}

impl<'c, 'a> Round<'c, 'a> {
    pub(crate) fn start(cell: &'c Cell<'a>, scenario: Scenario, point: Option<&str>) -> Self {
        let scene = Scene::new();
        let left = scenario.prepare(cell, &scene);
        let corner = if cell.boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
        let mut command = scenario.command(cell, &scene);
        let trace = Trace::of(&scene, &mut command);
        let gate = point.map(|point| Gate::before(point, &scene, &mut command));
        let nest = Nest::start_in(&corner, &command);
        let point = point.map(str::to_owned);
        Self {
            cell,
            scenario,
            nest,
            corner,
            trace,
            left,
            stop: None,
            scene,
            gate,
            point,
            acts: 0,
            leader_over: None,
        }
    }

    /// For messages.
    pub(crate) fn name(&self) -> String {
        let point = self.point.as_deref().unwrap_or("undisturbed");
        format!("{:?} {} {:?} {point}", self.cell.state.who, self.cell.boundary, self.scenario)
    }

    /// Runs it without a kill; the points that it came to, or what is wrong.
    pub(crate) fn undisturbed(cell: &mut Cell<'_>, scenario: Scenario) -> Result<BTreeSet<String>, String> {
        cell.renew();
        let mut round = Round::start(cell, scenario, None);
        let faults = promises::check_undisturbed(&mut round);
        if faults.is_empty() {
            Ok(round.trace.read().into_keys().collect())
        } else {
            Err(format!("{}: {faults:?}", round.name()))
        }
    }

    /// Goes on until somebody stands at the point; `None` when nobody comes there.
    pub(crate) fn reach(&mut self) -> Option<Paused> {
        let begun = Instant::now();
        loop {
            if let Some(paused) = self.gate.as_mut().and_then(Gate::arrived) {
                return Some(paused);
            }
            if self.nest.is_empty() || begun.elapsed() > REACHED_WITHIN {
                return None;
            }
            self.act();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills, and lets go on who stood still.
    pub(crate) fn kill(&mut self, found: &Found, victims: &[Victim], paused: Paused) -> Kill {
        let leader = found.get(Victim::Leader);
        let leader = leader.and_then(|l| PinnedProcess::open(l.pid, |stat| stat.start == l.start));
        let trace = self.trace.read();
        let trouble = found.kill(victims).err();
        let nobody_guards = found.nobody_guards(victims);
        let came = |point: &str| trace.contains_key(point);
        let let_go = self.is_let_go(|victim| found.is_left(victim, victims), came);
        if victims.contains(&Victim::Leader) {
            // It says nothing any more; what it leaves may be kept.
            self.leader_over.get_or_insert_with(Instant::now);
        }
        drop(paused);
        Kill { victims: victims.to_vec(), leader, nobody_guards, let_go, since: Instant::now(), trouble }
    }

    /// Whether the job is let go, with those who are left now: it is for everybody as soon as that is written down. An init
    /// that dies takes all along.
    fn is_let_go(&self, lives: impl Fn(Victim) -> bool, came: impl Fn(&str) -> bool) -> bool {
        came("job.released") && (self.cell.boundary != "namespace" || lives(Victim::Keeper))
    }

    /// After a run that did not come to the point: it has ended, at least.
    pub(crate) fn missed(mut self) -> Option<String> {
        let hangs =
            (!self.nest.is_empty()).then(|| format!("{}: it hangs: {:?}", self.name(), self.nest.left()));
        let _ = self.nest.program.kill(Signal::KILL);
        self.cell.state.sweep(&[]);
        hangs
    }

    /// Ends it for a choice of victims that has been tried already.
    pub(crate) fn abandon(mut self, paused: Paused) -> Result<(), String> {
        let _ = self.nest.program.kill(Signal::KILL);
        drop(paused);
        if !self.nest.program.wait_gone(TEN) {
            return Err(format!("{}: abandoned, it does not die", self.name()));
        }
        // Its guards may have been killed by the scenario.
        self.cell.state.sweep(&[]);
        let limit = self.limit(true, true);
        let ended = self.nest.wait_empty(limit).map_err(|e| format!("{}: abandoned: {e}", self.name()));
        self.cell.state.sweep(&[]);
        ended.map(|_| ())
    }

    /// How long it may take until nothing is left: two seconds when a guard was killed, and what lives by right.
    pub(crate) fn limit(&self, hit_a_guard: bool, let_go: bool) -> Duration {
        let bound = if hit_a_guard { Duration::from_secs(2) } else { Duration::from_secs(5) };
        let leaf = if let_go && self.scenario == Scenario::Released { 2000 } else { 0 };
        bound + Duration::from_millis(leaf)
    }

    /// Does what the scenario has to be done next, if it is time for that.
    pub(crate) fn act(&mut self) {
        let is_up = || {
            let there = self.scene.ids();
            self.scenario.members().iter().all(|name| there.iter().any(|id| id.name == *name))
        };
        match (self.scenario, self.acts) {
            (Scenario::Kept, _) if self.acts == 1 || (self.acts == 0 && self.leader_over.is_some()) => {
                if self.leader_over.is_none() && self.scene.path("over").exists() {
                    self.leader_over = Some(Instant::now());
                }
                if self.leader_over.is_some_and(|since| since.elapsed() >= KEPT_FOR) {
                    self.acts = 2;
                    let _ = self.nest.program.kill(Signal::INT);
                }
            }
            (
                Scenario::TimesOut
                | Scenario::NotFound
                | Scenario::Refused
                | Scenario::Sweeps
                | Scenario::SweepsBeside
                | Scenario::Adopts,
                _,
            )
            | (_, 1..) => {}
            (_, 0) if !is_up() => {}
            (Scenario::Ends | Scenario::Released | Scenario::Kept | Scenario::Acknowledged, 0) => {
                self.acts += 1;
                // Without end of input for the members that have it: they have none.
                self.nest.running().close_stdin();
            }
            (Scenario::Stopped, 0) => self.stop_it(),
            (Scenario::LosesKeeper, 0) => self.lose(&[Victim::Keeper]),
            (Scenario::LosesWarden, 0) => self.lose(&[Victim::Warden]),
            (Scenario::LosesBoth, 0) => self.lose(&[Victim::Warden, Victim::Keeper]),
            (Scenario::LosesOwner, 0) => self.lose(&[Victim::Owner]),
        }
    }

    fn lose(&mut self, victims: &[Victim]) {
        self.acts += 1;
        let found = Found::look(&mut self.nest, None);
        assert_eq!(found.of(victims), victims, "{}: {found:?}", self.name());
        found.kill(victims).unwrap();
    }

    /// Calls `killcord stop` with the job's name, which is that of its record.
    fn stop_it(&mut self) {
        let state = &self.cell.state;
        let ours = |name: &String| name.starts_with('c') && name != self.cell.neighbours_claim();
        let records = state.names().into_iter().filter(ours).map(|name| state.path.join(name).join("jobs"));
        let mut jobs = records.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
        let Some(job) = jobs.next() else { return };
        self.acts += 1;
        let job = job.file_name().to_string_lossy().into_owned();
        self.stop = Some(Running::start(&mut state.killcord(&["stop", &job])));
    }

    /// Goes on, acting or not, until nothing is left or the time is over. What was so when the program itself had
    /// ended is told at that instant.
    pub(crate) fn go_on(&mut self, act: bool, until: Instant, mut at_its_end: impl FnMut(&Self)) {
        let mut told = false;
        while !self.nest.is_empty() && Instant::now() < until {
            if !told && !self.nest.program.is_alive() {
                at_its_end(self);
                told = true;
            }
            if act {
                self.act();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if !told {
            at_its_end(self);
        }
    }

    /// Waits for the `killcord stop`, which has to come back whatever happens: its exit status.
    pub(crate) fn end_stop(&mut self) -> Result<Option<i32>, String> {
        let Some(mut stop) = self.stop.take() else { return Ok(None) };
        match stop.wait(TEN) {
            Some(status) => Ok(status.code()),
            None => Err("killcord stop does not come back".to_owned()),
        }
    }
}
