//! What must hold of everything in killcord that reads bytes which somebody else wrote.
//!
//! Each function here takes any bytes at all, gives them to real code, and panics when a property does not hold. Three
//! callers use them: the fuzz targets in `fuzz/`, which look for such bytes; the test `corpus`, which gives them all that
//! was ever found interesting; and whoever wants to look at a single input. A property is more than "it does not panic":
//! what was read is written and read again, the place where input is cut does not matter, another and simpler reader says
//! the same.

#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a property that does not hold is a panic, and so is a machine on which it cannot be tried"
)]

mod audit;
mod claim;
mod config;
mod filter;
mod input;
mod keys;
mod mcp_input;
mod mountinfo;
mod plain;
mod proc;
mod record;
mod wire;

pub use audit::audit;
pub use claim::claim;
pub use config::config;
pub use filter::filter;
pub use keys::keys;
pub use mcp_input::mcp_input;
pub use mountinfo::mountinfo;
pub use plain::plain;
pub use proc::proc;
pub use record::record;
pub use wire::wire;

/// A property and the name of its target and its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 11] = [
    ("wire", wire),
    ("record", record),
    ("claim", claim),
    ("proc", proc),
    ("mountinfo", mountinfo),
    ("config", config),
    ("filter", filter),
    ("plain", plain),
    ("keys", keys),
    ("mcp_input", mcp_input),
    ("audit", audit),
];
