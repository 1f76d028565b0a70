//! The directory of the log, the names in it, and the lock that gives a server its chain.

use super::log::AuditError;
use killcord_sys::files;
use killcord_sys::os::{AsFd, OsStrExt, OwnedFd};
use killcord_sys::process;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// More servers of one user at once than this have no chain.
const CHAINS: u32 = 256;
/// More names than this are not looked at.
const NAMES: usize = 100_000;

/// The name of a chain's file.
pub(super) fn file_name(chain: u32, number: u64) -> OsString {
    format!("audit-{chain}.{number:06}.jsonl").into()
}

/// The name of a chain's lock.
fn lock_name(chain: u32) -> OsString {
    format!("audit-{chain}.lock").into()
}

/// What such a name says: chain and number. Another spelling of the numbers is another name.
pub(super) fn parse_name(name: &OsStr) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(name.as_bytes()).ok()?;
    let (chain, number) = text.strip_prefix("audit-")?.strip_suffix(".jsonl")?.split_once('.')?;
    let (chain, number) = (chain.parse().ok()?, number.parse().ok()?);
    (file_name(chain, number) == name && number > 0).then_some((chain, number))
}

/// The directory, open.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
}

impl Directory {
    /// Opens it, and makes it for its user alone if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, AuditError> {
        match files::make_directory(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let parents = path.parent().map_or(Ok(()), std::fs::create_dir_all);
                parents.and_then(|()| files::make_directory(path))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
        .map_err(AuditError::io("make", path))?;
        let fd = files::open_directory(path).map_err(AuditError::io("open", path))?;
        let about = files::about(fd.as_fd()).map_err(AuditError::io("look at", path))?;
        let refused = |why: String| AuditError::Directory { path: path.to_owned(), why };
        if about.owner != process::effective_uid() {
            return Err(refused(format!("it belongs to user {}", about.owner)));
        }
        if about.mode & 0o077 != 0 {
            return Err(refused(format!("others may use it (mode {:04o}, not 0700)", about.mode)));
        }
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Takes the first chain that no running server has. The lock file stays, so that all mean the same one.
    pub(super) fn take_chain(&self) -> Result<(u32, OwnedFd), AuditError> {
        for chain in 1..=CHAINS {
            let name = lock_name(chain);
            let path = self.path.join(&name);
            let lock = files::append_at(self.fd.as_fd(), &name).map_err(AuditError::io("open", &path))?;
            if files::seize(lock.as_fd()).map_err(AuditError::io("lock", &path))? {
                return Ok((chain, lock));
            }
        }
        Err(AuditError::Directory { path: self.path.clone(), why: format!("all {CHAINS} chains are in use") })
    }

    /// Whether this is what all take for a chain's lock.
    pub(super) fn has_lock(&self, chain: u32, lock: &OwnedFd) -> bool {
        let named = files::about_at(self.fd.as_fd(), &lock_name(chain));
        files::about(lock.as_fd()).is_ok_and(|own| named.is_ok_and(|named| named.identity == own.identity))
    }

    /// The numbers of a chain's files, the oldest first.
    pub(super) fn numbers(&self, chain: u32) -> Result<Vec<u64>, AuditError> {
        let (names, more) =
            files::names(self.fd.as_fd(), NAMES).map_err(AuditError::io("read", &self.path))?;
        if more {
            let why = format!("it has more than {NAMES} names");
            return Err(AuditError::Directory { path: self.path.clone(), why });
        }
        let mut numbers: Vec<u64> =
            names.iter().filter_map(|n| parse_name(n)).filter(|(c, _)| *c == chain).map(|(_, n)| n).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(super) fn file_path(&self, chain: u32, number: u64) -> PathBuf {
        self.path.join(file_name(chain, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_other_spellings_are_other_names() {
        for (chain, number) in [(1, 1), (12, 999_999), (256, 12_345_678)] {
            assert_eq!(parse_name(&file_name(chain, number)), Some((chain, number)));
        }
        for bad in [
            "audit-1.1.jsonl",
            "audit-01.000001.jsonl",
            "audit-1.000000.jsonl",
            "audit-1.+00001.jsonl",
            "audit-1.lock",
            "x",
        ] {
            assert_eq!(parse_name(OsStr::new(bad)), None, "{bad}");
        }
    }
}
