//! Entering `killcord mcp` into the configuration of a client, and taking it out again.
//!
//! The problem: these files are the user's, are full of other things, and are written by others too. The promise: all
//! but the entry stays as it is, byte for byte; a file that is not fully understood is not touched; what is written is
//! read again first and must say the same as before but for the entry; the file is exchanged as a whole, keeps its
//! mode, and has a copy beside it.
//!
//! No library for editing TOML or JSON is needed for that: both formats are read with the parsers that are here anyway,
//! and what is put in or taken out is a piece of text at a place that they name.

mod client;
mod diff;
mod json;
mod plan;
mod toml;
mod write;

pub use client::{Client, Entry, NotAClient, Places, Scope};
pub use plan::{Change, InstallError, Plan, plan};
pub use write::Done;
