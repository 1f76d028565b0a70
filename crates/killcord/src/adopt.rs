//! Reclaiming directories that *other makers* left in the temp directory, such as those of browsers whose driver was
//! killed.
//!
//! The problem: nobody has written down whose they are. A directory is taken for a leftover when it belongs to this
//! user, is old enough, and nobody is seen to use it. Each of these is looked at again after the directory was renamed
//! aside, so that nobody can come to it by its name any more, and right before it is removed.
//!
//! What is looked at for its age: the directory, and up to 10 000 entries of it and of four levels below. What is
//! looked at for its users: descriptors, working directory, root, executable and mappings of every process, bound
//! sockets, and mounts. What cannot be proven is in [`Blind`]; beyond that, a program may come back to a directory of
//! which it remembers only the path. Nothing here is ever done by itself.

mod stays;

use crate::error::{Error, Result, supported};
use crate::hooks;
use killcord_sys::entries::{self, Content, Entry, Identity, Kind};
use killcord_sys::holders::{self, Holders};
use killcord_sys::os::{AsFd, OsStrExt, OwnedFd};
use killcord_sys::{process, random, remove};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

pub use killcord_sys::holders::{Holder, How};
pub use stays::Stays;

/// The beginning of the directories' names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// Why a text is not used as a [`Prefix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPrefix {
    /// It would fit nearly everything.
    #[error("a prefix has at least 3 characters")]
    Short,
    /// It is no beginning of a name.
    #[error("a prefix is the beginning of a name in the temp directory, without `/`")]
    Slash,
    /// It fits killcord's own state directory, whose content is removed by proof.
    #[error("killcord's own directory begins so: a plain `killcord sweep` looks after it")]
    Ours,
}

/// What the name of the state directory in the temp directory begins with; the user's number follows.
const OURS: &str = "killcord-";

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> std::result::Result<Self, BadPrefix> {
        if text.contains('/') {
            Err(BadPrefix::Slash)
        } else if text.chars().count() < 3 {
            Err(BadPrefix::Short)
        } else if OURS.starts_with(text)
            || text.strip_prefix(OURS).is_some_and(|uid| uid.bytes().all(|b| b.is_ascii_digit()))
        {
            Err(BadPrefix::Ours)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

impl Prefix {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the look for users could not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blind {
    /// How many processes could not be looked into: those of other users, and protected ones.
    pub unseen: u32,
    /// How many run in another mount namespace, where a directory may have another path.
    pub elsewhere: u32,
    /// Whether processes of other users may not be shown at all (`hidepid`).
    pub hidden: bool,
}

/// An entry whose name begins with the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// How long it has not been changed, as far as was looked.
    pub age: Option<Duration>,
    /// What is allocated for it, as far as was looked.
    pub bytes: Option<u64>,
    /// Whether everything in it was looked at.
    pub whole: bool,
    /// Why it stays; `None` for what is to go.
    pub stays: Option<Stays>,
    name: OsString,
    id: Identity,
}

/// What became of an entry that was to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is gone, with so many entries.
    Removed(u64),
    /// By then there was a reason to leave it, and it is where it was.
    Stays(Stays),
    /// It could not be removed, or not all of it.
    Failed(String),
}

/// What was found in the temp directory, and what of it may go.
#[derive(Debug)]
pub struct Leftovers {
    /// The temp directory.
    pub directory: PathBuf,
    /// Every entry whose name begins with the prefix, by name.
    pub found: Vec<Found>,
    /// What the look for users could not see.
    pub blind: Blind,
    handle: OwnedFd,
    older_than: Duration,
}

/// Looks for leftovers whose names begin so, in the temp directory ([`std::env::temp_dir`]), that have not been changed
/// for so long. Changes nothing.
///
/// # Errors
/// [`Error::Unsupported`]; [`Error::Io`] when the temp directory cannot be listed, or when nothing can be known about
/// processes.
pub fn look(prefix: &Prefix, older_than: Duration) -> Result<Leftovers> {
    supported()?;
    let directory = std::env::temp_dir();
    let handle = entries::open(&directory).map_err(Error::io("open the temp directory"))?;
    let listed = entries::beginning_with(handle.as_fd(), prefix.as_str().as_bytes());
    let listed = listed.map_err(Error::io("list the temp directory"))?;
    let places: Vec<_> = listed.iter().map(|entry| (entry.name.as_os_str(), entry.id)).collect();
    let held = users(&directory, &places)?;
    let blind = Blind { unseen: held.unseen, elsewhere: held.elsewhere, hidden: held.hidden };
    let mut leftovers = Leftovers { directory, found: Vec::new(), blind, handle, older_than };
    for (entry, holder) in listed.into_iter().zip(held.by) {
        let found = leftovers.judge(entry, holder.map(Stays::InUse));
        leftovers.found.push(found);
    }
    Ok(leftovers)
}

fn users(directory: &Path, places: &[(&OsStr, Identity)]) -> Result<Holders> {
    holders::of(directory, places).map_err(Error::io("look for processes that use the directories"))
}

impl Leftovers {
    /// Whether an entry may go, as far as it shows itself and as far as its users are known.
    fn judge(&self, entry: Entry, in_use: Option<Stays>) -> Found {
        let by_itself = match entry.kind {
            Kind::Link => Some(Stays::Link),
            Kind::Other => Some(Stays::NoDirectory),
            Kind::Directory if entry.owner != process::own_uid() => Some(Stays::OtherUser(entry.owner)),
            Kind::Directory => None,
        };
        let (content, stays) = match by_itself {
            Some(stays) => (None, Some(stays)),
            None => match entries::content(self.handle.as_fd(), &entry.name) {
                Ok(content) => (Some(content), in_use),
                // A mount on it, which is a use.
                Err(e) => (None, in_use.or_else(|| Some(Stays::NotLookedAt(e.to_string())))),
            },
        };
        let age = content.map(age);
        let young = age.filter(|age| *age < self.older_than).map(Stays::Young);
        Found {
            path: self.directory.join(&entry.name),
            age,
            bytes: content.map(|c| c.bytes),
            whole: content.is_some_and(|c| c.whole),
            stays: stays.or(young),
            name: entry.name,
            id: entry.id,
        }
    }

    /// Removes one of them, unless there is a reason by now to leave it.
    ///
    /// It is first renamed within the temp directory, to its name with something behind it: if this program is killed
    /// meanwhile, the same prefix finds it the next time. A user that is found then, or a change, brings its name
    /// back.
    pub fn remove(&self, found: &Found) -> Outcome {
        if let Some(stays) = self.now(found, &found.name).or_else(|| found.stays.clone()) {
            return Outcome::Stays(stays);
        }
        let aside = match aside(&found.name) {
            Ok(aside) => aside,
            Err(e) => return Outcome::Failed(e.to_string()),
        };
        hooks::point("sweep.adopts");
        match entries::rename(self.handle.as_fd(), &found.name, &aside) {
            Ok(()) => {}
            // Somebody else was faster.
            Err(e) if e.kind() == ErrorKind::NotFound => return Outcome::Stays(Stays::Exchanged),
            Err(e) => return Outcome::Failed(format!("failed to rename it aside: {e}")),
        }
        hooks::point("sweep.put_aside");
        let outcome = match self.now(found, &aside) {
            Some(stays) => Outcome::Stays(stays),
            None => match remove::tree(self.handle.as_fd(), &aside, None) {
                Ok(removed) => {
                    hooks::point("sweep.adopted");
                    return Outcome::Removed(removed.entries);
                }
                Err(e) => Outcome::Failed(e.to_string()),
            },
        };
        match entries::rename(self.handle.as_fd(), &aside, &found.name) {
            Ok(()) => outcome,
            Err(e) => Outcome::Failed(format!("it stays as {}: {e}", self.directory.join(&aside).display())),
        }
    }

    /// Why what was found, and has this name now, stays.
    fn now(&self, found: &Found, name: &OsStr) -> Option<Stays> {
        let entry = entries::named(self.handle.as_fd(), name).ok().filter(|entry| entry.id == found.id);
        let Some(entry) = entry else { return Some(Stays::Exchanged) };
        match users(&self.directory, &[(name, found.id)]) {
            Ok(held) => self.judge(entry, held.by.into_iter().flatten().next().map(Stays::InUse)).stays,
            Err(e) => Some(Stays::NotLookedAt(e.to_string())),
        }
    }
}

/// What lies in the future has just been made.
fn age(content: Content) -> Duration {
    SystemTime::now().duration_since(content.newest).unwrap_or_default()
}

/// A name that begins like the old one and that nobody else uses.
fn aside(name: &OsStr) -> std::io::Result<OsString> {
    /// Names end at 255 bytes.
    const KEPT: usize = 220;
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    let kept = name.as_bytes().get(..KEPT).unwrap_or(name.as_bytes());
    let mut aside = OsStr::from_bytes(kept).to_owned();
    aside.push(format!(".killcord-{:016x}", u64::from_ne_bytes(bytes)));
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_beginning_of_a_name_and_not_too_short() {
        for (text, want) in [
            ("", Err(BadPrefix::Short)),
            ("ab", Err(BadPrefix::Short)),
            ("éé", Err(BadPrefix::Short)),
            ("a/b", Err(BadPrefix::Slash)),
            ("/", Err(BadPrefix::Slash)),
            ("../x", Err(BadPrefix::Slash)),
            ("kil", Err(BadPrefix::Ours)),
            ("killcord-", Err(BadPrefix::Ours)),
            ("killcord-10", Err(BadPrefix::Ours)),
            ("killcord-test", Ok(Prefix("killcord-test".to_owned()))),
            ("abc", Ok(Prefix("abc".to_owned()))),
        ] {
            assert_eq!(text.parse(), want, "{text:?}");
        }
    }

    #[test]
    fn a_name_aside_begins_like_the_old_one_and_fits() {
        let long = "x".repeat(255);
        for name in ["tool-1", &long] {
            let aside = aside(OsStr::new(name)).unwrap_or_default();
            let (old, new) = (name.as_bytes(), aside.as_bytes());
            assert!(new.len() <= 255 && new.starts_with(&old[..old.len().min(220)]) && new != old);
        }
    }
}
