//! The program under test, as tests of `killcord run` start it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binaries::{bin, reachable};
use crate::host::Host;
use crate::scene::Scene;
use crate::who::{Who, is_root};

/// The binary `killcord`, where every user can execute it.
#[derive(Debug, Clone)]
pub struct Killcord(PathBuf);

impl Killcord {
    /// Takes `env!("CARGO_BIN_EXE_killcord")`.
    pub fn new(path: &str) -> Self {
        Self(reachable(Path::new(path)))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `killcord run --boundary B --report $D/report`, to which the test adds options, `--` and the program.
    ///
    /// In scripts `./leaf.sh NAME SECONDS` is `kc-leaf`.
    pub fn run(&self, scene: &Scene, who: Who, boundary: &str) -> Command {
        let leaf = scene.path("leaf.sh");
        if !leaf.exists() {
            let link = std::os::unix::fs::symlink(bin("kc-leaf"), &leaf);
            link.unwrap_or_else(|e| panic!("cannot link {}: {e}", leaf.display()));
        }
        let mut command = scene.command(who, &self.0);
        command.args(["run", "--boundary", boundary, "--report"]).arg(scene.path("report"));
        command
    }
}

/// The report that `killcord run` has written in the scene; panics when there is none.
pub fn report(scene: &Scene) -> Value {
    let path = scene.path("report");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("no report {}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in the report {text:?}"))
}

/// A cgroup v2 directory for one test, so that the leaves in it are those of its own jobs.
///
/// Dropping it removes the leaves, which must be empty, and itself.
#[derive(Debug)]
pub struct Corner(Option<PathBuf>);

impl Corner {
    /// Makes it below our own; without a writable cgroup v2 it does nothing.
    pub fn new(scene: &Scene) -> Self {
        let own = Host::get().cgroup_dir().filter(|_| is_root());
        let name = scene.dir().file_name().unwrap_or_default();
        let dir = own.map(|own| own.join(name)).filter(|dir| std::fs::create_dir(dir).is_ok());
        Self(dir)
    }

    /// No directory: commands are begun where the test is.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// The same command, begun inside the directory.
    pub fn wrap(&self, command: &Command) -> Command {
        let Some(dir) = &self.0 else { return copy(command) };
        let mut outer = Command::new("sh");
        outer.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(dir.join("cgroup.procs"));
        outer.arg(command.get_program()).args(command.get_args());
        like(&mut outer, command);
        outer
    }

    /// Where it is, if there is one.
    pub fn dir(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// The leaves of jobs that are there now.
    pub fn leaves(&self) -> Vec<PathBuf> {
        let entries = self.0.iter().flat_map(std::fs::read_dir).flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Corner {
    fn drop(&mut self) {
        for dir in self.leaves().iter().chain(&self.0) {
            // A warden whose host is gone may be on its way out of it. What has members for longer stays: a test
            // that let it come to that has failed, or says so itself.
            let until = Instant::now() + Duration::from_secs(2);
            while std::fs::remove_dir(dir).is_err() && dir.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn copy(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    like(&mut copy, command);
    copy
}

/// Gives a command the environment and the working directory of another.
pub fn like(command: &mut Command, of: &Command) {
    for (key, value) in of.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    if let Some(dir) = of.get_current_dir() {
        command.current_dir(dir);
    }
}
