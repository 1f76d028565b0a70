//! Why a directory is left where it is.

use killcord_sys::holders::{Holder, How};
use std::fmt;
use std::time::Duration;

/// Why an entry stays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stays {
    /// It is a link. Links are never followed.
    Link,
    /// It is something else that is no directory.
    NoDirectory,
    /// It belongs to the user of this number.
    OtherUser(u32),
    /// Somebody uses it.
    InUse(Holder),
    /// It was changed so short a time ago.
    Young(Duration),
    /// What had its name is gone, or something else has its name.
    Exchanged,
    /// It could not be looked at, so that nothing is known.
    NotLookedAt(String),
}

impl Stays {
    /// One word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::NoDirectory => "no_directory",
            Self::OtherUser(_) => "other_user",
            Self::InUse(_) => "in_use",
            Self::Young(_) => "young",
            Self::Exchanged => "exchanged",
            Self::NotLookedAt(_) => "not_looked_at",
        }
    }
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => write!(f, "a link, which is not followed"),
            Self::NoDirectory => write!(f, "not a directory"),
            Self::OtherUser(user) => write!(f, "belongs to user {user}"),
            Self::InUse(holder) => write!(f, "in use: {}", by(holder)),
            Self::Young(age) => write!(f, "changed {} s ago", age.as_secs()),
            Self::Exchanged => write!(f, "gone or exchanged meanwhile"),
            Self::NotLookedAt(why) => write!(f, "it cannot be looked at: {why}"),
        }
    }
}

fn by(holder: &Holder) -> String {
    let how = match holder.how {
        How::Open => "has it open",
        How::WorkingDirectory => "has its working directory there",
        How::Root => "has its root there",
        How::Executable => "is executed from there",
        How::Mapped => "has a file of it mapped",
        How::Socket => return "a socket in it is bound".to_owned(),
        How::Mount => return "something is mounted there".to_owned(),
    };
    match holder.pid {
        Some(pid) => format!("{} ({pid}) {how}", holder.command),
        None => how.to_owned(),
    }
}
