//! What a configuration bounds or refuses.

use crate::line_client::{Client, SOON, text};
use crate::stage::Stage;
use crate::terminals::open;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn is_wrong(result: &Value) -> String {
    assert_eq!(result["isError"], json!(true), "{result}");
    text(result)
}

/// Looks until the list says this.
fn until_listed(client: &mut Client, so: impl Fn(&str) -> bool) -> (String, Duration) {
    let begun = Instant::now();
    loop {
        let list = client.text("session_list", &json!({}));
        if so(&list) {
            return (list, begun.elapsed());
        }
        assert!(begun.elapsed() < SOON, "{list}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_server_says_what_is_idle_and_a_refused_start_costs_no_place() {
    let mut client = Stage::new("[sessions]\nmax = 2\n").client();
    for n in 0..100 {
        let place = json!({"command": "sleep 50", "cwd": format!("/no/such/{n}")});
        assert!(is_wrong(&client.call("shell_spawn", &place)).contains("No such file"));
        let variable = json!({"command": "sleep 50", "env": {"TOO_LONG": "x".repeat(200_000)}});
        if n < 10 {
            is_wrong(&client.call("shell_spawn", &variable));
        }
    }
    let name = |name: &str| json!({"command": "sleep 50", "name": name, "wait": {"quiet_ms": 10}});
    let (first, second) = (open(&mut client, &name("first")), open(&mut client, &name("second")));
    let said = is_wrong(&client.call("shell_spawn", &name("third")));
    assert!(
        said.starts_with("2 sessions run, which is the limit")
            && said.contains(&format!("{first} (first, idle 0s)")),
        "{said}"
    );
    assert!(is_wrong(&client.call("shell_run", &json!({"command": "true"}))).contains(&second));
    client.text("session_kill", &json!({"session": first, "now": true}));
    open(&mut client, &name("third"));
    let listed = client.text("session_list", &json!({}));
    assert!(
        listed.contains("| third |") && listed.contains("| terminal |") && listed.contains("boundary "),
        "{listed}"
    );
}

/// A reader that waits is a use.
#[test]
fn a_session_that_nobody_uses_is_ended_and_one_that_is_waited_for_is_not() {
    let stage = Stage::new("[sessions]\nidle_s = 10\n");
    let mut client = stage.client();
    let idle = open(&mut client, &json!({"command": stage.script("exec \"$LEAF\" idle 55"), "name": "idle"}));
    let used = open(&mut client, &json!({"command": stage.script("exec \"$LEAF\" used 55"), "name": "used"}));
    stage.scene.wait_recorded(2, SOON);
    let pinned = stage.scene.pin();
    let wait = json!({"session": used, "wait": {"until": "exit", "timeout_s": 14}});
    let read = client.ask("tools/call", json!({"name": "session_read", "arguments": wait}));
    assert!(pinned.get("idle").unwrap().wait_gone(Duration::from_secs(13)));
    let said = text(&client.answer(&read)["result"]);
    assert!(said.contains("running for 1") && said.contains("nothing of it within 14s"), "{said}");
    let listed = client.text("session_list", &json!({}));
    assert!(listed.contains(&format!("{idle} | terminal | idle | ended by SIG")), "{listed}");
    assert_eq!(pinned.alive().len(), 1);
    client.text("session_kill", &json!({"session": used, "now": true}));
}

#[test]
fn heavy_a_session_is_ended_when_it_is_too_old() {
    let stage = Stage::new("[sessions]\nabsolute_s = 60\n");
    let mut client = stage.client();
    let begun = Instant::now();
    // A few seconds more than the minute, which is the least that can be configured.
    let session = open(&mut client, &json!({"command": "sleep 57; exec sleep 8"}));
    let wait = json!({"session": session, "wait": {"until": "exit", "timeout_s": 80}});
    let id = client.ask("tools/call", json!({"name": "session_read", "arguments": wait}));
    let mut answer = None;
    while answer.is_none() && begun.elapsed() < Duration::from_secs(75) {
        client.text("session_list", &json!({}));
        std::thread::sleep(Duration::from_millis(500));
        answer = client.arrived(&id);
    }
    let said = text(&answer.unwrap()["result"]);
    assert!(said.contains("ended by SIG") && begun.elapsed() > Duration::from_secs(59), "{said}");
}

#[test]
fn exit_and_output_are_kept_for_a_while() {
    let mut client = Stage::new("[sessions]\nkept_s = 2\n").client();
    let session = open(&mut client, &json!({"command": "echo kept; exit 3", "wait": {"until": "exit"}}));
    let said = client.text("session_read", &json!({"session": session, "mode": "from", "cursor": 0}));
    assert!(said.contains("exit 3 in ") && said.contains("\nkept\n"), "{said}");
    let (_, took) = until_listed(&mut client, |list| list == "[no sessions]");
    assert!(took > Duration::from_millis(1500), "{took:?}");
    let said = is_wrong(&client.call("session_read", &json!({"session": session})));
    assert_eq!(said, format!("there is no session {session}; sessions: there are none"));
}

#[test]
fn a_read_only_server_starts_and_types_nothing() {
    let mut client = Stage::new("[policy]\nread_only = true\n").client();
    for (tool, arguments) in [
        ("shell_run", json!({"command": "true"})),
        ("shell_spawn", json!({})),
        ("session_write", json!({"session": "s1", "text": "x"})),
        ("session_signal", json!({"session": "s1", "signal": "INT"})),
        ("session_resize", json!({"session": "s1", "cols": 80, "rows": 24})),
    ] {
        let said = is_wrong(&client.call(tool, &arguments));
        assert!(said.contains("read-only"), "{tool}: {said}");
    }
    let info = client.text("server_info", &json!({}));
    assert!(info.contains("read-only") && info.contains("0 jobs started"), "{info}");
}

#[test]
fn what_is_denied_is_not_started_and_is_recorded() {
    let stage = Stage::new("[policy]\ndeny = ['\\brm\\s+-rf\\b']\n");
    let mut client = stage.client();
    for tool in ["shell_run", "shell_spawn"] {
        let said = is_wrong(&client.call(tool, &json!({"command": "echo hi; rm  -rf /no/such/place"})));
        assert!(said.starts_with("denied by the configuration: "), "{said}");
    }
    assert!(client.text("shell_run", &json!({"command": "echo allowed"})).contains("\nallowed\n"));
    let refused = stage.records().into_iter().filter(|record| record["event"] == "refused").count();
    assert_eq!(refused, 2);
}

/// Neither where there is no log from the beginning, nor where it goes away.
#[test]
fn without_the_log_that_is_required_nothing_is_done() {
    let stage = Stage::new("[audit]\nrequired = true\n");
    // Root may write anywhere but below a file.
    std::fs::write(stage.scene.path("state"), "").unwrap();
    let output = stage.server().stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing was started"), "{output:?}");
    let stage = Stage::new("[audit]\nrequired = false\n");
    std::fs::write(stage.scene.path("state"), "").unwrap();
    let mut client = Client::start_as(quiet(&stage)).greeted("2025-11-25");
    assert!(client.text("shell_run", &json!({"command": "echo done"})).contains("\ndone\n"));
    assert!(client.text("server_info", &json!({})).contains(" lost"));
}

/// Everything that starts or types something is refused, and nothing is done.
fn refused_for_want_of_a_record(client: &mut Client, terminal: &str, stage: &Stage, why: &str) {
    let made = stage.scene.path("made");
    let command = json!({"command": format!("touch {}", made.display())});
    let typed = json!({"session": terminal, "text": format!("touch {}\n", made.display())});
    for (tool, arguments) in [("shell_run", &command), ("shell_spawn", &command), ("session_write", &typed)] {
        let said = is_wrong(&client.call(tool, arguments));
        let begins = "nothing was done, since it cannot be recorded: failed to ";
        assert!(said.starts_with(begins) && said.contains(why), "{tool}: {said}");
    }
    // What is there can be looked at, and what would be made by now is not.
    client.text("session_read", &json!({"session": terminal, "wait": {"quiet_ms": 100}}));
    assert!(!made.exists());
}

/// How many records are lost, as the server says.
fn lost(client: &mut Client) -> u64 {
    let info = client.text("server_info", &json!({}));
    let line = info.lines().find_map(|line| line.strip_prefix("audit: ")).unwrap();
    let (written, lost) = line.split_once(" records written, ").unwrap();
    assert!(written.parse::<u64>().unwrap() > 0, "{info}");
    lost.strip_suffix(" lost").unwrap().parse().unwrap()
}

/// Calls until the log takes no more. What is left of it is used first. Then a call is refused for this reason, or is done
/// where no record is required.
fn runs_into_the_end_of_the_log(client: &mut Client, terminal: &str, stage: &Stage, why: Option<&str>) {
    let mut said = String::new();
    for _ in 0..100 {
        said = client.text("shell_run", &json!({"command": "echo on"}));
        if lost(client) > 0 {
            break;
        }
    }
    match why {
        Some(why) => refused_for_want_of_a_record(client, terminal, stage, why),
        None => assert!(lost(client) > 0 && said.contains("\non\n"), "{said}"),
    }
}

#[test]
fn with_a_log_that_goes_away_a_call_is_refused_where_it_is_required_and_counted_elsewhere() {
    for required in [true, false] {
        let stage = Stage::new(&format!("[audit]\nrequired = {required}\n"));
        let mut client = Client::start_as(quiet(&stage)).greeted("2025-11-25");
        let terminal = open(&mut client, &json!({"command": "exec sh", "wait": {"quiet_ms": 50}}));
        assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
        assert_eq!(lost(&mut client), 0);
        let log = stage.scene.path("state/killcord/audit");
        std::fs::remove_dir_all(&log).unwrap();
        std::fs::write(&log, "").unwrap();
        if required {
            refused_for_want_of_a_record(&mut client, &terminal, &stage, "audit");
        } else {
            assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
        }
        let now_lost = lost(&mut client);
        assert!(now_lost >= 2, "{now_lost}");
        // To end something is never refused.
        let killed = client.text("session_kill", &json!({"session": terminal, "now": true}));
        assert!(killed.contains("nothing of it is left"), "{killed}");
        std::fs::remove_file(&log).unwrap();
        assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
        let said = stage.records().iter().any(|record| record["lost"].as_u64() >= Some(now_lost));
        assert!(said, "the log itself says how many are lost: {:?}", stage.records());
    }
}

/// On a disk that only the server sees.
#[test]
fn on_a_full_disk_a_call_is_refused_where_a_record_is_required_and_counted_elsewhere() {
    if !killcord_testkit::is_root() {
        killcord_testkit::skip!(killcord_testkit::Need::Root);
    }
    for required in [true, false] {
        let stage = Stage::new(&format!("[audit]\nrequired = {required}\n"));
        let disk = stage.scene.path("state");
        std::fs::create_dir(&disk).unwrap();
        let server = quiet(&stage);
        let mut command = std::process::Command::new("unshare");
        let script = "mount -t tmpfs -o size=64k,mode=700 none \"$1\"; shift; exec \"$@\"";
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]).arg(&disk);
        command.arg(server.get_program()).args(server.get_args());
        command
            .envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stderr(std::process::Stdio::null());
        let mut client = Client::start_as(command).greeted("2025-11-25");
        let terminal = open(&mut client, &json!({"command": "exec sh", "wait": {"quiet_ms": 50}}));
        let seen = format!("/proc/{}/root{}/filler", client.pid(), disk.display());
        let full = std::fs::write(&seen, vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        runs_into_the_end_of_the_log(
            &mut client,
            &terminal,
            &stage,
            required.then_some("No space left on device"),
        );
        std::fs::remove_file(&seen).unwrap();
        assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
        client.text("session_kill", &json!({"session": terminal, "now": true}));
    }
}

/// The kernel's usual answer is a signal that ends the writer (`setrlimit(2)`).
#[test]
fn a_log_that_may_not_grow_ends_no_server() {
    for required in [true, false] {
        let stage = Stage::new(&format!("[audit]\nrequired = {required}\n"));
        let server = quiet(&stage);
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "ulimit -f 8; exec \"$@\"", "sh"])
            .arg(server.get_program())
            .args(server.get_args());
        command.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stderr(std::process::Stdio::null());
        let mut client = Client::start_as(command).greeted("2025-11-25");
        let terminal = open(&mut client, &json!({"command": "exec sh", "wait": {"quiet_ms": 50}}));
        runs_into_the_end_of_the_log(&mut client, &terminal, &stage, required.then_some("File too large"));
        client.text("session_kill", &json!({"session": terminal, "now": true}));
    }
}

/// Its server says on standard error that it has no log.
fn quiet(stage: &Stage) -> std::process::Command {
    let mut command = stage.server();
    command.stderr(std::process::Stdio::null());
    command
}
