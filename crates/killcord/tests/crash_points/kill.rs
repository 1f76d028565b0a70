//! One life of the host: to a point, to the kill there, and to its end, with what has to be so then.

use crate::host::{BOUNDARY, ONCE, SCENARIOS, SWEEP, Scenario};
use killcord_testkit::points::{Gate, Paused, Trace};
use killcord_testkit::victims::{Found, Victim};
use killcord_testkit::{Corner, Nest, PinnedProcess, Scene, Signal, Who, bin};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const REACHED_WITHIN: Duration = Duration::from_secs(15);
/// What an owner that lives may need: the bound of each of its jobs, and the time that it waits for a warden's word.
const OWNER_GOES_ON: Duration = Duration::from_secs(10);
/// An owner's death.
const BOUND: Duration = Duration::from_secs(2);
const AT_ONCE: Duration = Duration::from_millis(500);

/// One user and one boundary, with a state directory.
pub(crate) struct Cell<'a> {
    who: Who,
    boundary: &'static str,
    state: PathBuf,
    _home: &'a Scene,
}

impl<'a> Cell<'a> {
    pub(crate) fn new(home: &'a Scene, who: Who, boundary: &'static str) -> Self {
        let state = home.path("state");
        std::fs::create_dir(&state).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
        if who == Who::User && killcord_testkit::is_root() {
            chown(&state, Some(killcord_testkit::USER), Some(killcord_testkit::USER)).unwrap();
        }
        Self { who, boundary, state, _home: home }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.state).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// As its user: whoever owns the state directory sweeps it.
    fn sweep(&self) -> Vec<String> {
        let mut sweep = self.who.command(std::env::current_exe().unwrap());
        let swept =
            killcord_testkit::run(sweep.env(SWEEP, "1").env("KILLCORD_STATE_DIR", &self.state), BOUND * 5);
        (swept.code() != 0).then(|| format!("a sweep failed: {swept:?}")).into_iter().collect()
    }
}

pub(crate) struct Round<'c, 'a> {
    cell: &'c Cell<'a>,
    scenario: Scenario,
    nest: Nest,
    corner: Corner,
    trace: Trace,
    scene: Scene,
    gate: Option<Gate>,
    point: Option<String>,
    /// What the leader of the second job reads.
    go: OwnedFd,
    acted: bool,
}

impl<'c, 'a> Round<'c, 'a> {
    pub(crate) fn start(cell: &'c Cell<'a>, scenario: usize, point: Option<&str>) -> Self {
        let scene = Scene::new();
        for (name, program) in
            [("leaf.sh", bin("kc-leaf")), ("ignore.sh", bin("kc-ignore")), ("leader", "/bin/sh".into())]
        {
            symlink(program, scene.path(name)).unwrap();
        }
        let fifo = scene.path("go");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        std::fs::set_permissions(&fifo, std::fs::Permissions::from_mode(0o666)).unwrap();
        // Open for both, so that nobody waits for the other in opening it.
        let go = rustix::fs::open(&fifo, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let mut command = Self::command(cell, &scene);
        let trace = Trace::of(&scene, &mut command);
        let gate = point.map(|point| Gate::before(point, &scene, &mut command));
        let corner = if cell.boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
        let nest = Nest::start_in(&corner, &command);
        let point = point.map(str::to_owned);
        let (scenario, go) = (SCENARIOS[scenario], go.unwrap());
        Self { cell, scenario, nest, corner, trace, scene, gate, point, go, acted: false }
    }

    fn command(cell: &Cell<'_>, scene: &Scene) -> Command {
        let mut command = scene.command(cell.who, std::env::current_exe().unwrap());
        command.env(BOUNDARY, cell.boundary).env("KILLCORD_STATE_DIR", &cell.state);
        command
    }

    pub(crate) fn name(&self) -> String {
        let point = self.point.as_deref().unwrap_or("undisturbed");
        format!("{:?} {} {:?} {point}", self.cell.who, self.cell.boundary, self.scenario)
    }

    /// What the host has said so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.scene.path("said")).unwrap_or_default()
    }

    fn act(&mut self) {
        let ids = self.scene.ids();
        if self.acted || !["apart", "ignore"].iter().all(|name| ids.iter().any(|id| id.name == *name)) {
            return;
        }
        let found = Found::look(&mut self.nest, None);
        // The first job's keeper may be on its way out, and is none that could be lost.
        if found.count(Victim::Keeper) > 1 {
            return;
        }
        self.acted = true;
        let victims: &[Victim] = match self.scenario {
            Scenario::Whole => {
                rustix::io::write(&self.go, b"\n").unwrap();
                return;
            }
            Scenario::LosesKeeper => &[Victim::Keeper],
            Scenario::LosesBoth => &[Victim::Warden, Victim::Keeper],
            Scenario::LosesWarden => &[Victim::Warden],
            Scenario::LosesOwner => &[Victim::Owner],
        };
        // Some may have been killed at the point.
        found.kill(victims).unwrap();
    }

    /// The points of a life that nobody disturbs, or what is wrong with it.
    pub(crate) fn undisturbed(cell: &Cell<'_>, scenario: usize) -> Result<BTreeSet<String>, String> {
        let mut round = Round::start(cell, scenario, None);
        let mut faults = round.go_on(Instant::now() + OWNER_GOES_ON, true);
        let said = round.said();
        let whole = said.contains("third: 5 empty") || round.scenario == Scenario::LosesOwner;
        let good = said.contains("first: 4 empty") && whole;
        if !good || (round.scenario == Scenario::Whole && !said.contains("second: 7 empty")) {
            faults.push(said);
        }
        faults.extend(round.on_disk());
        if faults.is_empty() {
            Ok(round.trace.read().into_keys().collect())
        } else {
            Err(format!("{}: {faults:?}", round.name()))
        }
    }

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

    pub(crate) fn found(&mut self, paused: &Paused) -> Found {
        Found::settled(&mut self.nest, Some(paused))
    }

    /// After a life that did not come to the point: it has ended, at least.
    pub(crate) fn missed(mut self) -> Vec<String> {
        let hangs =
            (!self.nest.is_empty()).then(|| format!("{}: it hangs: {:?}", self.name(), self.nest.left()));
        let _ = self.nest.program.kill(Signal::KILL);
        hangs.into_iter().chain(self.cell.sweep()).collect()
    }

    /// For victims that have been tried already.
    pub(crate) fn abandon(mut self, paused: Paused) -> Vec<String> {
        let _ = self.nest.program.kill(Signal::KILL);
        drop(paused);
        // Its guards may have been killed by the scenario.
        let mut faults = self.cell.sweep();
        faults.extend(self.go_on(Instant::now() + BOUND, false));
        faults.extend(self.cell.sweep());
        faults
    }

    /// Kills, lets go on who stood still, and sees what becomes of it all.
    pub(crate) fn kill(&mut self, found: &Found, victims: &[Victim], paused: Paused) -> Vec<String> {
        let leader = found.get(Victim::Leader);
        let leader = leader.and_then(|l| PinnedProcess::open(l.pid, |stat| stat.start == l.start));
        let third_begun = self.said().contains("third begins");
        let mut faults: Vec<String> = found.kill(victims).err().into_iter().collect();
        let nobody_guards = found.nobody_guards(victims) && self.cell.boundary != "namespace";
        drop(paused);
        let since = Instant::now();
        if nobody_guards {
            if leader.is_some_and(|leader| !leader.wait_gone(AT_ONCE)) {
                faults.push("the leader is left".to_owned());
            }
            faults.extend(self.cell.sweep());
        }
        let owner_lives = !victims.contains(&Victim::Owner) && self.scenario != Scenario::LosesOwner;
        let at_once = !found.is_left(Victim::Owner, victims);
        let limit = if at_once { BOUND } else { OWNER_GOES_ON };
        faults.extend(self.go_on(since + limit, !at_once));
        if owner_lives {
            faults.extend(self.truth(victims, third_begun));
        }
        faults.extend(self.on_disk());
        faults
    }

    /// To the end of everything. Whenever the owner says that a job is empty, it is.
    fn go_on(&mut self, until: Instant, act: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let mut looked = false;
        while !self.nest.is_empty() && Instant::now() < until {
            if act {
                self.act();
            }
            let second =
                || self.said().lines().any(|line| line.starts_with("second: ") && line.ends_with(" empty"));
            if !looked && second() {
                looked = true;
                let alive = self.scene.alive();
                if !alive.is_empty() {
                    faults.push(format!("it was told that it is empty: {alive:?}"));
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match self.nest.wait_empty(until.saturating_duration_since(Instant::now()).max(AT_ONCE)) {
            Ok(all) if all.stderr.contains("panicked at") => faults.push(all.stderr),
            Ok(_) => {}
            Err(e) => faults.push(format!("somebody is left: {e}; said {}", self.said())),
        }
        faults
    }

    /// What an owner that lives is told is so, and it goes on.
    fn truth(&self, victims: &[Victim], third_begun: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let said = self.said();
        let there = |name: &str| self.scene.path(name).exists();
        let lie = (said.contains("second: nothing ran") && there("ran"))
            || (said.contains("second: 7 ") && !there("over"))
            || said.contains(": 0 ")
            || said.contains("survivors");
        let ended = said.lines().filter(|line| line.contains(": ")).count() == 3 && said.ends_with("over\n");
        if lie || !ended {
            faults.push(format!("the owner says {said}"));
        }
        if !third_begun && !said.contains("third: 5 empty") {
            faults.push(format!("after {victims:?} were killed it does not go on: {said}"));
        }
        faults
    }

    /// Nothing is left after a sweep, and another host works in the same state directory.
    fn on_disk(&mut self) -> Vec<String> {
        let mut faults = self.cell.sweep();
        if !self.cell.names().is_empty() {
            faults.push(format!("left in the state directory: {:?}", self.cell.names()));
        }
        if !self.corner.leaves().is_empty() {
            faults.push(format!("cgroups are left: {:?}", self.corner.leaves()));
        }
        let mut again = self.cell.who.command(std::env::current_exe().unwrap());
        again.env(ONCE, self.cell.boundary).env("KILLCORD_STATE_DIR", &self.cell.state);
        // Its warden is nobody's child, and may be the last to go.
        let again = killcord_testkit::claims::run_whole(&again);
        if again.code() != 5 {
            faults.push(format!("it does not work again: {again:?}"));
        }
        if !self.cell.names().is_empty() {
            faults.push(format!("left by the next owner: {:?}", self.cell.names()));
        }
        faults
    }
}
