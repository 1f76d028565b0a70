//! What would be changed, before anything is.

use super::client::{Client, Entry, Places, Scope};
use super::json::Refused;
use super::{diff, json, toml};
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

/// A file that is larger than this is no configuration.
const LARGEST: u64 = 64 << 20;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file could not be read, written or found.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// The file is not understood well enough to be touched.
    #[error("{} is left as it is: {why}", path.display())]
    NotEdited {
        /// The file.
        path: PathBuf,
        /// What is in the way.
        why: String,
        /// What to put in by hand, and where.
        snippet: String,
    },
    /// The file is not one that may be exchanged.
    #[error("{} is left as it is: {why}", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is in the way.
        why: String,
    },
    /// A name that a client would not take.
    #[error("{0:?} is no name for a server: use letters, digits, - and _")]
    Name(String),
}

impl InstallError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The entry is put in, or brought up to date.
    Enter,
    /// The entry is taken out.
    Remove,
}

/// A change that has been worked out, and not been made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The client's file.
    pub path: PathBuf,
    /// What is written: the file itself, or what it is a link to.
    pub target: PathBuf,
    /// What is in it; `None` if it is not there.
    pub before: Option<String>,
    /// What will be in it.
    pub after: String,
}

impl Plan {
    /// Whether everything is as it should be already.
    pub fn changes_nothing(&self) -> bool {
        self.before.as_deref().unwrap_or_default() == self.after
    }

    /// What will change, as `diff -u` shows it; empty if nothing does.
    pub fn diff(&self) -> String {
        if self.changes_nothing() {
            return String::new();
        }
        diff::diff(&self.target, self.before.as_deref().unwrap_or_default(), &self.after)
    }
}

/// What a person would put into an empty file.
fn snippet(client: Client, entry: &Entry) -> String {
    let path = [client.servers(), entry.name.as_str()];
    let members = entry.members(client);
    let text = if client.is_toml() { toml::set("", &path, &members) } else { json::set("", &path, &members) };
    // An empty file refuses nothing.
    text.unwrap_or_default()
}

/// Follows the file's link, if it is one: what is exchanged is what it leads to.
fn target(path: &Path) -> Result<PathBuf, InstallError> {
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.file_type().is_symlink() => {
            std::fs::canonicalize(path).map_err(InstallError::io("follow the link", path))
        }
        Ok(_) => Ok(path.to_owned()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(e) => Err(InstallError::io("look at", path)(e)),
    }
}

fn read(path: &Path) -> Result<Option<String>, InstallError> {
    let not_ours = |why: &str| InstallError::NotOurs { path: path.to_owned(), why: why.to_owned() };
    match std::fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(InstallError::io("look at", path)(e)),
        Ok(about) if !about.is_file() => return Err(not_ours("it is no regular file")),
        Ok(about) if about.len() > LARGEST => return Err(not_ours("it is too large for a configuration")),
        Ok(_) => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(InstallError::io("read", path))
}

/// Works out what to write for this client. Nothing is written.
///
/// # Errors
/// [`InstallError`]; the file is as it was.
pub fn plan(
    client: Client,
    scope: Scope,
    places: &Places,
    entry: &Entry,
    change: Change,
) -> Result<Plan, InstallError> {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if entry.name.is_empty() || !entry.name.bytes().all(is_name) {
        return Err(InstallError::Name(entry.name.clone()));
    }
    let path = client.file(scope, places);
    let target = target(&path)?;
    let before = read(&target)?;
    let text = before.as_deref().unwrap_or_default();
    let not_edited =
        |why: String| InstallError::NotEdited { path: path.clone(), why, snippet: snippet(client, entry) };
    let old = parse(client, text).map_err(not_edited)?;
    let (servers, members) = (client.servers(), entry.members(client));
    let both = [servers, entry.name.as_str()];
    let refused = |Refused(why): Refused| not_edited(why);
    let after = match (change, client.is_toml()) {
        (Change::Remove, _) if before.is_none() => String::new(),
        (Change::Enter, true) => toml::set(text, &both, &members).map_err(refused)?,
        (Change::Enter, false) => json::set(text, &both, &members).map_err(refused)?,
        (Change::Remove, true) => {
            toml::remove(text, &both).map_err(refused)?.unwrap_or_else(|| text.to_owned())
        }
        (Change::Remove, false) if text.trim().is_empty() => text.to_owned(),
        (Change::Remove, false) => {
            json::remove(text, &[servers], &entry.name).map_err(refused)?.unwrap_or_else(|| text.to_owned())
        }
    };
    let new = parse(client, &after).map_err(|_| not_edited(format!("{servers} in it cannot be added to")))?;
    if !says_the_same(old, new, servers, entry, change, &members) {
        return Err(not_edited("it cannot be edited without changing what else it says".to_owned()));
    }
    Ok(Plan { path, target, before, after })
}

/// What a file says. An empty one says nothing.
fn parse(client: Client, text: &str) -> Result<Map<String, Value>, String> {
    if client.is_toml() {
        return ::toml::from_str::<Map<String, Value>>(text)
            .map_err(|e| format!("it is not TOML: {}", e.message()));
    }
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(text).map_err(|e| {
        let lines = text.lines().map(str::trim_start);
        let comments = lines.filter(|l| l.starts_with("//") || l.starts_with("/*")).count() > 0;
        let comments = if comments { " (it has comments, which JSON does not have)" } else { "" };
        format!("it is not JSON: {e}{comments}")
    })
}

/// Whether nothing but the entry is another, and the entry is as it should be.
fn says_the_same(
    mut old: Map<String, Value>,
    mut new: Map<String, Value>,
    servers: &str,
    entry: &Entry,
    change: Change,
    members: &[(&str, Value)],
) -> bool {
    let take = |all: &mut Map<String, Value>| {
        let found = all.get_mut(servers).and_then(Value::as_object_mut).and_then(|s| s.remove(&entry.name));
        if all.get(servers).is_some_and(|s| s.as_object().is_some_and(Map::is_empty)) {
            all.remove(servers);
        }
        found
    };
    let (mut was, mut is) = (take(&mut old), take(&mut new));
    if old != new {
        return false;
    }
    if change == Change::Remove {
        return is.is_none();
    }
    let strip = |value: &mut Option<Value>| {
        let mut all = value.take().and_then(|v| v.as_object().cloned()).unwrap_or_default();
        let ours: Vec<Option<Value>> = members.iter().map(|(key, _)| all.remove(*key)).collect();
        (all, ours)
    };
    let ((rest_before, _), (rest_after, ours)) = (strip(&mut was), strip(&mut is));
    rest_before == rest_after && ours.iter().zip(members).all(|(is, (_, should))| is.as_ref() == Some(should))
}
