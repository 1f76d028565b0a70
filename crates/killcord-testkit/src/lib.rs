//! Misbehaving fixtures, and the harness that process tests use to watch them die.
//!
//! The problem: a test of killcord must start processes that try to get away, must prove that each of them
//! is gone, must never mistake a stranger for one of them, and must leave nothing behind when it fails.
//!
//! The fixtures are the binaries `kc-*` of this package ([`bin()`] finds them from any other package). Each of
//! their processes ends by an alarm after 60 s at the latest. What they start writes itself down in the file
//! `ids` of a [`Scene`], one line `pid starttime name` each; [`Scene::pin`] opens a pidfd for each line, and
//! [`Pinned::wait_gone`] waits until the kernel has said of each that it has ended. Dropping the scene ends
//! whatever is left, through pidfds. [`Running`] and [`Terminal`] are a started program with its output,
//! [`Nest`] is a program of which
//! the kernel says when nothing is left; [`Guards`] finds the warden, the keeper and the leader below a `killcord run`, and [`Host`] says which
//! mechanisms this machine has, so that a test that cannot run here says so ([`skip!`]).

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a harness fails the test that uses it, with a message"
)]

mod alone;
mod binaries;
pub mod campaign;
pub mod claims;
mod guards;
mod host;
mod killcord;
pub mod life;
mod nest;
mod own_child;
mod pinned;
pub mod points;
pub mod procs;
mod pty;
mod record;
mod running;
mod scene;
mod service;
mod stream;
pub mod victims;
mod who;

pub use alone::alone;
pub use binaries::{bin, example, reachable};
pub use guards::Guards;
pub use host::{BOUNDARIES, Host, Need, in_every_cell, skipped, skipped_whole};
pub use killcord::{Corner, Killcord, like, report};
pub use nest::{Emptied, Nest};
pub use pinned::{Alive, Pinned, alive_now};
pub use procs::PinnedProcess;
pub use pty::Terminal;
pub use record::{Recorded, record};
pub use running::{Finished, Running, run};
pub use rustix::process::Signal;
pub use scene::Scene;
pub use service::{Place, Service, service_in};
pub use stream::{Stream, TimedOut};
pub use who::{USER, Who, as_user, is_root};
