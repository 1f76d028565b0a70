//! `killcord list`: what runs.
//!
//! Promised (G13): each owner, job and service of this user is there while it is, with its state, its processes and its
//! memory, and nothing of it is afterwards; nobody else's is. What cannot be read is said, and the rest is shown.
//!
//! Not promised: a state between two looks. Some records are rewritten here, since no job stays in their state.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use killcord_testkit::{
    Guards, Host, Need, Nest, PinnedProcess, Place, Signal, Terminal, Who, in_every_cell, run, service_in,
    skip,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
const SOON: Duration = Duration::from_secs(20);
/// What is promised for an end.
const TWO: Duration = Duration::from_secs(2);

fn as_each(test: impl Fn(Place) + Sync) {
    Place::of_each(env!("CARGO_BIN_EXE_killcord"), test);
}

/// Starts `killcord run OPTIONS -- sh -c SCRIPT`, and waits until these are there.
fn job(place: &Place, options: &[&str], script: &str, names: &[&str]) -> Nest {
    let nest = place.starter(&[&["run"], options, &["--", "sh", "-c", script]].concat());
    place.scene.wait_names(names, SOON);
    nest
}

fn end(mut nest: Nest) {
    nest.program.kill(Signal::TERM).unwrap();
    nest.wait_empty(TWO).unwrap();
}

/// The only owner.
fn owner(list: &Value) -> &Value {
    assert_eq!(list["owners"].as_array().unwrap().len(), 1, "{list}");
    &list["owners"][0]
}

fn is_empty(list: &Value) -> bool {
    list["owners"].as_array().unwrap().is_empty()
}

fn state(list: &Value) -> &str {
    owner(list)["jobs"][0]["state"].as_str().unwrap_or_default()
}

#[test]
fn a_terminal_gets_colours_and_a_pipe_plain_text() {
    as_each(|place| {
        assert_eq!(place.says(&["list"], 0, "").stdout, "no jobs\n");
        let nest = job(&place, &[], "exec ./leaf.sh job 50", &["job"]);
        let list = place.list();
        let id = owner(&list)["jobs"][0]["id"].as_str().unwrap();
        let table = place.says(&["list"], 0, "").stdout;
        let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let head = ["JOB", "SERVICE", "PROGRAM", "STATE", "BOUNDARY", "AGE", "PROCESSES", "MEMORY", "OWNER"];
        assert_eq!(
            (words.len(), &words[0][..], &words[1][..4]),
            (2, &head[..], &[&id[..12], "-", "sh", "running"][..])
        );
        let pid = format!("({})", nest.program.pid);
        assert_eq!(words[1][words[1].len() - 2..], ["killcord", &pid]);
        let tree = place.says(&["list", "--tree"], 0, "").stdout;
        let lines: Vec<&str> = tree.lines().collect();
        assert!(lines[0].starts_with(&format!("killcord {pid} for ")), "{tree}");
        assert!(
            lines.len() == 2 && lines[1].starts_with(&format!("  {}  sh  running  ", &id[..12])),
            "{tree}"
        );
        assert!(!table.contains('\x1b') && !tree.contains('\x1b'));
        let mut terminal = Terminal::start(&place.killcord(&["list"]));
        let seen = terminal.read_to_end(SOON).unwrap();
        assert!(seen.contains("\x1b[32mrunning\x1b[0m"), "{seen:?}");
        assert_eq!(terminal.wait(SOON).unwrap().code(), Some(0));
        end(nest);
    });
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_json_has_these_fields_and_they_are_true() {
    in_every_cell(|who, boundary| {
        let place = Place::new(env!("CARGO_BIN_EXE_killcord"), who);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut service = place.start("web", &["--boundary", boundary], "exec ./leaf.sh srv 50");
        place.start("over", &["--boundary", boundary], "exit 3").gone(SOON);
        let list = place.list();
        assert_eq!(keys(&list), BTreeSet::from(["version", "owners", "services", "unreadable"]));
        assert_eq!((&list["version"], &list["unreadable"]), (&1.into(), &Value::Array(vec![])));
        let owner = owner(&list);
        assert_eq!(
            keys(owner),
            BTreeSet::from(["claim", "pid", "program", "service", "since", "alive", "jobs"])
        );
        let claim = PathBuf::from(owner["claim"].as_str().unwrap());
        assert_eq!(claim.parent().unwrap(), place.state());
        assert!(claim.join("jobs").join(&service.job).exists());
        assert_eq!(owner["pid"], service.guards().0.pid);
        assert_eq!((&owner["program"], &owner["service"]), (&"killcord".into(), &"web".into()));
        assert_eq!((&owner["alive"], owner["jobs"].as_array().unwrap().len()), (&true.into(), 1));
        let job = &owner["jobs"][0];
        let fields = ["id", "program", "state", "boundary", "since", "processes", "memory_bytes"];
        assert_eq!(keys(job), BTreeSet::from(fields));
        assert_eq!((&job["id"], &job["program"]), (&service.job.as_str().into(), &"sh".into()));
        assert_eq!((&job["state"], &job["boundary"]), (&"running".into(), &boundary.into()));
        let since = [owner, job].map(|of| of["since"].as_u64().unwrap());
        assert!(since.iter().all(|since| (now..now + 20).contains(since)), "{list}");
        let [web, over] = ["web", "over"].map(|name| service_in(&list, name).unwrap());
        for service in [web, over] {
            assert_eq!(keys(service), BTreeSet::from(["name", "running", "exit_status", "how", "ended"]));
        }
        assert_eq!([&web["running"], &over["running"]], [&Value::from(true), &Value::from(false)]);
        assert!(["exit_status", "how", "ended"].iter().all(|field| web[field].is_null()), "{list}");
        assert_eq!((&over["exit_status"], &over["how"]), (&3.into(), &"exited with 3".into()));
        assert!((now..now + 20).contains(&over["ended"].as_u64().unwrap()), "{list}");
        place.says(&["stop", "web"], 0, "web stopped\n");
        service.gone(TWO);
    });
}

/// What is resident of a process, in bytes.
fn resident(process: &PinnedProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn processes_and_memory_are_those_of_the_whole_job() {
    in_every_cell(|who, boundary| {
        let place = Place::new(env!("CARGO_BIN_EXE_killcord"), who);
        let script = "./leaf.sh a 50 & (setsid ./leaf.sh b 50 &) ; wait";
        let nest = job(&place, &["--boundary", boundary], script, &["a", "b"]);
        let leader = Guards::find(nest.program.pid, SOON).leader.unwrap();
        let pinned = place.scene.pin();
        // The shell between the two is on its way out.
        let list = place.list_until(|list| owner(list)["jobs"][0]["processes"] == 3);
        let seen = owner(&list)["jobs"][0]["memory_bytes"].as_u64().unwrap();
        let sum: u64 =
            [&leader, pinned.get("a").unwrap(), pinned.get("b").unwrap()].map(resident).iter().sum();
        // The kernel's two counts differ by what a processor has not added up yet.
        assert!(seen.abs_diff(sum) <= sum / 4 + (1 << 20), "{seen} {sum}");
        end(nest);
        assert!(is_empty(&place.list()));
    });
}

/// Changes a word of the only job's record.
fn rewrite(list: &Value, from: &str, to: &str) {
    let path = PathBuf::from(owner(list)["claim"].as_str().unwrap()).join("jobs");
    let path = path.join(owner(list)["jobs"][0]["id"].as_str().unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&path, text.replace(from, to)).unwrap();
}

#[test]
fn a_job_is_starting_running_ending_or_orphaned() {
    as_each(|place| {
        // One that has left the leader is not ended by the leader's own death signal.
        let script = "(setsid ./leaf.sh sub 50 &) ; exec ./leaf.sh job 50";
        let mut nest = job(&place, &["--boundary", "tree"], script, &["sub", "job"]);
        let list = place.list();
        assert_eq!(state(&list), "running");
        let [started, reserved] = ["\"state\":\"started\"", "\"state\":\"reserved\""];
        rewrite(&list, started, reserved);
        assert_eq!(state(&place.list()), "starting");
        rewrite(&list, reserved, started);
        let guards = Guards::find(nest.program.pid, SOON);
        let (warden, keeper) = (guards.warden.unwrap(), guards.keeper.unwrap());
        let held = (nest.program.stop().unwrap(), warden.stop().unwrap());
        keeper.kill(Signal::KILL).unwrap();
        assert!(keeper.wait_gone(SOON));
        let list = place.list();
        assert_eq!((state(&list), &owner(&list)["jobs"][0]["processes"]), ("ending", &Value::Null));
        warden.kill(Signal::KILL).unwrap();
        nest.program.kill(Signal::KILL).unwrap();
        assert!(nest.program.wait_gone(SOON) && warden.wait_gone(SOON));
        drop(held);
        let list = place.list();
        assert_eq!((state(&list), &owner(&list)["alive"]), ("orphaned", &false.into()));
        place.says(&["list", "--tree"], 0, " gone for ");
        let id = owner(&list)["jobs"][0]["id"].as_str().unwrap();
        let stop = place.says(&["stop", id], 125, "`killcord sweep` ends what is left");
        assert!(stop.elapsed < TWO, "{stop:?}");
        place.says(&["sweep"], 0, "");
        nest.wait_empty(TWO).unwrap();
        assert!(is_empty(&place.list()));
    });
}

#[test]
fn a_job_that_was_let_go_is_listed_as_such_and_stop_says_so() {
    as_each(|place| {
        let script = "(setsid ./leaf.sh stays 50 &) ; until grep -q stays $D/ids; do sleep .02; done";
        let mut nest = job(&place, &["--leftovers", "release"], script, &["stays"]);
        assert!(nest.program.wait_gone(SOON));
        let list = place.list();
        assert_eq!(state(&list), "released");
        place.scene.pin().kill(Signal::KILL);
        nest.wait_empty(TWO).unwrap();
        place.says(&["sweep"], 0, "");
        assert!(is_empty(&place.list()));
    });
}

#[test]
fn nothing_of_other_users_is_listed() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let places = [Who::Root, Who::User].map(|who| Place::new(env!("CARGO_BIN_EXE_killcord"), who));
    // Both where a user's state is that has no directory of its own for that.
    let shared = |place: &Place, args: &[&str]| {
        let mut command = place.killcord(args);
        command.env_remove("KILLCORD_STATE_DIR").env("TMPDIR", places[1].scene.path("tmp"));
        command
    };
    let mut nests = places.each_ref().map(|place| {
        let nest = Nest::start(&shared(place, &["run", "--", "./leaf.sh", "job", "50"]));
        place.scene.wait_names(&["job"], SOON);
        nest
    });
    for (place, nest) in places.iter().zip(&nests) {
        let done = run(&mut shared(place, &["list", "--json"]), SOON);
        let list: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(owner(&list)["pid"], nest.program.pid);
    }
    for nest in &mut nests {
        nest.program.kill(Signal::TERM).unwrap();
        nest.wait_empty(TWO).unwrap();
    }
}

#[test]
fn heavy_fifty_owners_are_listed_within_two_seconds() {
    for who in Who::here() {
        let place = Place::new(env!("CARGO_BIN_EXE_killcord"), *who);
        let script = "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5; do \
                      \"$0\" run -- ./leaf.sh job 50 & done; done; wait";
        let mut shell = place.program("sh");
        shell
            .args(["-c", script])
            .arg(killcord_testkit::Killcord::new(env!("CARGO_BIN_EXE_killcord")).path());
        let mut nest = Nest::start(&shell);
        place.scene.wait_recorded(50, SOON + SOON);
        let done = place.says(&["list", "--json"], 0, "\n");
        assert!(done.elapsed < TWO, "{:?}", done.elapsed);
        let list: Value = serde_json::from_str(&done.stdout).unwrap();
        let jobs = list["owners"].as_array().unwrap().iter().map(|owner| &owner["jobs"][0]);
        assert_eq!(jobs.filter(|job| job["state"] == "running" && job["processes"] == 1).count(), 50);
        nest.program.kill(Signal::KILL).unwrap();
        nest.wait_empty(SOON).unwrap();
        assert!(is_empty(&place.list()));
    }
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_shown() {
    as_each(|place| {
        let nest = job(&place, &[], "exec ./leaf.sh job 50", &["job"]);
        let claim = PathBuf::from(owner(&place.list())["claim"].as_str().unwrap());
        let odd = ["c0bad0bad/owner", "c0fee0fee/owner"].map(|name| place.state().join(name));
        let record = claim.join("jobs/0123456789abcdef0123456789abcdef");
        // As this user, since what is another's is not even read.
        let script = "mkdir c0bad0bad c0fee0fee; echo nonsense >c0bad0bad/owner; echo '{\"v\":9}' >c0fee0fee/owner; \
                      mkfifo services; : >\"$0\"; : >cfile";
        let mut write = place.program("sh");
        assert!(
            write.args(["-c", script]).arg(&record).current_dir(place.state()).status().unwrap().success()
        );
        let done = place.says(&["list"], 0, "  running  ");
        for path in odd.iter().map(|path| path.parent().unwrap()).chain([record.as_path()]) {
            assert!(done.stderr.contains(&format!("killcord: {}: ", path.display())), "{path:?}: {done:?}");
        }
        assert!(done.stderr.contains("made by a newer killcord"), "{done:?}");
        let list = run(&mut place.killcord(&["list", "--json"]), SOON);
        let list: Value = serde_json::from_str(&list.stdout).unwrap();
        assert!(list["unreadable"].as_array().unwrap().len() >= 4, "{list}");
        assert_eq!(keys(&list["unreadable"][0]), BTreeSet::from(["path", "why"]));
        assert_eq!(state(&list), "running");
        std::fs::remove_file(record).unwrap();
        end(nest);
    });
}

#[test]
fn it_never_fails_while_claims_come_and_go() {
    as_each(|place| {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..30 {
                    place.says(&["run", "--", "true"], 0, "");
                    let name = format!("s{}", i % 3);
                    place.says(&Place::detach(&name, &[], &["true"]), 0, " started: job ");
                    place.says(&["wait", &name], 0, ": exited with 0, ");
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                // Which fails on any other exit status and on anything on stderr.
                let list = place.list();
                assert_eq!(list["unreadable"], Value::Array(vec![]), "{list}");
            }
        });
        assert!(is_empty(&place.list_until(is_empty)));
    });
}
