//! `shell_run`.

use crate::line_client::{Client, SOON, text};
use crate::stage::{MEMORY, Stage, body, hold, memory, ping};
use killcord_testkit::Signal;
use regex::Regex;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

fn run(client: &mut Client, command: &str) -> String {
    client.text("shell_run", &json!({"command": command}))
}

fn about(result: &Value) -> &Value {
    &result["_meta"]["killcord/session"]
}

#[test]
fn exits_and_signals_are_said_by_name() {
    let mut client = Stage::new("").client();
    for code in [0, 1, 42, 255] {
        let result = client.call("shell_run", &json!({"command": format!("exit {code}")}));
        assert!(text(&result).starts_with(&format!("[exit {code} in ")), "{result}");
        assert_eq!((&about(&result)["exit"], &result["isError"]), (&json!(code), &json!(false)));
    }
    for signal in ["KILL", "TERM", "SEGV", "USR1"] {
        let said = run(&mut client, &format!("kill -{signal} $$"));
        assert!(said.starts_with(&format!("[ended by SIG{signal} in ")), "{said}");
    }
    assert!(run(&mut client, "no-such-program-at-all").starts_with("[exit 127"));
}

#[test]
fn a_timeout_gives_what_there_is_and_ends_the_rest() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let script = stage.script("echo partial; (setsid \"$LEAF\" daemon 55 &); exec \"$LEAF\" main 55");
    let ask = json!({"name": "shell_run", "arguments": {"command": script, "timeout_s": 1.5}});
    let id = client.ask("tools/call", ask);
    stage.scene.wait_recorded(2, SOON);
    let pinned = stage.scene.pin();
    let said = text(&client.answer(&id)["result"]);
    assert!(said.starts_with("[timeout, ended by SIGTERM in 1."), "{said}");
    assert_eq!(body(&said), "partial");
    pinned.wait_gone(Duration::ZERO).unwrap();
}

#[test]
fn what_runs_on_is_read_to_its_end() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let script = stage.script("echo one; mkfifo \"$D/go\"; read x <\"$D/go\"; echo two; echo three; exit 5");
    let first = client.call("shell_run", &json!({"command": script, "yield_s": 0.3}));
    let session = about(&first)["id"].as_str().unwrap().to_owned();
    assert!(
        text(&first).contains(&format!("session {session}]")) && text(&first).contains("\none\n"),
        "{first}"
    );
    std::fs::write(stage.scene.path("go"), "go\n").unwrap();
    let rest = json!({"session": session, "wait": {"until": "exit"}});
    let said = client.text("session_read", &rest);
    assert!(said.contains("exit 5 in ") && said.contains("waited: exited"), "{said}");
    assert_eq!(body(&said), "two\nthree");
    assert_eq!(body(&client.text("session_read", &json!({"session": session}))), "", "nothing is new");
    let from = json!({"session": session, "mode": "from", "cursor": 4});
    assert_eq!(body(&client.text("session_read", &from)), "two\nthree");
    let tail = json!({"session": session, "mode": "tail", "lines": 1});
    assert_eq!(body(&client.text("session_read", &tail)), "three");
}

/// Reading an old part again is no reason to be told of the rest again.
#[test]
fn what_is_read_from_a_cursor_does_not_become_new() {
    let mut client = Stage::new("").client();
    let first = client.call("shell_run", &json!({"command": "seq 1000 1999; exec sleep 50", "yield_s": 0.5}));
    let session = about(&first)["id"].as_str().unwrap();
    let old = json!({"session": session, "mode": "from", "cursor": 0, "max_chars": 200});
    assert!(body(&client.text("session_read", &old)).ends_with("1038\n1039"));
    assert_eq!(body(&client.text("session_read", &json!({"session": session}))), "");
    client.text("session_kill", &json!({"session": session, "now": true}));
}

#[test]
fn input_is_given_and_has_an_end() {
    let mut client = Stage::new("").client();
    for (input, output) in [("", ""), ("a\nb", "a\nb"), ("\u{1d11e}ä\n", "\u{1d11e}ä")] {
        let arguments = json!({"command": "cat", "stdin": input, "timeout_s": 5});
        let said = client.text("shell_run", &arguments);
        assert!(said.starts_with("[exit 0 in "), "{input:?}: {said}");
        assert_eq!(body(&said), output);
    }
    assert!(run(&mut client, "cat").starts_with("[exit 0 in "));
    // One that does not read it is not held up by it.
    let arguments = json!({"command": "exit 4", "stdin": "x".repeat(1_000_000)});
    assert!(client.text("shell_run", &arguments).starts_with("[exit 4 in "));
}

/// The whole output from an answer and the reads that it names.
fn whole(client: &mut Client, command: &str) -> Vec<u8> {
    let first = client.call("shell_run", &json!({"command": command, "max_chars": 1000}));
    let said = text(&first);
    let total = about(&first)["cursor"].as_u64().unwrap() as usize;
    let cut = r"(?s)^(\[[^\n]*\]\n)(.*?)\[\.\.\. (\d+) bytes left out; read them: session_read (\{[^}]*\}) \.\.\.\]\n";
    let parts = Regex::new(cut).unwrap().captures(&said).unwrap_or_else(|| panic!("{said}"));
    let mut arguments: Value = serde_json::from_str(&parts[4]).unwrap();
    let (from, left_out) =
        (arguments["cursor"].as_u64().unwrap() as usize, parts[3].parse::<usize>().unwrap());
    let mut output = parts[2].as_bytes()[..from].to_vec();
    let mut cursor = from;
    let next_cursor = Regex::new(r"cursor (\d+)").unwrap();
    while cursor < from + left_out {
        arguments["cursor"] = json!(cursor);
        arguments["max_chars"] = json!(777);
        let piece = client.text("session_read", &arguments);
        let next = next_cursor.captures(&piece).unwrap()[1].parse::<usize>().unwrap();
        let begin = piece.find('\n').unwrap() + 1;
        output.extend_from_slice(&piece.as_bytes()[begin..begin + next - cursor]);
        assert!(next > cursor);
        cursor = next;
    }
    output.truncate(from + left_out);
    let tail = parts.get(0).unwrap().end();
    output.extend_from_slice(&said.as_bytes()[tail..tail + total - from - left_out]);
    assert_eq!(output.len(), total);
    output
}

#[test]
fn what_was_left_out_is_read_back_to_the_byte() {
    let mut client = Stage::new("").client();
    let mut lines = String::new();
    for n in 1..=500 {
        writeln!(lines, "line {n} äöü€\u{1d11e} {}", n * n).unwrap();
    }
    let command = "for n in $(seq 500); do echo \"line $n äöü€\u{1d11e} $((n*n))\"; done";
    assert!(whole(&mut client, command) == lines.as_bytes(), "{command}");
    for filler in ["", "x", "xy", "xyz"] {
        let one_line = format!("{filler}{}", "ä€\u{1d11e}".repeat(2000));
        let command = format!("printf %s {filler}; printf 'ä€\u{1d11e}%.0s' $(seq 2000)");
        assert!(whole(&mut client, &command) == one_line.as_bytes(), "{command}");
    }
}

#[test]
fn background_processes_are_named_and_ended_or_kept() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let script =
        stage.script("(setsid \"$LEAF\" daemon 55 &) ; until [ -s \"$D/ids\" ]; do :; done; echo done");
    let said = run(&mut client, &script);
    assert!(said.starts_with("[exit 0 in ") && said.contains("left behind and ended: kc-leaf ("), "{said}");
    stage.scene.pin().wait_gone(Duration::ZERO).unwrap();

    let stage = Stage::new("");
    let script =
        stage.script("(setsid \"$LEAF\" daemon 55 &) ; until [ -s \"$D/ids\" ]; do :; done; echo done");
    let kept = client.call("shell_run", &json!({"command": script, "leftovers": "keep"}));
    let said = text(&kept);
    let session = about(&kept)["id"].as_str().unwrap();
    assert!(said.contains("left behind and kept: kc-leaf (") && said.contains("goes on"), "{said}");
    assert_eq!(body(&said), "done", "what it printed before its exit is there");
    let pinned = stage.scene.pin();
    assert_eq!(pinned.alive().len(), 1);
    let killed = client.text("session_kill", &json!({"session": session, "now": true}));
    assert!(killed.contains("nothing of it is left"), "{killed}");
    pinned.wait_gone(Duration::ZERO).unwrap();
}

/// Nothing that they ignore helps them, whatever holds them.
#[test]
fn kept_leftovers_that_are_deaf_end_with_their_session_and_the_verdict_says_so() {
    for boundary in ["auto", "tree"] {
        let stage = Stage::new(&format!("[run]\ngrace_s = 1\nboundary = \"{boundary}\"\n"));
        let mut client = stage.client();
        let script = stage.script(
            "(setsid \"$IGNORE\" 55 &); \"$IGNORE\" 55 & until [ \"$(wc -l <\"$D/ids\")\" = 2 ]; do sleep 0.01; done",
        );
        let kept = client.call("shell_run", &json!({"command": script, "leftovers": "keep"}));
        let (said, session) = (text(&kept), about(&kept)["id"].as_str().unwrap());
        assert!(said.contains("left behind and kept: kc-ignore (") && said.contains("goes on"), "{said}");
        let pinned = stage.scene.pin();
        assert_eq!(pinned.alive().len(), 2);
        let begun = Instant::now();
        let killed = client.call("session_kill", &json!({"session": session}));
        let took = begun.elapsed();
        pinned.wait_gone(Duration::ZERO).unwrap();
        assert!(
            text(&killed).contains("exit 0 in ") && text(&killed).contains("nothing of it is left: "),
            "{killed}"
        );
        assert_eq!(
            (&about(&killed)["verdict"], &about(&killed)["running"]),
            (&json!("empty"), &json!(false))
        );
        assert!(took > Duration::from_millis(900), "they were asked for the whole grace before: {took:?}");
        let listed = client.text("session_list", &json!({}));
        assert!(listed.contains("exit 0 in ") && !listed.contains("goes on"), "{listed}");
    }
}

/// What its leftovers hold open has no end, and what the command printed last is in the answer all the same. The server is
/// stopped meanwhile, so that it finds the output and the exit at once.
#[test]
fn no_byte_is_lost_of_a_command_whose_leftovers_are_kept() {
    // The last one is what a pipe holds.
    for length in [1, 4096, 65_536] {
        let stage = Stage::new("");
        let mut client = stage.client();
        let server = hold(client.pid());
        let script = stage.script(&format!(
            "mkfifo \"$D/go\"; (setsid \"$LEAF\" daemon 55 &); until [ -s \"$D/ids\" ]; do :; done; echo $$ >\"$D/pid\"; \
             read x <\"$D/go\"; head -c {} /dev/zero | tr '\\0' x; printf y",
            length - 1
        ));
        let arguments = json!({"command": script, "leftovers": "keep", "max_chars": 200});
        let id = client.ask("tools/call", json!({"name": "shell_run", "arguments": arguments}));
        let command = hold(stage.scene.wait_file("pid", SOON).trim().parse().unwrap());
        server.kill(Signal::STOP).unwrap();
        std::fs::write(stage.scene.path("go"), "go\n").unwrap();
        assert!(command.wait_gone(SOON));
        // The keeper has something to say by then. If it has not, this is a weaker test.
        std::thread::sleep(Duration::from_millis(500));
        server.kill(Signal::CONT).unwrap();
        let kept = client.answer(&id)["result"].clone();
        assert!(text(&kept).contains("left behind and kept: kc-leaf ("), "{kept}");
        assert_eq!(about(&kept)["bytes"], length, "{kept}");
        let shown = text(&kept);
        assert!(body(&shown).ends_with('y'), "{kept}");
        client.text("session_kill", &json!({"session": about(&kept)["id"], "now": true}));
    }
}

#[test]
fn a_directory_is_used_or_said_to_be_none() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let there = stage.scene.dir().canonicalize().unwrap();
    let said = client.text("shell_run", &json!({"command": "pwd -P", "cwd": there}));
    assert_eq!(body(&said), there.display().to_string());
    assert_eq!(
        body(&client.text("shell_run", &json!({"command": "pwd", "cwd": "~/"}))),
        stage.scene.path("home").display().to_string()
    );
    for wrong in ["/no/such/place", "/etc/passwd", ""] {
        let result = client.call("shell_run", &json!({"command": "true", "cwd": wrong}));
        assert!(result["isError"] == json!(true) && text(&result).starts_with("cwd "), "{result}");
    }
}

#[test]
fn a_job_has_no_secret_of_the_servers_and_a_place_of_its_own() {
    let stage = Stage::new("[environment]\npass = [\"KC_*\"]\nset = { FIXED = \"set\" }\n");
    let mut command = stage.server();
    for (name, value) in
        [("AWS_SECRET_ACCESS_KEY", "s3cret"), ("ANTHROPIC_API_KEY", "s3cret"), ("KC_PASSED", "passed")]
    {
        command.env(name, value);
    }
    let mut client = Client::start_as(command).greeted("2025-11-25");
    let said = client.text("shell_run", &json!({"command": "env; echo", "env": {"GIVEN": "given"}}));
    for line in
        ["KC_PASSED=passed", "FIXED=set", "GIVEN=given", "NO_COLOR=1", "PAGER=cat", "GIT_TERMINAL_PROMPT=0"]
    {
        assert!(said.contains(&format!("\n{line}\n")), "{line}: {said}");
    }
    assert!(!said.contains("s3cret"), "{said}");
    let all = client.text(
        "shell_spawn",
        &json!({"command": "env; cat /proc/$PPID/environ; sleep 50", "wait": {"quiet_ms": 200}}),
    );
    assert!(!all.contains("s3cret"), "{all}");
    let place = |client: &mut Client| {
        body(&run(client, "touch $TMPDIR/file && ls $TMPDIR >&2; echo $TMPDIR")).to_owned()
    };
    let (first, second) = (place(&mut client), place(&mut client));
    let directory = |said: &str| said.strip_prefix("file\n").unwrap_or_else(|| panic!("{said}")).to_owned();
    assert_ne!(directory(&first), directory(&second));
    for gone in [first, second] {
        let gone = directory(&gone);
        let deadline = Instant::now() + SOON;
        while std::path::Path::new(&gone).exists() {
            assert!(Instant::now() < deadline, "{gone} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn what_asks_a_terminal_fails_at_once() {
    let stage = Stage::new("");
    let mut client = stage.client();
    for asks in [
        "cat </dev/tty",
        "read -rp password: x </dev/tty",
        "python3 -c 'import getpass; getpass.getpass(stream=open(\"/dev/tty\"))'",
        "printf 'protocol=https\\nhost=example.invalid\\n\\n' | git credential fill",
    ] {
        let begun = Instant::now();
        let said = run(&mut client, asks);
        assert!(said.starts_with("[exit ") && !said.starts_with("[exit 0"), "{asks}: {said}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{asks}: {:?}", begun.elapsed());
    }
}

#[test]
fn bytes_that_are_no_text_harm_nobody() {
    let mut client = Stage::new("").client();
    let said = client.call(
        "shell_run",
        &json!({"command": "printf 'a\\377\\376b\\0c\\303'; printf '\\033[31mred\\033[0m\\n'"}),
    );
    let text = text(&said);
    assert!(
        text.contains("a\u{fffd}") && text.contains('b') && text.contains("red") && !text.contains('\u{1b}'),
        "{text:?}"
    );
    assert_eq!(about(&said)["bytes"], 20, "{said}");
    let said = client.call("shell_run", &json!({"command": "head -c 1000000 /dev/urandom"}));
    assert_eq!(about(&said)["bytes"], 1_000_000);
    // No program takes a zero byte in its arguments.
    let refused = client.call("shell_run", &json!({"command": "echo a\u{0}b"}));
    assert_eq!(refused["isError"], json!(true), "{refused}");
    assert!(ping(&mut client) < Duration::from_secs(1));
}

/// Scenario H9, through the server.
#[test]
fn heavy_h9_a_flood_is_counted_and_holds_nobody_up() {
    let mut client = Stage::new("").client();
    let server = client.pid();
    let ask = json!({"name": "shell_run", "arguments": {"command": "yes", "timeout_s": 2}});
    let begun = Instant::now();
    let id = client.ask("tools/call", ask);
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_millis(1900) {
        slowest = slowest.max(ping(&mut client));
    }
    let answer = client.answer(&id);
    let took = begun.elapsed();
    let bytes = about(&answer["result"])["bytes"].as_u64().unwrap();
    let lines = about(&answer["result"])["lines"].as_u64().unwrap();
    assert!(text(&answer["result"]).starts_with("[timeout, ended by SIGTERM in 2."), "{answer}");
    assert!(bytes > 1_000_000 && bytes.div_ceil(2) == lines, "{bytes} bytes, {lines} lines");
    assert!(slowest < Duration::from_secs(1) && took < Duration::from_secs(4), "{slowest:?} {took:?}");
    for (command, length, count) in [
        ("yes | head -c 20000001", 20_000_001, 10_000_001),
        ("head -c 200000000 /dev/zero | tr '\\0' x", 200_000_000, 1),
    ] {
        let begun = Instant::now();
        let mut said = client.call("shell_run", &json!({"command": command, "yield_s": 10}));
        let session = about(&said)["id"].clone();
        // A server that was not optimised takes a while.
        while about(&said)["running"] == json!(true) {
            let wait = json!({"until": "exit", "timeout_s": 10});
            said = client.call("session_read", &json!({"session": session, "mode": "tail", "wait": wait}));
        }
        assert_eq!(
            (&about(&said)["bytes"], &about(&said)["lines"]),
            (&json!(length), &json!(count)),
            "{command}"
        );
        println!("{command}: {:?}", begun.elapsed());
    }
    let peak = memory(server, "VmHWM");
    assert!(peak < MEMORY, "{peak} kB");
    println!("yes for 2 s: {bytes} bytes, slowest ping {slowest:?}, answered after {took:?}, peak {peak} kB");
}
