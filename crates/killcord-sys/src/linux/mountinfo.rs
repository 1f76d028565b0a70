//! Lists of mounts (`/proc/PID/mountinfo`, `proc_pid_mountinfo(5)`), and under which paths they show a directory.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// A line of the list.
pub(super) struct Mount<'a> {
    number: &'a [u8],
    device: &'a [u8],
    /// What it shows, by its path in its file system.
    pub(super) root: Vec<u8>,
    /// Where it is.
    pub(super) point: Vec<u8>,
}

impl<'a> Mount<'a> {
    /// The lines of a list.
    pub(super) fn all(text: &'a [u8]) -> impl Iterator<Item = Self> {
        text.split(|b| *b == b'\n').filter_map(Self::parse)
    }

    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|b| *b == b' ');
        let (number, device) = (fields.next()?, fields.nth(1)?);
        let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
        Some(Self { number, device, root, point })
    }
}

/// Where a directory is in its file system, whatever shows it.
pub(super) struct Origin {
    /// The device, as the list has it.
    device: Vec<u8>,
    /// The path from the root of the file system, with a slash.
    pub(super) front: Vec<u8>,
}

impl Origin {
    /// From the mount that the directory is on, where `front` is its path, with a slash; `None` when that mount is not
    /// in our list.
    pub(super) fn of(directory: &Path, front: &[u8], list: &[u8]) -> io::Result<Option<Self>> {
        let on = super::beneath::mount_of(super::entries::open(directory)?.as_fd())?.to_string();
        let mount = Mount::all(list).find(|mount| mount.number == on.as_bytes());
        Ok(mount.and_then(|mount| {
            let front = moved(front, &mount.point, &mount.root)?;
            Some(Self { device: mount.device.to_vec(), front })
        }))
    }

    /// Whether a mount is of the same file system.
    pub(super) fn is_on(&self, mount: &Mount<'_>) -> bool {
        self.device == mount.device
    }

    /// The path, with a slash, under which a mount shows the directory, if it does.
    pub(super) fn shown_by(&self, mount: &Mount<'_>) -> Option<Vec<u8>> {
        if self.is_on(mount) { moved(&self.front, &mount.root, &mount.point) } else { None }
    }
}

/// A path that is in directory `from`, in directory `to`.
pub(super) fn moved(path: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let [from, to] = [from, to].map(|dir| dir.strip_suffix(b"/").unwrap_or(dir));
    let below = path.strip_prefix(from)?;
    below.starts_with(b"/").then(|| [to, below].concat())
}

/// Octal escapes undone.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|d| first == b'\\' && d.iter().all(|d| (b'0'..=b'7').contains(d)));
        let value = digits.map(|d| d.iter().fold(0u32, |v, d| v * 8 + u32::from(d - b'0')));
        if let Some(byte) = value.and_then(|v| u8::try_from(v).ok()) {
            out.push(byte);
            rest = &after[3..];
        } else {
            out.push(first);
            rest = after;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_whatever_is_none_stays() {
        for (text, plain) in [
            ("a\\040b\\134c", "a b\\c"),
            ("\\012", "\n"),
            ("\\", "\\"),
            ("\\01", "\\01"),
            ("\\09x", "\\09x"),
            ("\\777", "\\777"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), plain.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_path_is_moved_from_directory_to_directory_and_not_by_half_a_name() {
        for (path, from, to, moved_to) in [
            ("/tmp/", "/", "/", Some("/tmp/")),
            ("/tmp/", "/", "/mnt", Some("/mnt/tmp/")),
            ("/tmp/", "/tmp", "/", Some("/")),
            ("/tmp/", "/tmp", "/var/tmp", Some("/var/tmp/")),
            ("/a/tmp/", "/a", "/b/c", Some("/b/c/tmp/")),
            ("/tmp/", "/tm", "/x", None),
            ("/tmp/", "/tmp/sub", "/x", None),
            ("/", "/", "/mnt", Some("/mnt/")),
        ] {
            let found = moved(path.as_bytes(), from.as_bytes(), to.as_bytes());
            assert_eq!(found.as_deref(), moved_to.map(str::as_bytes), "{path} {from} {to}");
        }
    }
}
