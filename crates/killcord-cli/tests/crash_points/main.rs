//! Every crash point: whoever of killcord is killed at any named instant, the promises hold.
//!
//! Promised (G1, G2, G4, G5, G11): a process stands still at a point (`hooks::point`), one or several of owner, warden,
//! keeper and leader are killed at the same instant, the one that stands there goes on if it lives. Then all of the job is
//! gone within the bound of the death table, or, with all three guards killed at once on `cgroup` and `tree`, with the
//! next sweep; a job that was let go lives on; who is left says what is true; a neighbour's job and a stranger hear of
//! nothing; nothing is left on disk after a sweep; and the same state directory works again.
//!
//! The points are found in the source, and which scenario comes to which is seen by running each once: a new point is
//! covered on the day it is added, and one that nothing comes to fails the test. Not here: `group`, which promises less
//! (`death`), and what only a program that links the library comes to (the library's own tests).
//!
//! The short form takes each point once with all three guards and once with another choice, each time in one cell;
//! `KILLCORD_CAMPAIGN=full` takes every point with every choice in every cell, in two of the scenarios that come there:
//! `KILLCORD_CAMPAIGN=full cargo nextest run --profile campaign -p killcord-cli --features test-hooks --test crash_points`.
//! `KILLCORD_POINT=keeper.kills` takes that point alone, with every scenario, choice and cell.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails, in its helper functions too"
)]

mod cell;
mod plan;
mod promises;
mod round;
mod scenario;

use cell::Cell;
use killcord_testkit::claims::{TEN, until};
use killcord_testkit::victims::{CHOICES, Found, Victim};
use killcord_testkit::{Host, Scene, Who, campaign, points, report};
use plan::{Plan, Task, Tried};
use round::Round;
use scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The scenarios that come to each point, in each cell.
type Reached = Vec<BTreeMap<String, Vec<Scenario>>>;

/// Does the same in a thread for each cell, and gives what each gave.
fn in_cells<T: Send>(work: impl Fn(usize, &mut Cell<'_>) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |(n, (who, boundary)): (usize, (Who, &'static str))| {
            scope.spawn(move || {
                let home = Scene::new();
                let mut cell = Cell::new(&home, who, boundary);
                let done = work(n, &mut cell);
                cell.close();
                done
            })
        };
        let all: Vec<_> = Host::cells().into_iter().enumerate().map(start).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs every scenario undisturbed, and sees that it ends as it should and which points it comes to.
fn look_around() -> Reached {
    in_cells(|_, cell| {
        let mut reached: BTreeMap<String, Vec<Scenario>> = BTreeMap::new();
        for scenario in Scenario::ALL {
            for point in Round::undisturbed(cell, scenario).unwrap_or_else(|e| panic!("{e}")) {
                reached.entry(point).or_default().push(scenario);
            }
        }
        reached
    })
}

/// Every point that a run of `killcord` can come to is come to.
fn assert_all_are_reached(reached: &Reached) {
    let of_library: BTreeSet<String> = points::OF_THE_LIBRARY.map(str::to_owned).into();
    let seen: BTreeSet<String> = reached.iter().flat_map(BTreeMap::keys).cloned().collect();
    let all = points::all();
    let missed: Vec<_> = all.difference(&of_library).filter(|point| !seen.contains(*point)).collect();
    assert!(missed.is_empty(), "no scenario comes to {missed:?}: give it one in `scenario.rs`");
    assert!(of_library.is_subset(&all), "there is no such point: {:?}", of_library.difference(&all));
}

#[test]
fn heavy_whoever_is_killed_at_any_point_the_promises_hold() {
    let reached = look_around();
    assert_all_are_reached(&reached);
    let plan = Plan::new(&reached, campaign::seed());
    let tried = Mutex::new(Tried::default());
    let found: Vec<String> = in_cells(|n, cell| {
        let mut found = Vec::new();
        for task in plan.of_cell(n) {
            found.extend(task.carry_out(cell, &tried));
        }
        found
    })
    .into_iter()
    .flatten()
    .collect();
    let mut tried = tried.into_inner().unwrap();
    // What the turn of the dice has left out.
    for task in plan.what_is_missing(&tried) {
        let mutex = Mutex::new(std::mem::take(&mut tried));
        let home = Scene::new();
        let (who, boundary) = Host::cells()[0];
        let mut cell = Cell::new(&home, who, boundary);
        let more = task.carry_out(&mut cell, &mutex);
        assert!(more.is_empty(), "{more:#?}");
        cell.close();
        tried = mutex.into_inner().unwrap();
    }
    println!("{}", tried.coverage());
    campaign::report("crash points", &tried.size(), found.len());
    assert!(found.is_empty(), "{} of {} kills:\n{}", found.len(), tried.kills(), found.join("\n"));
    plan.assert_complete(&tried, &reached);
}

/// Its record is what a sweep finds a job by: with all three killed while it goes, somebody or something would be left
/// for ever of a job that was struck out too early.
#[test]
fn a_job_is_struck_out_only_when_nothing_is_left_of_it() {
    let points =
        ["keeper.saw_members", "keeper.kills", "job.forgotten", "job.cleared", "keeper.tells_the_end"];
    let tried = Mutex::new(Tried::default());
    let found = in_cells(|_, cell| {
        let task = |point: &&str| Task::of(point, Scenario::Ends, &CHOICES[..1]).carry_out(cell, &tried);
        points.iter().flat_map(task).collect::<Vec<_>>()
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(tried.into_inner().unwrap().kills(), points.len() * Host::cells().len());
}

#[test]
fn what_is_let_go_outlives_an_owner_and_a_warden_that_are_killed_meanwhile() {
    let points = ["job.released", "keeper.told_of_release", "keeper.has_let_go"];
    let choices: [&[Victim]; 3] = [&[Victim::Warden], &[Victim::Owner], &[Victim::Owner, Victim::Warden]];
    let tried = Mutex::new(Tried::default());
    let found = in_cells(|_, cell| {
        let task = |point: &&str| Task::of(point, Scenario::Released, &choices).carry_out(cell, &tried);
        points.iter().flat_map(task).collect::<Vec<_>>()
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(tried.into_inner().unwrap().kills(), points.len() * choices.len() * Host::cells().len());
}

/// It is written down first; whoever hears of the keeper's death finds it there.
#[test]
fn what_is_let_go_outlives_a_keeper_that_is_killed_before_it_could_say_so() {
    let points = ["job.released", "keeper.told_of_release"];
    let choices: [&[Victim]; 2] = [&[Victim::Keeper], &[Victim::Keeper, Victim::Warden]];
    let found = in_cells(|_, cell| {
        let mut faults = Vec::new();
        for (point, victims) in points.iter().flat_map(|point| choices.map(|victims| (*point, victims))) {
            let mut round = Round::start(cell, Scenario::Released, Some(point));
            let paused = round.reach().unwrap();
            let found = Found::settled(&mut round.nest, Some(&paused));
            let kill = round.kill(&found, victims, paused);
            faults.extend(promises::check(&mut round, &kill));
            let report = report(&round.scene);
            // The init of a namespace takes all along.
            let fate = (cell.boundary != "namespace").then_some("released");
            if report["leftovers"]["fate"].as_str() != fate || report["verdict"]["kind"] == "survivors" {
                faults.push(format!("{}: {victims:?}: it says {report}", round.name()));
            }
        }
        faults
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Its word to go and its death are heard of at once, by a keeper that stands before it has looked for either.
#[test]
fn a_job_whose_owner_dies_with_its_word_to_go_does_not_run_on() {
    let found = in_cells(|_, cell| {
        let mut faults = Vec::new();
        for victims in [&[Victim::Owner][..], &[Victim::Owner, Victim::Warden]] {
            let mut round = Round::start(cell, Scenario::Acknowledged, Some("keeper.armed"));
            let paused = round.reach().unwrap();
            // What it waits for after its order is the keeper's next word.
            until(TEN, "an order to go", || round.trace.read().contains_key("owner.orders"));
            let found = Found::settled(&mut round.nest, Some(&paused));
            let kill = round.kill(&found, victims, paused);
            let mut wrong = promises::check(&mut round, &kill);
            let trace = round.trace.read();
            // That of a namespace goes with its warden, and the kernel sees to the rest.
            let by_kernel = cell.boundary == "namespace" && victims.len() > 1;
            if trace.contains_key("keeper.cloned") && !trace.contains_key("keeper.saw_it_empty") && !by_kernel
            {
                wrong.push(format!("the keeper left what it had started: {trace:?}"));
            }
            faults.extend(wrong.into_iter().map(|what| format!("{} {victims:?}: {what}", round.name())));
        }
        faults
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The negative control: without the sweep that all three need, this test sees what is left.
#[test]
fn what_nobody_sweeps_is_found() {
    in_cells(|_, cell| {
        if cell.boundary == "namespace" {
            // There the kernel does it.
            return;
        }
        let mut round = Round::start(cell, Scenario::Ends, Some("keeper.reaped_leader"));
        let paused = round.reach().unwrap();
        let found = Found::settled(&mut round.nest, Some(&paused));
        let kill = round.kill(&found, &[Victim::Owner, Victim::Warden, Victim::Keeper], paused);
        let faults = promises::check_without_sweep(&mut round, &kill);
        assert!(faults.iter().any(|fault| fault.contains("is left")), "{}: {faults:?}", round.name());
        drop(round);
        assert_eq!(cell.state.sweep(&[])["failed"], 0);
    });
}
