//! Placeholder.
#[cfg(feature = "fixture")]
pub mod fixture;
