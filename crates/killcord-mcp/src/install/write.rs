//! Making the change: a copy beside the file, the new text under another name, then the exchange.

use super::plan::{InstallError, Plan};
use crate::audit::compact;
use killcord_sys::files;
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::process;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The copy of the old file; `None` if there was none.
    pub backup: Option<PathBuf>,
}

impl Plan {
    /// Makes the change.
    ///
    /// # Errors
    /// [`InstallError`]; then the file is as it was, whatever else there is.
    pub fn apply(&self, now: SystemTime) -> Result<Done, InstallError> {
        let path = &self.target;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(self.not_ours("it is no file"));
        };
        std::fs::create_dir_all(parent).map_err(InstallError::io("make", parent))?;
        // A link to the directory is the user's own way of keeping it elsewhere.
        let parent = std::fs::canonicalize(parent).map_err(InstallError::io("find", parent))?;
        let dir = files::open_directory(&parent).map_err(InstallError::io("open", &parent))?;
        let old = match &self.before {
            Some(text) => Some((text, self.permissions(&dir, name)?)),
            None => None,
        };
        let backup = match &old {
            Some((text, permissions)) => {
                let backup = name_of_backup(&dir, name, now);
                write(&dir, &parent, &backup, text, Some(permissions))?;
                Some(parent.join(backup))
            }
            None => None,
        };
        let mut temporary = name.to_owned();
        temporary.push(format!(".killcord-{}", process::own_pid()));
        write(&dir, &parent, &temporary, &self.after, old.as_ref().map(|(_, permissions)| permissions))?;
        // Clients write these files too; what came in between must not be lost.
        let exchanged = if self.is_as_planned() {
            files::rename_at(dir.as_fd(), &temporary, name).map_err(InstallError::io("exchange", path))
        } else {
            Err(self.not_ours("it was changed in the meantime; try again"))
        };
        if exchanged.is_err() {
            // The attempt must not stay; the error that matters is the first.
            let _ = files::unlink_at(dir.as_fd(), &temporary);
        }
        exchanged.map(|()| Done { backup })
    }

    fn not_ours(&self, why: impl Into<String>) -> InstallError {
        InstallError::NotOurs { path: self.target.clone(), why: why.into() }
    }

    fn is_as_planned(&self) -> bool {
        match (std::fs::read_to_string(&self.target), &self.before) {
            (Ok(now), Some(before)) => now == *before,
            (Err(e), None) => e.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// The mode of the old file, which the new one gets. What an exchange would take from others is refused.
    fn permissions(&self, dir: &OwnedFd, name: &OsStr) -> Result<std::fs::Permissions, InstallError> {
        let about = files::about_at(dir.as_fd(), name).map_err(InstallError::io("look at", &self.target))?;
        if about.owner != process::effective_uid() {
            return Err(self.not_ours(format!("it belongs to user {}; run this as that user", about.owner)));
        }
        if about.links != 1 {
            return Err(self.not_ours("it has other hard links, which would be left behind"));
        }
        let about = std::fs::metadata(&self.target).map_err(InstallError::io("look at", &self.target))?;
        Ok(about.permissions())
    }
}

/// A name beside the file that nothing has yet.
fn name_of_backup(dir: &OwnedFd, name: &OsStr, now: SystemTime) -> OsString {
    let named = |more: &str| {
        let mut backup = name.to_owned();
        backup.push(format!(".killcord-backup-{}{more}", compact(now)));
        backup
    };
    let free = |name: &OsString| files::about_at(dir.as_fd(), name).is_err();
    let numbered = (2..1000).map(|n| named(&format!("-{n}")));
    std::iter::once(named("")).chain(numbered).find(free).unwrap_or_else(|| named(""))
}

/// Makes a new file that nobody else could ever read, and that is on the disk when this returns.
fn write(
    dir: &OwnedFd,
    parent: &Path,
    name: &OsStr,
    text: &str,
    permissions: Option<&std::fs::Permissions>,
) -> Result<(), InstallError> {
    let path = parent.join(name);
    let mut file =
        File::from(files::make_file_at(dir.as_fd(), name).map_err(InstallError::io("make", &path))?);
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| permissions.map_or(Ok(()), |p| file.set_permissions(p.clone())))
        .and_then(|()| file.sync_all());
    written.map_err(|e| {
        // A full disk must not keep the attempt.
        let _ = files::unlink_at(dir.as_fd(), name);
        InstallError::io("write", &path)(e)
    })
}
