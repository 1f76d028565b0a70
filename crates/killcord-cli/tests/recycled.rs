//! Recycled numbers: a number that belonged to the job is an innocent process's when the job is ended.
//!
//! Promised (G5): the number of a leader that has exited, and that of a member that has died, each with the process
//! group and the session of that number, are given to an innocent process (`kc-occupy`, by `clone3` with
//! `set_tid`) while the job lives on. Then the job is ended: by TERM to `killcord run`, by its death, by its time,
//! by the death of both guards. The innocent one hears no signal, and the job is gone.
//!
//! On `group` it is the other way round: the leader's number is not free before the end, since the group is
//! signalled by it.
//!
//! Only root can choose a number, and root's killcord is the one that could hurt anybody: tests of an ordinary user
//! report a skip. Stored identities are not here, since nothing is stored yet.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails, in its helper functions too"
)]

use std::time::{Duration, Instant};

use killcord_testkit::{
    Guards, Host, Killcord, Need, Nest, PinnedProcess, Running, Scene, Signal, Who, bin, procs, skip,
};

const SOON: Duration = Duration::from_secs(10);
const TWO: Duration = Duration::from_secs(2);
/// How long leftovers have to end by themselves.
const DRAIN: Duration = Duration::from_millis(200);
/// How long the innocent one lives, which is longer than any of the ends takes.
const INNOCENT: &str = "5";
/// Others may get the number first; then it is tried again with another job.
const ATTEMPTS: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Term,
    OwnerKilled,
    Timeout,
    GuardsKilled,
}

const ENDS: [End; 4] = [End::Term, End::OwnerKilled, End::Timeout, End::GuardsKilled];

/// Whose number is given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Leader,
    Member,
}

/// Both daemons lead sessions of their own, so that no group of the leader's is left when it goes.
const SCRIPT: &str =
    "setsid \"$0\" stay 60 & setsid \"$0\" go 60 & until [ -e \"$D/exit\" ]; do sleep .02; done";

/// One job, one end; false when the number was not to be had in time.
fn attempt(boundary: &str, of: Of, end: End) -> bool {
    let scene = Scene::new();
    let mut command = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, Who::Root, boundary);
    command.args(["--leftovers", "keep"]);
    if end == End::Timeout {
        command.args(["--timeout", "2"]);
    }
    command.args(["--", "sh", "-c", SCRIPT]).arg(bin("kc-leaf"));
    let mut nest = Nest::start(&command);
    scene.wait_names(&["stay", "go"], SOON);
    let guards = Guards::find(nest.program.pid, SOON);
    let leader = guards.leader.unwrap();
    let pinned = scene.pin();
    let number = match of {
        Of::Leader => {
            std::fs::write(scene.path("exit"), "").unwrap();
            leader.pid
        }
        Of::Member => {
            let member = pinned.get("go").unwrap();
            member.kill(Signal::KILL).unwrap();
            member.pid
        }
    };
    let mut innocent = Running::start(scene.command(Who::Root, bin("kc-occupy")).args([
        &number.to_string(),
        INNOCENT,
        "--group",
    ]));
    let there = innocent.stdout.expect(&format!("ok {number} "), SOON + SOON);
    if there.is_err() || !pinned.get("stay").unwrap().is_alive() {
        return false;
    }
    assert_eq!(procs::stat(number).map(|s| (s.group, s.session)), Some((number, number)));
    let guards = [guards.warden, guards.keeper];
    match end {
        End::Term => nest.program.kill(Signal::TERM).unwrap(),
        End::OwnerKilled => nest.program.kill(Signal::KILL).unwrap(),
        End::Timeout => {}
        End::GuardsKilled => {
            guards.iter().flatten().for_each(|guard| guard.kill(Signal::STOP).unwrap());
            // The init of a namespace may be gone with the warden.
            guards.iter().flatten().for_each(|guard| drop(guard.kill(Signal::KILL)));
        }
    }
    let what = format!("{boundary} {of:?} {end:?}");
    nest.wait_empty(TWO + TWO).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(innocent.wait(Duration::ZERO).is_none(), "{what}: {}", innocent.stdout.text());
    // To the end of its life, so that nothing that comes late is missed.
    let status = innocent.wait(SOON).unwrap();
    assert_eq!(status.code(), Some(0), "{what}: {}", innocent.stdout.text());
    true
}

fn nobody_is_hurt(of: Of) {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let cells: Vec<_> = Host::cells().into_iter().filter(|(who, _)| *who == Who::Root).collect();
    std::thread::scope(|scope| {
        for (_, boundary) in &cells {
            for end in ENDS {
                scope.spawn(move || {
                    let met = (0..ATTEMPTS).any(|_| attempt(boundary, of, end));
                    assert!(met, "{boundary} {of:?} {end:?}: the number was never to be had in time");
                });
            }
        }
    });
}

#[test]
fn heavy_the_number_of_a_leader_that_exited_belongs_to_whoever_has_it() {
    nobody_is_hurt(Of::Leader);
}

#[test]
fn heavy_the_number_of_a_member_that_died_belongs_to_whoever_has_it() {
    nobody_is_hurt(Of::Member);
}

#[test]
fn on_group_the_leaders_number_is_not_free_before_the_end() {
    for who in Who::here() {
        let scene = Scene::new();
        let mut command = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, *who, "group");
        let script = "\"$0\" stay 60 & until [ -e \"$D/exit\" ]; do sleep .02; done";
        command.args(["--leftovers", "keep", "--", "sh", "-c", script]).arg(bin("kc-leaf"));
        let mut nest = Nest::start(&command);
        scene.wait_names(&["stay"], SOON);
        let leader = Guards::find(nest.program.pid, SOON).leader.unwrap();
        let stay = scene.pin();
        std::fs::write(scene.path("exit"), "").unwrap();
        assert!(leader.wait_gone(SOON));
        // The member is still there, and the number is still the leader's: also when the keeper has seen all of its end,
        // for which it takes the drain of 0.2 s.
        let seen = Instant::now();
        while seen.elapsed() < 3 * DRAIN {
            let zombie = leader.stat().unwrap();
            assert_eq!((zombie.state, zombie.group), ('Z', leader.pid));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(stay.alive().len(), 1);
        nest.program.kill(Signal::TERM).unwrap();
        // By the member's end, which is not the keeper's child, and not by the grace of 5 s.
        nest.wait_empty(TWO).unwrap();
    }
}

#[test]
fn a_signal_to_the_innocent_one_is_noticed() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    let mut leaf = Running::start(scene.command(Who::Root, bin("kc-leaf")).args(["first", "60"]));
    let number = leaf.pid();
    leaf.kill(Signal::KILL);
    leaf.wait(SOON).unwrap();
    let mut innocent = Running::start(scene.command(Who::Root, bin("kc-occupy")).args([
        &number.to_string(),
        INNOCENT,
        "--group",
    ]));
    innocent.stdout.expect(&format!("ok {number} "), SOON + SOON).unwrap();
    let process = PinnedProcess::open(number, |found| found.comm == "kc-innocent").unwrap();
    process.kill(Signal::CONT).unwrap();
    assert_eq!(innocent.wait(SOON).unwrap().code(), Some(128 + Signal::CONT.as_raw()));
}
