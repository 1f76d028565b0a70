//! A call ends with its leader, not with the pipe.
//!
//! Promised (G8): when the leader has exited and another process still holds standard output, standard error, a
//! copy of either on descriptor 3, or the terminal, `into_output` returns within the drain (and the short ladder,
//! where that holder is to be ended), with everything that was printed, and says who it was and what became of it.

use crate::kit::{SOON, boundaries, ms, owner_of, script, timed, trials};
use killcord::{Boundary, Fate, Leftovers, Output, Stdio, Verdict};
use killcord_testkit::{Scene, Signal};
use std::time::Duration;

trials![
    a_holder_that_is_ended_is_named_and_holds_nothing_up,
    a_stubborn_holder_costs_the_drain_and_the_short_ladder,
    a_holder_that_is_kept_does_not_keep_the_call,
    a_holder_that_is_released_does_not_keep_the_call_and_lives_on,
    wait_returns_without_anybody_reading,
    the_last_process_of_a_pipeline_is_heard_to_the_end,
];

/// How the grandchild holds the output: its redirections.
const HELD: [(&str, &str); 4] = [
    ("stdout only", "2>/dev/null </dev/null"),
    ("stderr only", ">/dev/null </dev/null"),
    ("a copy on descriptor 3", "3>&1 >/dev/null 2>&1 </dev/null"),
    ("a terminal", ""),
];

/// A leader that starts a holder, sees it up, prints and exits.
fn leave_behind(
    boundary: Boundary,
    scene: &Scene,
    held: (&str, &str),
    holder: &str,
    policy: Leftovers,
) -> (Output, Duration) {
    let owner = owner_of(boundary);
    let text = format!(
        "{holder} {} & until [ -s \"$D/ids\" ]; do sleep 0.01; done; echo out; echo err >&2; exit 5",
        held.1
    );
    let mut command = script(&owner, scene, &text);
    command.leftovers(policy);
    if held.0 == "a terminal" {
        command.on_terminal(80, 24);
    } else {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let job = command.spawn().unwrap();
    scene.wait_recorded(1, SOON);
    let (output, took) = timed(|| job.into_output(10_000).unwrap());
    let (first, second) = (output.stdout.to_text(), output.stderr.to_text());
    let second = if held.0 == "a terminal" { &first } else { &second };
    assert!(first.contains("out") && second.contains("err"), "{boundary} {held:?}: {output:?}");
    assert_eq!(output.end.status, Some(killcord::ExitStatus::Code(5)), "{boundary} {held:?}");
    (output, took)
}

fn named(output: &Output) -> (Option<&str>, Option<Fate>) {
    let leftovers = output.end.leftovers.as_ref();
    let name = leftovers.and_then(|(members, _)| members.named.first()).map(|m| m.command.as_str());
    (name, leftovers.map(|(_, fate)| *fate))
}

fn a_holder_that_is_ended_is_named_and_holds_nothing_up() {
    for boundary in boundaries() {
        for held in HELD {
            let scene = Scene::new();
            // In a session of its own, the hang-up of a terminal whose leader exits does not reach it.
            let (output, took) =
                leave_behind(boundary, &scene, held, "setsid \"$1\" held 60", Leftovers::End);
            assert_eq!(named(&output), (Some("kc-leaf"), Some(Fate::Ended)), "{boundary} {held:?}");
            assert!(matches!(output.end.verdict, Verdict::Empty(_)), "{boundary} {held:?}: {output:?}");
            assert!(took < ms(1000), "{boundary} {held:?}: {took:?}");
            scene.wait_gone(Duration::ZERO).unwrap();
        }
    }
}

fn a_stubborn_holder_costs_the_drain_and_the_short_ladder() {
    for boundary in boundaries() {
        for held in HELD {
            let scene = Scene::new();
            let (output, took) = leave_behind(boundary, &scene, held, "\"$2\" 60", Leftovers::End);
            assert_eq!(named(&output), (Some("kc-ignore"), Some(Fate::Ended)), "{boundary} {held:?}");
            assert_eq!(output.end.forced.count, 1, "{boundary} {held:?}: {output:?}");
            assert!((ms(600)..ms(1700)).contains(&took), "{boundary} {held:?}: {took:?}");
            scene.wait_gone(Duration::ZERO).unwrap();
        }
    }
}

fn a_holder_that_is_kept_does_not_keep_the_call() {
    for boundary in boundaries() {
        for held in HELD {
            let scene = Scene::new();
            let (output, took) =
                leave_behind(boundary, &scene, held, "setsid \"$1\" held 60", Leftovers::Keep);
            assert_eq!(named(&output), (Some("kc-leaf"), Some(Fate::Kept)), "{boundary} {held:?}");
            assert!(output.end.goes_on(), "{boundary} {held:?}");
            assert!(took < ms(1000), "{boundary} {held:?}: {took:?}");
            // The handle went with the call, and what was kept with the handle.
            scene.wait_gone(ms(2000)).unwrap();
        }
    }
}

fn a_holder_that_is_released_does_not_keep_the_call_and_lives_on() {
    for boundary in boundaries() {
        for held in HELD {
            let scene = Scene::new();
            let (output, took) =
                leave_behind(boundary, &scene, held, "setsid \"$1\" held 60", Leftovers::Release);
            assert_eq!(named(&output), (Some("kc-leaf"), Some(Fate::Released)), "{boundary} {held:?}");
            assert!(took < ms(1000), "{boundary} {held:?}: {took:?}");
            // Owner and cord are gone by now; longer than any ladder that could follow.
            let pinned = scene.pin();
            assert!(pinned.wait_gone(ms(800)).is_err(), "{boundary} {held:?}: it was ended");
            pinned.kill(Signal::KILL);
            pinned.wait_gone(SOON).unwrap();
        }
    }
}

fn wait_returns_without_anybody_reading() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "\"$1\" held 60 & until [ -s \"$D/ids\" ]; do sleep 0.01; done";
        let mut job =
            script(&owner, &scene, text).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        scene.wait_recorded(1, SOON);
        let (end, took) = timed(|| job.wait().unwrap());
        assert!(end.success() && took < ms(1000), "{boundary}: {took:?} {end:?}");
        assert!(matches!(end.leftovers, Some((_, Fate::Ended))), "{boundary}: {end:?}");
    }
}

fn the_last_process_of_a_pipeline_is_heard_to_the_end() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        // What is printed within the drain by a process that nobody waited for is part of the output.
        let text = "(sleep 0.1; echo late) & echo early";
        let job = script(&owner, &scene, text).stdout(Stdio::piped()).spawn().unwrap();
        let output = job.into_output(1000).unwrap();
        assert_eq!(output.stdout.to_text(), "early\nlate\n", "{boundary}");
        assert!(matches!(output.end.leftovers, Some((_, Fate::EndedByThemselves))), "{boundary}: {output:?}");
    }
}
