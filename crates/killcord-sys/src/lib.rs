//! The system calls of killcord, and its only unsafe code.
//!
//! What a platform must provide is the list of modules below; nothing outside this crate asks which
//! platform it is. Functions are thin: they name the system call they make, the edge cases that were
//! met, and where the rule stands. They decide nothing.

#[cfg(feature = "fixture")]
pub mod fixture;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::*;
