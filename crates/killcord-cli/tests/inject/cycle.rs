//! One start, run and end of `killcord run` under the injector, and all that was seen of it.

use killcord_testkit::claims::State;
use killcord_testkit::{
    Corner, Killcord, PinnedProcess, Running, Scene, Signal, Who, bin, example, life, procs,
};
use std::fmt;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the program of a job exits with when it comes to its end: nobody else says so.
pub(crate) const CODE: i32 = 7;
/// How soon a job ends that has a timeout: its members are there by then, mostly, which is not needed.
const TIMEOUT: &str = "120ms";

/// How a job comes to its end when nothing is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ends {
    /// Its leader exits, and leaves its members behind.
    ByItself,
    /// It is ordered to: its time is up.
    ByTimeout,
    /// By itself, and its owner is a program that links the library, with a warden that is executed and a keeper that is
    /// forked ahead: the example `tool_call`.
    InLibrary,
}

/// Where and how a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) who: Who,
    pub(crate) boundary: &'static str,
    pub(crate) ends: Ends,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {:?}", self.who, self.boundary, self.ends)
    }
}

impl Place {
    /// What it exits with when nothing is injected.
    pub(crate) fn code(self) -> i32 {
        match self.ends {
            Ends::ByItself => CODE,
            Ends::ByTimeout => 124,
            Ends::InLibrary => 0,
        }
    }

    /// Who can be hit there.
    pub(crate) fn roles(self) -> &'static [Role] {
        match self.ends {
            Ends::ByItself | Ends::ByTimeout => &[Role::Owner, Role::Warden, Role::Keeper, Role::Leader],
            Ends::InLibrary => {
                &[Role::Owner, Role::Between, Role::Warden, Role::Keeper, Role::Leader, Role::Spare]
            }
        }
    }
}

/// What to inject: the argument of `kc-inject`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Aim(pub(crate) String);

impl Aim {
    pub(crate) fn count() -> Self {
        Self("count".to_owned())
    }

    pub(crate) fn kill(place: Place, role: Role, nth: usize) -> Self {
        Self(format!("{}:*:{nth}:kill", role.descent(place)))
    }

    pub(crate) fn error(place: Place, role: Role, call: &str, nth: usize, errno: Errno) -> Self {
        Self(format!("{}:{call}:{nth}:error={}", role.descent(place), errno.number()))
    }

    /// As on a kernel that has no such call, or under a filter.
    pub(crate) fn always(call: &str, errno: Errno) -> Self {
        Self(format!("*:{call}:1:always={}", errno.number()))
    }

    pub(crate) fn is_kill(&self) -> bool {
        self.0.ends_with(":kill")
    }

    pub(crate) fn hits_owner(&self) -> bool {
        self.0.starts_with("0:")
    }
}

/// Who is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Owner,
    Warden,
    Keeper,
    /// The job's first process, between its clone and its exec.
    Leader,
    /// Who starts the warden of a library, and ends.
    Between,
    /// A keeper without a job.
    Spare,
}

impl Role {
    /// `killcord run` forks its warden first, that its keeper, that its leader. A library has its warden started by
    /// a process that ends at once, and that warden forks a spare after the keeper.
    pub(crate) fn descent(self, place: Place) -> &'static str {
        match (self, place.ends) {
            (Self::Owner, _) => "0",
            (Self::Between, _) | (Self::Warden, Ends::ByItself | Ends::ByTimeout) => "0.1",
            (Self::Warden, Ends::InLibrary) | (Self::Keeper, Ends::ByItself | Ends::ByTimeout) => "0.1.1",
            (Self::Keeper, Ends::InLibrary) | (Self::Leader, Ends::ByItself | Ends::ByTimeout) => "0.1.1.1",
            (Self::Leader, Ends::InLibrary) => "0.1.1.1.1",
            (Self::Spare, _) => "0.1.1.2",
        }
    }
}

/// The errors that are injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Errno {
    NoMem,
    Again,
    MFile,
    NoSpc,
    Perm,
    NoSys,
}

pub(crate) const ERRNOS: [Errno; 6] =
    [Errno::NoMem, Errno::Again, Errno::MFile, Errno::NoSpc, Errno::Perm, Errno::NoSys];

impl Errno {
    pub(crate) fn number(self) -> i32 {
        use rustix::io::Errno;
        match self {
            Self::NoMem => Errno::NOMEM,
            Self::Again => Errno::AGAIN,
            Self::MFile => Errno::MFILE,
            Self::NoSpc => Errno::NOSPC,
            Self::Perm => Errno::PERM,
            Self::NoSys => Errno::NOSYS,
        }
        .raw_os_error()
    }
}

/// Who is in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Members {
    /// Those that the boundary promises to end.
    All,
    /// On `group`, one that it does not.
    WithEscapee,
}

/// All that was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// When the call was hit, and which, if it was reached.
    pub(crate) hit: Option<(u64, String)>,
    /// What the owner exited with.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The report as it was written; empty where there is none.
    pub(crate) report: String,
    /// How many of the job's processes wrote themselves down.
    pub(crate) recorded: usize,
    /// Which of them lived when the owner had just ended.
    pub(crate) alive_at_end: Vec<String>,
    /// Who was left at the limit.
    pub(crate) left: Vec<String>,
    /// From the hit (else from the start) to the end of everything.
    pub(crate) took: Duration,
    /// What a sweep said, where that was not "done".
    pub(crate) sweep: Option<String>,
    /// What the state directory holds after it, and the cgroup.
    pub(crate) after_sweep: Vec<String>,
    /// How often each process made which call, in a count.
    pub(crate) calls: Vec<(String, String)>,
}

/// Runs it. What is not over at the limit is ended, and told.
pub(crate) fn run(place: Place, aim: &Aim, members: Members, limit: Duration) -> Outcome {
    let scene = Scene::new();
    let state = State::new(env!("CARGO_BIN_EXE_killcord"), &scene, place.who);
    let corner = if place.boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
    let log = scene.path("log");
    fs::write(&log, "").unwrap();
    state.give(&log);
    let mut command = corner.wrap(&command(&scene, &state, place, aim, members));
    few_descriptors();
    let begun = Instant::now();
    let mut nest = Running::start(&mut command);
    let mut outcome = Outcome { code: -1, ..Outcome::default() };
    if let Some(owner) = owner(&mut nest, begun + limit) {
        // Whether it does is seen below, by the end of the nest.
        let _ = owner.wait_gone(limit);
        outcome.alive_at_end = scene.alive().into_iter().map(|alive| alive.name).collect();
    }
    let rest = || (begun + limit).saturating_duration_since(Instant::now());
    // A process that is left holds its end of these pipes, or is below the nest, or both.
    let ends = [nest.stdout.read_to_end(rest()).is_ok(), nest.stderr.read_to_end(rest()).is_ok()];
    let status = nest.wait(rest());
    let over = life::now_ms();
    if status.is_none() || ends != [true, true] {
        outcome.left = end_all_below(nest.pid());
        outcome.left.push(format!("pipes ended: {ends:?}"));
    }
    outcome.code = status.and_then(|status| status.code()).unwrap_or(-1);
    outcome.hit = hit(&fs::read_to_string(&log).unwrap_or_default());
    outcome.took = match &outcome.hit {
        Some((at, _)) => Duration::from_millis(over.saturating_sub(*at)),
        None => begun.elapsed(),
    };
    (outcome.stdout, outcome.stderr) = (nest.stdout.text(), nest.stderr.text());
    outcome.report = fs::read_to_string(scene.path("report")).unwrap_or_default();
    outcome.recorded = scene.ids().len();
    if aim.0 == "count" {
        outcome.calls = super::plan::calls(&log);
    }
    let swept = state.sweep(&[]);
    outcome.sweep = (swept["failed"] != 0).then(|| swept.to_string());
    outcome.after_sweep = state.names();
    outcome.after_sweep.extend(corner.leaves().iter().map(|leaf| leaf.display().to_string()));
    outcome
}

fn command(scene: &Scene, state: &State<'_>, place: Place, aim: &Aim, members: Members) -> Command {
    let mut command = scene.command(place.who, bin("kc-nest"));
    command.arg(bin("kc-inject")).arg(scene.path("log")).arg(&aim.0).arg("--");
    if place.ends == Ends::InLibrary {
        command.arg(example("killcord", "tool_call"));
    } else {
        command.arg(Killcord::new(env!("CARGO_BIN_EXE_killcord")).path()).args(["run", "--boundary"]);
        command.arg(place.boundary).arg("--report").arg(scene.path("report"));
        if place.ends == Ends::ByTimeout {
            command.args(["--timeout", TIMEOUT]);
        }
        command.arg("--");
    }
    let only = match (place.boundary, members) {
        ("group", Members::All) => "plain",
        ("group", Members::WithEscapee) => "plain,setsid",
        _ => "plain,setsid,daemon,bare",
    };
    command.arg(bin("kc-payload")).args(["--only", only]);
    if place.ends != Ends::ByTimeout {
        command.args(["--leader", "exit", "--code", &CODE.to_string()]);
    }
    command.env("KILLCORD_STATE_DIR", &state.path);
    command
}

/// Lowers our own limit, and with it that of all that is started here. Where `close_range` is taken away for good, a
/// guard closes every number below the limit, and each of these calls is traced: that would be a measure of the tracer.
fn few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
}

/// The injector, which ends as the owner does; `None` where it was too quick to be seen.
fn owner(nest: &mut Running, deadline: Instant) -> Option<PinnedProcess> {
    loop {
        let child = procs::children(nest.pid()).into_iter().next();
        let child = child.and_then(|pid| PinnedProcess::open(pid, |stat| stat.parent == nest.pid()));
        if child.is_some() || nest.wait(Duration::ZERO).is_some() || Instant::now() > deadline {
            return child;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills, by pidfds, all that come from the nest, and says who that was.
fn end_all_below(nest: u32) -> Vec<String> {
    let mut left = Vec::new();
    let mut above = vec![nest];
    while let Some(parent) = above.pop() {
        for stat in procs::children(parent).into_iter().filter_map(procs::stat) {
            left.push(format!("{} {} {} (child of {})", stat.pid, stat.comm, stat.state, stat.parent));
            above.push(stat.pid);
            if let Some(process) = PinnedProcess::open(stat.pid, |again| again.start == stat.start) {
                // It may have ended meanwhile.
                let _ = process.kill(Signal::KILL);
            }
        }
    }
    left
}

/// The first line that begins with `hit`: when, and who at which call.
fn hit(log: &str) -> Option<(u64, String)> {
    let line = log.lines().find_map(|line| line.strip_prefix("hit "))?;
    let (at, what) = line.split_once(' ')?;
    Some((at.parse().ok()?, what.to_owned()))
}
