//! An MCP server through which agents run commands and hold terminal sessions, which never outlive them.
//!
//! Each command and each terminal is a job of the library `killcord`: when it is ended, when the server ends for
//! whatever reason, and when its client goes, every process of it ends. The protocol is spoken on standard input and
//! output, one JSON object in a line; what the server says about itself goes to standard error.

mod answer;
mod arguments;
pub mod audit;
mod calls;
pub mod config;
mod environment;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod install;
mod lines;
mod recorder;
mod serve;
mod server;
mod session;
mod settings;
#[doc(hidden)]
pub mod terminal;
mod text;
mod tools;
mod wire;

pub use serve::serve;
