//! `killcord sweep --adopt PREFIX`: directories that other makers left in the temp directory.

use crate::args::Sweep;
use crate::message::say;
use crate::paint::{Look, Paint, show};
use crate::short::{age, size};
use killcord::adopt::{self, Blind, Found, Leftovers, Outcome, Prefix, Stays};
use killcord_model::status;
use serde::Serialize;
use std::time::Duration;

/// How old a leftover is when nothing else is asked for: a program need not hold its directory open all the time.
const OLD: Duration = Duration::from_secs(3600);

/// Looks, removes if it was told to, and prints. Returns 0 when everything that was to go went, or would go.
pub(super) fn adopt(prefix: &Prefix, args: &Sweep) -> i32 {
    let left = match adopt::look(prefix, args.older_than.unwrap_or(OLD)) {
        Ok(left) => left,
        Err(e) => {
            say(&e.to_string());
            return status::FAILED;
        }
    };
    let rows: Vec<Row> = left.found.iter().map(|found| Row::of(&left, found, args.yes)).collect();
    if args.json {
        if let Err(e) = json(prefix, &left, &rows, args.yes) {
            say(&format!("failed to write what was found: {e}"));
            return status::FAILED;
        }
    } else {
        lines(&left, &rows, args.yes);
    }
    i32::from(rows.iter().any(|row| row.fate == Fate::Failed))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    WouldRemove,
    Removed,
    Stays,
    Failed,
}

impl Fate {
    fn words(self) -> (Look, &'static str) {
        match self {
            Self::WouldRemove => (Look::Odd, "would remove"),
            Self::Removed => (Look::Good, "removed"),
            Self::Stays => (Look::Dim, "stays"),
            Self::Failed => (Look::Bad, "failed"),
        }
    }
}

/// One entry and what became of it; serialised, it is in the list of `--json`.
#[derive(Debug, Serialize)]
struct Row {
    path: String,
    fate: Fate,
    /// A word for why it stays.
    reason: Option<&'static str>,
    why: Option<String>,
    /// The process that uses it.
    pid: Option<u32>,
    age_ms: Option<u64>,
    bytes: Option<u64>,
    /// Whether everything in it was looked at, so that age and size are exact.
    whole: bool,
    entries_removed: u64,
}

impl Row {
    /// Removes it, if that is what is wanted.
    fn of(left: &Leftovers, found: &Found, remove: bool) -> Self {
        let mut row = Self {
            path: found
                .path
                .to_string_lossy()
                .chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect(),
            fate: Fate::WouldRemove,
            reason: None,
            why: None,
            pid: None,
            age_ms: found.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            bytes: found.bytes,
            whole: found.whole,
            entries_removed: 0,
        };
        match (&found.stays, remove) {
            (Some(stays), _) => row.stays(stays),
            (None, false) => {}
            (None, true) => match left.remove(found) {
                Outcome::Removed(entries) => (row.fate, row.entries_removed) = (Fate::Removed, entries),
                Outcome::Stays(stays) => row.stays(&stays),
                Outcome::Failed(why) => (row.fate, row.why) = (Fate::Failed, Some(why)),
            },
        }
        row
    }

    fn stays(&mut self, stays: &Stays) {
        self.fate = Fate::Stays;
        self.reason = Some(stays.word());
        self.why = Some(stays.to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect());
        if let Stays::InUse(holder) = stays {
            self.pid = holder.pid;
        }
    }

    fn size(&self) -> String {
        let at_least = if self.whole { "" } else { ">" };
        self.bytes.map(|bytes| format!("{at_least}{}", size(bytes))).unwrap_or_default()
    }

    fn age(&self) -> String {
        self.age_ms.map(|ms| age(ms / 1000)).unwrap_or_default()
    }
}

/// What `--json` prints; docs/adopt.md lists the fields.
#[derive(Debug, Serialize)]
struct Object<'a> {
    version: u32,
    directory: String,
    prefix: &'a str,
    dry_run: bool,
    entries: &'a [Row],
    processes_not_looked_into: u32,
    processes_in_other_mount_namespaces: u32,
    processes_may_be_hidden: bool,
}

fn json(prefix: &Prefix, left: &Leftovers, rows: &[Row], remove: bool) -> serde_json::Result<()> {
    let object = Object {
        version: 1,
        directory: left.directory.to_string_lossy().into_owned(),
        prefix: prefix.as_str(),
        dry_run: !remove,
        entries: rows,
        processes_not_looked_into: left.blind.unseen,
        processes_in_other_mount_namespaces: left.blind.elsewhere,
        processes_may_be_hidden: left.blind.hidden,
    };
    show(&format!("{}\n", serde_json::to_string(&object)?));
    Ok(())
}

/// A table for a person, and a line for each entry with tabs for a pipe; what is said about them then goes to stderr.
fn lines(left: &Leftovers, rows: &[Row], remove: bool) {
    let paint = Paint::of_stdout();
    let said = [summary(rows, remove), not_proven(left.blind)];
    if paint.terminal {
        show(&paint.table(&rows.iter().map(cells).collect::<Vec<_>>()));
        show(&said.map(|text| paint.wrapped("", Look::Plain, &text)).concat());
    } else {
        let line =
            |row: &Row| cells(row).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\t") + "\n";
        show(&rows.iter().map(line).collect::<String>());
        for text in said {
            say(&text);
        }
    }
}

fn cells(row: &Row) -> Vec<(Look, String)> {
    let (look, words) = row.fate.words();
    vec![
        (look, words.to_owned()),
        (Look::Plain, row.path.clone()),
        (Look::Plain, row.size()),
        (Look::Plain, row.age()),
        (Look::Dim, row.why.clone().unwrap_or_default()),
    ]
}

fn summary(rows: &[Row], remove: bool) -> String {
    let count = |fate| rows.iter().filter(|row| row.fate == fate).count();
    let bytes = |fate| size(rows.iter().filter(|row| row.fate == fate).filter_map(|row| row.bytes).sum());
    let stay = count(Fate::Stays);
    if remove {
        let failed = match count(Fate::Failed) {
            0 => String::new(),
            n => format!(", {n} could not be removed"),
        };
        return format!("{} removed ({}), {stay} left{failed}", count(Fate::Removed), bytes(Fate::Removed));
    }
    let (would, bytes) = (count(Fate::WouldRemove), bytes(Fate::WouldRemove));
    let how = if would > 0 { "; --yes removes them" } else { "" };
    format!("{would} would be removed ({bytes}), {stay} left; nothing was changed{how}")
}

/// What the look for users does not prove.
fn not_proven(blind: Blind) -> String {
    let mut parts = Vec::new();
    if blind.unseen > 0 {
        parts.push(format!("{} processes could not be looked into", blind.unseen));
    }
    if blind.hidden {
        parts.push("/proc may hide processes of other users".to_owned());
    }
    if blind.elsewhere > 0 {
        let n = blind.elsewhere;
        parts.push(format!("{n} are in another mount namespace, where a directory may have another path"));
    }
    parts.push("a program may come back to a directory of which it remembers the path".to_owned());
    format!("not proven: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_proven_is_said() {
        let blind = Blind { unseen: 3, elsewhere: 2, hidden: true };
        for words in ["3 processes", "2 are in another", "hide", "come back"] {
            assert!(not_proven(blind).contains(words), "{words}");
        }
        let seen = "not proven: a program may come back to a directory of which it remembers the path";
        assert_eq!(not_proven(Blind::default()), seen);
    }
}
