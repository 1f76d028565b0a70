//! `killcord doctor`.
//!
//! Promised (G13): what it says of a boundary and of a limit is what `killcord run` does with it, for root and for
//! an ordinary user, under the system call filter of containers and without `/proc`. Its JSON object has the
//! fields that docs/doctor.md lists.
//!
//! Not promised: that what it found stays true; a machine may change.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that panics has failed the test that called it"
)]

use killcord_testkit::{Finished, Host, Need, Scene, Terminal, Who, bin, reachable, run, skip};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const BOUNDARIES: [&str; 4] = ["namespace", "cgroup", "tree", "group"];
const LIMITS: [(&str, &str); 3] = [("memory", "64M"), ("pids", "16"), ("cpu", "0.5")];

/// `killcord ARGS` as this user, perhaps under a filter.
fn killcord(scene: &Scene, who: Who, filter: &[&str], args: &[&str]) -> Command {
    let killcord = reachable(env!("CARGO_BIN_EXE_killcord").as_ref());
    let mut command = if filter.is_empty() {
        scene.command(who, killcord)
    } else {
        let mut command = scene.command(who, bin("kc-deny"));
        command.args(filter).arg("--").arg(killcord);
        command
    };
    command.args(args);
    command
}

fn parsed(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

/// What doctor finds where at least `tree` holds.
fn findings(scene: &Scene, who: Who, filter: &[&str]) -> Value {
    let done = run(&mut killcord(scene, who, filter, &["doctor", "--json"]), SOON);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{who:?} {filter:?}");
    parsed(&done)
}

fn of<'a>(found: &'a Value, kind: &str) -> &'a Value {
    let all = found["boundaries"].as_array().unwrap();
    all.iter().find(|b| b["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {found}"))
}

/// Everybody, without a filter and with those of containers.
fn everywhere(check: impl Fn(&Scene, Who, &[&str])) {
    for who in Who::here() {
        for filter in [&[][..], &["docker"], &["docker", "pidfd"]] {
            check(&Scene::new(), *who, filter);
        }
    }
}

#[test]
fn a_boundary_is_available_exactly_if_a_command_runs_on_it() {
    everywhere(|scene, who, filter| {
        let found = findings(scene, who, filter);
        assert_eq!(found["version"], 1);
        for kind in BOUNDARIES {
            let ran =
                run(&mut killcord(scene, who, filter, &["run", "--boundary", kind, "--", "true"]), SOON);
            let boundary = of(&found, kind);
            let available = boundary["available"] == true;
            assert_eq!(ran.code(), if available { 0 } else { 125 }, "{who:?} {filter:?}: {boundary} {ran:?}");
            // The reason is that of the refusal.
            match boundary["why_not"].as_str() {
                None => assert!(available, "{boundary}"),
                Some(why) => assert!(!available && ran.stderr.contains(why), "{boundary} {ran:?}"),
            }
        }
    });
}

#[test]
fn the_first_line_names_the_boundary_that_auto_takes() {
    everywhere(|scene, who, filter| {
        let found = findings(scene, who, filter);
        let ran = run(&mut killcord(scene, who, filter, &["run", "--report", "-", "--", "true"]), SOON);
        let report: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
        assert_eq!(found["boundary"], report["boundary"]["kind"], "{who:?} {filter:?}");
        let text = run(&mut killcord(scene, who, filter, &["doctor"]), SOON).stdout;
        let kind = found["boundary"].as_str().unwrap();
        let first = format!("boundary: {kind} — ends everything it started, daemons and escapees too\n");
        assert!(text.starts_with(&first), "{text}");
    });
}

#[test]
fn a_limit_is_enforced_exactly_if_a_command_runs_with_it() {
    for who in Who::here() {
        let scene = Scene::new();
        let found = findings(&scene, *who, &[]);
        for kind in BOUNDARIES {
            let limits = &of(&found, kind)["limits"];
            for (i, (limit, value)) in LIMITS.into_iter().enumerate() {
                assert_eq!(limits[i]["limit"], limit);
                let args = ["run", "--boundary", kind, &format!("--{limit}"), value, "--", "true"];
                let ran = run(&mut killcord(&scene, *who, &[], &args), SOON);
                let enforced = limits[i]["enforced"] == true;
                assert_eq!(ran.code(), if enforced { 0 } else { 125 }, "{who:?} {kind} {limit}: {ran:?}");
            }
        }
    }
}

/// The probe's negative control is boundary `group`, where the same escapee is seen to live on.
#[test]
fn escapees_are_seen_to_end_and_on_group_to_live() {
    everywhere(|scene, who, filter| {
        let found = findings(scene, who, filter);
        assert_eq!(of(&found, "group")["available"], true);
        for kind in BOUNDARIES {
            let boundary = of(&found, kind);
            assert_eq!(boundary["ends_escapees"], kind != "group", "{who:?} {filter:?} {boundary}");
        }
    });
}

#[test]
fn what_the_harness_finds_is_found_too() {
    for (who, kind) in Host::cells() {
        let found = findings(&Scene::new(), who, &[]);
        assert_eq!(of(&found, kind)["available"], true, "{who:?} {kind}: {found}");
    }
}

#[test]
fn under_the_filter_of_containers_it_says_what_would_help() {
    for who in Who::here() {
        let found = findings(&Scene::new(), *who, &["docker"]);
        assert_eq!(of(&found, "namespace")["available"], false);
        assert_eq!(found["mechanisms"]["system_call_filter"], true);
        let advice = found["advice"].to_string();
        assert!(advice.contains("system call filter"), "{advice}");
        // Root is not told to become root.
        assert!(*who == Who::User || !advice.contains("run as root"), "{advice}");
    }
}

#[test]
fn without_proc_nothing_is_promised() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let mut bare = Scene::new().command(Who::Root, "unshare");
    bare.args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" doctor --json"]);
    let done = run(bare.arg(env!("CARGO_BIN_EXE_killcord")).current_dir("/"), SOON);
    let found = parsed(&done);
    assert_eq!(done.code(), 1, "{found}");
    assert_eq!(found["boundary"], "group");
    assert_eq!(of(&found, "tree")["available"], false);
    assert!(found["advice"].to_string().contains("mount /proc"), "{found}");
}

/// Every key of the object is in the document, and every key of the document is in the object.
#[test]
fn the_document_lists_the_fields() {
    let found = findings(&Scene::new(), Who::here()[0], &[]);
    let document = include_str!("../../../docs/doctor.md");
    let row = |line: &'static str| line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key.to_owned());
    let mut listed: Vec<String> = document.lines().filter_map(row).collect();
    let mut keys = Vec::new();
    collect(&found, "", &mut keys);
    listed.sort_unstable();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(listed, keys);
}

fn collect(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                into.push(path.clone());
                collect(value, &path, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, &format!("{path}[]"), into)),
        _ => {}
    }
}

#[test]
fn on_a_terminal_it_fits_and_has_colour_unless_told_otherwise() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_killcord"));
    command.arg("doctor").env_remove("NO_COLOR");
    let text = Terminal::start(&command).read_to_end(SOON).unwrap();
    assert!(text.starts_with("\x1b[1mboundary:"), "{text:?}");
    for line in text.lines() {
        assert!(shown(line) <= 80, "{line:?}");
    }
    let piped = run(&mut command, SOON).stdout;
    assert!(!piped.contains('\x1b'), "{piped:?}");
    let text = Terminal::start(command.env("NO_COLOR", "1")).read_to_end(SOON).unwrap();
    assert!(!text.contains('\x1b'), "{text:?}");
}

/// How many columns a line takes.
fn shown(line: &str) -> usize {
    let mut in_escape = false;
    let visible = line.trim_end().chars().filter(|c| {
        let was = in_escape;
        in_escape = if was { *c != 'm' } else { *c == '\x1b' };
        !was && !in_escape
    });
    visible.count()
}
