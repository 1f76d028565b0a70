//! A state directory with what owners left in it, or what a test plants there; and what a sweep says.
//!
//! The names of files and the texts of records are written out, not imported: what is on disk is a promise to other
//! versions.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::killcord::like;
use crate::{Finished, Guards, Killcord, Nest, PinnedProcess, Scene, Signal, USER, Who, is_root, procs, run};

/// What a sweep of hostile claims may take at most, and a start beside them.
pub const TEN: Duration = Duration::from_secs(10);

/// A job's id that nobody has.
pub const JOB: &str = "0123456789abcdef0123456789abcdef";

/// Waits until it is so; panics at the limit.
pub fn until(limit: Duration, what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not so after {limit:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Number and start of a process that has ended and was reaped.
pub fn dead() -> (u32, u64) {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let start = procs::start_time(child.id()).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    (child.id(), start)
}

/// Number and start of this process.
pub fn own() -> (u32, u64) {
    let pid = std::process::id();
    (pid, procs::start_time(pid).unwrap())
}

/// Where numbers of processes mean what they do here.
pub fn place() -> Value {
    let inode = |name: &str| fs::metadata(format!("/proc/self/ns/{name}")).map_or(0, |found| found.ino());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    json!({"boot": boot.trim(), "pid_namespace": inode("pid"), "time_namespace": inode("time")})
}

/// A marker as killcord writes it.
pub fn marker((pid, start): (u32, u64)) -> Value {
    let process = json!({"pid": pid, "start": start});
    json!({"v": 1, "place": place(), "process": process, "program": "planted", "since": 1})
}

/// A record as killcord writes it, of a job whose keeper was this.
pub fn record(state: &str, boundary: &str, (pid, start): (u32, u64)) -> Value {
    let keeper = json!({"pid": pid, "start": start});
    json!({"v": 1, "place": place(), "state": state, "boundary": boundary, "keeper": keeper,
        "program": "planted", "since": 1})
}

/// The same with other fields.
pub fn with(mut what: Value, fields: &Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        what[key] = value.clone();
    }
    what
}

/// A state directory in a scene.
#[derive(Debug)]
pub struct State<'a> {
    /// Where everything of the test is.
    pub scene: &'a Scene,
    /// Whose it is.
    pub who: Who,
    /// The directory.
    pub path: PathBuf,
    killcord: Killcord,
}

impl<'a> State<'a> {
    /// Makes it. The program is `env!("CARGO_BIN_EXE_killcord")`.
    pub fn new(killcord: &str, scene: &'a Scene, who: Who) -> Self {
        Self::at(killcord, scene, who, scene.path("state"))
    }

    /// Makes it somewhere else.
    pub fn at(killcord: &str, scene: &'a Scene, who: Who, path: PathBuf) -> Self {
        let state = Self { scene, who, path, killcord: Killcord::new(killcord) };
        state.directory(&state.path);
        state
    }

    /// The number of its user.
    pub fn uid(&self) -> u32 {
        match self.who {
            Who::User if is_root() => USER,
            _ => fs::metadata("/proc/self").unwrap().uid(),
        }
    }

    /// Makes a directory of its user's, closed to others.
    pub fn directory(&self, path: &Path) {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        self.give(path);
    }

    /// Makes a file of its user's.
    pub fn file(&self, path: &Path, text: impl AsRef<[u8]>) {
        fs::write(path, text).unwrap();
        self.give(path);
    }

    /// Gives to its user what root has made.
    pub fn give(&self, path: &Path) {
        if is_root() {
            lchown(path, Some(self.uid()), Some(self.uid())).unwrap();
        }
    }

    /// Plants a claim without jobs.
    pub fn plant(&self, name: &str, marker: &Value) -> PathBuf {
        let claim = self.path.join(name);
        for part in ["", "jobs", "tmp"] {
            self.directory(&claim.join(part));
        }
        self.file(&claim.join("lease"), "");
        self.file(&claim.join("owner"), format!("{marker}\n"));
        claim
    }

    /// Plants the claim of a dead owner, with the record of a job.
    pub fn plant_job(&self, name: &str, id: &str, record: &Value) -> PathBuf {
        let claim = self.plant(name, &marker(dead()));
        self.file(&claim.join("jobs").join(id), format!("{record}\n"));
        claim
    }

    /// `killcord ARGS` with this state directory.
    pub fn killcord(&self, args: &[&str]) -> Command {
        let mut command = self.scene.command(self.who, self.killcord.path());
        command.args(args).env("KILLCORD_STATE_DIR", &self.path);
        command
    }

    /// `killcord run OPTIONS -- sh -c SCRIPT`, in which `./leaf.sh` is `kc-leaf`.
    pub fn shell(&self, options: &[&str], script: &str) -> Command {
        let leaf = self.scene.path("leaf.sh");
        if !leaf.exists() {
            std::os::unix::fs::symlink(crate::bin("kc-leaf"), leaf).unwrap();
        }
        let mut command = self.killcord(&["run"]);
        command.args(options).args(["--", "sh", "-c", script]);
        command
    }

    /// `killcord run -- true`, which must work.
    pub fn start(&self) -> Finished {
        let started = run(&mut self.killcord(&["run", "--", "true"]), TEN);
        assert_eq!((started.code(), started.stderr.as_str()), (0, ""), "{started:?}");
        started
    }

    /// `killcord sweep --json MORE` to its end: what it says, whatever its status.
    pub fn sweep(&self, more: &[&str]) -> Value {
        let swept = run(self.killcord(&["sweep", "--json"]).args(more), TEN);
        serde_json::from_str(&swept.stdout).unwrap_or_else(|e| panic!("{e}: {swept:?}"))
    }

    /// The names of everything in it.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The claim that was not planted, as soon as there is one with a started job and all else that it is going to
    /// have, and the path of its record.
    pub fn started(&self) -> (PathBuf, PathBuf) {
        let planted = |claim: &Path| {
            fs::read_to_string(claim.join("owner")).is_ok_and(|text| text.contains("\"planted\""))
        };
        let job = || {
            let claims = self.names().into_iter().filter(|name| name.starts_with('c'));
            let claims = claims.map(|name| self.path.join(name)).filter(|claim| !planted(claim));
            let jobs = claims.filter_map(|claim| fs::read_dir(claim.join("jobs")).ok()).flatten().flatten();
            // What is being written has a name with a dot before it.
            let whole = jobs.filter(|job| !job.file_name().to_string_lossy().starts_with('.'));
            whole
                .map(|job| job.path())
                .find(|job| fs::read_to_string(job).is_ok_and(|t| t.contains("\"state\":\"started\"")))
        };
        until(TEN, "a started job", || job().is_some());
        let job = job().unwrap_or_else(|| panic!("the job is gone"));
        let claim = job.ancestors().nth(2).unwrap_or(&job).to_owned();
        // What comes after its record: its own directory by the keeper, the socket by the warden.
        let id = job.file_name().unwrap().to_string_lossy().into_owned();
        let all_there = || claim.join("tmp").join(&id[..12]).exists() && claim.join("control").exists();
        until(TEN, "all of the claim", all_there);
        (claim, job)
    }
}

/// What a record says.
pub fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The same command after a line of shell, which runs as the tests' own user.
pub fn after(script: &str, command: &Command) -> Command {
    let mut outer = Command::new("sh");
    outer.args(["-c", &format!("{script}; exec \"$@\""), "sh"]);
    with_inner(outer, command)
}

/// Runs a command to its end, and until nothing is left of all that came from it. Unlike a [`Nest`], it may be over at
/// once.
pub fn run_whole(command: &Command) -> Finished {
    run(&mut with_inner(Command::new(crate::bin("kc-nest")), command), TEN)
}

fn with_inner(mut outer: Command, command: &Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    like(&mut outer, command);
    outer
}

/// Whether nobody holds a lease, by the program `flock`.
pub fn is_free(lease: &Path) -> bool {
    let tried = run(Command::new("flock").args(["-n", "-x"]).arg(lease).arg("true"), TEN);
    assert!(tried.stderr.is_empty(), "{tried:?}");
    tried.code() == 0
}

/// What a sweep has kept for this reason.
pub fn kept(swept: &Value, reason: &str) -> u64 {
    swept["kept"][reason].as_u64().unwrap()
}

/// Asserts what a sweep removed and kept, each with its reason; nothing else was kept.
#[track_caller]
pub fn assert_swept(swept: &Value, removed: u64, keeps: &[(&str, u64)]) {
    assert_eq!(swept["removed"], removed, "{swept:#}");
    for (reason, count) in swept["kept"].as_object().unwrap() {
        let wanted = keeps.iter().find(|(r, _)| r == reason).map_or(0, |(_, n)| *n);
        assert_eq!(*count, wanted, "{reason}: {swept:#}");
    }
}

/// Stops these, and when all are stopped kills them: none of them sees another go.
pub fn kill_together(processes: &[&PinnedProcess]) {
    for process in processes {
        process.kill(Signal::STOP).unwrap();
    }
    for process in processes {
        let stopped = || process.stat().is_none_or(|stat| stat.state == 'T' || stat.is_dead());
        until(TEN, "stopped", stopped);
    }
    for process in processes {
        // The init of a namespace may be gone with the warden.
        let _ = process.kill(Signal::KILL);
    }
}

/// Kills a `killcord run`, its warden and its keeper together.
pub fn kill_all_guards(nest: &Nest) {
    let guards = Guards::find(nest.program.pid, TEN);
    let (warden, keeper) = (guards.warden.unwrap(), guards.keeper.unwrap());
    kill_together(&[&nest.program, &warden, &keeper]);
    assert!(nest.program.wait_gone(TEN) && warden.wait_gone(TEN) && keeper.wait_gone(TEN));
}
