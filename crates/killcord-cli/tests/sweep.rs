//! What dead owners left is reclaimed, by proof, and nothing else is.
//!
//! Promised (G11, G5, section 6): a claim goes when its owner is proven dead, its lease is proven free and its jobs are
//! proven over; what is left of its jobs is ended where owner, warden and keeper are all gone and the job was not let
//! go. Everything uncertain stays, and the sweep says why. It happens at every start, in the background, and by
//! `killcord sweep`; several at once are no different from one. No secret is ever written.
//!
//! That a sweep has passed is shown by a canary: an orphan that is gone.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use killcord_testkit::claims::{
    JOB, State, TEN, after, assert_swept, dead, is_free, kept, kill_all_guards, marker, own, place, read,
    record, until, with,
};
use killcord_testkit::{
    Corner, Host, Need, Nest, PinnedProcess, Running, Scene, Signal, Terminal, USER, Who, alone, bin,
    in_every_cell, is_root, procs, run, skip,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn state(scene: &Scene, who: Who) -> State<'_> {
    State::new(env!("CARGO_BIN_EXE_killcord"), scene, who)
}

/// The same for everybody that the tests can be here.
fn as_everybody(test: impl Fn(&State<'_>)) {
    for who in Who::here() {
        let scene = Scene::new();
        test(&state(&scene, *who));
    }
}

/// Everything below a directory, each with its text, to be compared.
fn texts(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        // Jobs come and go while we look.
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(path.clone());
            }
            all.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
        }
    }
    all.sort();
    all
}

/// The time of one `killcord run -- true`, and then of all that came from it, the sweep in the background too.
fn time(state: &State<'_>) -> Duration {
    let begun = Instant::now();
    let mut nest = Nest::start(&state.killcord(&["run", "--", "true"]));
    assert!(nest.program.wait_gone(TEN));
    let took = begun.elapsed();
    let all = nest.wait_empty(Duration::from_secs(30)).unwrap();
    assert_eq!((all.code, all.stderr.as_str()), (0, ""));
    took
}

/// A canary, and a start whose sweep in the background takes it, to its end.
fn let_a_sweep_pass(state: &State<'_>) {
    let canary = state.plant("c000000ca", &marker(dead()));
    time(state);
    assert!(!canary.exists());
}

/// Without its name in the environment, and in a session of its own.
const BARE: &str = "env -u KILLCORD_JOB setsid ./leaf.sh bare 60 &";

#[test]
fn a_claim_goes_when_its_owner_is_dead_and_no_sooner() {
    as_everybody(|state| {
        // Before there is anything to sweep at its start.
        let mut lives = Nest::start(&state.shell(&[], "read line"));
        let (claim, _) = state.started();
        state.plant("c0000dead", &marker(dead()));
        // Whatever has the number now: it was another start of the machine, or somebody else's number.
        let before = with(place(), &json!({"boot": "00000000-0000-4000-8000-000000000000"}));
        state.plant("c0000b007", &with(marker(own()), &json!({"place": before})));
        state.plant("c00000ee1", &marker((own().0, own().1 + 1)));
        state.plant("c00000a11", &marker(own()));
        state.plant("c0000a11e", &marker(own()));
        // What others have there, under names that are nearly ours.
        for name in ["cache", "code-1", ".trash-1000", "c0000DEAD"] {
            state.directory(&state.path.join(name));
        }
        let before = texts(&state.path);
        let dry = state.sweep(&["--dry-run"]);
        assert_eq!((&dry["dry_run"], &dry["complete"]), (&json!(true), &json!(true)));
        assert_swept(&dry, 3, &[("owner alive", 3)]);
        assert_eq!(texts(&state.path), before);
        let swept = state.sweep(&[]);
        assert_eq!((&swept["dry_run"], &swept["failed"]), (&json!(false), &json!(0)));
        assert_swept(&swept, 3, &[("owner alive", 3)]);
        let mut left = vec!["cache", "code-1", ".trash-1000", "c0000DEAD", "c00000a11", "c0000a11e"];
        left.push(claim.file_name().unwrap().to_str().unwrap());
        left.sort_unstable();
        assert_eq!(state.names(), left);
        lives.running().close_stdin();
        lives.wait_empty(TEN).unwrap();
        assert!(!claim.exists());
    });
}

#[test]
fn what_is_left_when_owner_warden_and_keeper_die_together_is_the_successors() {
    in_every_cell(|who, boundary| {
        for by_start in [false, true] {
            let scene = Scene::new();
            let state = state(&scene, who);
            let script = format!("{BARE} setsid ./leaf.sh named 60 & ./leaf.sh leader 60");
            let mut nest = Nest::start(&state.shell(&["--boundary", boundary], &script));
            scene.wait_names(&["bare", "named", "leader"], TEN);
            let (claim, job) = state.started();
            let record = read(&job);
            if boundary == "tree" && record["tag"].is_null() {
                skip!(Need::Other("the login uid is set: a job cannot be tagged"), continue);
            }
            let pinned = scene.pin();
            assert_eq!(pinned.len(), 3);
            kill_all_guards(&nest);
            assert!(claim.exists());
            if by_start {
                time(&state);
            } else {
                // It says what it would do, and does nothing.
                let alive = pinned.alive();
                let would = state.sweep(&["--dry-run"]);
                assert_swept(&would, 1, &[]);
                assert_eq!(pinned.alive(), alive);
                let swept = state.sweep(&[]);
                assert_swept(&swept, 1, &[]);
                let ended = swept["processes_ended"].as_u64().unwrap();
                assert_eq!(ended > 0, boundary != "namespace", "{swept}");
                // Not the same number: some may still have been dying with their keeper.
                assert!(would["processes_ended"].as_u64() >= Some(ended), "{would} {swept}");
            }
            assert_eq!(pinned.wait_gone(Duration::ZERO).map(drop), Ok(()));
            nest.wait_empty(TEN).unwrap();
            assert_eq!(state.names(), [""; 0]);
            let leaf = record["leaf"].as_str();
            assert_eq!(leaf.is_some(), boundary == "cgroup");
            assert!(leaf.is_none_or(|leaf| !Path::new(leaf).exists()));
        }
    });
}

/// One that changes its number every 3 ms is met by a walk through all processes under a number that is nobody's any
/// more; a sweep that took it for gone would leave it to nobody.
#[test]
fn one_that_changes_its_number_is_ended_by_a_sweep_too() {
    for boundary in ["tree", "group"] {
        as_everybody(|state| {
            let mut payload = state.killcord(&["run", "--boundary", boundary, "--"]);
            payload.arg(bin("kc-payload"));
            let mut nest = Nest::start(&payload);
            nest.running().stdout.expect("ready\n", TEN).unwrap();
            if read(&state.started().1)["tag"].is_null() {
                skip!(Need::Other("the login uid is set: a job cannot be tagged"));
            }
            let begun = Instant::now();
            kill_all_guards(&nest);
            assert_swept(&state.sweep(&[]), 1, &[]);
            // It hops for 20 s by itself.
            nest.wait_empty(Duration::from_secs(10).saturating_sub(begun.elapsed())).unwrap();
            assert_eq!(state.names(), [""; 0]);
        });
    }
}

#[test]
fn without_a_tag_it_is_not_known_whether_all_is_gone() {
    as_everybody(|state| {
        // A login uid that is set cannot be set again, and no job can be tagged.
        let log_in = "grep -q 4294967295 /proc/self/loginuid && echo 1 >/proc/self/loginuid";
        let script = format!("{BARE} setsid ./leaf.sh named 60 & ./leaf.sh leader 60");
        let mut nest = Nest::start(&after(log_in, &state.shell(&["--boundary", "tree"], &script)));
        state.scene.wait_names(&["bare", "named", "leader"], TEN);
        let (claim, job) = state.started();
        if !read(&job)["tag"].is_null() {
            skip!(Need::Other("no login uid can be set"));
        }
        let pinned = state.scene.pin();
        kill_all_guards(&nest);
        assert_swept(&state.sweep(&["--dry-run"]), 0, &[("unknown", 1)]);
        let swept = state.sweep(&[]);
        // What carries the job's name is ended all the same.
        assert!(pinned.get("named").unwrap().wait_gone(TEN) && pinned.get("leader").unwrap().wait_gone(TEN));
        assert_swept(&swept, 0, &[("unknown", 1)]);
        let bare = pinned.get("bare").unwrap();
        assert!(bare.is_alive() && claim.exists());
        bare.kill(Signal::KILL).unwrap();
        nest.wait_empty(TEN).unwrap();
        assert_swept(&state.sweep(&[]), 0, &[("unknown", 1)]);
    });
}

/// A descendant with this name, pinned.
fn below(pid: u32, comm: &str) -> Option<PinnedProcess> {
    procs::children(pid)
        .into_iter()
        .find_map(|child| PinnedProcess::open(child, |stat| stat.comm == comm).or_else(|| below(child, comm)))
}

#[test]
fn a_released_job_keeps_its_files_until_it_ends() {
    in_every_cell(|who, boundary| {
        for keeper_dies in [false, true] {
            if keeper_dies && boundary == "namespace" {
                // The keeper is the init: the job ends with it.
                continue;
            }
            let scene = Scene::new();
            let state = state(&scene, who);
            let stays = "n=0; until [ -e \"$D/stop\" ] || [ $n = 500 ]; do sleep .1; n=$((n+1)); done; \
                cat \"$TMPDIR/file\" >\"$D/seen\"";
            let script = format!(
                "echo mine >\"$TMPDIR/file\"; env -u KILLCORD_JOB setsid sh -c '{stays}' >/dev/null 2>&1 & \
                 ./leaf.sh leader 0.3"
            );
            let mut nest =
                Nest::start(&state.shell(&["--boundary", boundary, "--leftovers", "release"], &script));
            let (claim, job) = state.started();
            let untagged = boundary == "tree" && read(&job)["tag"].is_null();
            assert!(nest.program.wait_gone(TEN), "{:?}", nest.left());
            assert_eq!(read(&job)["state"], "released");
            if keeper_dies {
                let keeper = below(nest.running().pid(), "killcord-keeper").unwrap();
                keeper.kill(Signal::KILL).unwrap();
                assert!(keeper.wait_gone(TEN));
                until(TEN, "the lease is free", || is_free(&claim.join("lease")));
            }
            let_a_sweep_pass(&state);
            let reason = match (keeper_dies, untagged) {
                (false, _) => "lease held",
                (true, false) => "job running",
                (true, true) => "unknown",
            };
            assert_swept(&state.sweep(&[]), 0, &[(reason, 1)]);
            fs::write(scene.path("stop"), "").unwrap();
            assert_eq!(scene.wait_file("seen", TEN), "mine\n");
            nest.wait_empty(TEN).unwrap();
            let_a_sweep_pass(&state);
            if untagged && keeper_dies {
                skip!(Need::Other("the login uid is set: a job cannot be tagged"), continue);
            }
            assert_eq!(state.names(), [""; 0]);
        }
    });
}

#[test]
fn what_means_something_elsewhere_stays() {
    as_everybody(|state| {
        let other = |key: &str| with(place(), &json!({key: place()[key].as_u64().unwrap() + 1}));
        let job = record("started", "namespace", dead());
        for (n, space) in ["pid_namespace", "time_namespace"].into_iter().enumerate() {
            let elsewhere = json!({"place": other(space)});
            state.plant(&format!("c000000a{n}"), &with(marker(dead()), &elsewhere));
            state.plant_job(&format!("c000000b{n}"), JOB, &with(job.clone(), &elsewhere));
        }
        let before = texts(&state.path);
        assert_swept(&state.sweep(&[]), 0, &[("unknown", 4)]);
        assert_eq!(texts(&state.path), before);
        // The same record here is of a job that is over.
        state.plant_job("c000000c0", JOB, &job);
        assert_swept(&state.sweep(&[]), 1, &[("unknown", 4)]);
    });
}

#[test]
fn two_sweeps_at_once_are_one() {
    as_everybody(|state| {
        const MANY: u64 = 300;
        for n in 0..MANY {
            state.plant(&format!("c{n:08x}"), &marker(dead()));
        }
        let both = [(); 2].map(|()| Running::start(&mut state.killcord(&["sweep", "--json"])));
        let swept: Vec<Value> = both
            .into_iter()
            .map(|mut sweep| serde_json::from_str(&sweep.stdout.read_to_end(TEN).unwrap()).unwrap())
            .collect();
        assert_eq!(state.names(), [""; 0]);
        // Both count a removal that one has begun and the other helps to finish.
        let removed = swept.iter().map(|s| s["removed"].as_u64().unwrap()).sum::<u64>();
        assert!((MANY..MANY + MANY / 4).contains(&removed), "{removed}");
        for swept in &swept {
            assert_eq!((&swept["failed"], &swept["errors"]), (&json!(0), &json!([])));
            // What the other one is just looking at is all that is kept.
            assert_eq!(kept(swept, "unknown") + kept(swept, "unreadable") + kept(swept, "owner alive"), 0);
        }
    });
}

#[test]
fn heavy_sweeps_beside_owners_that_start_take_nothing_of_theirs() {
    as_everybody(|state| {
        let mut lives = Nest::start(&state.shell(&[], "read line; cat \"$TMPDIR/file\""));
        let (claim, job) = state.started();
        let own = claim.join("tmp").join(&job.file_name().unwrap().to_str().unwrap()[..12]);
        state.file(&own.join("file"), "still here\n");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweepers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut rounds = 0;
                        while !over.load(Ordering::Relaxed) {
                            let swept = state.sweep(&[]);
                            assert_eq!(swept["failed"], 0, "{swept:#}");
                            rounds += 1;
                        }
                        rounds
                    })
                })
                .collect();
            let owners: Vec<_> =
                (0..5).map(|_| scope.spawn(|| (0..10).for_each(|_| drop(state.start())))).collect();
            let failed = owners.into_iter().filter_map(|owner| owner.join().err()).count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0);
            assert!(sweepers.into_iter().map(|sweeper| sweeper.join().unwrap()).sum::<u32>() > 4);
        });
        lives.running().close_stdin();
        assert_eq!(lives.wait_empty(TEN).unwrap().stdout, "still here\n");
        until(TEN, "all is gone", || state.sweep(&[])["complete"] == true && state.names().is_empty());
    });
}

#[test]
fn a_living_job_is_not_touched_whatever_another_claim_says_of_it() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let state = state(&scene, who);
        let mut nest = Nest::start(&state.shell(&["--boundary", boundary], "./leaf.sh one 60 & wait"));
        scene.wait_names(&["one"], TEN);
        let (claim, job) = state.started();
        let id = job.file_name().unwrap().to_str().unwrap();
        // The whole record, of a dead owner; and another job's with its tag, from the beginning of time.
        state.plant_job("c00000001", id, &read(&job));
        let early = with(record("started", "tree", (1, 0)), &json!({"tag": read(&job)["tag"]}));
        state.plant_job("c00000002", JOB, &early);
        let swept = state.sweep(&[]);
        assert_eq!((&swept["processes_ended"], &swept["failed"]), (&json!(0), &json!(0)), "{swept:#}");
        assert_eq!(kept(&swept, "owner alive"), 1);
        assert_eq!(scene.pin().alive().len(), 1);
        assert!(claim.exists() && nest.program.is_alive());
        nest.program.kill(Signal::KILL).unwrap();
        nest.wait_empty(TEN).unwrap();
    });
}

#[test]
fn the_tag_of_older_processes_is_somebody_elses() {
    as_everybody(|state| {
        let log_in = "echo 1 >/proc/self/loginuid; cat /proc/self/sessionid >\"$D/session\"";
        let script = "\"$0\" older 60 & while [ ! -e \"$D/next\" ]; do sleep .02; done; \"$0\" younger 60";
        let mut command = state.scene.command(state.who, "sh");
        command.args(["-c", script]).arg(bin("kc-leaf"));
        let mut strangers = Nest::start(&after(log_in, &command));
        let older = state.scene.wait_names(&["older"], TEN)[0].start;
        let Ok(tag) = state.scene.wait_file("session", TEN).trim().parse::<u32>() else { return };
        if tag == u32::MAX {
            skip!(Need::Other("no audit sessions can be entered"));
        }
        // A later tick of the clock that start times are in.
        until(TEN, "a later start", || dead().1 > older + 1);
        fs::write(state.scene.path("next"), "").unwrap();
        state.scene.wait_names(&["younger"], TEN);
        let tagged = with(record("started", "tree", (dead().0, older + 1)), &json!({"tag": tag}));
        state.plant_job("c00000001", JOB, &tagged);
        let swept = state.sweep(&[]);
        assert_eq!(swept["processes_ended"], 0, "{swept:#}");
        assert_swept(&swept, 0, &[("job running", 1)]);
        assert_eq!(state.scene.pin().alive().len(), 2);
        strangers.program.kill(Signal::KILL).unwrap();
        state.scene.pin().kill(Signal::KILL);
        strangers.wait_empty(TEN).unwrap();
    });
}

#[test]
fn a_sweeper_inside_what_it_finds_is_not_killed() {
    as_everybody(|state| {
        let log_in = "echo 1 >/proc/self/loginuid; cat /proc/self/sessionid >\"$D/session\"; \
            while [ ! -e \"$D/go\" ]; do sleep .02; done";
        let mut sweep = Running::start(&mut after(log_in, &state.killcord(&["sweep", "--json"])));
        let tag = state.scene.wait_file("session", TEN).trim().parse::<u32>().unwrap();
        if tag == u32::MAX {
            skip!(Need::Other("no audit sessions can be entered"));
        }
        let started = procs::start_time(sweep.pid()).unwrap();
        state.plant_job(
            "c00000001",
            JOB,
            &with(record("started", "tree", (1, started)), &json!({"tag": tag})),
        );
        fs::write(state.scene.path("go"), "").unwrap();
        let swept: Value = serde_json::from_str(&sweep.stdout.read_to_end(TEN).unwrap()).unwrap();
        assert_eq!(sweep.wait(TEN).unwrap().code(), Some(0));
        assert_swept(&swept, 0, &[("job running", 1)]);
        // When it is gone itself, nobody is left.
        assert_swept(&state.sweep(&[]), 1, &[]);
    });
}

#[test]
fn a_cgroup_without_the_jobs_name_is_not_touched() {
    as_everybody(|state| {
        // No cgroup at all, though it has the name.
        let lookalike = state.scene.path("tmp").join(format!("killcord-{JOB}"));
        state.directory(&lookalike);
        let limits = json!({"limits": [lookalike]});
        state.plant_job("c00000001", JOB, &with(record("reserved", "cgroup", dead()), &limits));
        assert_swept(&state.sweep(&[]), 1, &[]);
        assert!(lookalike.exists());
        state.plant_job(
            "c00000002",
            JOB,
            &with(record("started", "cgroup", dead()), &json!({"leaf": lookalike})),
        );
        // Where the record names no cgroup, nothing of one was seen.
        state.plant_job("c00000003", JOB, &record("started", "cgroup", dead()));
        assert_swept(&state.sweep(&[]), 0, &[("unknown", 2)]);
        if !Host::get().has(Need::Cgroup(Who::Root)) {
            skip!(Need::Cgroup(Who::Root));
        }
        let corner = Corner::new(state.scene);
        let mut stranger = Running::start(
            &mut corner.wrap(state.scene.command(state.who, bin("kc-leaf")).args(["one", "60"])),
        );
        state.scene.wait_names(&["one"], TEN);
        let foreign = corner.dir().unwrap();
        state.plant_job(
            "c00000004",
            JOB,
            &with(record("started", "cgroup", dead()), &json!({"leaf": foreign})),
        );
        assert_swept(&state.sweep(&[]), 0, &[("unknown", 3)]);
        assert!(stranger.wait(Duration::ZERO).is_none() && foreign.exists());
        stranger.kill(Signal::KILL);
        stranger.wait(TEN).unwrap();
    });
}

#[test]
fn who_holds_the_lease_keeps_the_claim() {
    as_everybody(|state| {
        let claim = state.plant("c00000001", &marker(dead()));
        let mut command = state.scene.command(state.who, "flock");
        let mut holder = Running::start(command.arg("-s").arg(claim.join("lease")).args([
            "sh",
            "-c",
            "echo ok; read line",
        ]));
        holder.stdout.expect("ok", TEN).unwrap();
        assert_swept(&state.sweep(&[]), 0, &[("lease held", 1)]);
        holder.close_stdin();
        holder.wait(TEN).unwrap();
        assert_swept(&state.sweep(&[]), 1, &[]);
    });
}

#[test]
fn a_job_neither_holds_the_lease_nor_frees_it() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let state = state(&scene, who);
        // Each number is closed, used for something else, and closed again.
        let script = format!(
            "for n in 3 4 5 6 7 8 9; do eval \"exec $n>&-; exec $n</dev/null; exec $n>&-\"; done; \
             {BARE} ./leaf.sh one 60"
        );
        let mut nest = Nest::start(&state.shell(&["--boundary", boundary], &script));
        scene.wait_names(&["bare", "one"], TEN);
        let lease = state.started().0.join("lease");
        assert!(!is_free(&lease));
        kill_all_guards(&nest);
        // Free, though one of its processes may live.
        assert!(is_free(&lease));
        assert_eq!(scene.pin().get("bare").is_some(), boundary != "namespace");
        state.sweep(&[]);
        scene.pin().kill(Signal::KILL);
        nest.wait_empty(TEN).unwrap();
    });
}

#[test]
fn no_secret_is_ever_written_down() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let state = state(&scene, who);
        let mut command = state.shell(&["--boundary", boundary], "sleep .2; read line");
        command.arg("zq82argument").env("CANARY_TOKEN", "zq81canary");
        let mut nest = Nest::start(&command);
        let secret = |(path, text): (String, Vec<u8>)| {
            let has = |word: &str| text.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!has("zq81canary") && !has("zq82argument"), "{path}: {}", String::from_utf8_lossy(&text));
        };
        let mut seen = 0;
        let mut told = false;
        while !nest.is_empty() {
            let found = texts(&state.path);
            seen = seen.max(found.len());
            found.into_iter().for_each(secret);
            if !told && seen > 5 {
                nest.running().close_stdin();
                told = true;
            }
        }
        assert!(told, "{seen}");
        // What a killed one leaves.
        let mut nest = Nest::start(&command);
        state.started();
        kill_all_guards(&nest);
        texts(&state.path).into_iter().for_each(secret);
        nest.running().close_stdin();
        nest.wait_empty(TEN).unwrap();
        assert_swept(&state.sweep(&[]), 1, &[]);
    });
}

#[test]
fn what_belongs_to_another_user_is_left_alone() {
    if !is_root() {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    let state = state(&scene, Who::Root);
    let theirs = state.plant("c00000001", &marker(dead()));
    chown(&theirs, Some(USER), Some(USER)).unwrap();
    state.plant("c00000002", &marker(dead()));
    let before = texts(&theirs);
    assert_swept(&state.sweep(&[]), 1, &[("unreadable", 1)]);
    assert_eq!(texts(&theirs), before);
}

/// `run`, `sweep` and `list` say one line, and nothing runs.
fn is_refused(state: &State<'_>, why: &str) {
    let ran = state.scene.path("ran");
    let commands = [&["run", "--", "touch", ran.to_str().unwrap()][..], &["sweep"], &["list"]];
    for args in commands {
        let refused = run(&mut state.killcord(args), TEN);
        assert_eq!((refused.code(), refused.stdout.as_str()), (125, ""), "{args:?}: {refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        assert!(refused.stderr.starts_with("killcord: ") && refused.stderr.contains(why), "{refused:?}");
    }
    assert!(!ran.exists());
}

#[test]
fn a_state_directory_that_is_not_ours_alone_is_refused() {
    as_everybody(|state| {
        let orphan = state.plant("c00000001", &marker(dead()));
        let mode = |mode| fs::set_permissions(&state.path, fs::Permissions::from_mode(mode)).unwrap();
        for open in [0o777, 0o750, 0o701] {
            mode(open);
            is_refused(state, &format!("others may use it (mode {open:04o}, not 0700)"));
        }
        mode(0o700);
        let moved = state.scene.path("moved");
        fs::rename(&state.path, &moved).unwrap();
        symlink(&moved, &state.path).unwrap();
        is_refused(state, "not a directory, or a link to one");
        fs::remove_file(&state.path).unwrap();
        fs::write(&state.path, "").unwrap();
        is_refused(state, "not a directory, or a link to one");
        fs::remove_file(&state.path).unwrap();
        fs::rename(&moved, &state.path).unwrap();
        if is_root() {
            let other = if state.uid() == 0 { USER } else { 0 };
            chown(&state.path, Some(other), Some(other)).unwrap();
            // An ordinary user cannot even open it.
            let theirs = format!("it belongs to user {other}");
            is_refused(state, if other == 0 { "state" } else { &theirs });
        }
        assert!(orphan.exists());
    });
}

#[test]
fn where_nothing_can_be_written_a_command_runs_all_the_same() {
    as_everybody(|state| {
        if Path::new(&format!("/run/user/{}", state.uid())).exists() {
            skip!(Need::Other("this user has a runtime directory"));
        }
        let mut command = state.killcord(&["run", "--", "echo", "ran"]);
        // Where nobody can make a directory, root included.
        command.env_remove("KILLCORD_STATE_DIR").env("TMPDIR", "/proc");
        let ran = run(&mut command, TEN);
        assert_eq!((ran.code(), ran.stdout.as_str()), (0, "ran\n"), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stderr.starts_with("killcord: nothing is written down of the job"), "{ran:?}");
    });
}

/// Where a real state directory is: on a file system in memory.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

#[test]
fn heavy_ten_thousand_claims_delay_no_start() {
    const MANY: u32 = 10_000;
    let _alone = alone();
    let scenes = [Scene::new(), Scene::new()];
    let who = *Who::here().first().unwrap();
    let memory = [in_memory(), in_memory()];
    let place = |n: usize| {
        let path = memory[n].path().join("state");
        State::at(env!("CARGO_BIN_EXE_killcord"), &scenes[n], who, path)
    };
    let (with_many, without) = (place(0), place(1));
    let alive = marker(own());
    for n in 0..MANY {
        with_many.plant(&format!("c{n:08x}"), &alive);
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..9 {
        times[0].push(time(&with_many));
        times[1].push(time(&without));
    }
    assert_eq!(with_many.names().len(), MANY as usize);
    let [many, none] = times.map(median);
    println!("a start beside {MANY} claims: {many:?}, beside none: {none:?}");
    assert!(many < none + Duration::from_millis(10), "{many:?} {none:?}");
}

#[test]
fn heavy_ten_thousand_dead_claims_are_gone_in_twenty_seconds() {
    const MANY: u32 = 10_000;
    let _alone = alone();
    let (scene, memory) = (Scene::new(), in_memory());
    let who = *Who::here().first().unwrap();
    let state = State::at(env!("CARGO_BIN_EXE_killcord"), &scene, who, memory.path().join("state"));
    let (owner, job) = (marker(dead()), record("started", "namespace", dead()));
    for n in 0..MANY {
        let claim = state.plant(&format!("c{n:08x}"), &owner);
        // For each of these it is asked whether somebody of the job lives.
        if n % 10 == 0 {
            state.file(&claim.join("jobs").join(JOB), format!("{job}\n"));
        }
    }
    let begun = Instant::now();
    let mut terminal = Terminal::start(&state.killcord(&["sweep"]));
    terminal.expect("sweeping: ", TEN).unwrap();
    terminal.expect(" removed, 0 kept", TEN).unwrap();
    terminal.expect("removed 10000 claims; kept 0", Duration::from_secs(20)).unwrap();
    println!("{MANY} dead claims swept in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(terminal.wait(TEN).unwrap().code(), Some(0));
    assert_eq!(state.names(), [""; 0]);
}
