//! The failures that users of other tools reported, each made small, as root and as an ordinary user, on every
//! boundary that the host has: H1 to H7, H9, H10 and H12 of the project's list.
//!
//! Promised (G1, G3, G5, G8, G9, G11): the whole tree ends with its owner, with its leader and with its time; a call
//! comes back within timeout, grace and two seconds, whatever its job does; nobody else is disturbed. Where the
//! list says "none alive" it is the kernel that says so: a `Nest` ends when no descendant is left, and the end of
//! the output is read.
//!
//! Not here: what needs a server or a terminal (H8, H11).

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use std::time::{Duration, Instant};

use killcord_testkit::{
    Emptied, Guards, Host, Killcord, Need, Nest, Place, Running, Scene, Signal, Who, bin, in_every_cell,
    report, run, skip,
};

const SOON: Duration = Duration::from_secs(10);
const TWO: Duration = Duration::from_secs(2);

fn killcord() -> Killcord {
    Killcord::new(env!("CARGO_BIN_EXE_killcord"))
}

fn place(who: Who) -> Place {
    Place::new(env!("CARGO_BIN_EXE_killcord"), who)
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

/// Whether a state directory has a claim, as the names of the files say.
fn has_claims(place: &Place) -> bool {
    let names = std::fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).any(|name| name.starts_with('c'))
}

/// H5 as root: false when the number was not to be had in time.
fn h5_met(boundary: &str, guards_too: bool) -> bool {
    let place = place(Who::Root);
    let mut nest = place.starter(&["run", "--boundary", boundary, "--", "./leaf.sh", "old", "60"]);
    place.scene.wait_names(&["old"], SOON);
    let job = place.list()["owners"][0]["jobs"][0]["id"].as_str().unwrap().to_owned();
    let guards = Guards::find(nest.program.pid, SOON);
    let (warden, keeper) = (guards.warden.unwrap(), guards.keeper.unwrap());
    let mut number = guards.leader.unwrap().pid;
    if guards_too {
        // Then nobody is left who could drop the record, which has the keeper's number in it.
        number = keeper.pid;
        let held = [&nest.program, &warden, &keeper].map(|process| process.stop().unwrap());
        // The init of a namespace goes with the warden.
        drop((warden.kill(Signal::KILL), keeper.kill(Signal::KILL), nest.program.kill(Signal::KILL)));
        drop(held);
    }
    drop(nest.program.kill(Signal::KILL));
    nest.wait_empty(TWO).unwrap();
    assert_eq!(has_claims(&place), guards_too);
    let arguments = [&number.to_string(), STRANGER_LIVES, "--group"];
    let mut stranger = Running::start(place.scene.command(Who::Root, bin("kc-occupy")).args(arguments));
    if stranger.stdout.expect(&format!("ok {number} "), SOON).is_err() {
        return false;
    }
    place.says(&["run", "--", "true"], 0, "");
    place.says(&["stop", &job], 1, " is not running\n");
    place.says(&["sweep"], 0, "");
    assert!(!has_claims(&place));
    assert_eq!(stranger.wait(SOON).unwrap().code(), Some(0), "{}", stranger.stdout.text());
    true
}

/// Which is longer than anything that could end it takes.
const STRANGER_LIVES: &str = "5";

#[test]
fn heavy_h5_the_number_of_a_dead_job_is_a_strangers() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    std::thread::scope(|scope| {
        for (_, boundary) in Host::cells().into_iter().filter(|(who, _)| *who == Who::Root) {
            for guards_too in [false, true] {
                scope.spawn(move || {
                    let met = (0..3).any(|_| h5_met(boundary, guards_too));
                    assert!(met, "{boundary} {guards_too}: the number was never to be had in time");
                });
            }
        }
    });
}

#[test]
fn h5_the_same_as_an_ordinary_user() {
    if !Host::get().has(Need::PidNamespace(Who::User)) {
        skip!(Need::PidNamespace(Who::User));
    }
    // Who is nobody outside may choose numbers in a pid namespace of his own.
    let place = place(Who::User);
    let script = r#"k=$0; n=$1; "$k" run -- ./leaf.sh old 60 & o=$!
        until [ -s $D/ids ]; do sleep .02; done; p=$(cut -d' ' -f1 $D/ids)
        kill -9 $o; while kill -0 $p 2>/dev/null; do sleep .02; done
        "$n" $p $2 --group & s=$!; until [ "$(cat /proc/$p/comm 2>/dev/null)" = kc-innocent ]; do sleep .02; done
        "$k" run -- true; echo run $?; "$k" sweep; wait $s; echo stranger $?; ls $KILLCORD_STATE_DIR"#;
    let mut inside = place.program("unshare");
    inside.args([
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        script,
    ]);
    let killcord = killcord();
    inside.arg(killcord.path()).arg(bin("kc-occupy")).arg(STRANGER_LIVES);
    let done = run(&mut inside, SOON + SOON);
    assert!(done.stdout.contains("run 0\n") && done.stdout.ends_with("stranger 0\n"), "{done:?}");
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
fn h7_a_service_survives_what_it_was_started_by_and_nothing_else_does() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let script = r#""$0" run --detach --name web --ttl 50 --boundary "$1" -- \
                        sh -c './leaf.sh srv 60 & (setsid ./leaf.sh sub 60 &) ; wait'
                        "$0" run --boundary "$1" -- ./leaf.sh beside 60"#;
        let mut shell = place.program("sh");
        let killcord = killcord();
        let mut nest = Nest::start(shell.args(["-c", script]).arg(killcord.path()).arg(boundary));
        place.scene.wait_names(&["srv", "sub", "beside"], SOON);
        let pinned = place.scene.pin();
        let alive = || pinned.alive().into_iter().map(|alive| alive.name).collect::<Vec<_>>();
        nest.program.kill(Signal::KILL).unwrap();
        assert!(pinned.get("beside").unwrap().wait_gone(TWO));
        // Long enough for whatever would have ended them, too.
        std::thread::sleep(Duration::from_secs(3));
        place.says(&["list"], 0, "  web ");
        let mut left = alive();
        left.sort();
        assert_eq!(left, ["srv", "sub"]);
        place.says(&["stop", "web"], 0, "web stopped\n");
        assert_eq!(alive(), Vec::<String>::new());
        nest.wait_empty(TWO).unwrap();
        place.says(&["stop", "web"], 1, "web is not running: stopped\n");
    });
}

#[test]
fn h10_temporary_directories_go_with_their_jobs_and_no_secret_is_written() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let script = "d=$(mktemp -d); echo x >$d/x; echo $d >$D/$0.new; mv $D/$0.new $D/$0; ./leaf.sh $0 60";
        let start = |name: &str, more: &[&str]| {
            let begin = ["--boundary", boundary, "--", "sh", "-c", script, name, "zq81canary"];
            let mut command = place.killcord(&[&["run"], more, &begin].concat());
            let nest = Nest::start(command.env("CANARY_TOKEN", "zq81canary"));
            place.scene.wait_names(&[name], SOON);
            (nest, std::path::PathBuf::from(place.scene.wait_file(name, SOON).trim_end()))
        };
        let (mut first, gone) = start("first", &[]);
        let (second, stays) = start("second", &[]);
        let (mut third, of_service) = start("third", &["--detach", "--name", "web", "--ttl", "50"]);
        let there = [&gone, &stays, &of_service].map(|dir| dir.join("x").exists());
        assert_eq!(there, [true; 3]);
        first.program.kill(Signal::KILL).unwrap();
        first.wait_empty(TWO).unwrap();
        place.says(&["run", "--", "true"], 0, "");
        assert!(!gone.exists());
        assert!(stays.join("x").exists() && of_service.join("x").exists());
        place.says(&["stop", "web"], 0, "web stopped\n");
        assert!(!of_service.exists());
        third.wait_empty(TWO).unwrap();
        // Everything that killcord writes is in the scene.
        let mut grep = std::process::Command::new("grep");
        let found = run(grep.args(["-ral", "zq81canary"]).arg(place.scene.dir()), SOON);
        assert_eq!((found.code(), found.stdout.as_str()), (1, ""), "{found:?}");
        let mut second = second;
        second.program.kill(Signal::TERM).unwrap();
        second.wait_empty(TWO).unwrap();
        assert!(!stays.exists() && !has_claims(&place));
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
