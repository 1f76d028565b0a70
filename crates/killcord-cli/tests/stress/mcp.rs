//! `killcord mcp`, driven by lines of JSON: commands and terminals in flight, cancels, kills, and then its end.

use crate::den::{Den, Io};
use crate::events::{Bound, DEATH, Event, ORDER, SOON, VICTIMS, Victim};
use crate::payload::Payload;
use crate::round::{Excuse, Round};
use killcord_testkit::{PinnedProcess, Signal, Who, bin};
use serde_json::{Value, json};
use std::time::Duration;

/// What ends the server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Input,
    Signal(Signal),
    Kill(Vec<Victim>),
}

impl Round<'_> {
    pub(crate) fn mcp(&mut self) {
        let end = match self.dice.below(8) {
            0..2 => End::Input,
            2 => End::Signal(self.dice.pick(&[Signal::TERM, Signal::INT, Signal::HUP])),
            _ => End::Kill(self.dice.some(&VICTIMS)),
        };
        let takes_all = end == End::Kill(VICTIMS.to_vec());
        let (end, takes_all) =
            if takes_all && !self.campaign.tagged { (End::Input, false) } else { (end, takes_all) };
        self.what = format!("{end:?}");
        let mut command = self.killcord(&["mcp"]);
        // The server's own files stay.
        let own = self.scene.path("home/mcp");
        command.env("XDG_STATE_HOME", own.join("state")).env("XDG_CONFIG_HOME", own.join("config"));
        let mut den = Den::start(&self.corner, &command, Io::Pipes);
        den.send(HELLO.as_bytes());
        let calls = 3 + self.dice.below(6);
        for n in 0..calls {
            let call = self.call_of_tool(n, calls);
            den.send(format!("{call}\n").as_bytes());
            std::thread::sleep(self.dice.ms(120));
        }
        if !den.output.wait_word("protocolVersion", SOON) {
            self.fault(&format!("the server says nothing: {}", den.errors()));
        }
        std::thread::sleep(self.dice.ms(400));
        let bound = self.end_server(&end, &mut den);
        let gone =
            if takes_all { self.settle_by_sweeps(&den) } else { self.settle(&den, bound, Excuse::Nobody) };
        if gone {
            self.look_behind(&mut den, None);
        }
    }

    /// A command, a terminal, or something that is done to one of those before.
    fn call_of_tool(&mut self, n: u64, calls: u64) -> Value {
        let tool = |name: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": n + 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
        let session = format!("s{}", 1 + self.dice.below(n.max(1)));
        let last = n + 1 == calls;
        match self.dice.below(12) {
            0..5 => {
                let keep = if self.dice.one_in(2) { "keep" } else { "end" };
                let yields = self.dice.pick(&[0.05, 0.5, 20.0]);
                tool("shell_run", json!({"command": self.script(), "leftovers": keep, "yield_s": yields}))
            }
            5 => tool("shell_run", json!({"command": self.script(), "timeout_s": 0.5})),
            6..9 => {
                let wait = json!({"until": "quiet", "quiet_ms": 10, "timeout_s": 1});
                tool("shell_spawn", json!({"command": self.script(), "wait": wait}))
            }
            9 if n > 0 => {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}})
            }
            10 if n > 0 && !last => {
                tool("session_kill", json!({"session": session, "now": self.dice.one_in(2)}))
            }
            _ => tool("session_write", json!({"session": session, "keys": "ctrl+c"})),
        }
    }

    fn script(&mut self) -> String {
        let payload = match self.dice.below(6) {
            0 => Payload::Holder,
            1 => Payload::Brief(self.dice.below(100) as u8),
            _ => Payload::that_stays(&mut self.dice, self.boundary, self.who == Who::User),
        };
        self.campaign.tally.started(&self.kind, 1);
        self.campaign.tally.event(&format!("payload: {}", payload.name()));
        self.what.extend([", ", payload.name()]);
        let path = |name: &str| bin(name).display().to_string();
        format!(
            "export D={} L={} I={} P={} B={}\n{}",
            self.scene.dir().display(),
            path("kc-leaf"),
            path("kc-ignore"),
            path("kc-payload"),
            path("kc-bomb"),
            payload.script()
        )
    }

    fn end_server(&mut self, end: &End, den: &mut Den) -> Bound {
        let event = match end {
            End::Input => "the end of the server's input".to_owned(),
            End::Signal(signal) => format!("{signal:?} to the server"),
            End::Kill(victims) => Event::Kill(victims.clone()).name(),
        };
        self.campaign.tally.event(&event);
        let server = den.program.take();
        match (end, &server) {
            (End::Signal(signal), Some(server)) => {
                let _ = server.kill(*signal);
            }
            (End::Kill(victims), Some(server)) => {
                self.kill_of_library(victims, server, den);
                if !victims.contains(&Victim::Owner) {
                    // Its jobs are over. It lives, and goes with its input.
                    std::thread::sleep(self.dice.ms(1000));
                    den.end_input();
                    return Bound::now(ORDER);
                }
            }
            _ => den.end_input(),
        }
        Bound::now(if *end == End::Input { ORDER } else { DEATH })
    }

    /// Kills of a program that links the library: its warden is nobody's child, and there is a keeper for each job.
    pub(crate) fn kill_of_library(&mut self, victims: &[Victim], owner: &PinnedProcess, den: &Den) {
        let wardens = den.children("killcord-warden");
        let keepers: Vec<PinnedProcess> = wardens
            .iter()
            .flat_map(|warden| killcord_testkit::procs::children(warden.pid))
            .filter_map(|pid| PinnedProcess::open(pid, |stat| stat.comm.starts_with("killcord-")))
            .collect();
        let mut all: Vec<&PinnedProcess> = Vec::new();
        if victims.contains(&Victim::Owner) {
            all.push(owner);
        }
        if victims.contains(&Victim::Warden) {
            all.extend(&wardens);
        }
        if victims.contains(&Victim::Keeper) {
            // All of them, where nobody shall be left; else a part.
            let part = keepers.len() as u64;
            let alone = victims.len() < VICTIMS.len() && part > 0;
            let some = if alone { 1 + self.dice.below(part) } else { part };
            all.extend(keepers.iter().take(some as usize));
        }
        self.kill(&all);
    }

    /// For a library host: whoever was killed, the host may have to go as well, so that its round ends.
    pub(crate) fn wait_or_kill(&self, owner: &PinnedProcess, limit: Duration) {
        if !owner.wait_gone(limit) {
            self.fault("the host does not come to its end");
            let _ = owner.kill(Signal::KILL);
        }
    }
}

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"stress","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);
