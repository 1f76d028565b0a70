//! The whole: owners in flight, sweeps and lists beside them, bystanders, and the look at the end.

use crate::bystanders;
use crate::den::below;
use crate::dice::Dice;
use crate::residue::Before;
use crate::round::{ALLOWANCE, Round};
use crate::run::Style;
use crate::tally::Tally;
use killcord_testkit::claims::State;
use killcord_testkit::{Finished, Host, Killcord, Scene, Who, bin, campaign, run};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Owners at the same time.
const IN_FLIGHT: u32 = 8;
/// What a call of `killcord` that does not run a job may take, before that is a fault of its own.
const CALL: Duration = Duration::from_secs(40);
const FIXTURES: [&str; 6] = ["kc-leaf", "kc-ignore", "kc-payload", "kc-bomb", "kc-nest", "kc-ontty"];

/// What all rounds share.
pub(crate) struct Campaign {
    pub(crate) seed: u64,
    pub(crate) tally: Tally,
    pub(crate) killcord: Killcord,
    /// Users and boundaries.
    pub(crate) cells: Vec<(Who, &'static str)>,
    /// Whether the kernel gives jobs an audit session, by which a sweep finds all of them.
    pub(crate) tagged: bool,
    /// See [`crate::round::ALLOWANCE`].
    pub(crate) allowance: Duration,
    /// How many services were started.
    pub(crate) services: AtomicU32,
    home: Scene,
}

impl Campaign {
    pub(crate) fn new(seed: u64, allowance: Duration) -> Self {
        let killcord = env!("CARGO_BIN_EXE_killcord");
        let home = Scene::new();
        for who in Who::here() {
            State::at(killcord, &home, *who, home.path(state(*who)));
        }
        for name in FIXTURES {
            bin(name);
        }
        let mut cells = Host::cells();
        cells.extend(Who::here().iter().flat_map(|who| [(*who, "auto"), (*who, "group")]));
        let session = std::fs::read_to_string("/proc/self/sessionid").unwrap_or_default();
        let tagged = session.trim() == u32::MAX.to_string();
        if !tagged {
            println!(
                "not tried: all guards at once on tree and group, since there are no audit sessions here"
            );
        }
        let tally = Tally::new(seed);
        Self {
            seed,
            tally,
            killcord: Killcord::new(killcord),
            cells,
            tagged,
            allowance,
            services: AtomicU32::new(0),
            home,
        }
    }

    /// A program in a scene, with the state directory that all owners of its user share, and the fixtures.
    pub(crate) fn program(&self, scene: &Scene, who: Who, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = scene.command(who, program);
        command.env("KILLCORD_STATE_DIR", self.home.path(state(who)));
        for (name, fixture) in [("L", "kc-leaf"), ("I", "kc-ignore"), ("P", "kc-payload"), ("B", "kc-bomb")] {
            command.env(name, bin(fixture));
        }
        command
    }

    /// `killcord ARGS` to its end, which is a fault of the round that called if it does not come.
    pub(crate) fn call(&self, who: Who, args: &[&str]) -> Finished {
        let mut command = self.program(&self.home, who, self.killcord.path());
        run(command.args(args), CALL)
    }

    /// A sweep, none of whose steps may fail.
    pub(crate) fn sweep(&self, round: u32, who: Who) -> Value {
        let done = self.call(who, &["sweep", "--json"]);
        self.tally.note("sweeps", 1);
        let said: Value = serde_json::from_str(&done.stdout).unwrap_or_default();
        if done.code() != 0 || said["failed"] != 0 {
            self.tally.fault(round, &format!("sweep: {done:?}"));
        }
        said
    }

    /// The names of what is in a user's state directory.
    pub(crate) fn left_on_disk(&self, who: Who) -> Vec<String> {
        let mut left = Vec::new();
        for dir in ["", "services"] {
            let entries = std::fs::read_dir(self.home.path(state(who)).join(dir)).into_iter().flatten();
            left.extend(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()));
        }
        left.retain(|name| name != "services");
        left
    }

    /// What the claims that are left say.
    fn records(&self, who: Who) -> String {
        let text = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            format!("{}: {}", path.display(), text.trim())
        };
        let files = |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        let claims = files(self.home.path(state(who))).map(|claim| claim.path());
        let all = claims.flat_map(|claim| {
            let jobs = files(claim.join("jobs")).map(|job| text(job.path()));
            jobs.chain([text(claim.join("owner"))]).collect::<Vec<_>>()
        });
        all.collect::<Vec<_>>().join("; ")
    }

    /// One round, chosen by its number.
    fn round(&self, number: u32) {
        let mut dice = Dice::new(self.seed, number);
        let (who, boundary) = dice.pick(&self.cells);
        let new = |kind: &str, boundary| Round::new(self, number, kind, who, boundary);
        // What escapes on `group` is told apart by the one payload that `killcord run` has.
        let elsewhere = if boundary == "group" { "auto" } else { boundary };
        match dice.below(100) {
            0..44 => new("run", boundary).run(Style::Plain),
            44..56 => new("terminal", elsewhere).run(Style::Terminal),
            56..62 => new("nested", elsewhere).run(Style::Nested),
            62..76 => new("service", elsewhere).service(),
            76..88 => new("library", elsewhere).library(),
            _ => new("mcp", "auto").mcp(),
        }
    }

    /// The same; a panic of the harness is a fault of that round.
    fn guarded(&self, number: u32) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.round(number))) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            self.tally.fault(number, &format!("a panic: {}", text.unwrap_or_default()));
        }
    }
}

fn state(who: Who) -> &'static str {
    if who == Who::Root { "state-root" } else { "state-user" }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn duration() -> Duration {
    let ordinary = if campaign::is_full() { 3600 } else { 45 };
    Duration::from_secs(number("KILLCORD_STRESS_SECONDS").unwrap_or(ordinary))
}

trials![heavy_owners_of_every_kind_under_stress_leave_nothing,];

fn heavy_owners_of_every_kind_under_stress_leave_nothing() {
    let (seed, lasts) = (campaign::seed(), duration());
    // Whatever a nest might lose comes here.
    killcord_sys::fixture::set_child_subreaper().unwrap();
    let campaign = Campaign::new(seed, ALLOWANCE);
    let before = Before::look();
    let begun = Instant::now();
    play(&campaign, begun + lasts);
    let took = begun.elapsed().as_secs();
    for who in Who::here() {
        before_it_is_over(&campaign, *who);
    }
    campaign.tally.note("empty cgroups of inner owners that were killed", before.cgroups_more());
    for what in before.what_is_left() {
        campaign.tally.fault(u32::MAX, &what);
    }
    campaign.tally.table();
    let sum = campaign.tally.sum();
    let found = sum.survivors + sum.faults;
    let size = format!("{took} s: {} starts, {} kills, {} survivors", sum.starts, sum.kills, sum.survivors);
    campaign::report("stress", &size, found);
    let all_kinds = number("KILLCORD_STRESS_ROUND").is_none();
    assert!(sum.rounds > 0 && sum.starts > 0 && (sum.kills > 0 || !all_kinds), "nothing was tried: {sum:?}");
    assert_eq!(found, 0, "KILLCORD_SEED={seed}; {sum:?}");
}

fn play(campaign: &Campaign, until: Instant) {
    let only = number("KILLCORD_STRESS_ROUND").map(|round| round as u32);
    let (next, working) = (AtomicU32::new(0), AtomicU32::new(IN_FLIGHT));
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            scope.spawn(|| {
                while Instant::now() < until {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    campaign.guarded(only.unwrap_or(number));
                }
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| beside(campaign, until));
        bystanders::stand_by(scope, campaign, until);
        let mut said = Instant::now();
        while working.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(200));
            if said.elapsed() >= Duration::from_secs(10) {
                said = Instant::now();
                campaign.tally.progress(below(std::process::id()).len());
            }
        }
    });
    campaign.tally.progress(below(std::process::id()).len());
}

/// Somebody sweeps and lists all the time.
fn beside(campaign: &Campaign, until: Instant) {
    let mut dice = Dice::new(campaign.seed, u32::MAX);
    while Instant::now() < until {
        let who = dice.pick(Who::here());
        let look = catch_unwind(AssertUnwindSafe(|| {
            campaign.sweep(u32::MAX, who);
            let listed = campaign.call(who, &["list", "--json"]);
            if listed.code() != 0 || !listed.stderr.is_empty() {
                campaign.tally.fault(u32::MAX, &format!("list: {listed:?}"));
            }
        }));
        if look.is_err() {
            campaign.tally.fault(u32::MAX, "a sweep or a list beside did not come back");
        }
        std::thread::sleep(dice.ms(2000));
    }
}

/// Everything on disk goes with a sweep. Those in the background may still be at work.
fn before_it_is_over(campaign: &Campaign, who: Who) {
    let until = Instant::now() + CALL;
    loop {
        let said = campaign.sweep(u32::MAX, who);
        let left = campaign.left_on_disk(who);
        if left.is_empty() {
            return;
        }
        if Instant::now() > until {
            let records = campaign.records(who);
            campaign.tally.fault(u32::MAX, &format!("{who:?}: on disk there is {left:?}; {records}; {said}"));
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
