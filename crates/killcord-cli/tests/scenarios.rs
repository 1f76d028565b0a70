//! The failures that users of other tools reported, each made small, as root and as an ordinary user, on every
//! boundary that the host has: H1 to H4, H6, H9 and H12 of the project's list.
//!
//! Promised (G1, G3, G5, G8, G9): the whole tree ends with its owner, with its leader and with its time; a call
//! comes back within timeout, grace and two seconds, whatever its job does; nobody else is disturbed. Where the
//! list says "none alive" it is the kernel that says so: a `Nest` ends when no descendant is left, and the end of
//! the output is read.
//!
//! Not here: what needs more than one call (services, the server, sweeps, terminals).

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use std::time::{Duration, Instant};

use killcord_testkit::{Emptied, Host, Killcord, Nest, Scene, Signal, Who, bin, in_every_cell, report, run};

const SOON: Duration = Duration::from_secs(10);
const TWO: Duration = Duration::from_secs(2);

fn killcord() -> Killcord {
    Killcord::new(env!("CARGO_BIN_EXE_killcord"))
}

/// Starts `killcord run OPTIONS -- sh -c SCRIPT` in a nest.
fn start(scene: &Scene, who: Who, boundary: &str, options: &[&str], script: &str) -> Nest {
    let mut command = killcord().run(scene, who, boundary);
    Nest::start(command.args(options).args(["--", "sh", "-c", script]))
}

/// The same to its end, seen from outside: how long the call took, whoever still lived.
fn call(scene: &Scene, who: Who, boundary: &str, options: &[&str], script: &str) -> (Emptied, Duration) {
    let begun = Instant::now();
    let mut nest = start(scene, who, boundary, options, script);
    assert!(
        nest.program.wait_gone(Duration::from_secs(20)),
        "it did not come back; there are {:?}",
        nest.left()
    );
    let elapsed = begun.elapsed();
    let all = nest.wait_empty(TWO).unwrap();
    assert_eq!(scene.alive(), []);
    (all, elapsed)
}

#[test]
fn h1_a_killed_owner_takes_its_tree_along() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let script = r#"./leaf.sh child 60 & sh -c "./leaf.sh grand 60 & wait" & wait"#;
        let mut nest = start(&scene, who, boundary, &[], script);
        scene.wait_names(&["child", "grand"], SOON);
        let pinned = scene.pin();
        assert_eq!(pinned.names(), ["child", "grand"]);
        nest.program.kill(Signal::KILL).unwrap();
        let killed = Instant::now();
        pinned.wait_gone(TWO).unwrap();
        nest.wait_empty(TWO.saturating_sub(killed.elapsed())).unwrap();
    });
}

/// H2's job: a daemon that has left session and output, then what the leader does when the daemon is up.
fn with_daemon(then: &str) -> String {
    let up = "until grep -q daemon $D/ids; do sleep .01; done";
    format!("( setsid ./leaf.sh daemon 60 </dev/null >/dev/null 2>&1 & ); {up}; {then}")
}

#[test]
fn h2a_a_daemon_ends_with_its_leader() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let (all, _) = call(&scene, who, boundary, &[], &with_daemon("echo started"));
        assert_eq!((all.code, all.stdout.as_str()), (0, "started\n"), "{all:?}");
        assert_eq!(scene.ids().len(), 1);
    });
}

#[test]
fn h2b_a_daemon_ends_with_the_timeout() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let (all, elapsed) = call(&scene, who, boundary, &["--timeout", "1"], &with_daemon("sleep 30"));
        assert_eq!(all.code, 124, "{all:?}");
        assert!(elapsed <= Duration::from_secs(8), "{elapsed:?}");
        assert_eq!(scene.ids().len(), 1);
    });
}

#[test]
fn h2c_a_daemon_ends_with_a_killed_owner() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let mut nest = start(&scene, who, boundary, &[], &with_daemon("sleep 30"));
        scene.wait_names(&["daemon"], SOON);
        let pinned = scene.pin();
        assert_eq!(pinned.names(), ["daemon"]);
        nest.program.kill(Signal::KILL).unwrap();
        pinned.wait_gone(TWO).unwrap();
        nest.wait_empty(TWO).unwrap();
    });
}

#[test]
fn h3_a_call_ends_with_its_leader_and_not_with_the_holder_of_its_output() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let (all, elapsed) = call(&scene, who, boundary, &[], "echo hi; ./leaf.sh bg 20 & exit 0");
        assert_eq!((all.code, all.stdout.as_str()), (0, "hi\n"), "{all:?}");
        assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
        let report = report(&scene);
        assert_eq!(
            (&report["leftovers"]["count"], &report["leftovers"]["fate"]),
            (&1.into(), &"ended".into())
        );
        assert_eq!(
            (&report["cause"], &report["verdict"]["kind"]),
            (&"leader-exited".into(), &"empty".into())
        );
    });
}

#[test]
fn h4_a_job_that_ignores_every_request_ends_after_timeout_and_grace() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let script = "trap '' TERM INT HUP; echo partial; ./leaf.sh t1 60 & ./leaf.sh t2 60 & wait; wait";
        let (all, elapsed) = call(&scene, who, boundary, &["--timeout", "1", "--grace", "1"], script);
        assert_eq!((all.code, all.stdout.as_str()), (124, "partial\n"), "{all:?}");
        assert!(all.stderr.contains("its time was up"), "{all:?}");
        assert!(elapsed <= Duration::from_secs(4), "{elapsed:?}");
        let report = report(&scene);
        assert_eq!((&report["timed_out"], &report["verdict"]["kind"]), (&true.into(), &"empty".into()));
        // The shell and both leaves, whose ignored signals are inherited.
        assert_eq!(report["ended_by_force"]["count"], 3, "{report}");
    });
}

#[test]
fn h6_a_cancel_right_after_the_start_hits_nobody_else() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let script = r#"./leaf.sh bystander 60 &
            for d in 0 .001 .002 .005 .01; do for i in 1 2 3 4 5 6 7 8 9 10; do
            "$@" -- ./leaf.sh job 60 & r=$!; sleep $d; kill -TERM $r; wait $r; done; done; echo yes >$D/survived"#;
        drop(killcord().run(&scene, who, boundary));
        let mut shell = scene.command(who, "sh");
        shell.args(["-c", script, "sh"]).arg(killcord().path()).args(["run", "--boundary", boundary]);
        let mut nest = Nest::start(&shell);
        assert_eq!(scene.wait_file("survived", Duration::from_secs(40)), "yes\n");
        assert!(nest.program.wait_gone(TWO), "the parent");
        let alive: Vec<_> = scene.alive().into_iter().map(|alive| alive.name).collect();
        assert_eq!(alive, ["bystander"]);
        // Nothing else is left either: it alone is below the nest.
        assert_eq!(nest.left().len(), 1, "{:?}", nest.left());
        scene.pin().kill(Signal::KILL);
        nest.wait_empty(TWO).unwrap();
    });
}

#[test]
fn heavy_h9_memory_does_not_grow_with_output() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        std::fs::write(scene.path("peak"), "").unwrap();
        let mut command = killcord().run(&scene, who, boundary);
        command.args(["--timeout", "20", "--", "timeout", "5", "yes"]);
        let mut pipe = std::process::Command::new("sh");
        pipe.args(["-c", r#"{ "$@"; echo $? >"$D/code"; } | wc -c"#, "sh"]).arg(bin("kc-nest"));
        pipe.arg(command.get_program()).args(command.get_args()).env("D", scene.dir());
        let all = run(pipe.current_dir(scene.dir()), SOON);
        assert!(all.elapsed <= Duration::from_secs(8), "{all:?}");
        assert!(all.stdout.trim().parse::<u64>().unwrap() > 10_000_000, "{all:?}");
        assert_eq!(scene.wait_file("code", SOON).trim(), "124");
        // The largest of killcord, its guards, `timeout` and `yes`.
        let peak: u64 = scene.wait_file("peak", SOON).trim().parse().unwrap();
        assert!(peak > 100_000 && peak < 100_000_000, "{peak}");
    });
}

#[test]
fn h12_a_stopped_job_hears_the_request_to_end() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let script = r#"trap "echo bye >$D/bye; exit 0" TERM; ./leaf.sh s1 60 & sleep .2; kill -STOP $!; kill -STOP $$; wait"#;
        let (all, elapsed) = call(&scene, who, boundary, &["--timeout", "1", "--grace", "1"], script);
        assert_eq!(all.code, 124, "{all:?}");
        assert!(elapsed <= Duration::from_secs(4), "{elapsed:?}");
        assert_eq!(scene.wait_file("bye", Duration::ZERO), "bye\n");
        assert_eq!(scene.ids().len(), 1);
    });
}

#[test]
fn kept_leftovers_are_waited_for_and_no_longer() {
    let on_group = |who: &Who| (*who, "group");
    for (who, boundary) in Host::cells().into_iter().chain(Who::here().iter().map(on_group)) {
        let scene = Scene::new();
        let script = "./leaf.sh one 0.3 & setsid ./leaf.sh two 0.6 & ./leaf.sh three 0.9 & exit 5";
        let (all, elapsed) = call(&scene, who, boundary, &["--leftovers", "keep"], script);
        assert_eq!(all.code, 5, "{all:?}");
        let bounds = Duration::from_millis(900)..Duration::from_millis(2500);
        assert!(bounds.contains(&elapsed), "{who:?} {boundary}: {elapsed:?}");
    }
}
