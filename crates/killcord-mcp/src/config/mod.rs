//! The configuration: one TOML file, every value of which is checked before anything is done with it.
//!
//! All that is wrong is said at once, each with its place, its key and what would be right. A key that is not known
//! is an error: a misspelt limit must not be no limit. `docs/configuration.md` describes every key.

mod check;
mod read;
mod values;

pub use check::{Wrong, keys, parse};
pub use values::{
    Audit, Calls, Config, Environment, Level, Limits, Pass, Pattern, Policy, Run, Sessions, Shown,
};

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// What is in it is wrong.
    #[error("{}", lines(path, wrong))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong in it.
        wrong: Vec<Wrong>,
    },
}

fn lines(path: &Path, wrong: &[Wrong]) -> String {
    wrong.iter().map(|w| w.at(path)).collect::<Vec<_>>().join("\n")
}

/// The directory that a variable of the XDG Base Directory Specification names, or the one below the home
/// directory. A relative path there is to be ignored, says the specification.
fn base(variable: &str, below_home: &str) -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
        .unwrap_or_else(|| Path::new("/nonexistent").join(below_home))
}

/// The file that is read when none is named: `$XDG_CONFIG_HOME/killcord/config.toml`.
pub fn default_path() -> PathBuf {
    base("XDG_CONFIG_HOME", ".config").join("killcord/config.toml")
}

/// Where the audit log is when the configuration does not say it: `$XDG_STATE_HOME/killcord/audit`.
pub fn default_audit_directory() -> PathBuf {
    base("XDG_STATE_HOME", ".local/state").join("killcord/audit")
}

/// Reads the file that is named, which must be there, or the one at the usual place, which need not.
///
/// # Errors
/// [`ConfigError`].
pub fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
    let path = named.map_or_else(default_path, Path::to_owned);
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => return Ok(Config::default()),
        read => read.map_err(|source| ConfigError::Read { path: path.clone(), source })?,
    };
    parse(&text).map_err(|wrong| ConfigError::Wrong { path, wrong })
}
