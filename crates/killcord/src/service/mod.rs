//! Services: jobs that are declared to outlive their starter.
//!
//! A service has a name, an owner of its own (a process that does nothing else) and with it a warden and a keeper. Its
//! directory in the state root, `services/NAME`, holds the `lock` as long as it runs, its output (`log`, and `log.1`
//! before it), and when it is over its `exit`, until that is read or for a day.

mod files;
mod follow;
mod log;
mod owner;

pub use files::{Outcome, wait};
pub(crate) use files::{all, expire, find, wait_until_free};
pub use follow::{Log, logs};
pub(crate) use owner::Attendant;
pub use owner::start;

use killcord_model::record;

/// For how long an exit is kept that nobody reads, in seconds.
pub const KEPT: u64 = 24 * 60 * 60;

/// A service of this user, as [`crate::list()`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// How it ended, if it has and its owner could say it.
    pub exit: Option<record::Exit>,
}

/// Whether a text can be the name of a service: letters, digits, `.`, `_` and `-`, of which the first is a letter or a
/// digit; 64 at most.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_is_no_path_and_no_option() {
        assert!(is_name("web") && is_name("a-b_c.1") && is_name(&"x".repeat(64)));
        for bad in ["", ".", "..", "-x", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
