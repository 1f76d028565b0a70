//! Who of killcord and its job can be killed, and who of them is there.

use std::time::{Duration, Instant};

use crate::claims::TEN;
use crate::nest::Nest;
use crate::points::Paused;
use crate::procs::{self, PinnedProcess, Stat};
use rustix::process::Signal;

/// A process of ours, by what it is for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The program of the nest.
    Owner,
    /// Its warden, whoever's child that is.
    Warden,
    /// The keeper of the job that runs.
    Keeper,
    /// Its program: an executable, or a link, with the name `leader`.
    Leader,
    /// The process that sweeps beside a start.
    Sweeper,
    /// The keeper that was forked ahead.
    Spare,
}

use Victim::{Keeper, Leader, Owner, Spare, Sweeper, Warden};

/// All three first: whoever is not there at a point is left out.
pub const CHOICES: [&[Victim]; 13] = [
    &[Owner, Warden, Keeper],
    &[Owner],
    &[Warden],
    &[Keeper],
    &[Leader],
    &[Owner, Warden],
    &[Owner, Keeper],
    &[Warden, Keeper],
    &[Keeper, Leader],
    &[Sweeper],
    &[Owner, Sweeper],
    &[Spare],
    &[Warden, Spare],
];

/// How long everybody has to be what they are before that is taken for the whole picture.
const QUIET: Duration = Duration::from_millis(60);
const SETTLED_WITHIN: Duration = Duration::from_millis(600);

/// Who is there.
#[derive(Debug, Default)]
pub struct Found(Vec<(Victim, PinnedProcess)>);

impl Found {
    /// Waits until nobody comes or goes any more while one stands still. A picture that is taken too early only means
    /// another choice of victims.
    pub fn settled(nest: &mut Nest, paused: Option<&Paused>) -> Self {
        let begun = Instant::now();
        let (mut found, mut since) = (Self::look(nest, paused), Instant::now());
        while since.elapsed() < QUIET && begun.elapsed() < SETTLED_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
            let again = Self::look(nest, paused);
            if again.numbers() != found.numbers() {
                (found, since) = (again, Instant::now());
            }
        }
        found
    }

    /// Who is there now.
    pub fn look(nest: &mut Nest, paused: Option<&Paused>) -> Self {
        let mut found = Self::default();
        let (owner, mut above) = (nest.program.pid, vec![nest.running().pid()]);
        let mut keepers = Vec::new();
        while let Some(parent) = above.pop() {
            for stat in procs::children(parent).into_iter().filter_map(procs::stat) {
                above.push(stat.pid);
                let here = paused.filter(|p| p.process.pid == stat.pid && p.process.start == stat.start);
                let role = if stat.pid == owner { Some(Owner) } else { role(&stat, here) };
                let leader = keepers.contains(&stat.parent)
                    && role.is_none()
                    && ["leader", "killcord-keeper"].contains(&stat.comm.as_str());
                let role = if leader { Some(Leader) } else { role };
                if role == Some(Keeper) {
                    keepers.push(stat.pid);
                }
                let same = |again: &Stat| again.start == stat.start && again.parent == stat.parent;
                if let Some(role) = role
                    && let Some(process) = PinnedProcess::open(stat.pid, same)
                {
                    found.0.push((role, process));
                }
            }
        }
        found.0.sort_by_key(|(role, process)| (*role, process.start, process.pid));
        found
    }

    fn numbers(&self) -> Vec<(Victim, u32)> {
        self.0.iter().map(|(role, process)| (*role, process.pid)).collect()
    }

    /// The first that is this.
    pub fn get(&self, victim: Victim) -> Option<&PinnedProcess> {
        self.0.iter().find(|(role, _)| *role == victim).map(|(_, process)| process)
    }

    /// How many are this.
    pub fn count(&self, victim: Victim) -> usize {
        self.0.iter().filter(|(role, _)| *role == victim).count()
    }

    /// Those of a choice that are there.
    pub fn of(&self, choice: &[Victim]) -> Vec<Victim> {
        choice.iter().copied().filter(|victim| self.get(*victim).is_some()).collect()
    }

    /// Those of each choice that are there, first of the choices of whom everybody is.
    pub fn in_order(&self, choices: &[&[Victim]]) -> Vec<Vec<Victim>> {
        let (whole, part): (Vec<&[Victim]>, Vec<_>) =
            choices.iter().copied().partition(|choice| self.of(choice).len() == choice.len());
        whole.into_iter().chain(part).map(|choice| self.of(choice)).collect()
    }

    /// Whether this one was there and is none of these: not whether it lives now, since it may have acted upon their end
    /// and be done.
    pub fn is_left(&self, victim: Victim, victims: &[Victim]) -> bool {
        self.get(victim).is_some() && !victims.contains(&victim)
    }

    /// Whether no guard is left: neither the owner nor the warden nor the keeper.
    pub fn nobody_guards(&self, victims: &[Victim]) -> bool {
        [Owner, Warden, Keeper].into_iter().all(|guard| !self.is_left(guard, victims))
    }

    /// Kills these at the same instant: all are stopped first, so that none acts upon the end of another.
    ///
    /// # Errors
    /// Who does not stop, or not die.
    pub fn kill(&self, victims: &[Victim]) -> Result<(), String> {
        let processes: Vec<_> = victims.iter().filter_map(|victim| self.get(*victim)).collect();
        let until = Instant::now() + TEN;
        if processes.len() > 1 {
            for process in &processes {
                // It may have ended by itself, as below.
                let _ = process.kill(Signal::STOP);
            }
            for process in &processes {
                while process.stat().is_some_and(|stat| stat.state != 'T' && !stat.is_dead()) {
                    if Instant::now() >= until {
                        return Err(format!("{process:?} does not stop"));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        for process in &processes {
            let _ = process.kill(Signal::KILL);
        }
        match processes.iter().find(|process| !process.wait_gone(TEN)) {
            Some(process) => Err(format!("{process:?} does not die")),
            None => Ok(()),
        }
    }
}

/// What a process is by its name; one that stands at a point may have no name yet, and the point says it.
fn role(stat: &Stat, paused: Option<&Paused>) -> Option<Victim> {
    match stat.comm.as_str() {
        "killcord-sweep" => return Some(Sweeper),
        "killcord-spare" => return Some(Spare),
        "killcord-keeper" if paused.is_some() => return Some(Keeper),
        "killcord-warden" if paused.is_none() => return Some(Warden),
        _ => {}
    }
    let Some(paused) = paused else {
        // A child of the keeper has its name as well until it executes the program: see the caller.
        let above = procs::comm(stat.parent).unwrap_or_default();
        return (stat.comm == "killcord-keeper" && above != "killcord-keeper").then_some(Keeper);
    };
    match paused.point.split('.').next() {
        Some("warden") => Some(Warden),
        Some("keeper") => Some(Keeper),
        Some("sweep") => Some(Sweeper),
        _ if stat.comm == "killcord-warden" => Some(Warden),
        _ => None,
    }
}
