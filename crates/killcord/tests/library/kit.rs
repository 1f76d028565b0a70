//! What all of these tests begin with.

use killcord::{Boundary, Choice, Command, Job, Owner};
use killcord_testkit::{Host, PinnedProcess, Running, Scene, Who, bin, procs, skipped};
use libtest_mimic::Trial;
use std::process::Command as Program;
use std::time::{Duration, Instant};

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// What is promised for an owner's death, from the moment it dies.
pub(crate) const BOUND: Duration = Duration::from_secs(2);
/// The environment variable that makes this executable play a host.
pub(crate) const ROLE: &str = "KILLCORD_TEST_ROLE";

/// The list of a module's tests. One that is not listed is dead code, which the compiler reports.
macro_rules! trials {
    ($($test:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::kit::trial(concat!(module_path!(), "::", stringify!($test)), $test)),*]
        }
    };
}
pub(crate) use trials;

pub(crate) fn trial(path: &'static str, test: fn()) -> Trial {
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// As whom the tests run: a library's jobs are its host's.
pub(crate) fn here() -> Who {
    Who::here()[0]
}

/// The boundaries that end escapees and can be had here; the others are reported.
pub(crate) fn boundaries() -> Vec<Boundary> {
    let mut all = vec![Boundary::Tree, Boundary::Cgroup, Boundary::Namespace];
    all.retain(|boundary| match Host::need_of(boundary.name(), here()) {
        Some(need) if !Host::get().has(need) => {
            skipped(need);
            false
        }
        _ => true,
    });
    all
}

/// An owner whose jobs this boundary holds.
pub(crate) fn owner_of(boundary: Boundary) -> Owner {
    Owner::builder().boundary(Choice::Exactly(boundary)).build().unwrap()
}

/// A job's command in the scene.
pub(crate) fn command(owner: &Owner, scene: &Scene, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = owner.command(program);
    command.env("D", scene.dir()).env("HOME", scene.path("home")).env("TMPDIR", scene.path("tmp"));
    command.current_dir(scene.dir());
    command
}

/// A shell script as a job; `$1` is the path of `kc-leaf`, `$2` of `kc-ignore`.
pub(crate) fn script(owner: &Owner, scene: &Scene, text: &str) -> Command {
    let mut command = command(owner, scene, "sh");
    command.args(["-c", text, "sh"]).arg(bin("kc-leaf")).arg(bin("kc-ignore"));
    command
}

/// This executable in a role, in a process of its own.
pub(crate) fn host(scene: &Scene, role: &str) -> Program {
    let mut host = scene.command(here(), std::env::current_exe().unwrap());
    host.env(ROLE, role);
    host
}

/// Plays a role to its end in a process of its own: what it asserts is what is tested.
pub(crate) fn play(scene: &Scene, role: &str, limit: Duration) -> String {
    play_to_the_end(&mut host(scene, role), limit)
}

/// The same of a host that is to be started as this says.
pub(crate) fn play_to_the_end(role: &mut Program, limit: Duration) -> String {
    let mut running = Running::start(role);
    running.close_stdin();
    let output = running.stdout.read_to_end(limit);
    let errors = running.stderr.read_to_end(SOON);
    let status = running.wait(SOON);
    let good = status.is_some_and(|s| s.success()) && output.is_ok() && errors.is_ok();
    assert!(good, "{role:?}: {status:?} {output:?} {errors:?}");
    output.unwrap()
}

/// The guards and the leader of a job, found from the leader upwards.
#[derive(Debug)]
pub(crate) struct Guards {
    pub(crate) warden: PinnedProcess,
    pub(crate) keeper: PinnedProcess,
}

impl Guards {
    pub(crate) fn of(job: &Job) -> Self {
        Self::above(job.pid().unwrap())
    }

    /// The same by the number of the leader.
    pub(crate) fn above(leader: u32) -> Self {
        let leader = procs::stat(leader).expect("the leader is gone");
        let keeper = PinnedProcess::open(leader.parent, |s| s.comm == "killcord-keeper").expect("no keeper");
        let above = keeper.stat().expect("the keeper is gone").parent;
        let warden = PinnedProcess::open(above, |s| s.comm == "killcord-warden").expect("no warden");
        Self { warden, keeper }
    }
}

/// What this does, and how long it took.
pub(crate) fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (what(), begun.elapsed())
}

/// Whether whoever starts here has no audit session yet, so that a job can get one.
pub(crate) fn taggable() -> bool {
    std::fs::read_to_string("/proc/self/loginuid").is_ok_and(|uid| uid.trim() == u32::MAX.to_string())
}
