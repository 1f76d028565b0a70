//! What the guards keep for themselves in memory, with few and with many jobs.

use super::{Live, ours, owner};
use crate::measure::{Case, Found, Unit};
use crate::{Result, Setup};
use killcord::Boundary;

/// What the warden has of its own and no file has.
const WRITTEN: &str = "warden: written";

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    for boundary in [Boundary::Tree, Boundary::Cgroup] {
        for count in [1, 100, 1000] {
            one(setup, found, boundary, count)?;
        }
    }
    Ok(())
}

fn one(setup: &Setup, found: &mut Found, boundary: Boundary, count: usize) -> Result<()> {
    let mut case = Case {
        section: "Memory: private to the guards (smaps_rollup), and the kernel's for each job",
        name: format!("{}, {count} live jobs", ours(boundary)),
        unit: Unit::Kib,
        ..Case::default()
    };
    let before = Kernel::now()?;
    let owner = owner(setup, boundary)?;
    let mut live = Live::none()?;
    live.up_to(count, &owner, setup)?;
    let after = Kernel::now()?;
    let keepers: Vec<u32> = live.jobs.iter().filter_map(|job| parent(job.pid()?)).collect();
    let warden = keepers.first().and_then(|k| parent(*k)).ok_or("the warden is not to be found")?;
    let each: Result<Vec<Private>> = keepers.iter().map(|keeper| Private::of(*keeper)).collect();
    match (Private::of(warden), each) {
        (Ok(warden), Ok(each)) => {
            let dirty = |all: &[Private]| all.iter().map(|p| p.dirty).collect::<Vec<_>>();
            let whole = |all: &[Private]| all.iter().map(|p| p.clean + p.dirty).collect::<Vec<_>>();
            // A goal is a ratio; these are held against a size.
            let limits = [("goal: warden", 1024.0), ("goal: keeper", 150.0)];
            if count == 1000 {
                case.goals = vec![
                    ("warden".to_owned(), "goal: warden".to_owned(), 1.0),
                    ("keeper".to_owned(), "goal: keeper".to_owned(), 1.0),
                ];
            }
            let goals = limits.map(|(name, kib)| (name.to_owned(), vec![kib]));
            let all = [
                ("warden".to_owned(), whole(&[warden])),
                (WRITTEN.to_owned(), dirty(&[warden])),
                ("keeper".to_owned(), whole(&each)),
            ];
            found.add(
                &case,
                &all.into_iter().chain(goals.into_iter().filter(|_| count == 1000)).collect::<Vec<_>>(),
            );
            found.note(&case, WRITTEN, "the rest is of its program's file, and goes when memory is short");
        }
        (Err(why), _) | (_, Err(why)) => found.not_here(&case, "warden and keepers", why),
    }
    let per_job = |of: fn(&Kernel) -> f64| vec![(of(&after) - of(&before)) / count as f64];
    if count >= 100 {
        found.add(
            &case,
            &[
                ("kernel: page tables".to_owned(), per_job(|k| k.page_tables)),
                ("kernel: stacks".to_owned(), per_job(|k| k.stacks)),
                ("kernel: slab".to_owned(), per_job(|k| k.slab)),
            ],
        );
        found.note(&case, "kernel: slab", "of the whole machine, for keeper and program together");
    }
    live.end()
}

/// Fields of `/proc/meminfo` (`proc_meminfo(5)`), in KiB.
struct Kernel {
    page_tables: f64,
    stacks: f64,
    slab: f64,
}

impl Kernel {
    fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
        let of = |name| field(&text, name).ok_or_else(|| format!("/proc/meminfo has no {name}"));
        Ok(Self { page_tables: of("PageTables:")?, stacks: of("KernelStack:")?, slab: of("Slab:")? })
    }
}

fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// What only this process has in memory, in KiB.
#[derive(Clone, Copy)]
struct Private {
    /// As it stands in a file, mostly that of the program.
    clean: f64,
    /// Written, and nowhere else.
    dirty: f64,
}

impl Private {
    fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let of = |name| field(&text, name).unwrap_or(0.0);
        Ok(Self { clean: of("Private_Clean:"), dirty: of("Private_Dirty:") })
    }
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
