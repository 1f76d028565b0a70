//! What was tried, what was found, and how late things were.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Default, Clone, Copy)]
struct Row {
    rounds: u32,
    starts: u32,
    kills: u32,
    survivors: usize,
    late: u32,
    worst: Duration,
}

#[derive(Default)]
struct Counts {
    kinds: BTreeMap<String, Row>,
    events: BTreeMap<String, u32>,
    notes: BTreeMap<&'static str, u32>,
    faults: usize,
}

/// The counts of a whole run. Every fault is printed when it is found.
pub(crate) struct Tally {
    begun: Instant,
    seed: u64,
    counts: Mutex<Counts>,
}

/// The sums of all kinds.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) rounds: u32,
    pub(crate) starts: u32,
    pub(crate) kills: u32,
    pub(crate) survivors: usize,
    /// Faults that are no survivors.
    pub(crate) faults: usize,
    pub(crate) late: u32,
    pub(crate) worst: Duration,
}

impl Tally {
    pub(crate) fn new(seed: u64) -> Self {
        Self { begun: Instant::now(), seed, counts: Mutex::default() }
    }

    fn row(&self, kind: &str, change: impl FnOnce(&mut Row)) {
        let mut counts = self.counts.lock().unwrap();
        change(counts.kinds.entry(kind.to_owned()).or_default());
    }

    /// A round that begins.
    pub(crate) fn round(&self, kind: &str) {
        self.row(kind, |row| row.rounds += 1);
    }

    /// Jobs that were started.
    pub(crate) fn started(&self, kind: &str, n: u32) {
        self.row(kind, |row| row.starts += n);
    }

    /// Processes that were sent SIGKILL on purpose.
    pub(crate) fn killed(&self, kind: &str, n: u32) {
        self.row(kind, |row| row.kills += n);
    }

    /// What was done to an owner.
    pub(crate) fn event(&self, name: &str) {
        *self.counts.lock().unwrap().events.entry(name.to_owned()).or_default() += 1;
    }

    /// Something that is no fault and worth a number.
    pub(crate) fn note(&self, name: &'static str, n: u32) {
        *self.counts.lock().unwrap().notes.entry(name).or_default() += n;
    }

    /// All was gone, and it took so much longer than is promised.
    pub(crate) fn late(&self, kind: &str, by: Duration) {
        self.row(kind, |row| {
            row.late += 1;
            row.worst = row.worst.max(by);
        });
    }

    /// Processes that live and must not.
    pub(crate) fn survivors(&self, kind: &str, round: u32, what: &str, who: &[String]) {
        self.row(kind, |row| row.survivors += who.len());
        println!("SURVIVORS: seed {}, round {round}, {kind}: {what}", self.seed);
        for line in who {
            println!("    {line}");
        }
    }

    /// Anything else that must not be.
    pub(crate) fn fault(&self, round: u32, what: &str) {
        self.counts.lock().unwrap().faults += 1;
        println!("FAULT: seed {}, round {round}: {what}", self.seed);
    }

    pub(crate) fn sum(&self) -> Sum {
        let counts = self.counts.lock().unwrap();
        let mut sum = Sum { faults: counts.faults, ..Sum::default() };
        for row in counts.kinds.values() {
            sum.rounds += row.rounds;
            sum.starts += row.starts;
            sum.kills += row.kills;
            sum.survivors += row.survivors;
            sum.late += row.late;
            sum.worst = sum.worst.max(row.worst);
        }
        sum
    }

    /// One line for whoever watches.
    pub(crate) fn progress(&self, living: usize) {
        let (s, t) = (self.sum(), self.begun.elapsed().as_secs());
        println!(
            "{t:5} s: {} rounds, {} starts, {} kills, {living} processes living, {} survivors, {} other faults, \
             {} late (worst {:.1} s)",
            s.rounds,
            s.starts,
            s.kills,
            s.survivors,
            s.faults,
            s.late,
            s.worst.as_secs_f64()
        );
    }

    /// The table at the end.
    pub(crate) fn table(&self) {
        let counts = self.counts.lock().unwrap();
        println!(
            "\n{:<26} {:>7} {:>7} {:>7} {:>9} {:>6} {:>7}",
            "owner", "rounds", "starts", "kills", "survivors", "late", "by at most"
        );
        for (kind, row) in &counts.kinds {
            let worst = format!("{:.2} s", row.worst.as_secs_f64());
            println!(
                "{kind:<26} {:>7} {:>7} {:>7} {:>9} {:>6} {worst:>7}",
                row.rounds, row.starts, row.kills, row.survivors, row.late
            );
        }
        println!("\n{:<46} {:>6}", "event", "times");
        for (name, times) in &counts.events {
            println!("{name:<46} {times:>6}");
        }
        println!();
        for (name, times) in &counts.notes {
            println!("{name:<46} {times:>6}");
        }
    }
}
