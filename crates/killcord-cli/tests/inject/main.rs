//! Every system call of a start, a run and an end, as the place of a death or of a failure.
//!
//! Promised (G1, G2, G4): whoever of owner, warden, keeper and the leader before its exec is killed at whichever
//! system call, nothing is left within 2 s, no stranger is hurt, what is said is true, and nothing hangs. The same
//! where a system call fails with an error that it can have here: then the job runs as if nothing had been, or by what
//! else there is, or nothing ran and that is said. Afterwards a sweep leaves nothing.
//!
//! Not promised: that what the runtime of the language or the C library asks for before `main` may be refused; on
//! `group`, that whoever has left the group is ended, so that nobody leaves it here but in the negative control.
//!
//! How it aims: `kc-inject` traces the processes of `killcord run`, tells them apart by their descent, and kills one
//! at its n-th system call, or has that one call fail. `strace --inject` cannot do so: it counts for each followed process by
//! itself, and would hit all guards. After the one hit nobody is traced any more, so that times are those of killcord.
//!
//! The ordinary tests are a sample, chosen by `KILLCORD_SEED`. All of it, for some hours:
//!
//!     KILLCORD_CAMPAIGN=full cargo nextest run --profile campaign -p killcord-cli --features test-hooks \
//!         -E 'binary(inject)' --no-capture
//!
//! `KILLCORD_INJECT=TEXT` tries only the cases whose line contains the text: a whole line, as it is printed for a
//! fault, tries that one again.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails, in its helper functions too"
)]

mod cycle;
mod judge;
mod plan;
mod worker;

use cycle::{Aim, ERRNOS, Ends, Members, Place, Role};
use killcord_testkit::claims::TEN;
use killcord_testkit::{Host, Need, Scene, Who, bin, run, skip};
use plan::Plan;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

#[test]
fn heavy_whoever_is_killed_at_a_system_call_leaves_nothing_and_no_untrue_word() {
    if cfg!(not(target_arch = "x86_64")) {
        skip!(Need::Other("kc-inject knows the registers of x86_64 only"));
    }
    Plan::of_kills().carry_out("kills at system calls", "kills");
}

#[test]
fn heavy_a_system_call_that_fails_leaves_nothing_and_no_untrue_word() {
    if cfg!(not(target_arch = "x86_64")) {
        skip!(Need::Other("kc-inject knows the registers of x86_64 only"));
    }
    Plan::of_errors().carry_out("failing system calls", "errors");
}

/// Tries one call of one process, in each of its places and with each error, where that was once a fault.
fn every(boundary: &'static str, ends: Ends, role: Role, call: &str) {
    let place = Place { who: Who::here()[0], boundary, ends };
    let counted = cycle::run(place, &Aim::count(), Members::All, TEN);
    let of_role = |(who, name): &&(String, String)| who == role.descent(place) && name == call;
    let calls = counted.calls.iter().filter(of_role).count();
    assert!(calls > 0, "{role:?} makes no {call} on {boundary}: {counted:?}");
    for nth in 1..=calls {
        for errno in ERRNOS {
            let aim = Aim::error(place, role, call, nth, errno);
            let outcome = cycle::run(place, &aim, Members::All, TEN + TEN);
            assert_eq!(judge::faults(place, &aim, &outcome), [""; 0], "{place} {}: {outcome:?}", aim.0);
        }
    }
}

#[test]
fn a_job_is_ended_though_the_process_table_could_not_be_opened_when_it_began() {
    every("tree", Ends::ByTimeout, Role::Keeper, "open");
}

#[test]
fn a_leader_that_was_made_is_not_made_again_whatever_fails_after_it() {
    every("group", Ends::ByItself, Role::Keeper, "rt_sigprocmask");
}

#[test]
fn a_leader_that_cannot_tie_its_life_to_its_keepers_says_so() {
    every("tree", Ends::ByItself, Role::Leader, "prctl");
}

/// What left the group outlives everything on `group`: the very look that passes elsewhere says so.
#[test]
fn the_same_look_finds_what_a_weak_boundary_leaves() {
    let place = Place { who: Who::here()[0], boundary: "group", ends: Ends::ByItself };
    let escapes = Members::WithEscapee;
    let outcome = cycle::run(place, &Aim::count(), escapes, std::time::Duration::from_secs(8));
    let faults = judge::faults(place, &Aim::count(), &outcome);
    assert!(faults.iter().any(|fault| fault.contains("left")), "{faults:?}");
    assert!(outcome.left.iter().any(|left| left.contains("kc-payload")), "{:?}", outcome.left);
}

/// And an untrue word is noticed as well: a report that says more than there was.
#[test]
fn an_untrue_word_is_noticed() {
    let place = Place { who: Who::here()[0], boundary: "tree", ends: Ends::ByItself };
    let limit = std::time::Duration::from_secs(10);
    let outcome = cycle::run(place, &Aim::count(), Members::All, limit);
    assert_eq!(judge::faults(place, &Aim::count(), &outcome), [""; 0], "{outcome:?}");
    let told = |lie: &str, tell: fn(&mut cycle::Outcome)| {
        let mut told = outcome.clone();
        tell(&mut told);
        assert_ne!(judge::faults(place, &Aim::count(), &told), [""; 0], "{lie}");
    };
    told("a success", |outcome| outcome.code = 0);
    told("nothing ran", |outcome| outcome.code = 125);
    told("a guard's death", |outcome| outcome.code = 137);
    told("ended by itself", |outcome| outcome.stdout.clear());
    told("started once", |outcome| outcome.stdout.push_str("ready\n"));
    told("empty", |outcome| outcome.alive_at_end.push("daemon".to_owned()));
    told("in time", |outcome| outcome.took += TEN);
    told("nothing on disk", |outcome| outcome.after_sweep.push("c01234567".to_owned()));
}

/// The injector sees the calls that `strace` sees, of a program whose calls are always the same.
#[test]
fn the_injector_counts_what_strace_counts() {
    if !Host::get().has(Need::Program("strace")) {
        skip!(Need::Program("strace"));
    }
    let scene = Scene::new();
    let by_strace = scene.path("strace");
    let program = [bin("kc-leaf").into_os_string(), "one".into(), "0".into()];
    let mut strace = scene.command(Who::here()[0], "strace");
    run(strace.args(["-f", "-o"]).arg(&by_strace).args(&program), TEN);
    let mut inject = scene.command(Who::here()[0], bin("kc-inject"));
    run(inject.arg(scene.path("inject")).args(["count", "--"]).args(&program), TEN);
    let mut seen: BTreeMap<String, i64> = BTreeMap::new();
    for line in fs::read_to_string(by_strace).unwrap().lines() {
        // `PID call(...`, and lines about the end.
        let call = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
        if let Some((call, _)) =
            call.filter(|(call, _)| call.chars().all(|c| c.is_alphanumeric() || c == '_'))
        {
            *seen.entry(call.to_owned()).or_default() += 1;
        }
    }
    // The exec by which it becomes the program is the tracer's.
    *seen.entry("execve".to_owned()).or_default() -= 1;
    for (_, call) in plan::calls(&scene.path("inject")) {
        *seen.entry(call).or_default() -= 1;
    }
    seen.retain(|_, difference| *difference != 0);
    assert!(seen.is_empty(), "{seen:?}");
}

/// One process dies, and not another; one call fails, and not the next: seen in a program that tells.
#[test]
fn the_injector_hits_the_one_it_aims_at() {
    let scene = Scene::new();
    let script = "mkdir -p a; mkdir -p b; mkdir -p c; echo $?; (mkdir -p d; echo never); echo $?";
    let inject = |aim: &str| {
        let mut command = Command::new(bin("kc-inject"));
        command.current_dir(scene.dir()).arg(scene.path("log")).arg(aim);
        run(command.args(["--", "sh", "-c", script]), TEN)
    };
    // `sh` executes mkdir in a child; it is let go there, and has no call to be hit any more.
    let whole = inject("0.9:*:1:kill");
    assert_eq!((whole.code(), whole.stdout.as_str()), (0, "0\nnever\n0\n"), "{whole:?}");
    let subshell = inject("0.4:*:1:kill");
    assert_eq!((subshell.code(), subshell.stdout.lines().last()), (0, Some("137")), "{subshell:?}");
    // Every try along the `PATH`.
    let none = inject("0.2:execve:1:always=1");
    assert!(
        none.stderr.contains("mkdir: Operation not permitted") && none.stdout.contains("0\nnever"),
        "{none:?}"
    );
    assert_eq!(inject("0:*:9:kill").code(), 137);
    let hits = fs::read_to_string(scene.path("log")).unwrap();
    let hits: Vec<&str> = hits.lines().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
    assert!(hits[0].starts_with("0.4 ") && hits[1] == "0.2 execve", "{hits:?}");
    assert!(hits[hits.len() - 1].starts_with("0 "), "{hits:?}");
}
