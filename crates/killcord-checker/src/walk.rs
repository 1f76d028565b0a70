//! A walk through all states of a setting, and what it found.

use crate::world::{Fault, Setting};
use killcord_model::boundary::Boundary;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// What a walk has seen.
#[derive(Debug, Clone)]
pub struct Walked {
    /// How many different states.
    pub states: usize,
    /// How many acts the longest way from the beginning has.
    pub depth: usize,
    /// Properties that do not hold, each with the acts that lead to a state in which it does not.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// What came about in some state, of what must be possible.
    pub seen: Vec<&'static str>,
}

/// Visits every state. It ends early when a property does not hold.
#[must_use]
pub fn walk(setting: &Setting) -> Walked {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let checker = setting.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let mut walked = Walked {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken: Vec::new(),
        seen: Vec::new(),
    };
    for property in setting.properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (Expectation::Sometimes, Some(_)) => walked.seen.push(property.name),
            (Expectation::Always | Expectation::Eventually, Some(path)) => {
                let blamed = path.last_state().broken.map(str::to_owned);
                let acts = path.into_actions().into_iter().map(|act| format!("{act:?}"));
                walked.broken.push((property.name, acts.chain(blamed).collect()));
            }
            (_, None) => {}
        }
    }
    walked
}

/// The settings of a walk: in full, or as few as an ordinary test takes.
#[must_use]
pub fn settings(full: bool) -> Vec<(&'static str, Setting)> {
    let mut all = Vec::new();
    for boundary in [Boundary::Tree, Boundary::Cgroup, Boundary::Namespace] {
        let one = Setting::one_job(boundary);
        all.push(("one job, killed twice", Setting { kills: 2, losses: 0, orders: 0, ..one }));
        all.push(("one job, an order, killed once", Setting { kills: 1, losses: 1, ..one }));
        all.push(("two jobs that run, one let go", one.with_two_that_run()));
        if full {
            all.push(("one job, an order, killed three times", one));
            all.push((
                "one job, leftovers kept",
                Setting { leftovers: killcord_model::spec::Leftovers::Keep, kills: 2, ..one },
            ));
            all.push((
                "one job, leftovers let go",
                Setting { leftovers: killcord_model::spec::Leftovers::Release, kills: 2, ..one },
            ));
            all.push((
                "one job, its time over",
                Setting { timeout: Some(std::time::Duration::from_secs(1)), kills: 2, ..one },
            ));
            all.push((
                "two jobs that run, one let go, killed three times",
                Setting { kills: 3, ..one.with_two_that_run() },
            ));
        }
    }
    all.push(("one request, asked for again", Setting::one_job(Boundary::Tree).asked_again()));
    all
}

/// The setting in which a fault shows.
#[must_use]
pub fn setting_for(fault: Fault) -> Setting {
    let tree = Setting::one_job(Boundary::Tree);
    let few = Setting { kills: 1, losses: 0, orders: 0, ..tree };
    let setting = match fault {
        Fault::IgnoresTheOwner | Fault::NobodyBehind | Fault::SaysEmptyUnseen => few,
        Fault::RecordsAfterTheStart => Setting { kills: 3, ..few },
        Fault::ReapsBeforeHearing | Fault::EndsEveryOrphan => tree.with_two_that_run(),
        Fault::SweepsTheReleased => Setting { kills: 3, ..tree.with_two_that_run() },
        Fault::TellsBeforeItDisarms => Setting::one_job(Boundary::Namespace).with_two_that_run(),
        Fault::RetriesAfterUnclear | Fault::StartsUntold => tree.asked_again(),
    };
    Setting { fault: Some(fault), ..setting }
}
