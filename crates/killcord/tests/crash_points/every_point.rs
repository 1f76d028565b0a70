//! The campaign: each point, and whom to kill there.

use crate::host;
use crate::kill::{Cell, Round};
use crate::kit::trials;
use killcord_testkit::victims::{CHOICES, Victim};
use killcord_testkit::{Host, Scene, campaign, points};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// What was tried: the point, the scenario, the cell, and who was killed.
type Tried = BTreeSet<(String, usize, usize, Vec<Victim>)>;

/// How often a life may not come to a point. Some are come to by the order in which others are scheduled.
const MISSES: usize = 8;

/// A point to come to, in the first of these scenarios that does, and whom to kill there: the first who are there, so
/// many times.
struct Task {
    point: String,
    scenarios: Vec<usize>,
    choices: Vec<&'static [Victim]>,
    most: usize,
}

trials![heavy_whoever_is_killed_beside_a_library_the_promises_hold,];

fn in_cells<T: Send>(work: impl Fn(usize, &Cell<'_>) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |(n, (who, boundary))| {
            scope.spawn(move || {
                let home = Scene::new();
                work(n, &Cell::new(&home, who, boundary))
            })
        };
        let all: Vec<_> = Host::cells().into_iter().enumerate().map(start).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn heavy_whoever_is_killed_beside_a_library_the_promises_hold() {
    // Which scenarios come to which points, in each cell.
    let reached: Vec<BTreeMap<String, Vec<usize>>> = in_cells(|_, cell| {
        let mut reached: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for scenario in 0..host::SCENARIOS.len() {
            for point in Round::undisturbed(cell, scenario).unwrap_or_else(|e| panic!("{e}")) {
                reached.entry(point).or_default().push(scenario);
            }
        }
        reached
    });
    let seen: BTreeSet<&str> = reached.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let missed: Vec<_> = points::OF_THE_LIBRARY.iter().filter(|point| !seen.contains(*point)).collect();
    assert!(missed.is_empty(), "the host does not come to {missed:?}");
    let tasks = plan(&reached, campaign::seed());
    let tried = Mutex::new(Tried::new());
    let found = in_cells(|n, cell| {
        let tasks = tasks[n].iter();
        tasks.flat_map(|task| carry_out(task, n, cell, &tried)).collect::<Vec<_>>()
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    let tried = tried.into_inner().unwrap();
    let places: BTreeSet<_> = tried.iter().map(|(point, ..)| point.as_str()).collect();
    let cells: BTreeSet<_> = tried.iter().map(|(_, _, cell, _)| cell).collect();
    let mut whom: BTreeMap<_, u32> = BTreeMap::new();
    for (_, _, _, victims) in &tried {
        *whom.entry(victims).or_default() += 1;
    }
    println!("{whom:#?}");
    let size = format!("{} kills at {} points in {} cells", tried.len(), places.len(), cells.len());
    campaign::report("crash points of the library", &size, found.len());
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), tried.len(), found.join("\n"));
    assert_eq!(places, seen, "some points were not tried");
}

fn plan(reached: &[BTreeMap<String, Vec<usize>>], seed: u64) -> Vec<Vec<Task>> {
    let mut tasks: Vec<Vec<Task>> = reached.iter().map(|_| Vec::new()).collect();
    let all: BTreeSet<&String> = reached.iter().flat_map(BTreeMap::keys).collect();
    for (n, point) in all.into_iter().enumerate() {
        let turn = seed as usize % 1000 + n;
        let mut cells: Vec<_> =
            (0..reached.len()).filter(|cell| reached[*cell].contains_key(point)).collect();
        let mut choices = CHOICES.to_vec();
        let mut most = CHOICES.len();
        if !campaign::is_full() {
            cells = vec![cells[turn % cells.len()]];
            choices.rotate_left(turn % CHOICES.len());
            most = 1;
        }
        for cell in cells {
            let mut scenarios = reached[cell][point].clone();
            let first = turn % scenarios.len();
            scenarios.rotate_left(first);
            tasks[cell].push(Task { point: point.clone(), scenarios, choices: choices.clone(), most });
        }
    }
    tasks
}

fn carry_out(task: &Task, n: usize, cell: &Cell<'_>, tried: &Mutex<Tried>) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut killed, mut missed) = (0, 0);
    while killed < task.most && missed < MISSES {
        let scenario = task.scenarios[missed % task.scenarios.len()];
        let mut round = Round::start(cell, scenario, Some(&task.point));
        let Some(paused) = round.reach() else {
            missed += 1;
            faults.extend(round.missed());
            continue;
        };
        killed += 1;
        let found = round.found(&paused);
        let key = |victims: &[Victim]| (task.point.clone(), scenario, n, victims.to_vec());
        let open =
            |victims: &Vec<Victim>| !victims.is_empty() && !tried.lock().unwrap().contains(&key(victims));
        let open = found.in_order(&task.choices).into_iter().find(open);
        let Some(victims) = open else {
            faults.extend(round.abandon(paused));
            return faults;
        };
        tried.lock().unwrap().insert(key(&victims));
        let wrong = round.kill(&found, &victims, paused);
        for what in wrong {
            let fault = format!("{} {victims:?}: {what}; said {}", round.name(), round.said());
            println!("FOUND {fault}");
            faults.push(fault);
        }
    }
    faults
}
