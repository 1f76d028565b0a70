//! The rungs of the ladder, seen from real programs.
//!
//! Promised (DESIGN section 5): TERM comes first and has its turn; HUP comes half a second later, which is what
//! ends an interactive shell; KILL comes at the grace. The end is not said before the last member is gone (G4).

use crate::kit::{SOON, boundaries, command, ms, owner_of, script, timed, trials};
use killcord::{Cause, ExitStatus, Job, Ladder, Stdio, Verdict};
use killcord_testkit::{Scene, bin};
use std::io::{Read, Write};
use std::time::Duration;

const HUP: ExitStatus = ExitStatus::Signal(1);
const KILL: ExitStatus = ExitStatus::Signal(9);

trials![
    interactive_shells_end_at_the_hang_up,
    term_has_its_turn_before_hup,
    who_handles_term_and_stays_gets_hup_half_a_second_later,
    a_daemon_that_reloads_on_hup_is_asked_by_term_first,
    who_ignores_both_is_killed_at_the_grace,
    the_end_is_not_said_while_a_member_that_ignores_both_lives,
    an_end_at_once_asks_nobody,
    a_timeout_climbs_the_ladder_without_the_owner,
    a_second_order_shortens_and_never_lengthens,
];

/// Reads from a job's output or terminal until the text has come.
fn expect(from: &mut impl Read, text: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = from.read(&mut buffer).unwrap();
        assert!(n > 0, "{text:?} is not in {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..n]);
        let so_far = String::from_utf8_lossy(&all).into_owned();
        if so_far.contains(text) {
            return so_far;
        }
    }
}

fn wait(job: &mut Job) -> killcord::End {
    job.wait_timeout(SOON).unwrap().expect("the job does not end")
}

fn interactive_shells_end_at_the_hang_up() {
    for boundary in boundaries() {
        for shell in [&["sh", "-i"][..], &["bash", "--norc", "--noprofile", "-i"]] {
            let (owner, scene) = (owner_of(boundary), Scene::new());
            let mut job = command(&owner, &scene, shell[0])
                .args(&shell[1..])
                .env("HISTFILE", "")
                .env("TERM", "dumb")
                .on_terminal(80, 24)
                .spawn()
                .unwrap();
            // A shell that has read a line has set up its signals.
            let terminal = job.terminal.as_mut().unwrap();
            terminal.write_all(b"echo re''ady\n").unwrap();
            expect(terminal, "ready");
            let (end, took) = timed(|| {
                job.end(Ladder::with_grace(Duration::from_secs(5))).unwrap();
                wait(&mut job)
            });
            let ended = end.status == Some(HUP) || end.status == Some(ExitStatus::Code(129));
            assert!(ended && end.forced.count == 0, "{boundary} {shell:?}: {end:?}");
            assert!((ms(450)..ms(1500)).contains(&took), "{boundary} {shell:?}: {took:?}");
            assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary} {shell:?}: {end:?}");
        }
    }
}

fn term_has_its_turn_before_hup() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "trap 'exit 3' TERM; trap 'exit 4' HUP; echo ready; while :; do sleep 0.01; done";
        let mut job = script(&owner, &scene, text).stdout(Stdio::piped()).spawn().unwrap();
        expect(job.stdout.as_mut().unwrap(), "ready");
        let (end, took) = timed(|| {
            job.end(Ladder::with_grace(Duration::from_secs(5))).unwrap();
            wait(&mut job)
        });
        assert_eq!((end.status, end.cause), (Some(ExitStatus::Code(3)), Cause::Asked), "{boundary}");
        assert!(took < ms(450), "{boundary}: {took:?}");
    }
}

fn who_handles_term_and_stays_gets_hup_half_a_second_later() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "trap 'echo term' TERM; trap 'echo hup; exit 4' HUP; echo ready; \
                    while :; do sleep 0.01; done";
        let mut job = script(&owner, &scene, text).stdout(Stdio::piped()).spawn().unwrap();
        expect(job.stdout.as_mut().unwrap(), "ready\n");
        let (output, took) = timed(|| {
            job.end(Ladder::with_grace(Duration::from_secs(5))).unwrap();
            job.into_output(1000).unwrap()
        });
        assert_eq!(output.stdout.to_text(), "term\nhup\n", "{boundary}");
        assert_eq!(output.end.status, Some(ExitStatus::Code(4)), "{boundary}");
        assert!((ms(480)..ms(1500)).contains(&took), "{boundary}: {took:?}");
    }
}

/// Three daemons that reload on HUP: one that ends on TERM never hears it; one that needs longer than half a second for
/// its end hears it once, and has its time all the same; one that only ever reloads is killed at the grace.
fn a_daemon_that_reloads_on_hup_is_asked_by_term_first() {
    let cases = [
        ("exit 3", "", Some(ExitStatus::Code(3)), 0..450),
        ("nap for 1 .. 9; exit 3", "reload\n", Some(ExitStatus::Code(3)), 700..1450),
        ("", "reload\n", Some(KILL), 1490..2500),
    ];
    for boundary in boundaries() {
        for (on_term, said, status, within) in &cases {
            let (owner, scene) = (owner_of(boundary), Scene::new());
            // In Perl a handler interrupts another one, as in a daemon; a wait that was interrupted is over.
            let text = format!(
                "exec perl -e '$| = 1; sub nap {{ select undef, undef, undef, 0.1 }} \
                 $SIG{{HUP}} = sub {{ print \"reload\\n\" }}; $SIG{{TERM}} = sub {{ {on_term} }}; \
                 print \"ready\\n\"; nap while 1'"
            );
            let mut job = script(&owner, &scene, &text).stdout(Stdio::piped()).spawn().unwrap();
            expect(job.stdout.as_mut().unwrap(), "ready\n");
            let (output, took) = timed(|| {
                job.end(Ladder::with_grace(ms(1500))).unwrap();
                job.into_output(1000).unwrap()
            });
            let end = &output.end;
            assert_eq!(
                (output.stdout.to_text().as_str(), end.status),
                (*said, *status),
                "{boundary}: {end:?}"
            );
            assert_eq!(end.forced.count, u32::from(*status == Some(KILL)), "{boundary}: {end:?}");
            assert!((ms(within.start)..ms(within.end)).contains(&took), "{boundary} {on_term:?}: {took:?}");
        }
    }
}

fn who_ignores_both_is_killed_at_the_grace() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = command(&owner, &scene, bin("kc-ignore")).arg("60").spawn().unwrap();
        scene.wait_recorded(1, SOON);
        let (end, took) = timed(|| {
            job.end(Ladder::with_grace(ms(1500))).unwrap();
            wait(&mut job)
        });
        assert_eq!((end.status, end.forced.count), (Some(KILL), 1), "{boundary}: {end:?}");
        assert_eq!(end.forced.named[0].command, "kc-ignore", "{boundary}");
        assert!((ms(1490)..ms(2500)).contains(&took), "{boundary}: {took:?}");
    }
}

fn the_end_is_not_said_while_a_member_that_ignores_both_lives() {
    for boundary in boundaries() {
        // The leader ends of TERM, and in the second round, being deaf to it, of HUP.
        for (deaf, status) in [("", ExitStatus::Signal(15)), ("trap '' TERM;", HUP)] {
            let (owner, scene) = (owner_of(boundary), Scene::new());
            let text = format!("\"$2\" 60 & {deaf} exec \"$1\" leader 60");
            let mut job = script(&owner, &scene, &text).spawn().unwrap();
            scene.wait_names(&["ignore", "leader"], SOON);
            let pinned = scene.pin();
            job.end(Ladder::with_grace(ms(1500))).unwrap();
            assert!(pinned.get("leader").unwrap().wait_gone(ms(1400)), "{boundary} {deaf:?}");
            let (end, took) = timed(|| wait(&mut job));
            assert!(!pinned.get("ignore").unwrap().is_alive(), "{boundary} {deaf:?}: said too early");
            assert_eq!((end.status, end.forced.count), (Some(status), 1), "{boundary} {deaf:?}: {end:?}");
            assert!(took < ms(2500) && end.duration >= ms(1490), "{boundary} {deaf:?}: {took:?} {end:?}");
        }
    }
}

fn an_end_at_once_asks_nobody() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "trap 'echo asked' TERM HUP; \"$2\" 60 & echo ready; while :; do sleep 0.01; done";
        let mut job = script(&owner, &scene, text).stdout(Stdio::piped()).spawn().unwrap();
        expect(job.stdout.as_mut().unwrap(), "ready\n");
        let (output, took) = timed(|| {
            job.end_now().unwrap();
            job.into_output(1000).unwrap()
        });
        assert_eq!((output.end.status, took < ms(1000)), (Some(KILL), true), "{boundary} {took:?}");
        assert!(!output.stdout.to_text().contains("asked"), "{boundary}: {output:?}");
    }
}

fn a_timeout_climbs_the_ladder_without_the_owner() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command = command(&owner, &scene, bin("kc-ignore"));
        let mut job = command.arg("60").timeout(ms(700)).grace(ms(700)).spawn().unwrap();
        scene.wait_recorded(1, SOON);
        // The owner does nothing: it does not even look at the cord.
        assert!(scene.pin().wait_gone(ms(3000)).is_ok(), "{boundary}");
        let end = wait(&mut job);
        assert_eq!((end.cause, end.status), (Cause::Timeout, Some(KILL)), "{boundary}");
        assert!((ms(1390)..ms(2400)).contains(&end.duration), "{boundary}: {end:?}");
    }
}

fn a_second_order_shortens_and_never_lengthens() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = command(&owner, &scene, bin("kc-ignore")).arg("60").spawn().unwrap();
        scene.wait_recorded(1, SOON);
        let (_, took) = timed(|| {
            job.end(Ladder::with_grace(ms(1000))).unwrap();
            job.end(Ladder::with_grace(Duration::from_secs(50))).unwrap();
            wait(&mut job)
        });
        assert!((ms(990)..ms(2000)).contains(&took), "{boundary}: lengthened to {took:?}");

        let scene = Scene::new();
        let mut job = command(&owner, &scene, bin("kc-ignore")).arg("60").spawn().unwrap();
        scene.wait_recorded(1, SOON);
        job.end(Ladder::with_grace(Duration::from_secs(50))).unwrap();
        assert!(job.wait_timeout(ms(100)).unwrap().is_none());
        let (_, took) = timed(|| {
            job.end_now().unwrap();
            wait(&mut job)
        });
        assert!(took < ms(1000), "{boundary}: {took:?}");
    }
}
