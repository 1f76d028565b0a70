//! The readers of `/proc` without `/proc`: bytes in, values out, for the fuzz targets.

use super::{cgroup, mountinfo, proc};
use std::path::PathBuf;

/// What is mounted, and where, by the lines of a list of mounts.
pub fn mounts(list: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    mountinfo::Mount::all(list).map(|mount| (mount.root, mount.point)).collect()
}

/// Octal escapes undone.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    mountinfo::unescaped(text)
}

/// A path that is in directory `from`, in directory `to`.
pub fn moved(path: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    mountinfo::moved(path, from, to)
}

/// Where the process is in a hierarchy of cgroups.
pub fn own_path(mountinfo: &str, cgroup: &str, controller: Option<&str>) -> Option<PathBuf> {
    cgroup::own_path(mountinfo, cgroup, controller)
}

/// The number behind a key.
pub fn value_of(text: &str, key: &str) -> Option<u64> {
    cgroup::value_of(text, key)
}

/// The children that a file lists which is read in these parts.
pub fn children<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u32> {
    let (mut numbers, mut found) = (proc::Numbers::default(), Vec::new());
    for part in parts {
        numbers.read(part, &mut found);
    }
    numbers.end(&mut found);
    found
}

/// The audit session of a process.
pub fn audit_session(text: &[u8]) -> Option<u32> {
    proc::audit_session(text)
}

/// How much memory of a process is resident, in bytes.
pub fn resident(text: &[u8]) -> Option<u64> {
    proc::resident(text)
}

/// Whether an environment holds a variable.
pub fn has_variable(environment: &[u8], assignment: &str) -> bool {
    proc::has_variable(environment, assignment)
}
