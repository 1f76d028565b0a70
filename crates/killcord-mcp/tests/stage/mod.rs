//! A server of a test's own: its configuration, its state, and the programs that its jobs are made of.

#![expect(clippy::unwrap_used, clippy::panic, reason = "it fails the test that uses it, with a message")]

use crate::line_client::{Client, server};
use killcord_testkit::{PinnedProcess, Scene, procs};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the server may use at most, in kB.
pub(crate) const MEMORY: u64 = 100_000;

/// A scene with a server's configuration.
pub(crate) struct Stage {
    pub(crate) scene: Scene,
}

impl Stage {
    /// With this configuration.
    pub(crate) fn new(config: &str) -> Self {
        let stage = Self { scene: Scene::new() };
        fs::create_dir_all(stage.scene.path("config/killcord")).unwrap();
        fs::write(stage.scene.path("config/killcord/config.toml"), config).unwrap();
        stage
    }

    /// The server's command.
    pub(crate) fn server(&self) -> Command {
        let mut command = server();
        command.env("XDG_CONFIG_HOME", self.scene.path("config"));
        command.env("XDG_STATE_HOME", self.scene.path("state")).env("HOME", self.scene.path("home"));
        command
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        Client::start_as(self.server()).greeted("2025-11-25")
    }

    /// A script of a job, which finds `$LEAF` and `$IGNORE`.
    pub(crate) fn script(&self, script: &str) -> String {
        let (leaf, ignore) = (killcord_testkit::bin("kc-leaf"), killcord_testkit::bin("kc-ignore"));
        let dir = self.scene.dir().display();
        format!("export D={dir} LEAF={} IGNORE={}\n{script}", leaf.display(), ignore.display())
    }

    /// The records of the audit log.
    pub(crate) fn records(&self) -> Vec<Value> {
        let mut records = Vec::new();
        for entry in fs::read_dir(self.scene.path("state/killcord/audit")).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
            records.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
        records
    }
}

/// Holds a process that is there.
pub(crate) fn hold(pid: u32) -> PinnedProcess {
    PinnedProcess::open(pid, |_| true).unwrap_or_else(|| panic!("process {pid} is gone already"))
}

/// All that stands between these processes and the server, or the first process: the guards, and shells.
pub(crate) fn above(pids: impl Iterator<Item = u32>, server: &PinnedProcess) -> Vec<PinnedProcess> {
    let mut found: Vec<PinnedProcess> = Vec::new();
    for pid in pids {
        let mut next = procs::stat(pid).map(|stat| stat.parent);
        while let Some(pid) = next.filter(|pid| *pid > 1 && *pid != server.pid) {
            let later = |stat: &procs::Stat| stat.start >= server.start;
            let Some(process) = PinnedProcess::open(pid, later) else { break };
            next = process.stat().map(|stat| stat.parent);
            if found.iter().all(|other| other.pid != process.pid) {
                found.push(process);
            }
        }
    }
    found
}

/// A figure of `/proc/PID/status` in kB, such as `VmHWM`.
pub(crate) fn memory(pid: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_matches([':', ' ', '\t']).split(' ').next().unwrap().parse().unwrap()
}

/// How long an answer to a ping takes.
pub(crate) fn ping(client: &mut Client) -> Duration {
    let begun = Instant::now();
    let id = client.ask("ping", json!({}));
    assert_eq!(client.answer(&id)["result"], json!({}));
    begun.elapsed()
}

/// What is between the status lines.
pub(crate) fn body(text: &str) -> &str {
    let Some((_, rest)) = text.split_once('\n') else { return "" };
    rest.rsplit_once('\n').map_or("", |(body, _)| body)
}
