//! What has to be so after a kill.

use crate::round::{Kill, Round};
use crate::scenario::{ADOPTED, Scenario};
use killcord_testkit::claims::TEN;
use killcord_testkit::victims::Victim;
use killcord_testkit::{Alive, Emptied, report};
use std::time::{Duration, Instant};

/// What a killed guard or leader may make of an exit status: KILL, or TERM of a short ladder.
const KILLED: [i32; 2] = [137, 143];
/// The kernel's doing, and not a ladder's.
const AT_ONCE: Duration = Duration::from_millis(500);

/// All faults after a kill: none, that is.
pub(crate) fn check(round: &mut Round<'_, '_>, kill: &Kill) -> Vec<String> {
    let mut faults: Vec<String> = kill.trouble.iter().cloned().collect();
    if swept_only(round, kill) {
        faults.extend(leader_is_gone(kill));
        faults.extend(sweep(round));
    }
    faults.extend(end(round, kill));
    faults.extend(on_disk(round, !kill.hit_a_guard()));
    faults
}

/// The same without the sweep that ends what all three guards leave.
pub(crate) fn check_without_sweep(round: &mut Round<'_, '_>, kill: &Kill) -> Vec<String> {
    assert!(swept_only(round, kill), "{}: {:?}", round.name(), kill.victims);
    leader_is_gone(kill).into_iter().chain(end(round, kill)).collect()
}

/// All faults of a run that nobody was killed in but by its scenario.
pub(crate) fn check_undisturbed(round: &mut Round<'_, '_>) -> Vec<String> {
    let until = Instant::now() + TEN;
    round.go_on(true, until, |_| {});
    let mut faults = Vec::new();
    match round.nest.wait_empty(Duration::from_secs(1)) {
        Ok(all) if round.scenario.codes().contains(&all.code) => {}
        Ok(all) => faults.push(format!("{all:?}")),
        Err(e) => faults.push(e),
    }
    if round.scenario == Scenario::Released && !round.scene.path("whole").exists() {
        faults.push("what was let go did not live to its end".to_owned());
    }
    faults.extend(round.end_stop().err());
    faults.extend(on_disk(round, round.scenario != Scenario::LosesOwner));
    faults
}

/// Whether the death table leaves the rest to the next sweep.
fn swept_only(round: &Round<'_, '_>, kill: &Kill) -> bool {
    kill.nobody_guards && round.cell.boundary != "namespace" && round.scenario.runs_a_job()
}

fn leader_is_gone(kill: &Kill) -> Option<String> {
    let leader = kill.leader.as_ref()?;
    let left = AT_ONCE.saturating_sub(kill.since.elapsed());
    (!leader.wait_gone(left)).then(|| format!("the leader is left: {:?}", leader.stat()))
}

fn sweep(round: &Round<'_, '_>) -> Option<String> {
    let swept = round.cell.state.sweep(&[]);
    (swept["failed"] != 0).then(|| format!("a sweep failed: {swept}"))
}

/// To the end of everything, within the bound.
fn end(round: &mut Round<'_, '_>, kill: &Kill) -> Vec<String> {
    let mut faults = Vec::new();
    let owner_lives = !kill.victims.contains(&Victim::Owner) && round.scenario != Scenario::LosesOwner;
    let lives_by_right = kill.let_go || !kill.hit_a_guard();
    let limit = round.limit(kill.hit_a_guard(), lives_by_right);
    let mut alive: Vec<Alive> = Vec::new();
    round.go_on(!kill.hit_a_guard(), kill.since + limit, |round| {
        if owner_lives {
            alive = round.scene.alive();
        }
    });
    match round.nest.wait_empty((kill.since + limit).saturating_duration_since(Instant::now()).max(AT_ONCE)) {
        Err(e) => faults.push(format!("somebody is left: {e}")),
        Ok(all) => {
            if all.stderr.contains("panicked at") {
                faults.push(format!("a panic: {}", all.stderr));
            }
            if owner_lives {
                faults.extend(truth(round, kill, &all, &alive));
            }
        }
    }
    faults.extend(let_go(round, kill));
    match round.end_stop() {
        Ok(Some(0)) if !round.scene.alive().is_empty() => {
            faults.push(format!("killcord stop said that it is over: {:?}", round.scene.alive()));
        }
        Ok(_) => {}
        Err(e) => faults.push(e),
    }
    faults
}

/// What an owner says that lives is so.
fn truth(round: &Round<'_, '_>, kill: &Kill, all: &Emptied, alive: &[Alive]) -> Vec<String> {
    let mut faults = Vec::new();
    let there = |name: &str| round.scene.path(name).exists();
    let lost = kill.victims.iter().any(|v| *v != Victim::Sweeper);
    let natural = round.scenario.codes().contains(&all.code);
    let nothing_ran = all.code == 125 && !there("ran");
    if !(natural || lost && (KILLED.contains(&all.code) || nothing_ran)) {
        faults.push(format!("its exit status is {}: {all:?}", all.code));
    }
    if all.code == 7 && !there("over") {
        faults.push(format!("it says that the program ended, and that did not: {all:?}"));
    }
    if !round.scenario.runs_a_job() {
        return faults;
    }
    let report = report(&round.scene);
    if report["exit_status"] != all.code {
        faults.push(format!("status {} and report {report}", all.code));
    }
    if report["verdict"]["kind"] == "empty" && !alive.is_empty() {
        faults.push(format!("it said empty while there were {alive:?}: {report}"));
    }
    faults
}

/// What was let go lives to its own end.
fn let_go(round: &Round<'_, '_>, kill: &Kill) -> Option<String> {
    let ended = kill.let_go && !round.scene.path("whole").exists();
    ended.then(|| "what was let go was ended".to_owned())
}

/// Nothing is left: no claim, at once or after a sweep, no cgroup, nobody of an older job; and it all works again.
fn on_disk(round: &mut Round<'_, '_>, at_once: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let state = &round.cell.state;
    let ours = [round.cell.neighbours_claim()];
    // The claim of a job that was let go outlives its owner, and a sweep beside a start is not waited for.
    let waits = !matches!(round.scenario, Scenario::Released | Scenario::SweepsBeside);
    if at_once && waits && round.scenario.runs_a_job() && state.names() != ours {
        faults.push(format!("left in the state directory: {:?}", state.names()));
    }
    faults.extend(sweep(round));
    if state.names() != ours {
        faults.push(format!("left in the state directory by a sweep: {:?}", state.names()));
    }
    if let Some(left) = &mut round.left
        && let Err(e) = left.wait_empty(TEN)
    {
        faults.push(format!("left of the job whose guards were killed: {e}"));
    }
    if round.scenario == Scenario::Adopts {
        let again = killcord_testkit::run(&mut round.scenario.command(round.cell, &round.scene), TEN);
        let left = std::fs::read_dir(round.scene.path("tmp")).unwrap().flatten();
        let left: Vec<_> =
            left.map(|e| e.file_name()).filter(|n| n.to_string_lossy().starts_with(ADOPTED)).collect();
        if again.code() != 0 || !left.is_empty() {
            faults.push(format!("left of what was adopted: {left:?} {again:?}"));
        }
    }
    let leaves = round.corner.leaves();
    if !leaves.is_empty() {
        faults.push(format!("cgroups are left: {leaves:?}"));
    }
    let again = killcord_testkit::run(&mut state.killcord(&["run", "--", "sh", "-c", "exit 5"]), TEN);
    if again.code() != 5 || !again.stderr.is_empty() || state.names() != ours {
        faults.push(format!("it does not work again: {again:?} {:?}", state.names()));
    }
    faults
}
