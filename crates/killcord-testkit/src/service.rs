//! A state directory of the test's own, and services in it that cannot outlive the test.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::guards::Guards;
use crate::killcord::Killcord;
use crate::nest::Nest;
use crate::procs::{self, PinnedProcess};
use crate::running::{Finished, run};
use crate::scene::Scene;
use crate::who::Who;

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
const SOON: Duration = Duration::from_secs(20);

/// A user's scene with a state directory.
#[derive(Debug)]
pub struct Place {
    /// The scene.
    pub scene: Scene,
    /// The user.
    pub who: Who,
    killcord: Killcord,
}

impl Place {
    /// Takes `env!("CARGO_BIN_EXE_killcord")`. In scripts `./leaf.sh NAME SECONDS` is `kc-leaf`.
    pub fn new(killcord: &str, who: Who) -> Self {
        let (scene, killcord) = (Scene::new(), Killcord::new(killcord));
        drop(killcord.run(&scene, who, "auto"));
        Self { scene, who, killcord }
    }

    /// Does the same as each user that the tests can be here, at once.
    pub fn of_each(killcord: &str, test: impl Fn(Self) + Sync) {
        std::thread::scope(|scope| {
            for who in Who::here() {
                let test = &test;
                scope.spawn(move || test(Self::new(killcord, *who)));
            }
        });
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.scene.path("state")
    }

    /// Any program, with the state directory in its environment.
    pub fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.scene.command(self.who, program);
        command.env("KILLCORD_STATE_DIR", self.state());
        command
    }

    /// `killcord ARGS`.
    pub fn killcord(&self, args: &[&str]) -> Command {
        let mut command = self.program(self.killcord.path());
        command.args(args);
        command
    }

    /// The same to its end.
    pub fn call(&self, args: &[&str]) -> Finished {
        run(&mut self.killcord(args), SOON)
    }

    /// The same, with the exit status that it must have, and what it must have printed on either stream.
    pub fn says(&self, args: &[&str], code: i32, text: &str) -> Finished {
        let done = self.call(args);
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(done.code() == code && said.contains(text), "{args:?}: {done:?}, not {code} and {text:?}");
        done
    }

    /// `killcord list --json`.
    pub fn list(&self) -> Value {
        let done = self.says(&["list", "--json"], 0, "\n");
        assert_eq!(done.stderr, "");
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// Looks until this is so.
    fn look_until<T: std::fmt::Debug>(look: impl Fn() -> T, so: impl Fn(&T) -> bool) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            let seen = look();
            if so(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{seen:?}");
        }
    }

    /// Lists until this is so.
    pub fn list_until(&self, so: impl Fn(&Value) -> bool) -> Value {
        Self::look_until(|| self.list(), so)
    }

    /// Reads the output of a service until this is so.
    pub fn log_until(&self, name: &str, so: impl Fn(&str) -> bool) -> String {
        Self::look_until(|| self.says(&["logs", name], 0, "").stdout, |text| so(text))
    }

    /// The socket of the only warden that there is, which makes it when its first job is on its way.
    pub fn control(&self) -> PathBuf {
        let list = self.list();
        let control = PathBuf::from(list["owners"][0]["claim"].as_str().unwrap()).join("control");
        Self::look_until(|| control.exists(), |there| *there);
        control
    }

    /// Waits until a service is over, without reading its exit.
    pub fn until_over(&self, name: &str) -> Value {
        self.list_until(|list| service_in(list, name).is_some_and(|service| service["running"] == false))
    }

    /// The arguments that start a service, which ends by itself within 50 s.
    pub fn detach<'a>(name: &'a str, options: &[&'a str], program: &[&'a str]) -> Vec<&'a str> {
        let ttl: &[&str] = if options.contains(&"--ttl") { &[] } else { &["--ttl", "50"] };
        [&["run", "--detach", "--name", name], ttl, options, &["--"], program].concat()
    }

    /// Begins `killcord ARGS` in a nest, of which it is the `program` however quickly it ends and leaves a service.
    pub fn starter(&self, args: &[&str]) -> Nest {
        let mut gate = self.program("sh");
        gate.args(["-c", "read go && exec \"$@\"", "sh"]).arg(self.killcord.path()).args(args);
        let mut nest = Nest::start(&gate);
        nest.running().send(b"\n");
        nest
    }

    /// Starts `sh -c SCRIPT` as a service.
    pub fn start(&self, name: &str, options: &[&str], script: &str) -> Service<'_> {
        self.start_program(name, options, &["sh", "-c", script])
    }

    /// Starts any program as a service, and comes back when its starter has.
    pub fn start_program(&self, name: &str, options: &[&str], program: &[&str]) -> Service<'_> {
        let nest = self.starter(&Self::detach(name, options, program));
        let mut service = Service { place: self, name: name.to_owned(), nest, job: String::new() };
        let said = service.nest.running().stdout.expect("\n", SOON).unwrap();
        let job = said.strip_prefix(&format!("{name} started: job ")).unwrap();
        job.trim_end().clone_into(&mut service.job);
        assert!(service.nest.program.wait_gone(SOON), "the starter is still there");
        service
    }
}

/// What `killcord list --json` says of a service.
pub fn service_in<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list["services"].as_array().unwrap().iter().find(|service| service["name"] == name)
}

/// A service that was started in a nest, which ends when nothing of it is left.
///
/// Dropping it stops it, and says nothing of what it finds: then the test has failed or has seen it gone.
#[derive(Debug)]
pub struct Service<'a> {
    place: &'a Place,
    name: String,
    /// It is in here.
    pub nest: Nest,
    /// Its job's id.
    pub job: String,
}

impl Service<'_> {
    /// Its owner, and the guards below that.
    pub fn guards(&mut self) -> (PinnedProcess, Guards) {
        let nest = self.nest.running().pid();
        let is_owner = |stat: &procs::Stat| stat.parent == nest && stat.comm == "killcord-servic";
        let owner = procs::children(nest).into_iter().find_map(|pid| PinnedProcess::open(pid, is_owner));
        let owner = owner.unwrap();
        let guards = Guards::find(owner.pid, SOON);
        (owner, guards)
    }

    /// Waits until the kernel says that nothing is left of it, neither of its owner nor of its guards.
    pub fn gone(&mut self, limit: Duration) {
        self.nest.wait_empty(limit).unwrap();
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        if !self.nest.is_empty() {
            let mut stop = self.place.killcord(&["stop", "--now", &self.name]);
            let _ = stop.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}
