//! Every key of the file with its type and bounds: the one place that knows them.

use super::read::{Found, Problems, Table, kind};
use super::values::{Config, LEFTOVERS, Level, Pass, Pattern};
use crate::terminal::screen::SIZES;
use killcord_model::boundary::{Boundary, Choice, candidates};
use killcord_model::units;
use regex::RegexBuilder;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A compiled pattern takes at most so many bytes.
const PATTERN: usize = 1 << 20;

/// One thing that is wrong in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Wrong {
    /// The line, from 1.
    pub line: usize,
    /// The column in it, from 1, in characters.
    pub column: usize,
    /// The key, as `section.key`; empty where the file is no TOML.
    pub key: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl Wrong {
    /// At this byte of the text.
    pub(super) fn new(text: &str, at: usize, key: &str, what: &str) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        // One line each: a message of a parser may have several.
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { line, column, key: key.to_owned(), what }
    }

    /// As compilers say it, with the file before it.
    pub fn at(&self, path: &Path) -> String {
        format!("{}:{self}", path.display())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column, key, what) = (self.line, self.column, &self.key, &self.what);
        if key.is_empty() {
            write!(f, "{line}:{column}: {what}")
        } else {
            write!(f, "{line}:{column}: {key}: {what}")
        }
    }
}

/// Reads a configuration, or says all that is wrong with it.
///
/// # Errors
/// Each [`Wrong`] thing, in the order of the file.
pub fn parse(text: &str) -> Result<Config, Vec<Wrong>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = Problems { text, wrong: Vec::new() };
    for error in &errors {
        problems.add(&error.span().unwrap_or(0..0), "", format!("not TOML: {}", error.message()));
    }
    // What a broken file seems to say is not worth a complaint.
    if errors.is_empty() {
        let (config, _) = read(table.get_ref(), &mut problems);
        if problems.wrong.is_empty() {
            return Ok(config);
        }
    }
    problems.wrong.sort();
    problems.wrong.dedup();
    Err(problems.wrong)
}

/// Every key that there is, as `section.key`.
pub fn keys() -> Vec<String> {
    read(&DeTable::new(), &mut Problems { text: "", wrong: Vec::new() }).1
}

fn section<'t, 'i>(top: &mut Table<'t, 'i>, name: &'static str, p: &mut Problems<'_>) -> Table<'t, 'i> {
    let found = top.take(name);
    let table = match &found {
        Some(Found { value: DeValue::Table(table), .. }) => Some(table),
        Some(found) => {
            found.not(&format!("a table: [{name}]"), p);
            None
        }
        None => None,
    };
    Table::new(name, table)
}

fn boundaries() -> Vec<(&'static str, Boundary)> {
    [Boundary::Group, Boundary::Tree, Boundary::Cgroup, Boundary::Namespace].map(|b| (b.name(), b)).into()
}

fn read(document: &DeTable<'_>, p: &mut Problems<'_>) -> (Config, Vec<String>) {
    let mut config = Config::default();
    let mut keys = Vec::new();
    let mut top = Table::new("", Some(document));

    let mut t = section(&mut top, "run", p);
    let run = &mut config.run;
    t.number("timeout_s", 1..=604_800, &mut run.timeout_s, p);
    t.number("yield_s", 1..=3600, &mut run.yield_s, p);
    t.number("max_chars", 1000..=1_000_000, &mut run.max_chars, p);
    t.word("leftovers", &LEFTOVERS, &mut run.leftovers, p);
    t.number("grace_s", 0..=600, &mut run.grace_s, p);
    let mut choices = vec![("auto", Choice::Auto)];
    choices.extend(boundaries().into_iter().map(|(name, b)| (name, Choice::Exactly(b))));
    t.word("boundary", &choices, &mut run.boundary, p);
    let required: Vec<_> = boundaries().into_iter().map(|(name, b)| (name, Some(b))).collect();
    t.word("require", &required, &mut run.require, p);
    if candidates(run.boundary, run.require).is_empty() {
        let require = document.get("run").and_then(|t| t.get_ref().as_table()?.get("require"));
        let span = require.map_or(0..0, Spanned::span);
        p.add(&span, "run.require", "run.boundary is weaker than this; nothing could be started");
    }
    keys.extend(t.done(p));

    let mut t = section(&mut top, "limits", p);
    let limits = &mut config.limits;
    t.other("memory", &mut limits.memory, p, memory);
    let mut pids = 0;
    t.number("pids", 1..=4_194_304, &mut pids, p);
    limits.pids = (pids > 0).then_some(pids);
    t.other("cpu", &mut limits.cpu, p, processors);
    keys.extend(t.done(p));

    let mut t = section(&mut top, "sessions", p);
    let sessions = &mut config.sessions;
    t.number("max", 1..=1024, &mut sessions.max, p);
    t.number("idle_s", 10..=604_800, &mut sessions.idle_s, p);
    t.number("absolute_s", 60..=2_592_000, &mut sessions.absolute_s, p);
    t.number("kept_s", 0..=86_400, &mut sessions.kept_s, p);
    t.number("buffer_bytes", 4096..=268_435_456, &mut sessions.buffer_bytes, p);
    t.number("columns", SIZES, &mut sessions.columns, p);
    t.number("rows", SIZES, &mut sessions.rows, p);
    t.other("shell", &mut sessions.shell, p, |found| path(found).map(Some));
    keys.extend(t.done(p));

    let mut t = section(&mut top, "calls", p);
    t.number("at_once", 1..=1024, &mut config.calls.at_once, p);
    t.number("max_line_bytes", 4096..=1_073_741_824, &mut config.calls.max_line_bytes, p);
    keys.extend(t.done(p));

    let mut t = section(&mut top, "environment", p);
    let right = "a list of names, such as [\"LANG\", \"CARGO_*\"]";
    t.list("pass", right, &mut config.environment.pass, p, pass);
    variables(&mut t, &mut config.environment.set, p);
    keys.extend(t.done(p));

    let mut t = section(&mut top, "policy", p);
    let right = "a list of regular expressions, such as ['\\brm\\s+-rf\\s+/']";
    t.list("deny", right, &mut config.policy.deny, p, pattern);
    t.truth("read_only", &mut config.policy.read_only, p);
    keys.extend(t.done(p));

    let mut t = section(&mut top, "audit", p);
    let audit = &mut config.audit;
    t.truth("enabled", &mut audit.enabled, p);
    t.other("directory", &mut audit.directory, p, |found| path(found).map(Some));
    t.number("max_bytes", 4096..=1_073_741_824, &mut audit.max_bytes, p);
    t.number("files", 2..=1000, &mut audit.files, p);
    t.truth("required", &mut audit.required, p);
    keys.extend(t.done(p));

    let mut t = section(&mut top, "log", p);
    t.word("level", &Level::ALL.map(|level| (level.name(), level)), &mut config.log.level, p);
    keys.extend(t.done(p));

    top.done(p);
    (config, keys)
}

fn memory(found: &Found<'_, '_>) -> Result<Option<u64>, String> {
    let text = match (found.value, found.integer()) {
        (DeValue::String(text), _) => text.to_string(),
        (_, Some(n)) => n.to_string(),
        (other, None) => return Err(format!("is {}; use bytes, or a text such as \"512M\"", kind(other))),
    };
    units::size(&text).map(Some).map_err(|e| e.to_string())
}

fn processors(found: &Found<'_, '_>) -> Result<Option<u32>, String> {
    let text = match (found.value, found.integer()) {
        (DeValue::String(text), _) => text.to_string(),
        (DeValue::Float(n), _) => n.as_str().to_owned(),
        (_, Some(n)) => n.to_string(),
        (other, None) => return Err(format!("is {}; use a number of processors such as 0.5", kind(other))),
    };
    units::cpu(&text).map(Some).map_err(|e| e.to_string())
}

/// An absolute path; `~/` is the home directory.
fn path(found: &Found<'_, '_>) -> Result<PathBuf, String> {
    let right = "use an absolute path, or one that begins with ~/";
    let Some(text) = found.value.as_str() else { return Err(format!("is {}; {right}", kind(found.value))) };
    let path = match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    };
    if path.is_absolute() && !text.contains('\0') {
        Ok(path)
    } else {
        Err(format!("{text:?} is relative; {right}"))
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn pass(text: &str) -> Result<Pass, String> {
    let prefix = text.strip_suffix('*');
    match (is_name(prefix.unwrap_or(text)), prefix) {
        (true, Some(prefix)) => Ok(Pass::Prefix(prefix.to_owned())),
        (true, None) => Ok(Pass::Name(text.to_owned())),
        (false, _) => Err(format!("{text:?} is no name; use LANG, or CARGO_* for all that begin so")),
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    match RegexBuilder::new(text).size_limit(PATTERN).build() {
        Ok(_) if text.is_empty() => Err("the pattern is empty, and would refuse every command".to_owned()),
        Ok(regex) => Ok(Pattern(regex)),
        Err(e) => {
            // The last line is what is wrong; those before draw the place.
            let said = e.to_string();
            let last = said.lines().last().unwrap_or_default();
            Err(format!("{text:?} is no regular expression: {}", last.trim_start_matches("error: ")))
        }
    }
}

fn variables(t: &mut Table<'_, '_>, to: &mut BTreeMap<String, String>, p: &mut Problems<'_>) {
    let Some(found) = t.take("set") else { return };
    let right = "a table of names and texts, such as { LANG = \"C.UTF-8\" }";
    let DeValue::Table(table) = found.value else { return found.not(right, p) };
    for (name, value) in table {
        let key = format!("{}.{}", found.key, name.get_ref());
        match value.get_ref().as_str() {
            _ if !is_name(name.get_ref()) => {
                p.add(&name.span(), &key, format!("{:?} is no name of a variable", name.get_ref()));
            }
            Some(text) if text.contains('\0') => {
                p.add(&value.span(), &key, "a value cannot have a zero byte");
            }
            Some(text) => {
                to.insert(name.get_ref().to_string(), text.to_owned());
            }
            None => p.add(&value.span(), &key, format!("is {}; use a text", kind(value.get_ref()))),
        }
    }
}
