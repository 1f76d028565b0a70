//! The place of one test: a directory, its list of processes, and the guard that ends them.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::pinned::{Alive, Pinned, alive_now};
use crate::record::{self, Recorded};
use crate::who::{USER, Who, is_root};

/// A temp directory with the file `ids`, which fixtures find through the variable `D`.
///
/// Dropping it, also by a panic, ends exactly the recorded incarnations that still run, through pidfds, and
/// removes the directory. Hoppers and bombs, which no pidfd can hold, end themselves when the directory is gone:
/// a test must have made its findings before that.
#[derive(Debug)]
pub struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    /// Makes the directory; everybody may write to it, so that fixtures of an ordinary user can.
    ///
    /// Panics where the temp directory is not usable.
    pub fn new() -> Self {
        let make = || -> io::Result<Self> {
            let dir = tempfile::Builder::new().prefix("killcord-test-").tempdir()?;
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))?;
            for list in ["ids", "spaces"] {
                fs::write(dir.path().join(list), "")?;
                fs::set_permissions(dir.path().join(list), fs::Permissions::from_mode(0o666))?;
            }
            for home in ["home", "tmp"] {
                fs::create_dir(dir.path().join(home))?;
                if is_root() {
                    chown(dir.path().join(home), Some(USER), Some(USER))?;
                }
            }
            Ok(Self { dir })
        };
        make().unwrap_or_else(|e| panic!("cannot make a scene: {e}"))
    }

    /// The directory, the fixtures' `$D`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// A command that runs `program` as this user in the scene: `D`, `HOME`, `TMPDIR` and the working directory
    /// are set.
    pub fn command(&self, who: Who, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = who.command(program);
        command.env("D", self.dir()).env("TMPDIR", self.path("tmp")).env("HOME", self.path("home"));
        command.env_remove("XDG_RUNTIME_DIR").current_dir(self.dir());
        command
    }

    /// Who is written down so far.
    pub fn ids(&self) -> Vec<Recorded> {
        record::read(&self.path("ids")).unwrap_or_else(|e| panic!("cannot read the recorded ids: {e}"))
    }

    /// Waits until `n` processes are written down; panics at the limit, naming those that are.
    pub fn wait_recorded(&self, n: usize, limit: Duration) -> Vec<Recorded> {
        self.wait_for(limit, &format!("{n} recorded processes"), || {
            Some(self.ids()).filter(|ids| ids.len() >= n)
        })
    }

    /// Waits until a process is written down under each of these names.
    pub fn wait_names(&self, names: &[&str], limit: Duration) -> Vec<Recorded> {
        let all_there = |ids: &Vec<Recorded>| names.iter().all(|name| ids.iter().any(|id| id.name == *name));
        self.wait_for(limit, &format!("{names:?}"), || Some(self.ids()).filter(all_there))
    }

    /// Waits until a file of the scene is there and not empty, and returns its text.
    pub fn wait_file(&self, name: &str, limit: Duration) -> String {
        let read = || fs::read_to_string(self.path(name)).ok().filter(|text| !text.is_empty());
        self.wait_for(limit, &format!("the file {name}"), read)
    }

    fn wait_for<T>(&self, limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "{what} not there after {limit:?}; recorded: {:?}",
                self.ids()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Opens a pidfd for each recorded incarnation that still runs, also in a pid namespace below ours.
    pub fn pin(&self) -> Pinned {
        Pinned::open(&self.ids())
    }

    /// Which of the recorded incarnations run now.
    pub fn alive(&self) -> Vec<Alive> {
        alive_now(&self.ids())
    }

    /// Waits until all that are recorded, now, have ended: how long it took, or who is left.
    pub fn wait_gone(&self, limit: Duration) -> Result<Duration, Vec<Alive>> {
        self.pin().wait_gone(limit)
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A fixture that was about to write itself down when the first round looked is met by the second.
        for _ in 0..2 {
            if let Ok(ids) = record::read(&self.path("ids")) {
                Pinned::open(&ids).kill(Signal::KILL);
            }
        }
    }
}
