//! Terminals: `shell_spawn` and what is done with a session.

use crate::line_client::{Client, SOON, text};
use crate::stage::{Stage, body};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A session with its id.
pub(crate) fn open(client: &mut Client, arguments: &Value) -> String {
    let result = client.call("shell_spawn", arguments);
    let id = result["_meta"]["killcord/session"]["id"].as_str();
    id.unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// A shell that has shown its prompt.
fn shell(client: &mut Client) -> String {
    // A shell that is not interactive, as the one in between, drops the variable.
    open(
        client,
        &json!({"command": "PS1='ready> ' HISTFILE= exec bash --norc -i", "wait": {"until": "prompt"}}),
    )
}

fn write(client: &mut Client, session: &str, mut arguments: Value) -> String {
    arguments["session"] = json!(session);
    client.text("session_write", &arguments)
}

fn screen(client: &mut Client, session: &str) -> String {
    client.text("session_read", &json!({"session": session, "mode": "screen"}))
}

/// Reads the screen until this is on it.
fn until_on_screen(client: &mut Client, session: &str, wanted: &str) -> String {
    let deadline = Instant::now() + SOON;
    loop {
        let seen = screen(client, session);
        if seen.contains(wanted) {
            return seen;
        }
        assert!(Instant::now() < deadline, "{wanted:?} is not on {seen}");
        client.text("session_read", &json!({"session": session, "wait": {"quiet_ms": 50}}));
    }
}

#[test]
fn a_shell_is_typed_into_and_says_why_a_wait_is_over() {
    let mut client = Stage::new("").client();
    let shell = shell(&mut client);
    assert!(screen(&mut client, &shell).contains("ready>"));
    let said = write(
        &mut client,
        &shell,
        json!({"text": "echo $((6*7))", "enter": true, "wait": {"until": "prompt"}}),
    );
    assert!(said.contains("waited: prompt") && said.contains("\n42\n"), "{said}");
    let wait = json!({"until": "text", "pattern": "^b+$", "stop": "^error"});
    let said = write(&mut client, &shell, json!({"text": "echo aaa; echo bbb\n", "wait": wait}));
    assert!(said.contains("waited: matched \"bbb\""), "{said}");
    // In parentheses it is in the foreground before it prints; else the key could come to the shell, which drops it.
    let said = write(&mut client, &shell, json!({"text": "(echo error: no; exec sleep 50)\n", "wait": wait}));
    assert!(said.contains("waited: stopped at \"error\""), "{said}");
    let said = write(&mut client, &shell, json!({"keys": "ctrl+c", "wait": {"until": "prompt"}}));
    assert!(said.contains("waited: prompt"), "{said}");
    let said = write(
        &mut client,
        &shell,
        json!({"text": "(echo on; exec sleep 50)\n", "wait": {"pattern": "never", "timeout_s": 0.2}}),
    );
    assert!(said.contains("waited: nothing of it within 0.2s"), "{said}");
    let said =
        write(&mut client, &shell, json!({"keys": "ctrl+c", "wait": {"until": "quiet", "quiet_ms": 100}}));
    assert!(said.contains("waited: quiet"), "{said}");
    let said = write(&mut client, &shell, json!({"text": "exit 7\n", "wait": {"until": "exit"}}));
    assert!(said.contains("waited: exited") && said.contains("exit 7 in "), "{said}");
    let refused = client.call("session_write", &json!({"session": shell, "text": "x"}));
    assert!(refused["isError"] == json!(true) && text(&refused).contains("is over: exit 7"), "{refused}");
}

/// Only new output is looked at, and all of it, however much came before.
#[test]
fn a_pattern_is_found_behind_much_output() {
    let mut client = Stage::new("").client();
    let session = open(
        &mut client,
        &json!({"command": "echo MARK; read x; seq 1 200000; echo END-MARK; exec sleep 50"}),
    );
    let wait = json!({"until": "text", "pattern": "MARK", "timeout_s": 15});
    let said = write(&mut client, &session, json!({"text": "\n", "wait": wait}));
    assert!(said.contains("waited: matched \"MARK\""), "{}", &said[..200]);
    let tail = client.text("session_read", &json!({"session": session, "mode": "tail", "lines": 1}));
    assert!(tail.contains("END-MARK"), "the first one was there before: {tail}");
    client.text("session_kill", &json!({"session": session, "now": true}));
}

#[test]
fn nonsense_in_a_wait_is_an_answer_and_no_failure() {
    let mut client = Stage::new("").client();
    let shell = shell(&mut client);
    for (wait, said) in [
        (json!({"quiet_ms": u64::MAX}), "quiet_ms"),
        (json!({"quiet_ms": 60_001}), "quiet_ms"),
        (json!({"timeout_s": -1}), "timeout_s"),
        (json!({"timeout_s": 1e300}), "timeout_s"),
        (json!({"pattern": "("}), "no regular expression"),
        (json!({"pattern": "(a{1000}){1000}"}), "no regular expression"),
        (json!({"until": "text"}), "needs a pattern"),
        (json!({"until": "later"}), "unknown variant"),
    ] {
        let result = client.call("session_read", &json!({"session": shell, "wait": wait}));
        assert!(result["isError"] == json!(true) && text(&result).contains(said), "{wait}: {result}");
    }
    assert!(client.text("server_info", &json!({})).contains("0 panicked"));
}

#[test]
fn vim_and_less_are_seen_as_they_are() {
    let stage = Stage::new("");
    let lines: Vec<String> = (1..=100).map(|n| format!("line {n} of the file")).collect();
    std::fs::write(stage.scene.path("file"), lines.join("\n") + "\n").unwrap();
    let mut client = stage.client();
    let file = stage.scene.path("file");
    let less =
        open(&mut client, &json!({"command": format!("less {}", file.display()), "cols": 60, "rows": 10}));
    let seen = until_on_screen(&mut client, &less, "line 9 of the file");
    assert!(seen.contains("screen 60x10") && !seen.contains("line 10 of"), "{seen}");
    write(&mut client, &less, json!({"keys": "G"}));
    let seen = until_on_screen(&mut client, &less, "line 100 of the file");
    assert!(seen.contains("(END)") && !seen.contains("line 9 of"), "{seen}");
    let over = write(&mut client, &less, json!({"text": "q", "wait": {"until": "exit"}}));
    assert!(over.contains("exit 0 in "), "{over}");

    let vim = open(
        &mut client,
        &json!({"command": format!("vim -u NONE -n {}", file.display()), "cols": 60, "rows": 10}),
    );
    until_on_screen(&mut client, &vim, "line 9 of the file");
    write(&mut client, &vim, json!({"keys": "down down O", "text": ""}));
    write(&mut client, &vim, json!({"text": "between"}));
    write(&mut client, &vim, json!({"keys": "esc"}));
    let seen = until_on_screen(&mut client, &vim, "between");
    assert!(seen.contains("line 2 of the file\nbetween\nline 3 of the file"), "{seen}");
    let over = write(&mut client, &vim, json!({"text": ":wq\r", "wait": {"until": "exit"}}));
    assert!(over.contains("exit 0 in "), "{over}");
    assert!(std::fs::read_to_string(file).unwrap().contains("line 2 of the file\nbetween\n"));
}

#[test]
fn keys_and_pastes_arrive_as_a_terminal_sends_them() {
    let mut client = Stage::new("").client();
    let cat = open(
        &mut client,
        &json!({"command": "stty raw -echo; echo ready; exec cat -v", "wait": {"pattern": "ready"}}),
    );
    for (keys, sent) in
        [("up", "^[[A"), ("f1", "^[OP"), ("esc", "^["), ("ctrl+a", "^A"), ("alt+x", "^[x"), ("tab", "^I")]
    {
        let said = write(&mut client, &cat, json!({"keys": keys, "wait": {"quiet_ms": 150}}));
        let sent = if keys == "tab" { "\t" } else { sent };
        assert!(body(&said).contains(sent), "{keys}: {said:?}");
    }
    let said =
        write(&mut client, &cat, json!({"text": "one\ntwo", "paste": true, "wait": {"quiet_ms": 150}}));
    assert!(!said.contains("[200~"), "nobody asked for brackets: {said}");
    client.text("session_kill", &json!({"session": cat, "now": true}));
    let ask = "stty raw -echo; printf '\\033[?2004h'; echo ready; exec cat -v";
    let cat = open(&mut client, &json!({"command": ask, "wait": {"pattern": "ready"}}));
    let said = write(
        &mut client,
        &cat,
        json!({"text": "one\u{1b}[201~two", "paste": true, "wait": {"quiet_ms": 150}}),
    );
    assert!(said.contains("^[[200~one") && said.contains("two^[[201~"), "{said}");
    assert_eq!(said.matches("201~").count(), 1, "a paste cannot end itself: {said}");
    let unknown = client.call("session_write", &json!({"session": cat, "keys": "hyper+q"}));
    assert_eq!(unknown["isError"], json!(true), "{unknown}");
    client.text("session_kill", &json!({"session": cat, "now": true}));
}

#[test]
fn a_program_hears_of_a_new_size() {
    let mut client = Stage::new("").client();
    let script = "trap 'echo now $(stty size)' WINCH; stty size; while :; do sleep 0.05; done";
    let session =
        open(&mut client, &json!({"command": script, "cols": 77, "rows": 11, "wait": {"pattern": "11 77"}}));
    client.text("session_resize", &json!({"session": session, "cols": 99, "rows": 22}));
    let wait = json!({"pattern": "now 22 99"});
    let said =
        client.text("session_read", &json!({"session": session, "mode": "from", "cursor": 0, "wait": wait}));
    assert!(said.contains("waited: matched"), "{said}");
    assert!(screen(&mut client, &session).contains("screen 99x22"));
    let refused = client.call("session_resize", &json!({"session": session, "cols": 1, "rows": 22}));
    assert_eq!(refused["isError"], json!(true), "{refused}");
    client.text("session_kill", &json!({"session": session, "now": true}));
}

#[test]
fn a_password_is_withheld_from_the_log_and_ordinary_typing_is_not() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let script = "read -p 'name: ' n; read -rsp 'Password: ' p; echo; echo got $n ${#p}; read -p 'more: ' m; exec sleep 50";
    let session = open(&mut client, &json!({"command": script, "wait": {"until": "prompt"}}));
    let said =
        write(&mut client, &session, json!({"text": "somebody\n", "wait": {"pattern": "Password: $"}}));
    assert!(said.contains("waited: matched"), "{said}");
    let said =
        write(&mut client, &session, json!({"text": "hunter2-hidden\n", "wait": {"pattern": "more: $"}}));
    assert!(said.contains("got somebody 14"), "{said}");
    write(&mut client, &session, json!({"text": "marked-hidden\n", "sensitive": true}));
    client.text("session_kill", &json!({"session": session, "now": true}));
    let records = stage.records();
    let all = json!(records).to_string();
    assert!(!all.contains("-hidden"), "{all}");
    let writes: Vec<&Value> = records.iter().filter(|record| record["event"] == "write").collect();
    assert_eq!(writes.len(), 3, "{all}");
    assert!(writes[0].to_string().contains("somebody"), "{all}");
    assert!(
        writes.iter().all(|write| write["tool"] == "session_write" && write["client"] == "lines 1"),
        "{all}"
    );
    assert!(records.iter().any(|record| record["event"] == "end" && record["verdict"] == "empty"), "{all}");
    assert!(
        records.iter().any(|record| record["event"] == "start" && record.to_string().contains("read -rsp")),
        "{all}"
    );
}

#[test]
fn a_session_is_signalled_and_killed_with_a_verdict() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let script = stage.script(
        "trap 'echo heard' USR1; (setsid \"$LEAF\" daemon 55 &); echo ready; while :; do sleep 0.05; done",
    );
    let session = open(&mut client, &json!({"command": script, "wait": {"pattern": "ready"}}));
    stage.scene.wait_recorded(1, SOON);
    let pinned = stage.scene.pin();
    client.text("session_signal", &json!({"session": session, "signal": "USR1"}));
    let read = json!({"session": session, "mode": "from", "cursor": 0, "wait": {"pattern": "heard"}});
    assert!(client.text("session_read", &read).contains("waited: matched"));
    let refused = client.call("session_signal", &json!({"session": session, "signal": "STOP"}));
    assert!(
        refused["isError"] == json!(true) && text(&refused).contains("STOP is no signal of"),
        "{refused}"
    );
    let killed = client.call("session_kill", &json!({"session": session}));
    assert!(text(&killed).contains("nothing of it is left: "), "{killed}");
    assert_eq!(killed["_meta"]["killcord/session"]["verdict"], "empty");
    pinned.wait_gone(Duration::ZERO).unwrap();
    let unknown = client.call("session_kill", &json!({"session": "s99"}));
    let said = format!("there is no session s99; sessions: {session}");
    assert_eq!((text(&unknown), &unknown["isError"]), (said, &json!(true)));
}

/// What a program does not read is kept up to a bound, and what is beyond that is refused and not lost in silence.
#[test]
fn input_that_nobody_reads_is_refused_at_some_point() {
    let mut client = Stage::new("").client();
    let session = open(
        &mut client,
        &json!({"command": "stty raw -echo; echo ready; exec sleep 50", "wait": {"pattern": "ready"}}),
    );
    let mut refused = 0;
    for _ in 0..5 {
        let arguments = json!({"session": session, "text": "x".repeat(100_000), "wait": {"quiet_ms": 20, "timeout_s": 0.1}});
        let result = client.call("session_write", &arguments);
        if result["isError"] == json!(true) {
            assert!(text(&result).contains("does not read"), "{result}");
            refused += 1;
        }
    }
    assert!((2..5).contains(&refused), "{refused}");
    let killed = client.text("session_kill", &json!({"session": session, "now": true}));
    assert!(killed.contains("nothing of it is left"), "{killed}");
}
