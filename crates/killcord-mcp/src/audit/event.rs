//! What is recorded, and how it stands in a line.

use super::mask;
use killcord_model::status::ExitStatus;
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;
use std::time::Duration;

/// Texts of clients are kept to so many characters.
const NAME: usize = 200;
/// A single text among the arguments is kept to so many bytes.
const TEXT: usize = 4096;
/// All arguments of a call together are kept only if they are no longer than this.
const ALL: usize = 64 * 1024;

/// Who asked for what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// The client's name, as it introduced itself.
    pub client: Option<String>,
    /// The id of the request.
    pub request: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// The job or session.
    pub job: Option<String>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Whose call it was.
    pub call: Call,
    /// What happened.
    pub what: What,
}

/// What happened. Arguments are given as they came: masking them is the log's work.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Something is about to be started. Recorded before it is.
    Start {
        /// The arguments of the call.
        arguments: Value,
    },
    /// Something is over. Recorded after it is.
    End(End),
    /// Input was given to a session.
    Write {
        /// The arguments of the call.
        arguments: Value,
        /// The session's terminal had its echo off, as at a prompt for a password: the input is withheld.
        echo_off: bool,
    },
    /// A job was ended because a client asked for it.
    Kill {
        /// The arguments of the call.
        arguments: Value,
    },
    /// A client has cancelled its call.
    Cancelled,
    /// A call was refused, and nothing was done.
    Refused {
        /// The arguments of the call.
        arguments: Value,
        /// Why.
        why: String,
    },
}

/// How something ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// Its output, which itself is never recorded.
    pub output: Option<Output>,
    /// How its leader ended.
    pub exit: Option<ExitStatus>,
    /// Why it ended: `killcord_model::verdict::Cause::name`.
    pub cause: Option<String>,
    /// Whether everything of it is over: the verdict's name.
    pub verdict: Option<String>,
    /// What held it.
    pub boundary: Option<String>,
    /// How long it ran.
    pub duration: Duration,
}

/// An output's length and hash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// All bytes that were produced.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Takes an output in as it comes.
#[derive(Debug, Clone, Default)]
pub struct Digest {
    bytes: u64,
    sha256: Sha256,
}

impl Digest {
    /// Nothing so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what came.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        sha2::Digest::update(&mut self.sha256, bytes);
    }

    /// What is to be recorded of what came so far.
    pub fn output(&self) -> Output {
        let digest = sha2::Digest::finalize(self.sha256.clone());
        Output { bytes: self.bytes, sha256: super::chain::hex(&digest) }
    }
}

/// The members of a line, in their order; the hash comes behind them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Record<'a> {
    pub(super) seq: u64,
    pub(super) time: String,
    pub(super) event: &'static str,
    pub(super) server: &'a str,
    #[serde(flatten)]
    pub(super) about: About,
    /// In the first record of a file, its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cut_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cut_sha256: Option<String>,
    /// So many records could not be written before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) lost: u64,
    pub(super) prev: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The members that an event brings.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boundary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

impl About {
    /// Of the server itself, when it takes a chain or a new file.
    pub(super) fn server() -> Self {
        let version = Some(env!("CARGO_PKG_VERSION"));
        Self { version, pid: Some(std::process::id()), ..Self::default() }
    }
}

fn name(text: Option<String>) -> Option<String> {
    text.map(|text| mask::text(&text).chars().take(NAME).collect())
}

/// Cuts the texts that are longer than what is kept of one.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT => {
            let hash = super::chain::sha256(text.as_bytes());
            let end = (0..=TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            *text = format!("{}... [{} bytes, sha256 {hash}]", &text[..end], text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Arguments as they are recorded: masked, and not longer than fits a record.
fn kept(arguments: &Value, withhold: bool) -> Value {
    let mut value = mask::arguments(arguments, withhold);
    shorten(&mut value);
    let text = value.to_string();
    if text.len() <= ALL {
        return value;
    }
    serde_json::json!({ "omitted_bytes": text.len(), "omitted_sha256": super::chain::sha256(text.as_bytes()) })
}

impl Event {
    /// The event's name and what it says.
    pub(super) fn into_about(self) -> (&'static str, About) {
        let call = self.call;
        let mut about = About {
            client: name(call.client),
            request: name(call.request),
            tool: name(call.tool),
            job: name(call.job),
            ..About::default()
        };
        let event = match self.what {
            What::Start { arguments } => {
                about.arguments = Some(kept(&arguments, false));
                "start"
            }
            What::Write { arguments, echo_off } => {
                about.arguments = Some(kept(&arguments, echo_off));
                "write"
            }
            What::Kill { arguments } => {
                about.arguments = Some(kept(&arguments, false));
                "kill"
            }
            What::Cancelled => "cancelled",
            What::Refused { arguments, why } => {
                about.arguments = Some(kept(&arguments, false));
                about.why = Some(mask::text(&why).chars().take(TEXT).collect());
                "refused"
            }
            What::End(end) => {
                match end.exit {
                    Some(ExitStatus::Code(code)) => about.exit = Some(code),
                    Some(ExitStatus::Signal(signal)) => about.signal = Some(signal),
                    None => {}
                }
                if let Some(output) = end.output {
                    about.output_bytes = Some(output.bytes);
                    about.output_sha256 = Some(output.sha256);
                }
                (about.cause, about.verdict, about.boundary) = (end.cause, end.verdict, end.boundary);
                about.duration_ms = Some(u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX));
                "end"
            }
        };
        (event, about)
    }
}
