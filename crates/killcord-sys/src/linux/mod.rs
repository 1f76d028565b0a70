//! Linux, from 5.4 on. What is newer is probed by attempt, never by version number.

pub mod audit;
mod beneath;
pub mod cgroup;
pub mod child;
pub mod clock;
mod clone;
pub mod descriptors;
pub mod entries;
pub mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod holders;
pub mod leader;
mod lend;
pub mod limits;
pub mod mark;
mod mountinfo;
pub mod namespace;
mod oom;
#[cfg(feature = "test-hooks")]
pub mod pause;
pub mod pidfd;
pub mod place;
pub mod poll;
pub mod probe;
pub mod proc;
pub mod process;
pub mod pty;
pub mod random;
pub mod remove;
pub mod signals;
pub mod socket;
pub mod spawn;
mod stack;
pub mod terminal;
pub mod tree;
mod valgrind;

/// Whether this system is supported: it is.
///
/// # Errors
/// `Unsupported` elsewhere.
pub fn supported() -> std::io::Result<()> {
    Ok(())
}
