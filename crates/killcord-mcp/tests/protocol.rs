//! The server on the wire, line by line.
//!
//! Promised: every line of its output is JSON and every request has one answer, whatever commands do with their
//! input, in both eras of the protocol; what is cancelled is not answered and is ended; nonsense changes nothing; the
//! end of the input is the end of the server. What an agent reads, down to the byte, is in the snapshots.

#[expect(dead_code, reason = "this suite needs a part of it")]
mod line_client;

use killcord_testkit::Scene;
use line_client::{Client, SOON, cancel, initialize, meta, run, server, text};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

const OLD: [&str; 2] = ["2025-06-18", "2025-11-25"];

/// Scenario H8: two commands that read their input, between requests that are on the same input.
#[test]
fn commands_do_not_eat_the_protocol() {
    let begun = Instant::now();
    let mut client = Client::start();
    client.send(&initialize(1, "2025-06-18"));
    client.send(&run(&json!(2), "cat"));
    client.send(&run(&json!(3), "head -n 1"));
    client.send(&json!({"jsonrpc": "2.0", "id": 4, "method": "ping"}));
    for id in [2, 3] {
        let answer = client.answer(&json!(id));
        assert!(text(&answer["result"]).starts_with("[exit 0 in "), "{answer}");
        assert!(text(&answer["result"]).ends_with(" | no output]"), "{answer}");
        assert_eq!(answer["result"]["_meta"]["killcord/session"]["exit"], 0, "{answer}");
    }
    assert_eq!(client.answer(&json!(4))["result"], json!({}));
    assert!(client.answer(&json!(1)).get("result").is_some());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let (status, rest) = client.close();
    assert_eq!((status.code(), rest), (Some(0), vec![]));
}

#[test]
fn it_says_who_it_is_in_every_era() {
    for version in OLD {
        let mut client = Client::start();
        client.send(&initialize(1, version));
        let answer = client.answer(&json!(1));
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "killcord");
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        let instructions = result["instructions"].as_str().unwrap_or_default();
        assert!(instructions.contains("shell_run") && instructions.len() < 2048, "{instructions}");
    }
    let mut client = Client::modern();
    let id = client.ask("server/discover", json!({}));
    let answer = client.answer(&id);
    let result = &answer["result"];
    let versions = result["supportedVersions"].as_array().unwrap();
    for version in OLD.iter().chain(&["2026-07-28"]) {
        assert!(versions.contains(&json!(version)), "{version}: {answer}");
    }
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "killcord", "{answer}");
    assert!(result["instructions"].as_str().is_some_and(|text| text.contains("shell_run")));
}

#[test]
fn the_newer_era_needs_no_handshake_and_says_what_is_missing() {
    let mut client = Client::modern();
    let result = client.call("shell_run", &json!({"command": "echo hi"}));
    assert_eq!(result["resultType"], "complete");
    assert!(text(&result).contains("\nhi\n"), "{result}");
    // Each request stands for itself: one of a version that is not known, one without its metadata.
    client.send(&json!({"jsonrpc": "2.0", "id": "future", "method": "tools/list", "params": {"_meta": meta("2099-01-01")}}));
    let answer = client.answer(&json!("future"));
    assert_eq!(answer["error"]["code"], -32022, "{answer}");
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    client.send(&json!({"jsonrpc": "2.0", "id": "bare", "method": "tools/list", "params": {}}));
    assert_eq!(client.answer(&json!("bare"))["error"]["code"], -32602);
    // It has no ping.
    let id = client.ask("ping", json!({}));
    assert_eq!(client.answer(&id)["error"]["code"], -32601);
    assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
}

#[test]
fn what_is_not_there_is_an_error_and_ids_may_be_strings() {
    let mut client = Client::initialized("2025-11-25");
    client.send(&json!({"jsonrpc": "2.0", "id": "a method", "method": "no/such"}));
    let answer = client.answer(&json!("a method"));
    assert_eq!((&answer["error"]["code"], answer.get("result")), (&json!(-32601), None), "{answer}");
    for id in [json!("42"), json!(42), json!("\u{1f680} \" \\ id"), json!(0), json!(-7), json!(1_u64 << 53)] {
        client.send(&run(&id, "echo $((6*7))"));
        let answer = client.answer(&id);
        assert!(text(&answer["result"]).contains("\n42\n"), "{answer}");
    }
}

/// A protocol error, as the specification has it since 2025-06-18; it is counted and changes nothing.
#[test]
fn a_tool_that_there_is_not_is_a_protocol_error_that_names_those_there_are() {
    for mut client in [Client::initialized("2025-06-18"), Client::initialized("2025-11-25"), Client::modern()]
    {
        for name in ["no_such_tool", "SHELL_RUN", ""] {
            let id = client.ask("tools/call", json!({"name": name, "arguments": {"command": "true"}}));
            let answer = client.answer(&id);
            let known = "shell_run, shell_spawn, session_write, session_read, session_resize, \
                         session_signal, session_kill, session_list, server_info";
            let said =
                json!({"code": -32602, "message": format!("Unknown tool: {name}; the tools are {known}")});
            assert_eq!((&answer["error"], answer.get("result")), (&said, None), "{answer}");
        }
        let long = client.ask("tools/call", json!({"name": "x".repeat(1_000_000)}));
        assert!(client.answer(&long).to_string().len() < 1000, "a name is not repeated whatever it is");
        let info = client.text("server_info", &json!({}));
        assert!(info.contains("counters: 5 calls, 0 jobs started, 0 cancelled, 4 refused"), "{info}");
    }
}

/// What is no message is answered with an error that has its id, where there is one, and without an id otherwise.
#[test]
fn nonsense_is_answered_with_an_error_and_changes_nothing() {
    for mut client in [Client::initialized("2025-06-18"), Client::modern()] {
        client.send_bytes(b"\n   \n\r\n");
        let with_id = [
            ("{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":{\"name\":", -32700),
            ("{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":5}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":77}", -32600),
            ("{\"id\":77,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/list\",\"params\":5}", -32602),
            ("{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":[\"shell_run\"]}", -32602),
        ];
        for (line, code) in with_id {
            client.send_bytes(format!("{line}\n").as_bytes());
            let answer = client.answer(&json!(77));
            assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        }
        let without_id = [
            ("{broken", -32700),
            ("\u{0}\u{1}\u{2}", -32700),
            ("\"", -32700),
            ("[1,2", -32700),
            ("{\"jsonrpc\":\"2.0\",\"id\":", -32700),
            ("[]", -32600),
            ("7", -32600),
            ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
            ("{\"jsonrpc\":\"2.0\",\"method\":7}", -32600),
        ]
        .map(|(line, code)| (line.as_bytes(), code));
        for (line, code) in without_id.into_iter().chain([(&b"\xff\xfe\xfd"[..], -32700)]) {
            client.send_bytes(&[line, b"\n"].concat());
            let error = client.wait_for(|message| message.get("error").is_some());
            assert_eq!((&error["error"]["code"], error.get("id")), (&json!(code), None), "{line:?}: {error}");
        }
        // Notifications are not answered, whatever they look like.
        client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":5}\n");
        assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
        let (status, rest) = client.close();
        assert_eq!((status.code(), rest), (Some(0), vec![]));
    }
}

/// Batches went with 2025-06-18.
#[test]
fn a_batch_is_answered_once_and_nothing_of_it_is_done() {
    for mut client in [Client::initialized("2025-11-25"), Client::modern()] {
        let batch = json!([run(&json!("one"), "true"), run(&json!("two"), "true"), cancel(&json!("one"))]);
        client.send(&batch);
        let said = json!({"code": -32600, "message": "batches are not taken: one message in each line"});
        assert_eq!(
            client.wait_for(|message| message.get("error").is_some()),
            json!({"jsonrpc": "2.0", "error": said})
        );
        assert!(client.text("server_info", &json!({})).contains("0 jobs started"));
        assert_eq!(client.close().1, Vec::<Value>::new());
    }
}

#[test]
fn params_that_do_not_fit_their_method_are_an_error_that_says_so() {
    for mut client in [Client::initialized("2025-11-25"), Client::modern()] {
        for (method, params, said) in [
            ("tools/call", json!({}), "the params do not fit tools/call: missing field `name`"),
            ("tools/call", json!({"name": 5}), "invalid type: integer `5`, expected a string"),
            ("tools/call", json!({"name": "shell_run", "arguments": "true"}), "expected a map"),
        ] {
            let id = client.ask(method, params);
            let answer = client.answer(&id);
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(answer["error"]["code"] == -32602 && message.contains(said), "{method}: {answer}");
        }
        client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\"}\n");
        assert_eq!(client.answer(&json!(7))["error"]["code"], -32602);
    }
}

/// A line that cannot be read says nothing about the era in which the client speaks.
#[test]
fn nonsense_before_the_handshake_is_answered_and_does_not_choose_the_era() {
    let mut client = Client::start();
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\n");
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":5}\n");
    assert_eq!(client.answer(&json!(7))["error"]["code"], -32700);
    assert_eq!(client.answer(&json!(8))["error"]["code"], -32600);
    let mut client = client.greeted("2025-06-18");
    assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
}

#[test]
fn a_line_that_is_too_long_is_answered_with_an_error() {
    for mut client in [Client::initialized("2025-06-18"), Client::modern()] {
        // Between others, which are as long as is allowed.
        let ids = [
            ("wc -c", 3 << 20),
            ("true", 5 << 20),
            ("wc -c", 3 << 20),
            ("true", 9 << 20),
            ("wc -c", 3 << 20),
        ]
        .map(|(command, length)| {
            let arguments = json!({"command": command, "stdin": "x".repeat(length)});
            client.ask("tools/call", json!({"name": "shell_run", "arguments": arguments}))
        });
        for (n, id) in ids.iter().enumerate() {
            let answer = client.answer(id);
            if n % 2 == 0 {
                assert!(text(&answer["result"]).contains("\n3145728\n"), "{answer}");
            } else {
                assert_eq!(answer["error"]["code"], -32600, "{answer}");
                let said = "the message was not read: it is longer than 4194304 bytes";
                assert_eq!(answer["error"]["message"], said, "{answer}");
            }
        }
        let (status, rest) = client.close();
        assert_eq!((status.code(), rest), (Some(0), vec![]));
    }
}

#[test]
fn a_cancelled_call_is_ended_and_not_answered_however_often() {
    for version in OLD.into_iter().chain(["2026-07-28"]) {
        let scene = Scene::new();
        let mut client =
            if version == "2026-07-28" { Client::modern() } else { Client::initialized(version) };
        let leaf = killcord_testkit::bin("kc-leaf");
        let (dir, leaf) = (scene.dir().display(), leaf.display());
        let command = format!("export D={dir}; setsid {leaf} daemon 50 & exec {leaf} main 50");
        let id = client.ask("tools/call", json!({"name": "shell_run", "arguments": {"command": command}}));
        scene.wait_recorded(2, SOON);
        let pinned = scene.pin();
        assert_eq!(pinned.alive().len(), 2);
        // Twice, and requests that never were, of all kinds.
        for cancelled in [&id, &id, &json!("never"), &json!(123_456), &json!(null), &json!({})] {
            client.send(&cancel(cancelled));
        }
        pinned.wait_gone(SOON).unwrap();
        // One that is answered already.
        let list = client.ask("session_list", json!({}));
        client.answer(&list);
        client.send(&cancel(&list));
        client.send(&cancel(&id));
        assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
        let (status, rest) = client.close();
        let errors_without_id =
            |message: &Value| message.get("id").is_none() && message.get("error").is_some();
        assert_eq!(status.code(), Some(0));
        assert!(rest.iter().all(errors_without_id), "{version}: {rest:?}");
    }
}

#[test]
fn many_calls_at_once_get_one_answer_each() {
    let mut client = Client::initialized("2025-11-25");
    let begun = Instant::now();
    let ids: Vec<Value> = (0..40).map(|n| json!(format!("call {n}"))).collect();
    for id in &ids {
        client.send(&run(id, &format!("echo {id}; sleep 0.2")));
    }
    for id in &ids {
        let answer = client.answer(id);
        assert!(text(&answer["result"]).contains(&format!("\n{}\n", id.as_str().unwrap())), "{answer}");
    }
    // One after the other they sleep for 8 s.
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    let (_, rest) = client.close();
    assert_eq!(rest, Vec::<Value>::new());
}

fn is_progress(message: &Value) -> bool {
    message["method"] == "notifications/progress"
}

/// A call that waits tells its progress to who asks for it, and to nobody else.
#[test]
fn progress_is_told_to_who_asks_for_it() {
    for mut client in [Client::initialized("2025-06-18"), Client::modern()] {
        let scene = Scene::new();
        let script = format!("cd {}; mkfifo go; seq 5; read x <go", scene.dir().display());
        let asked =
            json!({"name": "shell_run", "arguments": {"command": script}, "_meta": {"progressToken": "t"}});
        let silent = json!({"name": "shell_run", "arguments": {"command": "sleep 2"}});
        let (asked, silent) = (client.ask("tools/call", asked), client.ask("tools/call", silent));
        let mut before = 0.0;
        for _ in 0..2 {
            let told = client.wait_for(is_progress);
            let params = &told["params"];
            assert_eq!((&params["progressToken"], told.get("id")), (&json!("t"), None), "{told}");
            let progress = params["progress"].as_f64().unwrap();
            assert!(progress >= before + 1.0, "once in a second: {before}, then {told}");
            before = progress;
            let message = params["message"].as_str().unwrap();
            assert!(message.starts_with("session s") && message.ends_with(" s, 5 lines, 10 B"), "{message}");
        }
        client.answer(&silent);
        std::fs::write(scene.path("go"), "go\n").unwrap();
        assert!(text(&client.answer(&asked)["result"]).starts_with("[exit 0 in "));
        // A read that waits, with a token that is a number.
        let shell = client.call("shell_spawn", &json!({"command": "exec cat"}));
        let wait = json!({"pattern": "never", "timeout_s": 1.5});
        let arguments = json!({"session": shell["_meta"]["killcord/session"]["id"], "wait": wait});
        let read = json!({"name": "session_read", "arguments": arguments, "_meta": {"progressToken": 7}});
        let read = client.ask("tools/call", read);
        client.answer(&read);
        let told: Vec<Value> = client.close().1;
        let tokens: Vec<&Value> = told.iter().map(|told| &told["params"]["progressToken"]).collect();
        assert!(told.iter().all(is_progress) && tokens.contains(&&json!(7)), "{told:?}");
        assert!(tokens.iter().all(|token| [&json!("t"), &json!(7)].contains(token)), "{told:?}");
    }
}

/// Calls that end about when their progress is due.
#[test]
fn no_progress_is_told_behind_the_answer() {
    let mut client = Client::initialized("2025-11-25");
    let shell = client.call("shell_spawn", &json!({"command": "exec cat"}));
    let session = &shell["_meta"]["killcord/session"]["id"];
    for n in 0..16 {
        let wait = json!({"pattern": "never", "timeout_s": 0.999 + f64::from(n) / 2000.0});
        let read = json!({"name": "session_read", "arguments": {"session": session, "wait": wait}, "_meta": {"progressToken": n}});
        client.send(&json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": read}));
    }
    let (mut answered, mut told) = (BTreeSet::new(), 0);
    while answered.len() < 16 {
        let message = client.wait_for(|_| true);
        if is_progress(&message) {
            told += 1;
            let token = message["params"]["progressToken"].as_i64().unwrap();
            assert!(!answered.contains(&token), "{message}");
        } else {
            answered.insert(message["id"].as_i64().unwrap());
        }
    }
    // Long enough for another one to be due.
    client.text("shell_run", &json!({"command": "sleep 1.2"}));
    assert!(told > 0, "the test has seen no progress at all");
    assert_eq!(client.close().1, Vec::<Value>::new(), "{told} before");
}

/// Who asks for progress and does not read it can cancel nevertheless.
#[test]
fn a_client_that_reads_nothing_can_still_cancel() {
    let scene = Scene::new();
    let mut server = server().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut send = |message: &Value| writeln!(input, "{message}").unwrap();
    send(&initialize(1, "2025-11-25"));
    let leaf = killcord_testkit::bin("kc-leaf");
    let script = format!("D={} exec {} main 50", scene.dir().display(), leaf.display());
    let mut call = run(&json!("stuck"), &script);
    call["params"]["_meta"] = json!({"progressToken": 1});
    send(&call);
    scene.wait_recorded(1, SOON);
    let pinned = scene.pin();
    // More than the pipe holds, so that the next progress is stuck in it.
    for n in 2..40 {
        send(&json!({"jsonrpc": "2.0", "id": n, "method": "tools/list"}));
    }
    std::thread::sleep(Duration::from_millis(1500));
    send(&cancel(&json!("stuck")));
    pinned.wait_gone(SOON).unwrap();
    drop(input);
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_close_in_the_middle_of_an_answer_ends_everything() {
    let scene = Scene::new();
    let leaf = killcord_testkit::bin("kc-leaf");
    let mut client = Client::initialized("2025-11-25");
    let command = format!("D={} setsid {} daemon 50", scene.dir().display(), leaf.display());
    client.send(&run(&json!("runs"), &command));
    scene.wait_recorded(1, SOON);
    let pinned = scene.pin();
    // Far more than a pipe holds, of which nothing is read.
    for n in 0..40 {
        let mut large = run(&json!(n), "head -c 199000 /dev/zero | tr '\\0' x");
        large["params"]["arguments"]["max_chars"] = json!(200_000);
        client.send(&large);
    }
    client.send_bytes(br#"{"jsonrpc":"2.0","id":"half","method":"tools/call","par"#);
    let begun = Instant::now();
    let status = client.close_unread();
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    pinned.wait_gone(SOON).unwrap();
}

#[test]
fn without_input_it_ends_at_once() {
    let begun = Instant::now();
    let output = server().stdin(Stdio::null()).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice(), output.stderr.as_slice()),
        (Some(0), &b""[..], &b""[..])
    );
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn the_tools() {
    let mut lists = BTreeSet::new();
    let mut clients: Vec<Client> = OLD.into_iter().map(Client::initialized).collect();
    clients.push(Client::modern());
    for client in &mut clients {
        let id = client.ask("tools/list", json!({}));
        let answer = client.answer(&id);
        let size = answer.to_string().len();
        assert!(size < 8 * 1024, "{size} bytes");
        lists.insert(serde_json::to_string_pretty(&answer["result"]["tools"]).unwrap());
    }
    assert_eq!(lists.len(), 1, "the same in every era");
    insta::assert_snapshot!(lists.first().unwrap());
}

/// Times, process numbers, and how the kernel proved it are different each time.
fn masked(text: &str) -> Result<String, regex::Error> {
    let masks = [
        (r"\b\d+\.\d\ds\b", "N.NNs"),
        (r"\bidle \d+s\b", "idle Ns"),
        (r"\((\d+)\)", "(PID)"),
        (r"nothing of it is left: [^\]]*", "nothing of it is left: EVIDENCE"),
        (r"boundary [a-z-]+", "boundary NAME"),
        (r"the server's own is .*", "the server's own is DIRECTORY"),
    ];
    masks.into_iter().try_fold(text.to_owned(), |text, (pattern, mask)| {
        Ok(Regex::new(pattern)?.replace_all(&text, mask).into_owned())
    })
}

#[test]
fn the_texts() {
    let mut client = Client::initialized("2025-11-25");
    let mut texts = Vec::new();
    let mut say = |client: &mut Client, tool: &str, arguments: Value| {
        let result = client.call(tool, &arguments);
        let error = if result["isError"] == json!(true) { " (an error)" } else { "" };
        texts.push(format!("### {tool} {arguments}{error}\n{}\n", masked(&text(&result)).unwrap()));
    };
    let mut run = |client: &mut Client, arguments: Value| say(client, "shell_run", arguments);
    run(&mut client, json!({"command": "true"}));
    run(&mut client, json!({"command": "echo out; echo err >&2; exit 3"}));
    run(&mut client, json!({"command": "printf 'no newline'"}));
    run(&mut client, json!({"command": "kill -9 $$"}));
    run(&mut client, json!({"command": "tr a-z A-Z", "stdin": "given\n"}));
    run(&mut client, json!({"command": "cat </dev/tty"}));
    run(&mut client, json!({"command": "echo partial; sleep 50", "timeout_s": 0.3}));
    run(&mut client, json!({"command": "sleep 50 & sleep 0.3; echo done"}));
    run(&mut client, json!({"command": "seq 1 2000", "max_chars": 200, "label": "numbers"}));
    run(&mut client, json!({"command": "echo begun; exec sleep 50", "yield_s": 0.5}));
    run(&mut client, json!({"command": "true", "cwd": "/no/such/place"}));
    run(&mut client, json!({"command": "true", "cwd": "/etc/passwd"}));
    run(&mut client, json!({"command": "true", "timeout_s": -1}));
    run(&mut client, json!({"command": "true", "env": {"A=B": "c"}}));
    run(&mut client, json!({"cmd": "true"}));
    run(&mut client, json!({}));
    // The sessions by now: the numbers, of which something was left out, and the one that runs.
    say(
        &mut client,
        "session_read",
        json!({"session": "s9", "mode": "from", "cursor": 8800, "max_chars": 200}),
    );
    say(&mut client, "session_read", json!({"session": "s9", "mode": "tail", "lines": 2}));
    say(&mut client, "session_read", json!({"session": "s9", "mode": "from", "cursor": 10_000_000}));
    say(&mut client, "session_read", json!({"session": "s9", "mode": "from"}));
    say(&mut client, "session_read", json!({"session": "s10"}));
    say(&mut client, "session_read", json!({"session": "s10", "wait": {"until": "quiet", "quiet_ms": 50}}));
    say(
        &mut client,
        "session_read",
        json!({"session": "s10", "wait": {"pattern": "never", "timeout_s": 0.1}}),
    );
    say(&mut client, "session_read", json!({"session": "s10", "wait": {"pattern": "(", "timeout_s": 0.1}}));
    say(&mut client, "session_read", json!({"session": "s10", "wait": {"until": "text"}}));
    say(&mut client, "session_read", json!({"session": "s99"}));
    say(&mut client, "session_write", json!({"session": "s10", "text": "x"}));
    say(&mut client, "session_resize", json!({"session": "s10", "cols": 80, "rows": 24}));
    say(&mut client, "session_signal", json!({"session": "s10", "signal": "STOP"}));
    say(&mut client, "session_list", json!({}));
    say(&mut client, "session_kill", json!({"session": "s10"}));
    say(&mut client, "session_kill", json!({"session": "s10"}));
    say(&mut client, "session_signal", json!({"session": "s10", "signal": "INT"}));
    insta::assert_snapshot!(texts.join("\n"));
}
