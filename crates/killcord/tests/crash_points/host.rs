//! The owner: a program that links the library, with three jobs one after the other.

use killcord::{Boundary, Choice, Error, Ladder, Owner, Verdict};
use killcord_testkit::life;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// In the environment, by which this executable becomes the host.
pub(crate) const BOUNDARY: &str = "KILLCORD_TEST_HOST";

/// What is done while the second job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Its leader is told to exit.
    Whole,
    LosesKeeper,
    LosesBoth,
    LosesWarden,
    LosesOwner,
}

pub(crate) const SCENARIOS: [Scenario; 5] = [
    Scenario::Whole,
    Scenario::LosesKeeper,
    Scenario::LosesBoth,
    Scenario::LosesWarden,
    Scenario::LosesOwner,
];

/// A member in a session of its own, and one that only KILL ends.
const TREE: &str = "echo ran >\"$D/ran\"; setsid ./leaf.sh apart 50 </dev/null & ./ignore.sh 50 </dev/null & \
                    read line <\"$D/go\"; echo over >\"$D/over\"; exit 7";

fn directory() -> PathBuf {
    std::env::var_os("D").unwrap().into()
}

/// Writes a line for the test, in one write.
fn say(line: &str) {
    let said = std::fs::OpenOptions::new().append(true).create(true).open(directory().join("said"));
    said.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// In the environment, by which this executable is another owner of a single job, with this boundary.
pub(crate) const ONCE: &str = "KILLCORD_TEST_ONCE";
/// And by which it sweeps.
pub(crate) const SWEEP: &str = "KILLCORD_TEST_SWEEP";

/// Plays what the environment says, and does not return then.
pub(crate) fn play() {
    if std::env::var_os(SWEEP).is_some() {
        let swept = killcord::sweep(None, killcord::SweepOptions::default(), |_| {}).unwrap();
        assert_eq!(swept.failed, 0, "{swept:?}");
        std::process::exit(0);
    }
    if let Some(boundary) = std::env::var_os(ONCE) {
        let boundary: Boundary = boundary.to_str().unwrap().parse().unwrap();
        let owner = Owner::builder().boundary(Choice::Exactly(boundary)).build().unwrap();
        let end = owner.command("sh").args(["-c", "exit 5"]).spawn().unwrap().wait().unwrap();
        std::process::exit(end.status.map_or(-1, killcord::ExitStatus::as_shell));
    }
    let Some(boundary) = std::env::var_os(BOUNDARY) else { return };
    life::arm();
    let boundary: Boundary = boundary.to_str().unwrap().parse().unwrap();
    // A library's host has threads.
    std::thread::spawn(|| life::sleep_until(life::now_ms() + 60_000));
    let owner =
        Owner::builder().boundary(Choice::Exactly(boundary)).grace(Duration::from_millis(300)).build();
    let owner = match owner {
        Ok(owner) => owner,
        Err(e) => {
            say(&format!("no owner: {e}"));
            std::process::exit(1);
        }
    };
    for (name, script) in [("first", "exit 4"), ("second", TREE), ("third", "exit 5")] {
        say(&format!("{name} begins"));
        say(&format!("{name}: {}", one(&owner, script)));
    }
    drop(owner);
    say("over");
    std::process::exit(0);
}

/// One job to its end.
fn one(owner: &Owner, script: &str) -> String {
    let mut command = owner.command("./leader");
    command.args(["-c", script]);
    let mut job = match command.spawn() {
        Ok(job) => job,
        Err(e) if e.nothing_ran() => return format!("nothing ran: {e}"),
        Err(e @ Error::Unclear { .. }) => return format!("unclear: {e}"),
        Err(e) => return format!("failed: {e}"),
    };
    let end = loop {
        match job.wait_timeout(Duration::from_secs(20)) {
            Ok(Some(end)) => break end,
            // More than anything here takes.
            Ok(None) => drop(job.end(Ladder::now())),
            Err(e) => return format!("failed: {e}"),
        }
    };
    let verdict = match &end.verdict {
        Verdict::Empty(_) => "empty",
        Verdict::Unconfirmed(_) => "unconfirmed",
        Verdict::Survivors(_) => "survivors",
        Verdict::Refused => "refused",
    };
    format!("{} {verdict}", end.status.map_or(-1, killcord::ExitStatus::as_shell))
}
