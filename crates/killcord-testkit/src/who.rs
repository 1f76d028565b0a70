//! As whom a program is started: the tests' own user, or an ordinary user when they run as root.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::binaries::reachable;

/// The ordinary user (and group) that tests of root become. No machine is expected to know it.
pub const USER: u32 = 54321;

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A user to run a test as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Root, which only tests that run as root can be.
    Root,
    /// A user without any privilege: [`USER`] when the tests run as root, else whoever runs them.
    User,
}

impl Who {
    /// Everybody that the tests can be here.
    pub fn here() -> &'static [Self] {
        if is_root() { &[Self::Root, Self::User] } else { &[Self::User] }
    }

    /// A command that runs `program` as this user. Panics for root where the tests are not root.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Root if is_root() => Command::new(program),
            Self::Root => panic!("these tests do not run as root"),
            Self::User => as_user(program),
        }
    }
}

/// A command that runs `program` as [`USER`], without any capability and with no further group, when the tests
/// run as root; else the plain command.
///
/// It executes in place (the child's number is the program's). `HOME` and `TMPDIR` are the temp directory and so
/// is the working directory, since that user may not enter the one of the tests; [`crate::Scene::command`]
/// gives directories of its own. A program that the user could not reach is copied to where he can.
pub fn as_user(program: impl AsRef<OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let program = match Path::new(&program) {
        path if path.is_absolute() => reachable(path),
        path => path.to_path_buf(),
    };
    let (id, temp) = (USER.to_string(), std::env::temp_dir());
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--inh-caps=-all",
        "--ambient-caps=-all",
        "--",
    ]);
    command
        .arg(program)
        .env("HOME", &temp)
        .env("TMPDIR", &temp)
        .env_remove("XDG_RUNTIME_DIR")
        .current_dir(temp);
    command
}
