//! The named instants of killcord (`hooks::point`, feature `test-hooks`), and a process that stands still at one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::procs::PinnedProcess;
use crate::scene::Scene;

/// Those that only a program comes to that links the library: it executes its warden, which has spares, and it is no
/// subreaper. Every other point must be reached by a run of `killcord`.
pub const OF_THE_LIBRARY: [&str; 12] = [
    "keeper.is_given",
    "keeper.is_spare",
    "owner.asked",
    "owner.asks",
    "owner.ends_by_mark",
    "owner.executed",
    "owner.executing",
    "owner.lost",
    "warden.asked",
    "warden.executed",
    "warden.hands_to_spare",
    "warden.has_spare",
];

/// Every point in the source of `killcord`, each of which may be a choice of several: a new one is found on the day it
/// is added.
///
/// Panics where the source is not there.
pub fn all() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut paths = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../killcord/src")];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            paths.extend(entries.flatten().map(|entry| entry.path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for call in text.split("hooks::point(").skip(1) {
            let call = call.split(");").next().unwrap_or_default();
            found.extend(call.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// A file in which a program writes down the points that it comes to.
#[derive(Debug)]
pub struct Trace(PathBuf);

impl Trace {
    /// Makes it in the scene, and has the command and all that comes from it use it.
    pub fn of(scene: &Scene, command: &mut Command) -> Self {
        let path = scene.path("points");
        let made = fs::write(&path, "");
        let made = made.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o666)));
        made.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        command.env("KILLCORD_TEST_POINTS", &path);
        Self(path)
    }

    /// How often each point was come to so far.
    pub fn read(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for line in fs::read_to_string(&self.0).unwrap_or_default().lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }
}

/// Where the first process stops that comes to a point; the others go on.
#[derive(Debug)]
pub struct Gate {
    listener: Option<UnixListener>,
}

impl Gate {
    /// Makes it in the scene, and has the command and all that comes from it stop there.
    pub fn before(point: &str, scene: &Scene, command: &mut Command) -> Self {
        let path = scene.path("gate");
        let listen = || -> std::io::Result<UnixListener> {
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        command.env("KILLCORD_TEST_PAUSE", point).env("KILLCORD_TEST_PAUSE_AT", &path);
        Self { listener: Some(listener) }
    }

    /// Who stands there, once somebody does. The gate is open for all others from then on.
    pub fn arrived(&mut self) -> Option<Paused> {
        let (mut stream, _) = self.listener.as_ref()?.accept().ok()?;
        // Whoever has come meanwhile loses its connection with this, and goes on.
        self.listener = None;
        let mut word = [0; 64];
        // Its word must come: then it is at the point, and not on its way to it.
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let said = stream.read(&mut word).ok()?;
        let point = String::from_utf8_lossy(&word[..said]).into_owned();
        // As the kernel numbers it where we are, in whatever namespace it is.
        let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?.pid;
        // As long as it stands there its number is its own.
        let process = PinnedProcess::open(peer.as_raw_nonzero().get().cast_unsigned(), |_| true)?;
        Some(Paused { process, point, _stream: stream })
    }
}

/// A process that stands still at a point until this is dropped.
#[derive(Debug)]
pub struct Paused {
    /// It.
    pub process: PinnedProcess,
    /// Where it said that it is.
    pub point: String,
    _stream: UnixStream,
}
