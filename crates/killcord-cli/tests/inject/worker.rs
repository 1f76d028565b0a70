//! Those who carry out a plan, side by side, and the strangers beside them.

use super::cycle::{self, Members};
use super::judge;
use super::plan::{Case, Tried};
use killcord_testkit::claims::{State, TEN};
use killcord_testkit::{Nest, Pinned, Running, Scene, Who, bin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many cycles run at once: each waits for most of its time.
const SIDE_BY_SIDE: usize = 4;
/// When whatever has not ended hangs.
const LIMIT: Duration = Duration::from_secs(12);
/// How long a set of strangers serves: no fixture lives longer than a minute.
const SHIFT: Duration = Duration::from_secs(30);

/// Who must not be hurt: a process in our own group, and the job of another owner. Any signal ends them.
struct Strangers {
    since: Instant,
    here: Scene,
    pinned: Pinned,
    _near: Running,
    owner: Nest,
}

impl Strangers {
    fn new() -> Self {
        let here = Scene::new();
        let near = Running::start(here.command(Who::here()[0], bin("kc-leaf")).args(["near", "60"]));
        let state = State::new(env!("CARGO_BIN_EXE_killcord"), &here, Who::here()[0]);
        let owner = Nest::start(&state.shell(&[], "exec ./leaf.sh guarded 60"));
        here.wait_names(&["near", "guarded"], TEN);
        let pinned = here.pin();
        Self { since: Instant::now(), here, pinned, _near: near, owner }
    }

    fn are_well(&mut self) -> bool {
        self.pinned.alive().len() == 2 && self.owner.program.is_alive() && self.here.ids().len() == 2
    }
}

/// Tries all cases, or as many as the time allows, and returns what came of each.
pub(crate) fn try_all(cases: &[Case], until: Option<Instant>) -> Vec<(usize, Tried)> {
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE.min(cases.len()) {
            scope.spawn(|| work(cases, &next, until, &tried));
        }
    });
    tried.into_inner().unwrap()
}

fn work(cases: &[Case], next: &AtomicUsize, until: Option<Instant>, tried: &Mutex<Vec<(usize, Tried)>>) {
    let mut strangers = Strangers::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(case) = cases.get(number) else { break };
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        if strangers.since.elapsed() > SHIFT {
            strangers = Strangers::new();
        }
        let outcome = cycle::run(case.place, &case.aim, Members::All, LIMIT);
        let mut faults = judge::faults(case.place, &case.aim, &outcome);
        if !strangers.are_well() {
            faults.push("a stranger was hurt".to_owned());
            strangers = Strangers::new();
        }
        if !faults.is_empty() {
            println!("FAULT {case}: {faults:?}\n  {outcome:?}");
        }
        if (number + 1).is_multiple_of(500) {
            println!("{} of {} tried", number + 1, cases.len());
        }
        let one = Tried { hit: outcome.hit.is_some(), took: outcome.took, code: outcome.code, faults };
        tried.lock().unwrap().push((number, one));
    }
}
