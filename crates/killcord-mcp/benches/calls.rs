//! What a command through the server costs, against the least that any server could do.
//!
//! `cargo bench -p killcord-mcp --bench calls` prints the medians of `shell_run true` and of a peer that starts and
//! waits for a shell for each line (`sh`, and bash, which is what the server runs), interleaved, with their ratio; the time
//! from start to the first answer; and the memory of an idle server. Both are spoken to by the same client.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and fails loudly")]

#[path = "../tests/line_client/mod.rs"]
#[expect(dead_code, reason = "this needs a part of it")]
mod line_client;

use line_client::{Client, initialize, server, text};
use serde_json::{Value, json};
use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// In the environment of the peer: the shell that it starts.
const PEER: &str = "KILLCORD_BENCH_PEER";
const ROUNDS: usize = 300;
const STARTS: usize = 50;

fn main() {
    if let Some(shell) = std::env::var_os(PEER) {
        return peer(&shell);
    }
    calls();
    starts();
    memory();
}

/// Answers each line when a shell that it has started for it has ended.
fn peer(shell: &std::ffi::OsStr) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let output = Command::new(shell).args(["-c", "true"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {}});
        println!("{answer}");
    }
}

fn peer_of(shell: &str) -> Client {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PEER, shell);
    Client::start_as(command)
}

fn timed(client: &mut Client) -> Duration {
    let begun = Instant::now();
    let id = client.ask("tools/call", json!({"name": "shell_run", "arguments": {"command": "true"}}));
    let answer = client.answer(&id);
    let took = begun.elapsed();
    assert!(
        answer["result"]["content"].is_null() || text(&answer["result"]).starts_with("[exit 0"),
        "{answer}"
    );
    took
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn calls() {
    let mut all = [Client::initialized("2025-11-25"), peer_of("sh"), peer_of("bash")];
    let mut times = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + 20 {
        for (client, times) in all.iter_mut().zip(&mut times) {
            let took = timed(client);
            // The first ones make what is made once.
            if round >= 20 {
                times.push(took);
            }
        }
    }
    let [ours, sh, bash] = times.each_mut().map(|times| median(times));
    let ratio = |other: Duration| ours.as_secs_f64() / other.as_secs_f64();
    println!("shell_run true: {ours:?}; sh -c true by a peer: {sh:?}; bash -c true by a peer: {bash:?}");
    println!("ratio to sh {:.2}, to bash {:.2} (goal: at most 1.5)", ratio(sh), ratio(bash));
}

fn starts() {
    let mut times: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let begun = Instant::now();
            let mut client = Client::start_as(server());
            client.send(&initialize(0, "2025-11-25"));
            client.answer(&json!(0));
            begun.elapsed()
        })
        .collect();
    println!("start to first answer: {:?} (goal: under 15 ms)", median(&mut times));
}

fn memory() {
    let mut client = Client::initialized("2025-11-25");
    let id = client.ask("tools/list", json!({}));
    client.answer(&id);
    let resident = |client: &Client| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
        status.lines().find(|line| line.starts_with("VmRSS")).unwrap().replace("VmRSS:", "").trim().to_owned()
    };
    let idle = resident(&client);
    for _ in 0..100 {
        timed(&mut client);
    }
    println!("memory: {idle} idle, {} after a hundred commands (goal: under 15 MB)", resident(&client));
}
