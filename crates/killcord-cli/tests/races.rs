//! The start race: whoever of killcord's processes is killed while a job is being started, nothing is left.
//!
//! Promised (G1, G2): SIGKILL of `killcord run`, of its warden, of its keeper, or of any two of them, at any
//! instant from the first of a start on, leaves nothing alive two seconds later; and no cgroup either, where one of
//! those is left that knows of it. A nest says that no descendant is left, guards and jobs alike; the end of the
//! output says it again.
//!
//! Not promised: all three at once, before there is a sweep (`death.rs` has what holds of it).
//!
//! The victims are taken by parentage alone, so that a guard is met before it has its name, and half of the times
//! as soon as it can be seen. `KILLCORD_RACE_ROUNDS` is the number of rounds (300 for `killcord run` alone, 100 for
//! each other set), `KILLCORD_RACE_SEED` repeats the times of a run that failed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use killcord_testkit::{Corner, Host, Killcord, Nest, PinnedProcess, Scene, Signal, bin, procs};

/// What is promised.
const BOUND: Duration = Duration::from_secs(2);
/// Starts that are under way at the same time.
const AT_ONCE: u32 = 4;

/// Small, and the same for the same seed (xorshift).
struct Dice(u64);

impl Dice {
    fn new(seed: u64, round: u32) -> Self {
        let mut dice = Self((seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        dice.below(1);
        dice
    }

    fn below(&mut self, n: u64) -> u64 {
        for _ in 0..3 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
        }
        self.0 % n
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Run,
    Warden,
    Keeper,
}

use Victim::{Keeper, Run, Warden};

fn only_child(parent: u32) -> Option<PinnedProcess> {
    let first = procs::children(parent).into_iter().next()?;
    PinnedProcess::open(first, |child| child.parent == parent)
}

/// Looks for the victims besides `killcord run` until all are there, or never will be.
fn guards(run: &PinnedProcess, victims: &[Victim]) -> Vec<PinnedProcess> {
    let deadline = Instant::now() + BOUND;
    while run.is_alive() && Instant::now() < deadline {
        let warden = only_child(run.pid);
        let keeper = warden.as_ref().filter(|_| victims.contains(&Keeper)).and_then(|w| only_child(w.pid));
        if warden.is_some() && (keeper.is_some() || !victims.contains(&Keeper)) {
            return warden.filter(|_| victims.contains(&Warden)).into_iter().chain(keeper).collect();
        }
        std::thread::yield_now();
    }
    Vec::new()
}

/// One start; says whether the victims were there.
fn round(victims: &[Victim], seed: u64, round: u32) -> bool {
    let cells = Host::cells();
    let (who, boundary) = cells[round as usize % cells.len()];
    let mut dice = Dice::new(seed, round);
    let scene = Scene::new();
    let corner = if boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
    let mut command = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, who, boundary);
    let script = "\"$0\" a 60 & \"$0\" b 60 & wait";
    command.args(["--", "sh", "-c", script]).arg(bin("kc-leaf"));
    let mut nest = Nest::start_in(&corner, &command);

    let others = victims.iter().any(|victim| *victim != Run);
    let at_first_sight = others && dice.below(2) == 0;
    if !at_first_sight {
        std::thread::sleep(Duration::from_micros(dice.below(40_000)));
    }
    let mut found = if others { guards(&nest.program, victims) } else { Vec::new() };
    if at_first_sight {
        // A start takes some milliseconds.
        std::thread::sleep(Duration::from_micros(dice.below(4_000)));
    }
    let run = nest.program.pid;
    found.extend(
        victims.contains(&Run).then(|| PinnedProcess::open(run, |_| nest.program.is_alive())).flatten(),
    );
    // Several at the same instant: none of them acts upon the end of another.
    if found.len() > 1 {
        for victim in &found {
            let _ = victim.kill(Signal::STOP);
        }
    }
    let all_there = found.len() == victims.len() && found.iter().all(PinnedProcess::is_alive);
    for victim in &found {
        let _ = victim.kill(Signal::KILL);
    }
    if !all_there {
        // A job that nobody has touched would go on.
        let _ = nest.program.kill(Signal::KILL);
    }

    let what = || format!("{victims:?}, round {round}, seed {seed}, {who:?}, {boundary}");
    let ended = nest.wait_empty(BOUND);
    let alive = scene.alive();
    assert!(alive.is_empty() && ended.is_ok(), "{}: {alive:?} {ended:?}", what());
    // Owner and warden know the cgroup before the keeper is there.
    if all_there && victims != [Run, Warden] {
        assert_eq!(corner.leaves(), Vec::<std::path::PathBuf>::new(), "{}", what());
    }
    all_there
}

fn race(victims: &[Victim], rounds: u32) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("KILLCORD_RACE_ROUNDS").map_or(rounds, |n| n as u32);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("KILLCORD_RACE_SEED").unwrap_or(clock.as_nanos() as u64);
    println!("{victims:?}: seed {seed}");
    let (next, met) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= rounds {
                        return;
                    }
                    met.fetch_add(u32::from(round(victims, seed, n)), Ordering::Relaxed);
                }
            });
        }
    });
    let met = met.into_inner();
    println!("{victims:?}: met in {met} of {rounds} rounds");
    assert!(met * 2 >= rounds, "the victims were met in {met} of {rounds} rounds: this tests too little");
}

#[test]
fn heavy_killcord_run_may_be_killed_at_any_instant_of_a_start() {
    race(&[Run], 300);
}

#[test]
fn heavy_the_warden_may_be_killed_at_any_instant_of_a_start() {
    race(&[Warden], 100);
}

#[test]
fn heavy_the_keeper_may_be_killed_at_any_instant_of_a_start() {
    race(&[Keeper], 100);
}

#[test]
fn heavy_killcord_run_and_warden_may_be_killed_at_any_instant_of_a_start() {
    race(&[Run, Warden], 100);
}

#[test]
fn heavy_killcord_run_and_keeper_may_be_killed_at_any_instant_of_a_start() {
    race(&[Run, Keeper], 100);
}

#[test]
fn heavy_warden_and_keeper_may_be_killed_at_any_instant_of_a_start() {
    race(&[Warden, Keeper], 100);
}
