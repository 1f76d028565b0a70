//! The arguments of the tools. What does not fit is an answer that says what would.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Until {
    /// No output for a while.
    #[default]
    Quiet,
    /// The end of the program.
    Exit,
    /// A pattern in new output.
    Text,
    /// Something that looks like a prompt.
    Prompt,
}

/// `wait`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    pub(crate) until: Option<Until>,
    pub(crate) pattern: Option<String>,
    pub(crate) stop: Option<String>,
    pub(crate) quiet_ms: Option<u64>,
    pub(crate) timeout_s: Option<f64>,
}

/// `shell_run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) command: String,
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: Option<String>,
    pub(crate) timeout_s: Option<f64>,
    pub(crate) yield_s: Option<f64>,
    pub(crate) max_chars: Option<usize>,
    pub(crate) leftovers: Option<Leftovers>,
    pub(crate) label: Option<String>,
}

/// What becomes of background processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Leftovers {
    /// They end with the command.
    End,
    /// They stay until the session ends.
    Keep,
}

/// `shell_spawn`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spawn {
    pub(crate) command: Option<String>,
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cols: Option<u16>,
    pub(crate) rows: Option<u16>,
    pub(crate) name: Option<String>,
    pub(crate) wait: Option<Wait>,
}

/// `session_write`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    pub(crate) session: String,
    pub(crate) text: Option<String>,
    pub(crate) keys: Option<String>,
    #[serde(default)]
    pub(crate) paste: bool,
    #[serde(default)]
    pub(crate) enter: bool,
    #[serde(default)]
    pub(crate) sensitive: bool,
    pub(crate) wait: Option<Wait>,
}

/// What to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// What came since the last read.
    #[default]
    New,
    /// The last lines.
    Tail,
    /// From a cursor on.
    From,
    /// The screen.
    Screen,
}

/// `session_read`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) mode: Mode,
    pub(crate) cursor: Option<u64>,
    pub(crate) lines: Option<usize>,
    pub(crate) max_chars: Option<usize>,
    pub(crate) wait: Option<Wait>,
}

/// `session_resize`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resize {
    pub(crate) session: String,
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// `session_signal`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signal {
    pub(crate) session: String,
    pub(crate) signal: String,
}

/// `session_kill`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) now: bool,
}

/// A tool without arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Reads the arguments of a tool.
///
/// # Errors
/// A line that says what is wrong.
pub(crate) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    let value = serde_json::Value::Object(arguments);
    serde_json::from_value(value).map_err(|e| format!("the arguments do not fit: {e}"))
}
