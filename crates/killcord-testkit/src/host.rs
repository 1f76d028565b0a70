//! What this machine has, found by trying, and tests that say when they cannot run.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::who::{Who, is_root};

/// The boundaries that end escapees, by the names of `--boundary`.
pub const BOUNDARIES: [&str; 3] = ["cgroup", "tree", "namespace"];

/// Something that a test needs and a host may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The tests run as root.
    Root,
    /// This user may make a cgroup v2 directory below his own and enter it.
    Cgroup(Who),
    /// This user may make a pid namespace.
    PidNamespace(Who),
    /// A controller in our own cgroup v2 directory, like `pids`.
    Controller(&'static str),
    /// A program that is not part of every system.
    Program(&'static str),
    /// Anything else that not every host has.
    Other(&'static str),
}

impl Need {
    /// Whether a host of our CI must have it: root, all boundaries for root, namespaces for a user.
    fn is_demanded_of_ci(self) -> bool {
        match self {
            Self::Root | Self::Cgroup(Who::Root) | Self::PidNamespace(_) => true,
            Self::Cgroup(Who::User) | Self::Controller(_) | Self::Program(_) | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => write!(f, "the tests do not run as root"),
            Self::Cgroup(who) => write!(f, "no writable cgroup v2 directory for {who:?}"),
            Self::PidNamespace(who) => write!(f, "no pid namespaces for {who:?}"),
            Self::Controller(name) => write!(f, "no cgroup v2 controller {name}"),
            Self::Program(name) => write!(f, "no program {name}"),
            Self::Other(what) => write!(f, "{what}"),
        }
    }
}

/// Leaves the test (or the round of a loop, with `continue`), saying on stderr which need is not met.
///
/// `skip!(need)` returns, `skip!(need, continue)` goes on with the next round. With `CI=true` it panics where
/// our CI's hosts must have the thing.
#[macro_export]
macro_rules! skip {
    ($need:expr) => {{
        $crate::skipped_whole($need);
        return;
    }};
    ($need:expr, $leave:expr) => {{
        $crate::skipped($need);
        $leave
    }};
}

/// Says that something is skipped: see [`skip!`].
pub fn skipped(need: Need) {
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!(in_ci && need.is_demanded_of_ci()), "a host of our CI must not skip: {need}");
    // Not `eprintln!`, which the test harness hides when the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {need}");
}

/// Says that a whole test is skipped, and counts it where `tools/test` asks for that: see [`skip!`].
pub fn skipped_whole(need: Need) {
    let reason = need.to_string();
    skipped(need);
    let Some(file) = std::env::var_os("KILLCORD_TEST_SKIPS") else { return };
    let thread = std::thread::current();
    let test = std::env::var("NEXTEST_TEST_NAME").ok().or_else(|| thread.name().map(str::to_owned));
    let line = format!("{}: {reason}\n", test.unwrap_or_default());
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(&file);
    let counted = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(counted.is_ok(), "a skip could not be counted in {}: {counted:?}", file.display());
}

/// What this machine has.
#[derive(Debug)]
pub struct Host {
    cgroup: [bool; 2],
    pid_namespace: [bool; 2],
    cgroup_dir: Option<PathBuf>,
}

impl Host {
    /// Probes once for each test process, by doing the thing.
    pub fn get() -> &'static Self {
        static HOST: OnceLock<Host> = OnceLock::new();
        HOST.get_or_init(|| {
            let cgroup_dir = own_cgroup2();
            let both =
                |probe: &dyn Fn(Who) -> bool| [Who::Root, Who::User].map(|who| can_be(who) && probe(who));
            let cgroup = both(&|who| cgroup_dir.as_deref().is_some_and(|dir| can_make_cgroup(who, dir)));
            Self { cgroup, pid_namespace: both(&can_make_pid_namespace), cgroup_dir }
        })
    }

    /// Our own cgroup v2 directory, wherever it is mounted.
    pub fn cgroup_dir(&self) -> Option<&Path> {
        self.cgroup_dir.as_deref()
    }

    /// Whether it is there.
    pub fn has(&self, need: Need) -> bool {
        match need {
            Need::Root => is_root(),
            Need::Cgroup(who) => self.cgroup[who as usize],
            Need::PidNamespace(who) => self.pid_namespace[who as usize],
            Need::Controller(name) => self.cgroup_dir.as_deref().is_some_and(|dir| {
                let list = std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
                list.split_ascii_whitespace().any(|controller| controller == name)
            }),
            Need::Program(name) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
            }
            Need::Other(_) => false,
        }
    }

    /// What a boundary needs for this user; `tree` and `group` need nothing.
    pub fn need_of(boundary: &str, who: Who) -> Option<Need> {
        match boundary {
            "cgroup" => Some(Need::Cgroup(who)),
            "namespace" => Some(Need::PidNamespace(who)),
            _ => None,
        }
    }

    /// Every user and boundary of [`BOUNDARIES`] that a test can do here; those that it cannot are reported as
    /// skipped, root included.
    pub fn cells() -> Vec<(Who, &'static str)> {
        let mut cells = Vec::new();
        for who in [Who::Root, Who::User] {
            if !can_be(who) {
                skip!(Need::Root, continue);
            }
            for boundary in BOUNDARIES {
                match Self::need_of(boundary, who) {
                    Some(need) if !Self::get().has(need) => skipped(need),
                    _ => cells.push((who, boundary)),
                }
            }
        }
        cells
    }
}

/// Does the same in every cell of [`Host::cells`] at once, each in a thread that has the cell's name, which a panic
/// then shows.
///
/// For tests that mostly wait; what measures short times takes the cells one after the other.
pub fn in_every_cell(test: impl Fn(Who, &'static str) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for (who, boundary) in Host::cells() {
            let thread = std::thread::Builder::new().name(format!("{who:?}-{boundary}"));
            thread
                .spawn_scoped(scope, move || test(who, boundary))
                .unwrap_or_else(|e| panic!("no thread: {e}"));
        }
    });
}

fn can_be(who: Who) -> bool {
    who == Who::User || is_root()
}

/// The directory of the line `0::` below the mount of cgroup v2, which beside v1 is not at the usual place.
fn own_cgroup2() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, point) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut field = mount.split(' ').skip(3);
        kind.starts_with("cgroup2 ").then_some((field.next()?, field.next()?))
    })?;
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or(own);
    Some(Path::new(point).join(below.trim_start_matches('/')))
}

fn can_make_cgroup(who: Who, own: &Path) -> bool {
    let leaf = own.join(format!("killcord-testkit-{}-{who:?}", std::process::id()));
    let mut command = who.command("sh");
    command.args(["-c", "mkdir \"$1\" && echo $$ > \"$1/cgroup.procs\"", "sh"]).arg(&leaf);
    let could = succeeds(&mut command);
    // It is empty again as soon as the shell has been reaped, and not there if the shell could not make it.
    let _ = std::fs::remove_dir(&leaf);
    could
}

fn can_make_pid_namespace(who: Who) -> bool {
    let mut command = who.command("unshare");
    if who == Who::User {
        command.args(["--user", "--map-current-user"]);
    }
    succeeds(command.args(["--pid", "--fork", "true"]))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
