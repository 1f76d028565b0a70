//! Who must hear of nothing (G5): strangers, the jobs of neighbours with the same state directory, and the statuses of
//! this process's own children (G12). Each lives for some seconds by its own clock, and is replaced by another one.

use crate::campaign::Campaign;
use crate::dice::Dice;
use killcord_testkit::{Scene, Who, bin, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread::Scope;
use std::time::{Duration, Instant};

/// The longest life of one.
const LONGEST: u64 = 20;

/// Begins with all of them.
pub(crate) fn stand_by<'s>(scope: &'s Scope<'s, '_>, campaign: &'s Campaign, until: Instant) {
    for number in 0..2 {
        scope.spawn(move || again(campaign, until, number, stranger));
    }
    for (number, cell) in campaign.cells.iter().enumerate().filter(|(_, (_, boundary))| *boundary != "auto") {
        let number = 10 + number as u32;
        scope.spawn(move || again(campaign, until, number, |seconds| neighbour(campaign, *cell, seconds)));
    }
    scope.spawn(move || {
        let mut code = 0;
        while Instant::now() < until {
            let status = Command::new("sh").args(["-c", &format!("exit {code}")]).status().unwrap();
            if status.code() != Some(code) {
                campaign.tally.fault(u32::MAX, &format!("an own child's status is {status}, not {code}"));
            }
            campaign.tally.note("own children with their right status", 1);
            code = (code + 1) % 128;
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

fn again(campaign: &Campaign, until: Instant, number: u32, live: impl Fn(u64) -> Result<(), String>) {
    let mut dice = Dice::new(campaign.seed, u32::MAX - 1 - number);
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now()).as_secs();
        let seconds = 1 + dice.below(LONGEST.min(left.max(1)));
        match catch_unwind(AssertUnwindSafe(|| live(seconds))) {
            Ok(Ok(())) => campaign.tally.note("bystanders that lived their time", 1),
            Ok(Err(what)) => campaign.tally.fault(u32::MAX, &format!("a bystander: {what}")),
            Err(_) => campaign.tally.fault(u32::MAX, "a bystander does not end"),
        }
    }
}

/// A process that has nothing to do with killcord, named like one of its jobs' and with a job's name that is nobody's: not
/// even that of another test.
fn stranger(seconds: u64) -> Result<(), String> {
    let scene = Scene::new();
    let mut command = scene.command(Who::User, bin("kc-leaf"));
    command.args(["stranger", &seconds.to_string()]).env("KILLCORD_JOB", "57a71de257a71de257a71de257a71de2");
    ended_by_itself(&mut command, seconds, true)
}

/// A job that nothing is done to.
fn neighbour(campaign: &Campaign, (who, boundary): (Who, &str), seconds: u64) -> Result<(), String> {
    let scene = Scene::new();
    let mut command = campaign.program(&scene, who, campaign.killcord.path());
    command.args(["run", "--boundary", boundary, "--"]).arg(bin("kc-leaf"));
    command.args(["neighbour", &seconds.to_string()]);
    // On `group` it says once more what is not promised.
    ended_by_itself(&mut command, seconds, boundary != "group")
        .map_err(|e| format!("{who:?} {boundary}: {e}"))
}

/// With 0, at its time, and (`quietly`) without a word. A signal would end it otherwise and before.
pub(crate) fn ended_by_itself(command: &mut Command, seconds: u64, quietly: bool) -> Result<(), String> {
    let done = run(command, Duration::from_secs(seconds + 40));
    let early = done.elapsed < Duration::from_secs(seconds);
    if done.code() == 0 && !early && (done.stderr.is_empty() || !quietly) {
        Ok(())
    } else {
        Err(format!("{done:?}"))
    }
}
