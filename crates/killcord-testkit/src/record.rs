//! The file `ids`: one line `pid starttime name` for each process that a test must see gone.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// One line of the file: an incarnation of a process number, as the process itself saw it.
///
/// In a pid namespace the number is the one inside; `space` tells the namespaces apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The process number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: the start, in clock ticks since boot.
    pub start: u64,
    /// The name that the process was given.
    pub name: String,
    /// The inode of its pid namespace, where it wrote that down.
    pub space: Option<u64>,
}

/// Writes this process down in `ids`, and its pid namespace in the file `spaces` beside it, first, so that who
/// sees the line in `ids` sees both.
///
/// Each is one `write` to a file opened for appending: lines of concurrent writers do not mix.
pub fn record(ids: &Path, name: &str) -> io::Result<()> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (pid, start) = own_start(&text).ok_or_else(|| io::Error::other("unreadable /proc/self/stat"))?;
    if let Ok(space) = own_space() {
        append(&ids.with_file_name("spaces"), &format!("{pid} {start} {space} {name}\n"))?;
    }
    append(ids, &format!("{pid} {start} {name}\n"))
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    // Not created: a scene that is over must not come back.
    OpenOptions::new().append(true).open(path)?.write_all(line.as_bytes())
}

fn own_start(text: &str) -> Option<(u32, u64)> {
    let pid = text.split(' ').next()?.parse().ok()?;
    let start = text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some((pid, start))
}

fn own_space() -> io::Result<u64> {
    Ok(rustix::fs::stat("/proc/self/ns/pid")?.st_ino)
}

/// Reads what is written down so far; a line that is not whole yet is left out.
pub(crate) fn read(ids: &Path) -> io::Result<Vec<Recorded>> {
    let text = std::fs::read_to_string(ids)?;
    // `leaf.sh` and its like write no `spaces`.
    let spaces = std::fs::read_to_string(ids.with_file_name("spaces")).unwrap_or_default();
    let mut spaces: Vec<(u32, u64, u64, &str)> = whole_lines(&spaces)
        .filter_map(|line| {
            let (pid, start, rest) = three(line)?;
            let (space, name) = rest.split_once(' ')?;
            Some((pid, start, space.parse().ok()?, name))
        })
        .collect();
    let recorded = whole_lines(&text).filter_map(|line| {
        let (pid, start, name) = three(line)?;
        // Two that started at once in namespaces of their own may have the same number; each has its own space.
        let same = spaces.iter().position(|s| (s.0, s.1, s.3) == (pid, start, name));
        let space = same.map(|at| spaces.remove(at).2);
        Some(Recorded { pid, start, name: name.to_owned(), space })
    });
    Ok(recorded.collect())
}

fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

fn three(line: &str) -> Option<(u32, u64, &str)> {
    let mut words = line.splitn(3, ' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_the_same_number_and_start_are_told_apart_by_their_namespaces() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("ids"), "2 100 one\n2 100 two\n7 100 plain\n2 100 two\n")?;
        std::fs::write(dir.path().join("spaces"), "2 100 11 two\n2 100 12 one\n2 100 13 two\n")?;
        let read = read(&dir.path().join("ids"))?;
        let seen: Vec<_> = read.iter().map(|id| (id.name.as_str(), id.space)).collect();
        assert_eq!(seen, [("one", Some(12)), ("two", Some(11)), ("plain", None), ("two", Some(13))]);
        Ok(())
    }
}
