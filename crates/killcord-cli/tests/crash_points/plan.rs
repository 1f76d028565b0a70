//! Who is killed where: everything, or each point twice.

use crate::cell::Cell;
use crate::round::Round;
use crate::scenario::Scenario;
use crate::{Reached, promises};
use killcord_testkit::victims::{CHOICES, Found, Victim};
use killcord_testkit::{Host, campaign, points};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// In so many scenarios, at most, the full form comes to each point, in each cell.
const SCENARIOS: usize = 2;

/// How often a run may not come to a point. Some are come to by the order in which others are scheduled.
const MISSES: usize = 8;

/// A point, and whom to kill there: the first choices that are somebody there and have not been tried, so many of them.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    point: String,
    /// Those that come there, or may: the first, and after it has not come there the next.
    scenarios: Vec<Scenario>,
    choices: Vec<&'static [Victim]>,
    /// So many kills.
    most: usize,
}

/// What was tried, of which cell.
#[derive(Debug, Default)]
pub(crate) struct Tried(BTreeSet<(String, Scenario, String, Vec<Victim>)>);

pub(crate) struct Plan {
    tasks: Vec<Vec<Task>>,
    /// The only point.
    only: Option<String>,
}

impl Plan {
    pub(crate) fn new(reached: &Reached, seed: u64) -> Self {
        let mut tasks = vec![Vec::new(); reached.len()];
        let only = std::env::var("KILLCORD_POINT").ok();
        let most = if only.is_some() { usize::MAX } else { SCENARIOS };
        if campaign::is_full() || only.is_some() {
            for (tasks, points) in tasks.iter_mut().zip(reached) {
                let wanted = |point: &&String| only.as_ref().is_none_or(|only| only == *point);
                for (n, (point, scenarios)) in points.iter().filter(|(point, _)| wanted(point)).enumerate() {
                    let turn = seed as usize % scenarios.len() + n;
                    let some = (0..scenarios.len().min(most)).map(|i| rotated(scenarios, turn + i));
                    tasks.extend(some.map(|scenarios| Task::whole(point, scenarios)));
                }
            }
            return Self { tasks, only };
        }
        for (n, point) in points::all().iter().enumerate() {
            let turn = seed as usize + n;
            let cells: Vec<_> =
                (0..reached.len()).filter(|cell| reached[*cell].contains_key(point)).collect();
            // All three at one cell, somebody else at the next. Some are come to by the library alone.
            for which in (0..2).take_while(|_| !cells.is_empty()) {
                let cell = cells[(turn + which) % cells.len()];
                let scenarios = &reached[cell][point];
                let mut choices = CHOICES.to_vec();
                if which == 1 {
                    choices[1..].rotate_left(turn % (CHOICES.len() - 1));
                    choices.rotate_left(1);
                }
                let scenarios = rotated(scenarios, turn);
                tasks[cell].push(Task { point: point.clone(), scenarios, choices, most: 1 });
            }
        }
        Self { tasks, only }
    }

    pub(crate) fn of_cell(&self, n: usize) -> &[Task] {
        &self.tasks[n]
    }

    /// Choices that no task came to; at this point all of them are there.
    pub(crate) fn what_is_missing(&self, tried: &Tried) -> Vec<Task> {
        let done = tried.choices();
        let missing = CHOICES[..9].iter().filter(|choice| self.only.is_none() && !done.contains(**choice));
        let point = "keeper.told_of_exec".to_owned();
        let task = |choice: &&'static [Victim]| Task {
            point: point.clone(),
            scenarios: vec![Scenario::Ends],
            choices: vec![*choice],
            most: 1,
        };
        missing.map(task).collect()
    }

    /// Every point, every choice and every cell was tried.
    pub(crate) fn assert_complete(&self, tried: &Tried, reached: &Reached) {
        if self.only.is_some() {
            return;
        }
        let points: BTreeSet<_> = tried.0.iter().map(|(point, ..)| point.clone()).collect();
        let all: BTreeSet<_> = reached.iter().flat_map(BTreeMap::keys).cloned().collect();
        let missed: Vec<_> = all.difference(&points).collect();
        assert!(missed.is_empty(), "not tried: {missed:?}");
        let choices = tried.choices();
        for choice in &CHOICES[..9] {
            assert!(choices.contains(*choice), "nobody killed {choice:?}");
        }
        let cells: BTreeSet<_> = tried.0.iter().map(|(_, _, cell, _)| cell.clone()).collect();
        assert_eq!(cells.len(), Host::cells().len());
    }
}

fn rotated(scenarios: &[Scenario], turn: usize) -> Vec<Scenario> {
    let mut rotated = scenarios.to_vec();
    rotated.rotate_left(turn % scenarios.len());
    rotated
}

impl Task {
    /// Every choice.
    pub(crate) fn whole(point: &str, scenarios: Vec<Scenario>) -> Self {
        Self { point: point.to_owned(), scenarios, choices: CHOICES.to_vec(), most: CHOICES.len() }
    }

    /// Some choices.
    pub(crate) fn of(point: &str, scenario: Scenario, choices: &[&'static [Victim]]) -> Self {
        let (choices, most) = (choices.to_vec(), choices.len());
        Self { point: point.to_owned(), scenarios: vec![scenario], choices, most }
    }

    /// The faults that were found. What the harness itself cannot go on from is one.
    pub(crate) fn carry_out(&self, cell: &mut Cell<'_>, tried: &Mutex<Tried>) -> Vec<String> {
        let mut faults = Vec::new();
        let mut missed = 0;
        for _ in 0..self.most {
            let done = catch_unwind(AssertUnwindSafe(|| self.once(cell, tried, &mut missed)));
            let (found, more) = done.unwrap_or_else(|_| (vec![format!("{self:?}: a panic")], false));
            for fault in &found {
                println!("FOUND {fault}");
            }
            faults.extend(found);
            if !more {
                break;
            }
        }
        faults
    }

    /// One kill: what is wrong, and whether somebody is left to be killed.
    fn once(&self, cell: &mut Cell<'_>, tried: &Mutex<Tried>, missed: &mut usize) -> (Vec<String>, bool) {
        let mut faults = Vec::new();
        while *missed < MISSES {
            cell.renew();
            let scenario = self.scenarios[*missed % self.scenarios.len()];
            let mut round = Round::start(cell, scenario, Some(&self.point));
            let Some(paused) = round.reach() else {
                *missed += 1;
                faults.extend(round.missed());
                continue;
            };
            let found = Found::settled(&mut round.nest, Some(&paused));
            let cell_name = format!("{:?} {}", round.cell.state.who, round.cell.boundary);
            let key =
                |victims: &[Victim]| (self.point.clone(), scenario, cell_name.clone(), victims.to_vec());
            let is_open = |victims: &Vec<Victim>| {
                !victims.is_empty() && !tried.lock().unwrap().0.contains(&key(victims))
            };
            let open: Vec<_> = found.in_order(&self.choices).into_iter().filter(is_open).collect();
            let Some(victims) = open.first() else {
                faults.extend(round.abandon(paused).err());
                return (faults, false);
            };
            tried.lock().unwrap().0.insert(key(victims));
            let kill = round.kill(&found, victims, paused);
            let wrong = promises::check(&mut round, &kill);
            let (name, trace) = (round.name(), round.trace.read());
            drop(round);
            let wrong = wrong.into_iter().chain(cell.hurt());
            faults.extend(wrong.map(|what| format!("{name} {victims:?}: {what}\n    came to {trace:?}")));
            return (faults, open.iter().any(|other| other != victims));
        }
        println!("{}: not come to by {:?}", self.point, self.scenarios);
        (faults, false)
    }
}

impl Tried {
    pub(crate) fn kills(&self) -> usize {
        self.0.len()
    }

    fn choices(&self) -> BTreeSet<Vec<Victim>> {
        self.0.iter().map(|(_, _, _, victims)| victims.clone()).collect()
    }

    /// For the row of the campaign.
    pub(crate) fn size(&self) -> String {
        let points: BTreeSet<_> = self.0.iter().map(|(point, ..)| point).collect();
        let cells: BTreeSet<_> = self.0.iter().map(|(_, _, cell, _)| cell).collect();
        format!("{} kills at {} points in {} cells", self.kills(), points.len(), cells.len())
    }

    /// How often whom, and in which cell at how many points.
    pub(crate) fn coverage(&self) -> String {
        let mut text = format!("{}\n", self.size());
        let (mut whom, mut cells) = (BTreeMap::new(), BTreeMap::new());
        for (point, scenario, cell, victims) in &self.0 {
            *whom.entry(victims).or_insert(0) += 1;
            cells.entry(cell).or_insert_with(BTreeSet::new).insert((point, scenario));
        }
        for (victims, kills) in whom {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{kills:6} kills of {victims:?}");
        }
        for (cell, places) in cells {
            let _ = writeln!(text, "{:6} points and scenarios as {cell}", places.len());
        }
        text
    }
}
