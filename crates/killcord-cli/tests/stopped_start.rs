//! A leader that is stopped between its clone and its exec, by anybody who can.
//!
//! Promised (G1, G2): it holds up neither an order to end nor the death of the owner or of a guard, and nothing is
//! left. The same leader continued runs the program as if nothing had been.
//!
//! The moment is met by chance: the leader is stopped as soon as it is seen, and a round counts when it had not
//! executed its program then, which its name says. A test goes on until it has met enough of them, or its time is
//! over; how many there were is printed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use killcord_testkit::{Corner, Host, Killcord, Nest, PinnedProcess, Scene, Signal, bin, procs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is promised.
const BOUND: Duration = Duration::from_secs(2);
/// More than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// So long a test looks for the moment, and so often it wants to meet it.
const BUDGET: Duration = Duration::from_secs(20);
const ENOUGH: u32 = 60;

fn only_child(parent: u32) -> Option<PinnedProcess> {
    let first = procs::children(parent).into_iter().next()?;
    PinnedProcess::open(first, |child| child.parent == parent)
}

/// The guards and the leader of a start that is under way.
struct Caught {
    warden: PinnedProcess,
    keeper: PinnedProcess,
    leader: PinnedProcess,
}

/// Looks for the leader without a pause and stops it at first sight; `None` when it had executed its program.
fn catch(nest: &Nest) -> Option<Caught> {
    let run = &nest.program;
    let (mut warden, mut keeper) = (None, None);
    while run.is_alive() {
        warden = warden.or_else(|| only_child(run.pid));
        keeper = keeper.or_else(|| warden.as_ref().and_then(|w: &PinnedProcess| only_child(w.pid)));
        let Some(leader) = keeper.as_ref().and_then(|k: &PinnedProcess| only_child(k.pid)) else { continue };
        leader.kill(Signal::STOP).ok()?;
        // The stop takes effect before it runs on; then its name stays as it is.
        let deadline = Instant::now() + SOON;
        let stopped = loop {
            let stat = leader.stat()?;
            if stat.state == 'T' || stat.is_dead() || Instant::now() >= deadline {
                break stat;
            }
        };
        let early = stopped.state == 'T' && stopped.comm == "killcord-keeper";
        return early.then_some(Caught { warden: warden?, keeper: keeper?, leader });
    }
    None
}

/// What is done with a leader that was caught; `None` when the job is to end by itself.
type Deed = fn(&Nest, &Caught);

/// Plays rounds of a deed in every cell until enough leaders were caught.
fn play(deed: Deed, expected: &[i32]) {
    let cells = Host::cells();
    let (begun, mut met, mut rounds) = (Instant::now(), 0, 0);
    while met < ENOUGH && begun.elapsed() < BUDGET {
        let (who, boundary) = cells[rounds % cells.len()];
        rounds += 1;
        let scene = Scene::new();
        let corner = if boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
        let mut command = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, who, boundary);
        // The grace is longer than the bound: a ladder that stops at the stopped one does not pass.
        command
            .args(["--grace", "10", "--", "sh", "-c", "\"$0\" leaf 60 & echo ran; wait"])
            .arg(bin("kc-leaf"));
        let mut nest = Nest::start_in(&corner, &command);
        let Some(caught) = catch(&nest) else {
            // It was too late, and is stopped perhaps: that ends as well.
            let _ = nest.program.kill(Signal::KILL);
            let ended = nest.wait_empty(BOUND);
            assert!(ended.is_ok(), "too late in round {rounds}, {who:?} {boundary}: {ended:?}");
            continue;
        };
        met += 1;
        deed(&nest, &caught);
        let ended = nest.wait_empty(BOUND);
        let what = format!("round {rounds}, {who:?} {boundary}");
        assert!(ended.is_ok() && scene.alive().is_empty(), "{what}: {ended:?} {:?}", scene.alive());
        let ended = ended.unwrap();
        assert!(expected.contains(&ended.code), "{what}: {ended:?}");
        assert!(
            !caught.leader.is_alive() && !caught.keeper.is_alive() && !caught.warden.is_alive(),
            "{what}"
        );
        assert_eq!(corner.leaves(), Vec::<PathBuf>::new(), "{what}");
    }
    println!("met in {met} of {rounds} rounds");
    assert!(met >= 3, "met in {met} of {rounds} rounds: this tests too little");
}

#[test]
fn heavy_a_leader_stopped_before_exec_does_not_hold_up_term() {
    play(|nest, _| nest.program.kill(Signal::TERM).unwrap(), &[143]);
}

#[test]
fn heavy_a_leader_stopped_before_exec_ends_with_a_killed_owner() {
    play(|nest, _| nest.program.kill(Signal::KILL).unwrap(), &[137]);
}

#[test]
fn heavy_a_leader_stopped_before_exec_ends_with_a_killed_keeper() {
    play(|_, caught| caught.keeper.kill(Signal::KILL).unwrap(), &[137]);
}

#[test]
fn heavy_a_leader_stopped_before_exec_ends_with_a_killed_warden() {
    play(|_, caught| caught.warden.kill(Signal::KILL).unwrap(), &[137, 143]);
}

#[test]
fn heavy_a_leader_stopped_before_exec_and_continued_runs_its_program() {
    let go_on: Deed = |nest, caught| {
        caught.leader.kill(Signal::CONT).unwrap();
        let deadline = Instant::now() + SOON;
        while caught.leader.stat().is_some_and(|stat| stat.comm != "sh") {
            assert!(Instant::now() < deadline, "it does not go on");
            std::thread::yield_now();
        }
        nest.program.kill(Signal::TERM).unwrap();
    };
    play(go_on, &[143]);
}
