//! Services: `killcord run --detach`, `wait` and `stop`.
//!
//! Promised (I6 of the scenarios; G3, G4, G10): a service outlives its starter, whenever that is killed, and nothing
//! else does; it is listed, stopped by its name as a whole tree, and its exit is kept until it is read once or for a
//! day. Its name is one service's at a time. Its owner, warden and keeper are as every owner's: without one of them it
//! is ended, and that is said. Nobody but its user and root has a say in it.
//!
//! That nothing is left is said by a `Nest`, in which the starter was begun: it ends when no descendant is left.
//!
//! Not promised: that a service survives the job in which it was started, since nothing leaves a boundary.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

#[path = "kit/callers.rs"]
mod callers;
use killcord_testkit::{
    Host, Killcord, Need, Nest, Place, Running, Signal, Who, bin, in_every_cell, procs, service_in, skip,
};
use rustix::fs::{FlockOperation, flock};
use std::time::{Duration, Instant};

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
const SOON: Duration = Duration::from_secs(20);
/// What is promised for an end.
const TWO: Duration = Duration::from_secs(2);

fn place(who: Who) -> Place {
    Place::new(env!("CARGO_BIN_EXE_killcord"), who)
}

/// Does the same as each user.
fn as_each(test: impl Fn(Place) + Sync) {
    Place::of_each(env!("CARGO_BIN_EXE_killcord"), test);
}

#[test]
fn it_has_its_starters_directory_and_environment_and_no_terminal() {
    as_each(|place| {
        let script = "readlink /proc/$$/fd/0; pwd; echo $WORD; echo err >&2; echo out; exec ./leaf.sh srv 50";
        let mut starter = place.killcord(&Place::detach("web", &[], &["sh", "-c", script]));
        let mut nest = Nest::start(starter.env("WORD", "inherited"));
        place.scene.wait_names(&["srv"], SOON);
        let stat = place.scene.pin().get("srv").unwrap().stat().unwrap();
        assert_eq!((stat.session, stat.group, stat.tty), (stat.pid, stat.pid, 0));
        let expected = format!("/dev/null\n{}\ninherited\nerr\nout\n", place.scene.dir().display());
        place.log_until("web", |text| text == expected);
        place.says(&["stop", "web"], 0, "web stopped\n");
        let all = nest.wait_empty(TWO).unwrap();
        assert!(all.code == 0 && all.stdout.starts_with("web started: job "), "{all:?}");
        // The output stays as long as the exit.
        assert_eq!(place.says(&["logs", "web"], 0, "").stdout, expected);
        place.says(&["wait", "web"], 143, "web: stopped, ");
        place.says(&["logs", "web"], 125, "there is no service web, or its exit has been read");
    });
}

/// The output is put aside by a rename, and between that and the next byte there is the older file alone.
#[test]
fn one_whose_owner_is_killed_while_it_puts_its_output_aside_is_still_known() {
    as_each(|place| {
        let mut service = place.start("web", &[], "echo word; exec ./leaf.sh srv 50");
        place.log_until("web", |text| text == "word\n");
        let (owner, _guards) = service.guards();
        owner.kill(Signal::KILL).unwrap();
        service.gone(TWO);
        let files = place.state().join("services/web");
        std::fs::rename(files.join("log"), files.join("log.1")).unwrap();
        assert!(service_in(&place.list(), "web").is_some(), "{}", place.list());
        place.says(&["sweep"], 0, "");
        assert_eq!(place.says(&["logs", "web"], 0, "").stdout, "word\n");
        place.says(&["wait", "web"], 137, "its owner was killed");
    });
}

/// How many starters are killed.
const KILLED: u32 = 40;

#[test]
fn heavy_its_starter_may_be_killed_at_any_instant() {
    for who in Who::here() {
        let place = place(*who);
        let begun = Instant::now();
        let mut service = place.start_program("web", &[], &["sleep", "50"]);
        // From before the exec of killcord to well behind the start of the program.
        let step = begun.elapsed() * 3 / 2 / KILLED;
        place.says(&["stop", "--now", "web"], 0, "web stopped\n");
        place.says(&["wait", "web"], 137, "web: stopped, ");
        service.gone(TWO);
        let mut lived = 0;
        for i in 0..KILLED {
            let mut nest = place.starter(&Place::detach("web", &[], &["sleep", "50"]));
            std::thread::sleep(step * i);
            let _ = nest.program.kill(Signal::KILL);
            let deadline = Instant::now() + SOON;
            loop {
                let list = place.list();
                let job = list["owners"].as_array().unwrap().iter().find(|owner| owner["service"] == "web");
                if job.is_some_and(|owner| owner["jobs"].as_array().unwrap().len() == 1) {
                    lived += 1;
                    place.says(&["stop", "--now", "web"], 0, "web stopped\n");
                    nest.wait_empty(TWO).unwrap();
                    // It may have been stopped before its program was executed.
                    let exit = place.call(&["wait", "web"]);
                    assert!([125, 137].contains(&exit.code()), "{exit:?}");
                    assert_eq!(service_in(&place.list(), "web"), None);
                    break;
                }
                if nest.is_empty() {
                    assert_eq!(service_in(&place.list(), "web"), None);
                    break;
                }
                assert!(Instant::now() < deadline, "{:?} {list}", nest.left());
            }
        }
        assert!(lived > 0 && lived < KILLED, "{lived} of {KILLED}: the instants were badly chosen");
        place.says(&["sweep"], 0, "");
        assert_eq!(std::fs::read_dir(place.state().join("services")).unwrap().count(), 0);
    }
}

#[test]
fn a_name_is_one_services_at_a_time() {
    as_each(|place| {
        let mut service = place.start("web", &[], "exec ./leaf.sh srv 50");
        let again = Place::detach("web", &[], &["true"]);
        place.says(&again, 125, "web runs already: `killcord stop web` ends it");
        // Whoever only looks is not in the way, neither of the service nor of the error.
        place.says(&["stop", "web"], 0, "web stopped\n");
        service.gone(TWO);
        place.says(&again, 0, "web started: job ");
        place.says(&["wait", "web"], 0, "web: exited with 0, ");
    });
}

#[test]
fn of_twenty_starts_at_once_one_wins() {
    as_each(|place| {
        let args = Place::detach("web", &[], &["sleep", "50"]);
        let mut starts: Vec<Nest> = (0..20).map(|_| place.starter(&args)).collect();
        let lost =
            "killcord: web runs already: `killcord stop web` ends it, `killcord logs web` shows its output\n";
        assert!(starts.iter().all(|start| start.program.wait_gone(SOON)));
        place.says(&["stop", "web"], 0, "web stopped\n");
        let ends: Vec<_> = starts.iter_mut().map(|start| start.wait_empty(SOON).unwrap()).collect();
        let winners = ends.iter().filter(|end| end.code == 0 && end.stdout.starts_with("web started: job "));
        assert_eq!(winners.count(), 1, "{ends:?}");
        let losers = ends.iter().filter(|end| end.code == 125 && end.stderr == lost);
        assert_eq!(losers.count(), 19, "{ends:?}");
    });
}

#[test]
fn who_only_looks_does_not_keep_a_name_from_being_had() {
    as_each(|place| {
        place.start("web", &[], "exit 3").gone(SOON);
        // As `killcord list` and `killcord wait` hold it for an instant.
        let lock = std::fs::File::open(place.state().join("services/web/lock")).unwrap();
        flock(&lock, FlockOperation::LockShared).unwrap();
        let mut start = Running::start(&mut place.killcord(&Place::detach("web", &[], &["true"])));
        assert_eq!(start.wait(Duration::from_millis(300)), None);
        drop(lock);
        assert_eq!(start.wait(SOON).unwrap().code(), Some(0));
        place.says(&["wait", "web"], 0, "web: exited with 0, ");
    });
}

#[test]
fn what_cannot_be_a_name_is_refused() {
    as_each(|place| {
        for name in ["", "..", "a/b", &"x".repeat(65)] {
            let refused = format!("{name:?} cannot be the name of a service: use up to 64 letters, digits");
            place.says(&Place::detach(name, &[], &["true"]), 125, &refused);
        }
        place.says(&["run", "--detach", "--name=-x", "--", "true"], 125, "\"-x\" cannot be the name");
        assert!(!place.state().exists());
    });
}

#[test]
fn a_program_that_cannot_be_executed_leaves_nothing() {
    as_each(|place| {
        std::fs::write(place.scene.path("plain"), "no program").unwrap();
        place.says(&Place::detach("web", &[], &["./no-such-program"]), 127, "no-such-program");
        place.says(&Place::detach("web", &[], &["./plain"]), 126, "./plain");
        place.says(
            &Place::detach("web", &["--require", "namespace", "--boundary", "tree"], &["true"]),
            125,
            "",
        );
        let list = place.list_until(|list| list["owners"].as_array().unwrap().is_empty());
        assert_eq!(list["services"].as_array().unwrap().len(), 0, "{list}");
        assert_eq!(std::fs::read_dir(place.state().join("services")).unwrap().count(), 0);
    });
}

#[test]
fn its_time_ends_it_and_the_exit_says_so() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let options = ["--boundary", boundary, "--ttl", "0.5", "--grace", "1"];
        let mut service = place.start("web", &options, "setsid ./leaf.sh sub 50 & exec ./leaf.sh srv 50");
        service.gone(SOON);
        place.says(&["wait", "web"], 124, "web: its time was up, ");
    });
}

#[test]
fn a_wait_blocks_until_the_end_and_reads_the_exit_once() {
    as_each(|place| {
        let script = "until [ -e $D/go ]; do sleep .02; done; exit 7";
        let mut service = place.start("web", &[], script);
        let mut waits = Running::start(&mut place.killcord(&["wait", "web"]));
        assert_eq!(waits.wait(Duration::from_millis(300)), None);
        std::fs::write(place.scene.path("go"), "").unwrap();
        assert_eq!(waits.wait(SOON).unwrap().code(), Some(7));
        assert!(waits.stdout.read_to_end(SOON).unwrap().starts_with("web: exited with 7, "));
        service.gone(TWO);
        place.says(&["wait", "web"], 125, "there is no service web, or its exit has been read");
        // A signal shows as in a shell.
        place.says(&Place::detach("web", &[], &["sh", "-c", "kill -USR1 $$"]), 0, "web started");
        place.says(&["wait", "web"], 128 + 10, "web: ended by SIGUSR1, ");
    });
}

#[test]
fn of_two_who_wait_each_has_the_exit_or_hears_that_it_was_read() {
    as_each(|place| {
        for _ in 0..10 {
            let _ = std::fs::remove_file(place.scene.path("go"));
            let mut service = place.start("web", &[], "until [ -e $D/go ]; do sleep .02; done; exit 7");
            let mut two = [(); 2].map(|()| Running::start(&mut place.killcord(&["wait", "web"])));
            std::fs::write(place.scene.path("go"), "").unwrap();
            let codes = two.each_mut().map(|waits| waits.wait(SOON).unwrap().code().unwrap());
            let said = two.each_mut().map(|waits| waits.stderr.read_to_end(SOON).unwrap());
            assert!(
                codes.contains(&7) && codes.iter().all(|code| [7, 125].contains(code)),
                "{codes:?} {said:?}"
            );
            let read = |text: &String| text.is_empty() || text.contains("or its exit has been read");
            assert!(said.iter().all(read), "{said:?}");
            service.gone(TWO);
            assert_eq!(service_in(&place.list(), "web"), None);
        }
    });
}

/// Two of them have left the leader's session, and one ignores every request.
fn tree() -> String {
    format!("(setsid {} 50 &) ; setsid ./leaf.sh sub 50 & exec ./leaf.sh srv 50", bin("kc-ignore").display())
}

const NAMES: [&str; 3] = ["ignore", "srv", "sub"];

#[test]
fn its_owner_its_warden_and_its_keeper_may_be_killed() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        for victim in ["owner", "warden", "keeper"] {
            let mut service = place.start("web", &["--boundary", boundary], &tree());
            place.scene.wait_names(&NAMES, SOON);
            let (owner, guards) = service.guards();
            let (warden, keeper) = (guards.warden.unwrap(), guards.keeper.unwrap());
            match victim {
                "owner" => owner,
                "warden" => warden,
                _ => keeper,
            }
            .kill(Signal::KILL)
            .unwrap();
            service.gone(TWO);
            let list = place.until_over("web");
            assert_eq!(list["owners"].as_array().unwrap().len(), 0, "{list}");
            // In a namespace the keeper dies of its warden's end.
            let how = if (boundary, victim) == ("namespace", "keeper") { "keeper" } else { victim };
            let exit = place.call(&["wait", "web"]);
            let said = format!("{}{}", exit.stdout, exit.stderr);
            assert!(said.starts_with("web: its ") || said.starts_with("killcord: web: its "), "{said}");
            assert!(
                said.contains(&format!("{how} was killed, and it was ended with it")),
                "{victim}: {said}"
            );
            assert!([137, 143].contains(&exit.code()), "{victim}: {exit:?}");
            assert!(victim != "owner" || exit.code() == 137, "{exit:?}");
            std::fs::write(place.scene.path("ids"), "").unwrap();
        }
        place.says(&Place::detach("web", &[], &["true"]), 0, "web started");
        place.says(&["wait", "web"], 0, "web: exited with 0, ");
    });
}

#[test]
fn what_its_leader_leaves_is_ended() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let script = "(setsid ./leaf.sh sub 50 &); until grep -q sub $D/ids; do sleep .02; done; exit 3";
        let mut service = place.start("web", &["--boundary", boundary], script);
        service.gone(SOON);
        place.says(&["wait", "web"], 3, "web: exited with 3, ");
    });
}

#[test]
fn one_that_is_started_inside_a_job_ends_with_that() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let script = r#""$0" run --detach --name web --ttl 50 -- ./leaf.sh srv 50 && until [ -e $D/go ]; do sleep .02; done"#;
        let killcord = Killcord::new(env!("CARGO_BIN_EXE_killcord"));
        let mut job = place.killcord(&["run", "--boundary", boundary, "--", "sh", "-c", script]);
        let mut nest = Nest::start(job.arg(killcord.path()));
        place.scene.wait_names(&["srv"], SOON);
        std::fs::write(place.scene.path("go"), "").unwrap();
        assert_eq!(nest.wait_empty(SOON).unwrap().code, 0);
        place.says(&["sweep"], 0, "");
        let list = place.until_over("web");
        assert_eq!(list["owners"].as_array().unwrap().len(), 0, "{list}");
    });
}

#[test]
fn stop_ends_the_whole_tree() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        for (now, least) in [(false, Duration::from_secs(1)), (true, Duration::ZERO)] {
            let mut service = place.start("web", &["--boundary", boundary, "--grace", "1"], &tree());
            place.scene.wait_names(&NAMES, SOON);
            let pinned = place.scene.pin();
            assert!(NAMES.iter().all(|name| pinned.get(name).is_some()), "{pinned:?}");
            let args: &[&str] = if now { &["stop", "--now", "web"] } else { &["stop", "web"] };
            let stopped = place.says(args, 0, "web stopped\n");
            // Not said before it was so.
            assert_eq!(pinned.alive(), []);
            assert!(stopped.elapsed >= least && stopped.elapsed < least + TWO, "{now} {:?}", stopped.elapsed);
            service.gone(TWO);
            place.says(&["stop", "web"], 1, "web is not running: stopped\n");
            let status = if now { 137 } else { 143 };
            place.says(&["wait", "web"], status, "web: stopped, ");
            place.says(&["stop", "web"], 1, "web is not running\n");
            std::fs::write(place.scene.path("ids"), "").unwrap();
        }
    });
}

#[test]
fn stop_takes_the_beginning_of_an_id_if_it_is_one_jobs() {
    as_each(|place| {
        let mut service = place.start("web", &[], "exec ./leaf.sh srv 50");
        let job = service.job.clone();
        let claim = place.list()["owners"][0]["claim"].as_str().unwrap().to_owned();
        // Another one whose id begins like it, by its record alone.
        let mut other = job.clone();
        let last = other.pop().unwrap();
        other.push(if last == '0' { '1' } else { '0' });
        let (from, to) = (format!("{claim}/jobs/{job}"), format!("{claim}/jobs/{other}"));
        assert!(place.program("cp").args(["-p", &from, &to]).status().unwrap().success());
        place.says(&["stop", &job[..8]], 125, &format!("killcord: {} may be ", &job[..8]));
        std::fs::remove_file(to).unwrap();
        place.says(&["stop", &job[..3]], 1, " is not running\n");
        place.says(&["stop", "no-such"], 1, "no-such is not running\n");
        place.says(&["stop", "0", &job[..8]], 1, &format!("{} stopped\n", &job[..8]));
        service.gone(TWO);
    });
}

/// `killcord run`, which is no service, and its id.
fn plain_job(place: &Place, boundary: &str) -> (Nest, String) {
    let report = place.scene.path("report").display().to_string();
    let nest = Nest::start(&place.killcord(&[
        "run",
        "--boundary",
        boundary,
        "--report",
        &report,
        "--timeout",
        "50",
        "--",
        "./leaf.sh",
        "job",
        "50",
    ]));
    place.scene.wait_names(&["job"], SOON);
    let list = place.list();
    (nest, list["owners"][0]["jobs"][0]["id"].as_str().unwrap().to_owned())
}

#[test]
fn a_job_of_another_owner_is_stopped_and_that_owner_knows() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let (mut nest, job) = plain_job(&place, boundary);
        place.says(&["stop", &job], 0, &format!("{job} stopped\n"));
        let all = nest.wait_empty(TWO).unwrap();
        assert_eq!((all.code, all.stderr.as_str()), (143, ""), "{all:?}");
        let report = killcord_testkit::report(&place.scene);
        assert_eq!(
            (&report["cause"], &report["verdict"]["kind"]),
            (&"asked".into(), &"empty".into()),
            "{report}"
        );
    });
}

#[test]
fn a_stopped_owner_is_not_needed_for_it() {
    in_every_cell(|who, boundary| {
        let place = place(who);
        let (mut nest, job) = plain_job(&place, boundary);
        let pinned = place.scene.pin();
        let held = nest.program.stop().unwrap();
        let stopped = place.call(&["stop", &job]);
        let alive = pinned.alive();
        drop(held);
        assert_eq!((stopped.code(), alive), (0, vec![]), "{stopped:?}");
        assert_eq!(nest.wait_empty(TWO).unwrap().code, 143);
        // That of a service cannot write down how it ended; that is not waited for without end.
        let mut service = place.start("web", &["--boundary", boundary], "exec ./leaf.sh srv 50");
        let (owner, _) = service.guards();
        place.scene.wait_names(&["srv"], SOON);
        let pinned = place.scene.pin();
        let held = owner.stop().unwrap();
        let stopped = place.call(&["stop", "web"]);
        let alive = pinned.alive();
        drop(held);
        assert_eq!((stopped.code(), alive), (0, vec![]), "{stopped:?}");
        service.gone(TWO);
        place.says(&["wait", "web"], 143, "web: stopped, ");
    });
}

#[test]
fn a_stopped_warden_does_not_answer_and_that_is_said() {
    as_each(|place| {
        let mut service = place.start("web", &[], "exec ./leaf.sh srv 50");
        let warden = service.guards().1.warden.unwrap();
        place.control();
        let held = warden.stop().unwrap();
        let stop = place.call(&["stop", "web"]);
        drop(held);
        assert!(stop.code() == 125 && stop.stderr.contains("does not answer"), "{stop:?}");
        assert!(stop.elapsed < Duration::from_secs(12), "{stop:?}");
        // It hears of it when it goes on.
        service.gone(TWO);
        place.says(&["wait", "web"], 143, "web: stopped, ");
    });
}

#[test]
fn a_warden_that_is_killed_while_it_stops_is_not_the_end() {
    as_each(|place| {
        let mut service = place.start("web", &["--grace", "30"], &tree());
        place.scene.wait_names(&NAMES, SOON);
        let pinned = place.scene.pin();
        let warden = service.guards().1.warden.unwrap();
        let mut stop = Running::start(&mut place.killcord(&["stop", "web"]));
        // By then it has been asked: the leader has had its TERM.
        assert!(pinned.get("srv").unwrap().wait_gone(SOON));
        warden.kill(Signal::KILL).unwrap();
        assert_eq!(stop.wait(SOON).unwrap().code(), Some(0));
        assert_eq!(pinned.alive(), []);
        service.gone(TWO);
    });
}

#[test]
fn another_user_has_no_say() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    for (owner, other) in [(Who::Root, Who::User), (Who::User, Who::Root)] {
        let place = place(owner);
        let mut service = place.start("web", &[], "exec ./leaf.sh srv 50");
        let stranger = self::place(other);
        for args in [["list", "--json"], ["stop", "web"], ["logs", "web"], ["wait", "web"]] {
            let mut call = stranger.killcord(&args);
            let done = killcord_testkit::run(call.env("KILLCORD_STATE_DIR", place.state()), SOON);
            assert_eq!((done.code(), done.stdout.as_str()), (125, ""), "{other:?} {args:?} {done:?}");
            assert!(done.stderr.contains("state directory "), "{done:?}");
        }
        place.says(&["stop", "web"], 0, "web stopped\n");
        service.gone(TWO);
    }
}

#[test]
fn callers_that_misbehave_do_not_disturb_the_warden() {
    as_each(|place| {
        let mut service = place.start("web", &["--grace", "2"], "exec ./leaf.sh srv 50");
        let control = place.control();
        let warden = service.guards().1.warden.unwrap();
        let before = callers::descriptors_of(warden.pid);
        callers::send_garbage(&control);
        let silent = callers::never_read(&control, &service.job);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| callers::flood(&control, 100_000, &done));
            // The job that is not there was asked about, and the flood goes on meanwhile.
            let list = place.list();
            assert_eq!(list["owners"][0]["jobs"][0]["state"], "running");
            let begun = Instant::now();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(begun.elapsed() < SOON + SOON, "the warden does not take what is sent");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(callers::descriptors_of(warden.pid), before);
        place.says(&["stop", "web"], 0, "web stopped\n");
        drop(silent);
        service.gone(TWO);
        assert_eq!(procs::stat(warden.pid).filter(|s| s.start == warden.start), None);
    });
}

#[test]
fn an_exit_that_nobody_reads_is_kept_for_a_day() {
    as_each(|place| {
        for name in ["day", "hour", "lost"] {
            let mut service = place.start(name, &[], if name == "lost" { "exec sleep 50" } else { "exit 3" });
            if name == "lost" {
                service.guards().0.kill(Signal::KILL).unwrap();
            }
            service.gone(TWO);
        }
        let back = |name: &str, seconds: u64| {
            let path = place.state().join("services").join(name).join("exit");
            let mut exit: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            exit["at"] = (exit["at"].as_u64().unwrap() - seconds).into();
            std::fs::write(&path, exit.to_string()).unwrap();
        };
        back("day", 24 * 60 * 60);
        back("hour", 23 * 60 * 60);
        place.says(&["sweep"], 0, "");
        let list = place.list();
        assert_eq!(
            (service_in(&list, "day"), list["services"].as_array().unwrap().len()),
            (None, 2),
            "{list}"
        );
        assert!(!place.state().join("services/day").exists());
        // Its day begins when it is found.
        assert_eq!(service_in(&list, "lost").unwrap()["exit_status"], 137);
        back("lost", 24 * 60 * 60);
        place.says(&["sweep"], 0, "");
        assert_eq!(service_in(&place.list(), "lost"), None);
        place.says(&["wait", "hour"], 3, "hour: exited with 3, 23 h ago\n");
    });
}
