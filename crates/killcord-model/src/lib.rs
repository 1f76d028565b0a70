//! The decisions of killcord, without a clock, without I/O and without unsafe code.
//!
//! Everything that has to be right in the worst moment is decided here, as
//! `step(event, now) -> effects`, so that every state can be met with every event in a test that
//! starts no process. The keeper's and the warden's loops in the crate `killcord` only turn I/O into
//! events and effects into system calls.

pub mod boundary;
pub mod id;
pub mod job;
pub mod ladder;
pub mod record;
pub mod spec;
pub mod status;
pub mod sweep;
pub mod time;
pub mod units;
pub mod verdict;
pub mod warden;
pub mod wire;
