//! The leader between its clone and its exec.
//!
//! Promised (G2): a leader whose keeper died before it could arm its death signal executes nothing. To be there at that
//! instant it is born in a frozen cgroup: it exists, and has not made one step.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_sys::leader::{Plan, Session, Stages};
use killcord_sys::{cgroup::Own, child, descriptors, process};
use killcord_testkit::{Host, Need, Running, Who, skip};
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const STAGES: Stages = Stages {
    leader: 10,
    cgroup: 1,
    session: 2,
    terminal: 3,
    descriptors: 4,
    directory: 5,
    rlimits: 6,
    nice: 7,
    signals: 8,
    exec: 9,
};
/// By which this executable is the keeper of the test of that name.
const KEEPER: &str = "KILLCORD_TEST_FROZEN";

/// A cgroup in which nobody runs, until it is thawed. Whoever is in it ends with it.
struct Frozen {
    own: Own,
    name: String,
}

impl Frozen {
    fn new(test: &str) -> Self {
        let (own, name) = (Own::find(None).unwrap(), format!("killcord-test-{test}-{}", process::own_pid()));
        own.make(&name).unwrap();
        let frozen = Self { own, name };
        fs::write(frozen.file("cgroup.freeze"), "1").unwrap();
        frozen
    }

    fn file(&self, name: &str) -> PathBuf {
        self.own.path.join(&self.name).join(name)
    }

    fn thaw(&self) {
        fs::write(self.file("cgroup.freeze"), "0").unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Usually nobody is in it any more.
        let _ = fs::write(self.file("cgroup.kill"), "1");
        self.thaw();
        let deadline = std::time::Instant::now() + SOON;
        while self.own.remove(&self.name).is_err() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The keeper: makes a leader in the cgroup that it is told of, says its number, and lives until its input ends.
fn be_the_keeper(name: &str) {
    let null = descriptors::null().unwrap();
    let (null, directory) = (null.as_fd(), descriptors::directory(c"/").unwrap());
    let dir = Own::find(None).unwrap().open(name).unwrap();
    let plan = Plan {
        paths: vec![c"/bin/sh".to_owned()],
        argv: [c"sh", c"-c", c"exit 7"].map(ToOwned::to_owned).to_vec(),
        env: Vec::new(),
        standard: [null; 3],
        extra: Vec::new(),
        directory: directory.as_fd(),
        umask: None,
        rlimits: Vec::new(),
        nice: None,
        oom_score_adj: 0,
        session: Session::Own,
        enter: Vec::new(),
        born_in: Some(dir.as_fd()),
        ignored: Vec::new(),
        under_init: false,
        stages: STAGES,
    };
    let leader = plan.start().unwrap();
    println!("leader {}.", leader.pid);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    println!("ended {:?}.", child::wait_for(leader.pid).unwrap());
}

/// Starts a keeper with a leader that has not made one step, and gives the leader's number.
fn keeper(test: &str, frozen: &Frozen) -> (Running, u32) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(KEEPER, &frozen.name);
    let mut keeper = Running::start(&mut command);
    let said = keeper.stdout.expect(".\n", SOON).unwrap();
    let number = said.lines().find_map(|line| line.strip_prefix("leader ")).unwrap();
    (keeper, number.trim_end_matches('.').parse().unwrap())
}

#[test]
fn a_leader_whose_keeper_died_before_the_death_signal_was_armed_executes_nothing() {
    let test = "a_leader_whose_keeper_died_before_the_death_signal_was_armed_executes_nothing";
    if let Some(name) = std::env::var_os(KEEPER) {
        return be_the_keeper(name.to_str().unwrap());
    }
    let need = Need::Cgroup(Who::here()[0]);
    if !Host::get().has(need) {
        skip!(need);
    }
    // As the warden is.
    process::become_subreaper().unwrap();
    let frozen = Frozen::new("orphan");
    let (mut dies, leader) = keeper(test, &frozen);
    dies.kill(killcord_testkit::Signal::KILL);
    assert!(dies.wait(SOON).is_some());
    frozen.thaw();
    assert_eq!(child::wait_for(leader).unwrap(), child::Wait::Child(leader, child::Change::Exited(127)));

    // The same leader of a keeper that lives executes its program.
    let frozen = Frozen::new("child");
    let (mut lives, leader) = keeper(test, &frozen);
    frozen.thaw();
    lives.close_stdin();
    let said = lives.stdout.expect("ended ", SOON).and_then(|_| lives.stdout.read_to_end(SOON)).unwrap();
    let expected = child::Wait::Child(leader, child::Change::Exited(7));
    assert!(said.contains(&format!("ended {expected:?}.")), "{said}");
}
