//! Nothing that was started through the server is left behind, and a cancelled call takes its processes along.
//!
//! Promised: whatever ends the server or its client, all jobs and terminals end within 2 s, with their daemons, with
//! what is deaf to TERM and HUP, and with their guards; the server goes with its input though calls are in flight. A
//! cancelled command ends by the ladder, a cancelled read stops waiting only, and everything else is answered meanwhile.
//! Of more calls than are worked on at once the others wait in their order; to look at what is stuck and to end it needs
//! no turn among them.
//! Each end is the kernel's word through a pidfd.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[expect(dead_code, reason = "this suite needs a part of it")]
mod line_client;
#[expect(dead_code, reason = "this suite needs a part of it")]
mod stage;

use killcord_testkit::{PinnedProcess, Signal, procs};
use line_client::{Client, SOON, cancel, run, text};
use serde_json::{Value, json};
use stage::{Stage, above, body, hold, ping};
use std::process::Command;
use std::time::{Duration, Instant};

/// All is over so long after the end of the server or of its client.
const PROMISED: Duration = Duration::from_secs(2);
/// A daemon, one that is deaf, and the program itself.
const TREE: &str = "(setsid \"$LEAF\" daemon 55 &); \"$IGNORE\" 55 & exec \"$LEAF\" main 55";
const EACH: usize = 3;

fn spawn(client: &mut Client, command: &str) -> String {
    let arguments = json!({"command": command, "wait": {"until": "quiet", "quiet_ms": 10, "timeout_s": 1}});
    let result = client.call("shell_spawn", &arguments);
    result["_meta"]["killcord/session"]["id"].as_str().unwrap().to_owned()
}

/// Twenty commands in flight, ten terminals: and then this happens to the server, which is held.
fn nothing_outlives(command: impl Fn(&Stage) -> Command, happens: impl FnOnce(&mut Client, &PinnedProcess)) {
    let stage = Stage::new("[calls]\nat_once = 40\n");
    let mut client = Client::start_as(command(&stage)).greeted("2025-11-25");
    let is_server = |pid: &u32| procs::stat(*pid).is_some_and(|stat| !stat.comm.starts_with("sh"));
    let server = [client.pid()].into_iter().chain(procs::children(client.pid())).find(is_server).unwrap();
    let server = hold(server);
    let tree = stage.script(TREE);
    for n in 0..20 {
        client.send(&run(&json!(format!("run {n}")), &tree));
    }
    for _ in 0..10 {
        spawn(&mut client, &tree);
    }
    stage.scene.wait_recorded(30 * EACH, SOON);
    let pinned = stage.scene.pin();
    let guards = above(stage.scene.ids().iter().map(|id| id.pid), &server);
    assert_eq!(pinned.alive().len(), 30 * EACH);
    assert!(guards.iter().any(|guard| guard.comm.starts_with("killcord")), "{guards:?}");
    let begun = Instant::now();
    happens(&mut client, &server);
    assert!(server.wait_gone(PROMISED), "the server is still there");
    let server_took = begun.elapsed();
    pinned.wait_gone(PROMISED.saturating_sub(begun.elapsed())).unwrap();
    let took = begun.elapsed();
    for guard in &guards {
        assert!(guard.wait_gone(PROMISED.saturating_sub(begun.elapsed())), "{guard:?}");
    }
    let all = begun.elapsed();
    println!(
        "server gone after {server_took:?}, 90 processes after {took:?}, {} guards after {all:?}",
        guards.len()
    );
}

fn nothing_outlives_a_signal(signal: Signal) {
    nothing_outlives(Stage::server, |_, server| server.kill(signal).unwrap());
}

#[test]
fn heavy_nothing_outlives_a_killed_server() {
    nothing_outlives_a_signal(Signal::KILL);
}

#[test]
fn heavy_nothing_outlives_a_server_that_is_told_to_end() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        nothing_outlives_a_signal(signal);
    }
}

#[test]
fn heavy_nothing_outlives_the_end_of_the_input() {
    nothing_outlives(Stage::server, |client, server| {
        let begun = Instant::now();
        client.end_input();
        assert!(server.wait_gone(Duration::from_secs(1)));
        println!(
            "the server was gone {:?} after the end of its input, with 20 calls in flight",
            begun.elapsed()
        );
    });
}

/// The client is a shell, and the test is the third that holds the other end of the server's input.
#[test]
fn heavy_nothing_outlives_a_client_whose_pipe_somebody_else_holds() {
    let below_a_shell = |stage: &Stage| {
        let server = stage.server();
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$@\"; exit 3", "sh"]).arg(server.get_program()).args(server.get_args());
        shell.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
    };
    nothing_outlives(below_a_shell, |client, server| {
        assert_ne!(client.pid(), server.pid);
        hold(client.pid()).kill(Signal::KILL).unwrap();
    });
}

/// Scenario H11: five kinds of children of an interactive shell, and the server is killed.
#[test]
fn h11_everything_a_terminals_shell_started_ends_with_a_killed_server() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let server = hold(client.pid());
    let shell = spawn(&mut client, &stage.script("exec bash --norc -i"));
    let children = "\"$LEAF\" background 55 &
        nohup \"$LEAF\" nohup 55 >/dev/null 2>&1 &
        setsid \"$LEAF\" setsid 55 &
        (trap '' HUP TERM; exec \"$LEAF\" deaf 55) &
        (setsid sh -c '\"$LEAF\" twice 55 & exit' &)
        echo \"$$\" $(tty) >\"$D/tty\"\n";
    let result = client.call("session_write", &json!({"session": shell, "text": children}));
    let names = ["background", "nohup", "setsid", "deaf", "twice"];
    stage.scene.wait_names(&names, SOON);
    let tty = stage.scene.wait_file("tty", SOON);
    let (bash, tty) = tty.trim().split_once(' ').unwrap();
    let bash = hold(bash.parse().unwrap());
    let line = |tty: &str| std::fs::metadata(tty).ok();
    assert!(line(tty).is_some(), "{tty}: {result}");
    let pinned = stage.scene.pin();
    assert_eq!(pinned.alive().len(), names.len());
    let guards = above(stage.scene.ids().iter().map(|id| id.pid), &server);
    server.kill(Signal::KILL).unwrap();
    let begun = Instant::now();
    let left = || PROMISED.saturating_sub(begun.elapsed());
    pinned.wait_gone(left()).unwrap();
    assert!(bash.wait_gone(left()));
    for guard in &guards {
        assert!(guard.wait_gone(left()), "{guard:?}");
    }
    // The line goes with its last holder, unless another terminal has its number by now, which is younger.
    let again = line(tty);
    assert!(again.is_none() || again.unwrap().modified().unwrap().elapsed().unwrap() < begun.elapsed());
    println!("all gone after {:?}", begun.elapsed());
}

#[test]
fn a_cancelled_command_ends_by_the_ladder_though_it_is_deaf() {
    let stage = Stage::new("[run]\ngrace_s = 1\n");
    let mut client = stage.client();
    client.send(&run(
        &json!("deaf"),
        &stage.script("trap '' TERM HUP; (setsid \"$IGNORE\" 55 &); \"$IGNORE\" 55"),
    ));
    stage.scene.wait_recorded(2, SOON);
    let pinned = stage.scene.pin();
    let begun = Instant::now();
    client.send(&cancel(&json!("deaf")));
    client.send(&cancel(&json!("deaf")));
    client.send(&cancel(&json!("nobody")));
    assert!(ping(&mut client) < Duration::from_secs(1));
    assert!(client.text("shell_run", &json!({"command": "echo on"})).contains("\non\n"));
    assert_eq!(pinned.alive().len(), 2, "answered while they were being asked");
    pinned.wait_gone(Duration::from_secs(3)).unwrap();
    // They were asked for the whole grace before.
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    let (status, rest) = client.close();
    assert_eq!((status.code(), rest), (Some(0), vec![]), "what was cancelled is not answered");
}

/// Who closes a session and gives up in the middle of its grace has given the order all the same.
#[test]
fn a_cancelled_kill_stops_waiting_and_the_ladder_goes_on() {
    let stage = Stage::new("[run]\ngrace_s = 1\n");
    let mut client = stage.client();
    let deaf = "trap '' TERM HUP; (setsid \"$IGNORE\" 55 &); exec \"$IGNORE\" 55";
    let session = spawn(&mut client, &stage.script(deaf));
    stage.scene.wait_recorded(2, SOON);
    let pinned = stage.scene.pin();
    let begun = Instant::now();
    let kill = client.ask("tools/call", json!({"name": "session_kill", "arguments": {"session": session}}));
    // Calls are begun in their order: by this answer the order to end has been given.
    assert!(client.text("session_list", &json!({})).contains(&session));
    client.send(&cancel(&kill));
    assert!(ping(&mut client) < Duration::from_secs(1));
    assert_eq!(pinned.alive().len(), 2, "cancelled while they were being asked");
    pinned.wait_gone(Duration::from_secs(3)).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    // What is known of it is there for the next who asks.
    let killed = client.text("session_kill", &json!({"session": session}));
    assert!(killed.contains("nothing of it is left"), "{killed}");
    let (_, rest) = client.close();
    assert_eq!(rest, Vec::<Value>::new(), "what was cancelled is not answered");
}

#[test]
fn a_cancelled_read_stops_waiting_and_nothing_else() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let shell = spawn(&mut client, &stage.script("\"$LEAF\" one 55; echo over"));
    stage.scene.wait_recorded(1, SOON);
    let wait = json!({"until": "text", "pattern": "never", "timeout_s": 50});
    let read = json!({"name": "session_read", "arguments": {"session": shell, "wait": wait}});
    let write =
        json!({"name": "session_write", "arguments": {"session": shell, "text": "typed\n", "wait": wait}});
    let ids = [read, write].map(|call| client.ask("tools/call", call));
    let listed = client.text("session_list", &json!({}));
    assert!(listed.contains("running for"), "{listed}");
    for id in &ids {
        client.send(&cancel(id));
    }
    // The write was carried out, and what waits is what it was.
    let screen = json!({"session": shell, "wait": {"pattern": "typed"}, "mode": "from", "cursor": 0});
    assert!(client.text("session_read", &screen).contains("typed"));
    assert_eq!(stage.scene.pin().alive().len(), 1);
    let killed = client.text("session_kill", &json!({"session": shell, "now": true}));
    assert!(killed.contains("nothing of it is left"), "{killed}");
    let (_, rest) = client.close();
    assert_eq!(rest, Vec::<Value>::new());
}

#[test]
fn sixteen_calls_at_once_and_the_others_in_their_order() {
    let stage = Stage::new("");
    let mut client = stage.client();
    // Each says that it has begun, and goes on when it is told to.
    let gate =
        |n: usize| stage.script(&format!("echo {n} >>\"$D/begun\"; mkfifo \"$D/{n}\"; read x <\"$D/{n}\""));
    for n in 0..20 {
        client.send(&run(&json!(n), &gate(n)));
    }
    let begun = |least: usize| {
        let deadline = Instant::now() + SOON;
        loop {
            let text = std::fs::read_to_string(stage.scene.path("begun")).unwrap_or_default();
            let begun: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
            if begun.len() >= least
                && (0..least).all(|n| stage.scene.path(&n.to_string()).exists() || n == 16)
            {
                return begun;
            }
            assert!(Instant::now() < deadline, "{begun:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    begun(16);
    // A call that waits for its turn is cancelled, and what is no call is answered.
    client.send(&cancel(&json!(16)));
    assert!(ping(&mut client) < Duration::from_secs(1));
    let open = |n: usize| std::fs::write(stage.scene.path(&n.to_string()), "go\n").unwrap();
    for (done, next) in [(3, 17), (7, 18), (0, 19)] {
        assert!(!begun(16).contains(&next));
        open(done);
        assert!(text(&client.answer(&json!(done))["result"]).starts_with("[exit 0"));
        let deadline = Instant::now() + SOON;
        while !stage.scene.path(&next.to_string()).exists() {
            assert!(Instant::now() < deadline, "{next} has not begun");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(begun(16).last(), Some(&next));
    }
    for n in (0..20).filter(|n| ![0, 3, 7, 16].contains(n)) {
        open(n);
        assert!(text(&client.answer(&json!(n))["result"]).starts_with("[exit 0"));
    }
    assert!(!begun(16).contains(&16), "it was cancelled before its turn");
    let info = client.text("server_info", &json!({}));
    assert!(body(&info).contains("19 jobs started") && body(&info).contains(", 1 cancelled"), "{info}");
    let cancelled = |record: &Value| record["event"] == "cancelled" && record["request"] == "16";
    assert!(stage.records().iter().any(cancelled), "it is in the log, too");
}

#[test]
fn calls_that_are_stuck_do_not_keep_others_from_looking_and_from_ending_them() {
    let stage = Stage::new("");
    let mut client = stage.client();
    let terminal = spawn(&mut client, "exec cat");
    let arguments =
        json!({"command": stage.script("exec \"$LEAF\" main 55"), "yield_s": 50, "timeout_s": 50});
    let stuck: Vec<Value> = (0..16)
        .map(|_| client.ask("tools/call", json!({"name": "shell_run", "arguments": arguments})))
        .collect();
    stage.scene.wait_recorded(16, SOON);
    let pinned = stage.scene.pin();
    let queued = client.ask("tools/call", json!({"name": "shell_run", "arguments": {"command": "true"}}));
    // Each of these is answered, or the client gives up; a turn would be free after 50 s only.
    let listed = client.text("session_list", &json!({}));
    assert_eq!(listed.matches("running for").count(), 17, "{listed}");
    assert!(client.text("server_info", &json!({})).contains("sessions: 17 of 32"));
    client.text("session_resize", &json!({"session": terminal, "cols": 90, "rows": 20}));
    client.text("session_write", &json!({"session": terminal, "text": "typed\n"}));
    let said = client.text("session_read", &json!({"session": terminal, "mode": "screen"}));
    assert!(said.contains("typed") && said.contains("screen 90x20"), "{said}");
    assert!(client.arrived(&queued).is_none(), "one that runs something still waits for its turn");
    let ids: Vec<&str> =
        listed.lines().filter_map(|line| line.split_once(" | run | ")).map(|(id, _)| id).collect();
    client.text("session_signal", &json!({"session": ids[0], "signal": "KILL"}));
    for id in &ids[1..] {
        let killed = client.text("session_kill", &json!({"session": id, "now": true}));
        assert!(killed.contains("nothing of it is left"), "{killed}");
    }
    pinned.wait_gone(SOON).unwrap();
    for id in stuck.iter().chain([&queued]) {
        client.answer(id);
    }
}
