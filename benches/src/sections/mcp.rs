//! What an agent's call costs: `killcord mcp` beside a server that does nothing but the same with `tokio::process`.

use crate::measure::{Case, Found, Unit, Variant};
use crate::{Result, Setup};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PEER: &str = "bare rmcp server";
const OURS: &str = "killcord mcp";

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    let section = "MCP server";
    let yardstick = Some(PEER.to_owned());
    let case = Case {
        section,
        name: "start to first answer".to_owned(),
        yardstick: yardstick.clone(),
        ..Case::default()
    };
    let start = |server: fn(&Setup) -> Command| move || Server::start(server(setup)).map(|_| ());
    found.interleave(
        &case,
        setup.rounds(60, 10),
        vec![Variant::timed(PEER, start(peer)), Variant::timed(OURS, start(ours))],
    );
    let servers = [RefCell::new(Server::start(peer(setup))?), RefCell::new(Server::start(ours(setup))?)];
    let case = Case { name: "shell_run true, round trip".to_owned(), ..case };
    let variants = [PEER, OURS].iter().zip(&servers);
    let variants =
        variants.map(|(name, s)| Variant::timed(*name, || s.borrow_mut().call().map(|_| ()))).collect();
    found.interleave(&case, setup.rounds(300, 40), variants);
    let case = Case { name: "memory after these calls (VmRSS)".to_owned(), unit: Unit::Kib, ..case };
    let resident: Result<Vec<_>> = [PEER, OURS]
        .iter()
        .zip(&servers)
        .map(|(name, server)| Ok(((*name).to_owned(), vec![server.borrow().resident()?])))
        .collect();
    found.add(&case, &resident?);
    Ok(())
}

fn peer(setup: &Setup) -> Command {
    let mut command = Command::new(&setup.own);
    command.arg("role:mcp");
    command
}

fn ours(setup: &Setup) -> Command {
    let mut command = Command::new(&setup.killcord);
    command.arg("mcp");
    command
}

/// A server on pipes, spoken to in lines.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut server = Self { child, stdin, stdout, next: 0 };
        let client = json!({"name": "killcord-bench", "version": "0"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        server.ask("initialize", hello)?;
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().ok_or("it was ended")?;
        stdin.write_all(format!("{message}\n").as_bytes()).map_err(|e| e.to_string())
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
                return Err("the server has ended".to_owned());
            }
            let answer: Value = serde_json::from_str(&line).map_err(|e| format!("{line}: {e}"))?;
            // Its own notifications have no number.
            if answer["id"] == id {
                return Ok(answer);
            }
        }
    }

    fn call(&mut self) -> Result<()> {
        let answer =
            self.ask("tools/call", json!({"name": "shell_run", "arguments": {"command": "true"}}))?;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        if text.starts_with("[exit 0") { Ok(()) } else { Err(answer.to_string()) }
    }

    fn resident(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|l| l.split_whitespace().next()?.parse().ok())
            .ok_or_else(|| format!("{path}: no VmRSS"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its input.
        self.stdin = None;
        let _ = self.child.wait();
    }
}
