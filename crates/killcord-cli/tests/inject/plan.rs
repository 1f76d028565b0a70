//! What there is to be tried, what of it is, and what was reached.

use super::cycle::{self, Aim, ERRNOS, Ends, Errno, Members, Place, Role};
use super::{judge, worker};
use killcord_testkit::claims::TEN;
use killcord_testkit::{Host, Need, Scene, Who, bin, campaign, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a sample takes.
const SAMPLE: Duration = Duration::from_secs(25);
/// How often the calls of a cycle are counted, since the times of wake-ups vary; the most is what counts.
const COUNTS: usize = 3;
/// So many calls at the beginning and at the end of a long count are all tried. Those between them are rounds of a
/// loop over the table of processes, as many as the machine has: each eleventh is.
const ENDS: [usize; 2] = [350, 250];
/// The same for the calls of one name, of whose middle nothing is tried.
const ENDS_OF_NAME: [usize; 2] = [16, 8];

/// One thing to try.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) place: Place,
    pub(crate) aim: Aim,
    /// What it counts as: who, or which call.
    key: (Place, String),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.aim.0)
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) hit: bool,
    pub(crate) took: Duration,
    pub(crate) code: i32,
    pub(crate) faults: Vec<String>,
}

/// Who made which call, by the log of a count.
pub(crate) fn calls(log: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(log).unwrap();
    let two = |line: &str| line.split_once(' ').map(|(who, call)| (who.to_owned(), call.to_owned()));
    text.lines().filter_map(two).collect()
}

/// How many calls a process made, of each name, in one place.
type Counts = BTreeMap<(Place, Role), BTreeMap<String, usize>>;

fn places() -> Vec<Place> {
    let on_group = Who::here().iter().map(|who| (*who, "group")).take(1);
    let cells = Host::cells().into_iter().chain(on_group);
    let ends = [Ends::ByItself, Ends::ByTimeout];
    cells.flat_map(|(who, boundary)| ends.map(|ends| Place { who, boundary, ends })).collect()
}

/// The library chooses its boundary by itself.
fn places_of_libraries() -> Vec<Place> {
    let boundary = |who| if Host::get().has(Need::Cgroup(who)) { "cgroup" } else { "tree" };
    Who::here()
        .iter()
        .map(|who| Place { who: *who, boundary: boundary(*who), ends: Ends::InLibrary })
        .collect()
}

/// Counts the calls of each process in each place; a cycle without an injection must be without a fault.
fn count(places: Vec<Place>) -> (Counts, BTreeMap<(Place, Role), usize>) {
    let (mut names, mut totals) = (Counts::new(), BTreeMap::new());
    for place in places {
        for _ in 0..COUNTS {
            let outcome = cycle::run(place, &Aim::count(), Members::All, Duration::from_secs(12));
            let faults = judge::faults(place, &Aim::count(), &outcome);
            assert!(faults.is_empty() && outcome.code == place.code(), "{place}: {faults:?} {outcome:?}");
            for role in place.roles() {
                let own = outcome.calls.iter().filter(|(who, _)| who == role.descent(place));
                let mut found = BTreeMap::new();
                for (_, call) in own {
                    *found.entry(call.clone()).or_insert(0) += 1;
                }
                let total = totals.entry((place, *role)).or_insert(0);
                *total = (*total).max(found.values().sum());
                let most = names.entry((place, *role)).or_default();
                for (call, n) in found {
                    let before = most.entry(call).or_insert(0);
                    *before = (*before).max(n);
                }
            }
        }
    }
    (names, totals)
}

/// A search, with its cases in the order in which they are tried.
pub(crate) struct Plan {
    cases: Vec<Case>,
    /// How many cases there are of each key.
    of: BTreeMap<(Place, String), usize>,
}

impl Plan {
    /// Each process is killed at each of its calls.
    pub(crate) fn of_kills() -> Self {
        let (_, totals) = count(places().into_iter().chain(places_of_libraries()).collect());
        let mut cases = Vec::new();
        for ((place, role), total) in totals {
            let case =
                |nth| Case { place, aim: Aim::kill(place, role, nth), key: (place, format!("{role:?}")) };
            let [first, last] = ENDS;
            let all = (1..=total).filter(|nth| *nth <= first || nth + last > total || nth % 11 == 0);
            cases.extend(all.map(case));
        }
        Self::new(cases)
    }

    /// Each call fails, with each error.
    pub(crate) fn of_errors() -> Self {
        let (names, _) = count(places());
        let runtime = before_main();
        let mut cases = Vec::new();
        let mut everywhere: BTreeMap<Place, BTreeSet<String>> = BTreeMap::new();
        for ((place, role), calls) in names {
            for (call, n) in calls {
                everywhere.entry(place).or_default().insert(call.clone());
                if CANNOT_FAIL.contains(&call.as_str()) {
                    continue;
                }
                let begin = if role == Role::Owner { runtime.get(&call).map_or(0, |n| *n) } else { 0 };
                let [first, last] = ENDS_OF_NAME;
                for errno in ERRNOS {
                    let key = (place, format!("{role:?} {call}"));
                    let case = |nth| Case {
                        place,
                        aim: Aim::error(place, role, &call, nth, errno),
                        key: key.clone(),
                    };
                    let all = (begin + 1..=n).filter(|nth| *nth <= begin + first || nth + last > n);
                    cases.extend(all.map(case));
                }
            }
        }
        for (place, calls) in everywhere {
            for call in calls.iter().filter(|call| OPTIONAL.contains(&call.as_str())) {
                for errno in [Errno::NoSys, Errno::Perm] {
                    let key = (place, format!("always {call}"));
                    cases.push(Case { place, aim: Aim::always(call, errno), key });
                }
            }
        }
        Self::new(cases)
    }

    fn new(mut cases: Vec<Case>) -> Self {
        if let Ok(text) = std::env::var("KILLCORD_INJECT") {
            cases.retain(|case| case.to_string().contains(&text));
        }
        let mut of = BTreeMap::new();
        for case in &cases {
            *of.entry(case.key.clone()).or_insert(0) += 1;
        }
        shuffle(&mut cases, campaign::seed());
        // One of each key, then a second one of each: a sample has something of everything.
        let mut ranks: BTreeMap<(Place, String), usize> = BTreeMap::new();
        cases.sort_by_cached_key(|case| {
            let rank = ranks.entry(case.key.clone()).or_default();
            *rank += 1;
            *rank
        });
        Self { cases, of }
    }

    /// Tries it, all or a sample, says what was reached, and fails when there is a fault.
    pub(crate) fn carry_out(self, name: &str, what: &str) {
        let until = (!campaign::is_full()).then(|| Instant::now() + SAMPLE);
        let tried = worker::try_all(&self.cases, until);
        self.print_coverage(&tried);
        let faults: Vec<String> = tried
            .iter()
            .filter(|(_, one)| !one.faults.is_empty())
            .map(|(number, one)| format!("{}: {:?}", self.cases[*number], one.faults))
            .collect();
        let hit = tried.iter().filter(|(_, one)| one.hit).count();
        campaign::report(name, &format!("{hit} {what} of {} possible", self.cases.len()), faults.len());
        assert!(hit > 0 || self.cases.is_empty(), "nothing was hit");
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    }

    fn print_coverage(&self, tried: &[(usize, Tried)]) {
        let mut reached: BTreeMap<&(Place, String), (usize, usize)> = BTreeMap::new();
        let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
        for (number, one) in tried {
            let counts = reached.entry(&self.cases[*number].key).or_default();
            counts.0 += usize::from(one.hit);
            counts.1 += 1;
            *codes.entry(one.code).or_default() += 1;
        }
        let mut lines: BTreeMap<Place, Vec<String>> = BTreeMap::new();
        for (key, all) in &self.of {
            let (hit, attempted) = reached.get(key).copied().unwrap_or_default();
            lines.entry(key.0).or_default().push(format!("{} {hit}/{attempted}/{all}", key.1));
        }
        println!("coverage, as hit/tried/possible:");
        for (place, parts) in lines {
            println!("  {place}: {}", parts.join(", "));
        }
        println!("exit statuses: {codes:?}");
        let mut slow: Vec<_> = tried.iter().map(|(number, one)| (one.took, *number)).collect();
        slow.sort_unstable();
        let at = |part: usize| slow.get((slow.len() * part / 100).min(slow.len().saturating_sub(1)));
        println!("until nothing was left: half within {:?}, 99% within {:?}", at(50), at(99));
        for (took, number) in slow.iter().rev().take(5) {
            println!("  slowest: {took:?} {}", self.cases[*number]);
        }
    }
}

/// Calls that a kernel may lack or a filter may take away, as a whole.
const OPTIONAL: [&str; 16] = [
    "clone3",
    "close_range",
    "getrandom",
    "memfd_create",
    "mount",
    "openat2",
    "pidfd_open",
    "pidfd_send_signal",
    "prlimit64",
    "renameat2",
    "rseq",
    "sched_yield",
    "setsid",
    "statx",
    "unshare",
    "waitid",
];

/// Calls that have no error to return by their definition; `brk` returns the old end of the heap when it fails; who
/// exits does not return at all, and the return from a signal has no result of its own.
const CANNOT_FAIL: [&str; 13] = [
    "brk",
    "exit",
    "exit_group",
    "getegid",
    "geteuid",
    "getgid",
    "getpgrp",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "rt_sigreturn",
    "umask",
];

/// What the C library and the language's runtime ask for before `main`, and cannot do without: how many calls of which
/// name. A program that does nothing makes the same, up to the last handler that the runtime sets; tests have something
/// of their own among them.
fn before_main() -> BTreeMap<String, usize> {
    let scene = Scene::new();
    let count = |name: &str, program: &Path| {
        let mut command = Command::new(bin("kc-inject"));
        run(command.arg(scene.path(name)).args(["count", "--"]).arg(program), TEN);
        let calls = calls(&scene.path(name));
        calls.into_iter().map(|(_, call)| call).collect::<Vec<_>>()
    };
    let nothing = count("nothing", &bin("kc-tiny"));
    let last = nothing.iter().rposition(|call| call == "rt_sigaction").unwrap();
    let mut awaited = nothing[..=last].iter().peekable();
    let mut before = BTreeMap::new();
    for call in count("ours", Path::new(env!("CARGO_BIN_EXE_killcord"))) {
        awaited.next_if(|next| **next == call);
        *before.entry(call).or_insert(0) += 1;
        if awaited.peek().is_none() {
            return before;
        }
    }
    panic!("killcord does not begin as a program does that does nothing: {before:?}, {nothing:?}")
}

/// `splitmix64`, and the shuffle of Fisher and Yates: the same for the same seed.
fn shuffle(cases: &mut [Case], seed: u64) {
    let mut state = seed;
    for last in (1..cases.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let at = (mixed ^ (mixed >> 31)) % (last as u64 + 1);
        cases.swap(last, at as usize);
    }
}
