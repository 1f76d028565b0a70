//! What many sessions and hostile output cost.

use crate::line_client::{Client, SOON};
use crate::stage::{MEMORY, Stage, above, hold, memory, ping};
use crate::terminals::open;
use killcord_testkit::procs;
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn heavy_yes_on_ten_sessions_takes_bounded_memory() {
    let mut client = Stage::new("").client();
    let server = client.pid();
    let sessions: Vec<String> = (0..10)
        .map(|_| {
            open(
                &mut client,
                &json!({"command": "exec timeout 50 yes", "wait": {"quiet_ms": 10, "timeout_s": 0}}),
            )
        })
        .collect();
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(3) {
        slowest = slowest.max(ping(&mut client));
        client.text("session_read", &json!({"session": sessions[0], "mode": "screen"}));
    }
    let listed = client.text("session_list", &json!({}));
    assert_eq!(listed.matches("running for").count(), 10, "{listed}");
    for session in &sessions {
        let killed = client.text("session_kill", &json!({"session": session, "now": true}));
        assert!(killed.contains("nothing of it is left"), "{killed}");
    }
    let peak = memory(server, "VmHWM");
    println!("ten times yes: peak {peak} kB, slowest ping {slowest:?}\n{listed}");
    assert!(peak < MEMORY && slowest < Duration::from_secs(1), "{peak} kB, {slowest:?}");
}

/// Descriptors of a process, those that are terminals, and its children that nobody has reaped.
fn held(pid: u32) -> (usize, usize, usize) {
    let all: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().collect();
    let is_terminal = |entry: &&fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().contains("pt"))
    };
    let dead = |pid: &u32| procs::stat(*pid).is_some_and(|stat| stat.is_dead());
    let zombies = procs::children(pid).iter().filter(|pid| dead(pid)).count();
    (all.len(), all.iter().filter(is_terminal).count(), zombies)
}

#[test]
fn heavy_two_hundred_terminals_leave_nothing_behind() {
    let stage = Stage::new("[sessions]\nkept_s = 0\n");
    let mut client = stage.client();
    let server = hold(client.pid());
    let round = |client: &mut Client| {
        let id =
            open(client, &json!({"command": "tty; exec sleep 50", "wait": {"pattern": "/dev/pts/\\d+"}}));
        let killed = client.text("session_kill", &json!({"session": id, "now": true}));
        assert!(killed.contains("nothing of it is left"), "{killed}");
    };
    // The first ones, so that what is made once is there; and one of which the guards are found.
    (0..3).for_each(|_| round(&mut client));
    let held_open = open(&mut client, &json!({"command": stage.script("exec \"$LEAF\" one 50")}));
    let leaf = stage.scene.wait_recorded(1, SOON).last().unwrap().pid;
    let guards = above([leaf].into_iter(), &server);
    let warden = guards.last().unwrap();
    client.text("session_kill", &json!({"session": held_open, "now": true}));
    let ptys = || fs::read_dir("/dev/pts").unwrap().count();
    let settled = |client: &mut Client| {
        // What is over is forgotten, and the keepers are reaped.
        while client.text("session_list", &json!({})) != "[no sessions]" {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    settled(&mut client);
    let before = (held(server.pid), held(warden.pid), ptys());
    let begun = Instant::now();
    (0..200).for_each(|_| round(&mut client));
    settled(&mut client);
    let took = begun.elapsed();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut after = (held(server.pid), held(warden.pid), ptys());
    // Other programs of this machine may have terminals of their own.
    while (after.0, after.1) != (before.0, before.1) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        after = (held(server.pid), held(warden.pid), ptys());
    }
    println!("server, warden ({}), /dev/pts: {before:?}, {after:?}; 200 in {took:?}", warden.comm);
    assert_eq!((before.0, before.1), (after.0, after.1));
    assert_eq!((after.0.1, after.0.2, after.1.1, after.1.2), (0, 0, 0, 0), "no terminal and no zombie");
    assert!(after.2 <= before.2 + 5, "{before:?} {after:?}");
}

#[test]
fn heavy_hostile_sequences_cost_little() {
    let stage = Stage::new("");
    let hostile = [
        "\u{1b}[99999999b",
        "\u{1b}[99999999;99999999H",
        "\u{1b}[99999999L",
        "\u{1b}[99999999@x\u{1b}[99999999X",
        "\u{1b}[?1049h\u{1b}[2J",
        "\u{1b}[99999999S\u{1b}[99999999T",
        "\u{1b}[1;99999999r",
        "\u{1b}[8;65535;65535t",
        "\u{1b}]0;title",
        "\u{1b}P1;2;3q\u{0}\u{1}",
        "\u{1b}_apc",
        "\u{1b}[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18m",
        "\u{9b}31m\u{1b}[6n\u{1b}[c\u{1b}[>c",
        "a\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}",
    ];
    let mut bytes = String::new();
    while bytes.len() < 33_000 {
        bytes.extend(hostile);
    }
    fs::write(stage.scene.path("hostile"), &bytes).unwrap();
    let commands = [
        "cat hostile",
        "head -c 33000 /dev/urandom",
        "printf '\\033]0;'; head -c 200000000 /dev/zero | tr '\\0' x",
    ];
    cost_little(&stage, &commands, (120, 30));
    // On the largest screen; each session keeps its own.
    cost_little(&stage, &commands[..1], (500, 500));
}

/// On a server of its own, with terminals of this size.
fn cost_little(stage: &Stage, commands: &[&str], (columns, rows): (u16, u16)) {
    let mut client = stage.client();
    let server = client.pid();
    let quiet = open(&mut client, &json!({"command": "echo warm", "wait": {"until": "exit"}}));
    client.text("session_read", &json!({"session": quiet, "mode": "screen"}));
    let before = memory(server, "VmHWM");
    for (n, command) in commands.iter().enumerate() {
        let begun = Instant::now();
        let command = format!(
            "cd {}; stty -echo; {command}; printf '\\033\\\\\\033c'; echo over",
            stage.scene.dir().display()
        );
        let arguments = json!({"command": command, "cols": columns, "rows": rows, "wait": {"quiet_ms": 10, "timeout_s": 0}});
        let session = open(&mut client, &arguments);
        // A server that was not optimised takes a while for 200 MB, on a busy machine longer than one call may.
        let look = json!({"session": session, "mode": "screen", "wait": {"until": "exit", "timeout_s": 10}});
        let mut screen = client.text("session_read", &look);
        while screen.contains("running for") && begun.elapsed() < Duration::from_secs(60) {
            screen = client.text("session_read", &look);
        }
        let took = begun.elapsed();
        let more = memory(server, "VmHWM") - before;
        println!("{columns}x{rows}: {command:?}: {took:?}, {more} kB more, {} bytes of screen", screen.len());
        assert!(screen.contains("exit 0"), "{}", &screen[..screen.len().min(300)]);
        if n < 2 {
            assert!(took < Duration::from_secs(1), "{took:?}");
        }
        assert!(more < 20_000, "{more} kB");
        assert!(ping(&mut client) < Duration::from_secs(1));
    }
}
