//! Killed between any two steps that leave something on disk.
//!
//! Promised (section 6): a crash at any of them leaves something that reads as "leave it alone" or "reclaim". The
//! program has named points (`hooks::point`, feature `test-hooks`); whichever of its processes comes there is killed.
//! Then everything of it goes, one more sweep leaves nothing, and a living owner beside it is untouched.
//!
//! The points `claim.*` and `job.*` are found in the source, so that a new one is covered on the day it is added; those
//! of the processes are in `crash_points`, and these once more, with every choice of whom to kill.

use killcord_testkit::claims::{State, TEN, assert_swept, dead, marker, run_whole};
use killcord_testkit::{Nest, Scene, Who, in_every_cell, points, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Those at which something has just been written or removed.
fn points() -> BTreeSet<String> {
    let on_disk = |point: &String| point.starts_with("claim.") || point.starts_with("job.");
    points::all().into_iter().filter(on_disk).collect()
}

#[test]
fn the_points_are_found_in_the_source() {
    let points = points();
    let known =
        ["claim.directory", "claim.marker", "claim.aside", "job.reserved", "job.released", "job.cleared"];
    assert!(known.iter().all(|name| points.contains(*name)) && points.len() >= 12, "{points:?}");
}

/// The same command, killed at a point; the file says whether it was.
fn killed_at(state: &State<'_>, point: &str, mut command: Command) -> (Command, PathBuf) {
    let killed = state.scene.path("killed");
    state.file(&killed, "");
    command.env("KILLCORD_TEST_KILL", point).env("KILLCORD_TEST_KILLED", &killed);
    (command, killed)
}

#[test]
fn whoever_is_killed_at_a_point_leaves_nothing_that_a_sweep_leaves() {
    in_every_cell(|who, boundary| {
        for point in points() {
            let scene = Scene::new();
            let state = State::new(env!("CARGO_BIN_EXE_killcord"), &scene, who);
            let mut lives = Nest::start(&state.shell(&["--boundary", boundary], "read line; exit 7"));
            let (claim, job) = state.started();
            // Each reaches all points: somebody is let go, and the owner that has nobody is over.
            let script = "setsid ./leaf.sh two 0.2 >/dev/null 2>&1 & ./leaf.sh one 0.1";
            let leftovers = if point == "job.released" { "release" } else { "end" };
            let command = state.shell(&["--boundary", boundary, "--leftovers", leftovers], script);
            let (command, killed) = killed_at(&state, &point, command);
            let all = run_whole(&command);
            let came = fs::read_to_string(killed).unwrap();
            assert!(!came.is_empty(), "{point}: nobody came there; {all:?}");
            let before = state.names();
            let swept = state.sweep(&[]);
            println!("{who:?} {boundary} {point}: code {}, left {before:?}", all.code());
            assert_eq!(swept["failed"], 0, "{point}: {swept:#}");
            assert_eq!(state.names(), [claim.file_name().unwrap().to_str().unwrap()], "{point}: {swept:#}");
            assert!(job.exists());
            lives.running().close_stdin();
            assert_eq!(lives.wait_empty(TEN).unwrap().code, 7, "{point}");
            assert_eq!(state.names(), [""; 0], "{point}");
        }
    });
}

#[test]
fn a_sweep_that_is_killed_is_gone_on_with_by_the_next() {
    for who in Who::here() {
        for point in ["claim.aside", "claim.removed"] {
            let scene = Scene::new();
            let state = State::new(env!("CARGO_BIN_EXE_killcord"), &scene, *who);
            for claim in ["c00000001", "c00000002"] {
                let own = state.plant(claim, &marker(dead())).join("tmp/0123456789ab");
                state.directory(&own);
                state.file(&own.join("file"), "");
            }
            let (mut sweep, _) = killed_at(&state, point, state.killcord(&["sweep"]));
            assert_eq!(run(&mut sweep, TEN).code(), 137);
            let left = state.names();
            let aside = left.iter().filter(|name| name.starts_with(".trash-")).count();
            assert_eq!((left.len() - aside, aside), (1, usize::from(point == "claim.aside")), "{left:?}");
            let removed = left.len() as u64;
            assert_swept(&state.sweep(&[]), removed, &[]);
            assert_eq!(state.names(), [""; 0]);
            // The one in the background does the same to itself, and to nobody else.
            state.plant("c00000003", &marker(dead()));
            let (command, _) = killed_at(&state, point, state.killcord(&["run", "--", "true"]));
            let all = run_whole(&command);
            assert_eq!((all.code(), all.stderr.as_str()), (0, ""), "{all:?}");
            state.sweep(&[]);
            assert_eq!(state.names(), [""; 0]);
        }
    }
}
