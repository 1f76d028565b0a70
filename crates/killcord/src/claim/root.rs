//! The state root: where it is, and whether it is ours alone.

use crate::error::{Error, Result};
use killcord_model::id::JOB_VARIABLE;
use killcord_sys::files::{self, Kind};
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::process;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names the state root.
pub const STATE_VARIABLE: &str = "KILLCORD_STATE_DIR";

/// The directory in which this user's owners have their claims.
#[derive(Debug)]
pub(crate) struct Root {
    dir: OwnedFd,
    pub(crate) path: PathBuf,
}

impl Root {
    /// Opens the state root, and makes it if it is not there.
    ///
    /// # Errors
    /// [`Error::State`] when it is somebody else's, a link, or open to others; what the operating system says when
    /// it cannot be made.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self> {
        let path = place(named);
        match files::make_directory(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && Self::is_named(named) => {
                let parents = path.parent().map_or(Ok(()), std::fs::create_dir_all);
                parents.and_then(|()| files::make_directory(&path))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
        .map_err(|e| Error::State { path: path.clone(), why: e.to_string(), source: Some(e) })?;
        Self::at(path)
    }

    /// Opens the state root; `None` when there is none.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub(crate) fn existing(named: Option<&Path>) -> Result<Option<Self>> {
        let path = place(named);
        match std::fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Self::at(path).map(Some),
        }
    }

    /// Whether somebody has said where it is to be.
    pub(crate) fn is_named(named: Option<&Path>) -> bool {
        named_path(named).is_some()
    }

    fn at(path: PathBuf) -> Result<Self> {
        let refused = |why: &str| Error::State { path: path.clone(), why: why.to_owned(), source: None };
        let dir = files::open_directory(&path)
            .map_err(|e| refused(&format!("not a directory, or a link to one ({e})")))?;
        let about = files::about(dir.as_fd()).map_err(Error::io("look at the state directory"))?;
        if about.owner != process::effective_uid() {
            return Err(refused(&format!("it belongs to user {}", about.owner)));
        }
        if about.mode & 0o077 != 0 {
            return Err(refused(&format!("others may use it (mode {:04o}, not 0700)", about.mode)));
        }
        Ok(Self { dir, path })
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// A root that somebody has named.
fn named_path(named: Option<&Path>) -> Option<PathBuf> {
    let variable = || std::env::var_os(STATE_VARIABLE).filter(|p| !p.is_empty()).map(PathBuf::from);
    named.map(Path::to_owned).or_else(variable)
}

/// Where the root is: the one that is named; in a job, that of its owner; `killcord` in the user's runtime
/// directory; else a directory with the user's number in the temporary one.
fn place(named: Option<&Path>) -> PathBuf {
    let uid = process::effective_uid();
    let runtime = || std::env::var_os("XDG_RUNTIME_DIR").filter(|p| !p.is_empty()).map(PathBuf::from);
    let named = named_path(named).map(|path| std::path::absolute(&path).unwrap_or(path));
    named
        .or_else(|| around_us().filter(|root| is_ours(root)))
        .or_else(|| runtime().filter(|dir| is_ours(dir)).map(|dir| dir.join("killcord")))
        .or_else(|| {
            let usual = PathBuf::from(format!("/run/user/{uid}"));
            is_ours(&usual).then(|| usual.join("killcord"))
        })
        .unwrap_or_else(|| std::env::temp_dir().join(format!("killcord-{uid}")))
}

/// A job's temporary directory is `ROOT/CLAIM/tmp/ID`: an owner in it has its claims beside that of its own, where
/// whoever looks from outside finds them and no path grows with the depth.
fn around_us() -> Option<PathBuf> {
    let job = std::env::var(JOB_VARIABLE).ok()?.parse::<killcord_model::id::JobId>().ok()?;
    let temporary = PathBuf::from(std::env::var_os("TMPDIR")?);
    let ours = temporary.file_name()? == job.directory_name().as_str();
    temporary.ancestors().nth(3).filter(|_| ours).map(Path::to_owned)
}

/// Whether a directory is this user's, and no link. That of another user is passed over: `sudo` keeps variables.
fn is_ours(path: &Path) -> bool {
    let about = files::open_directory(path).and_then(|dir| files::about(dir.as_fd()));
    about.is_ok_and(|a| a.kind == Kind::Directory && a.owner == process::effective_uid())
}
