//! Owner, warden, keepers and kernel as one world, every state of which is visited.
//!
//! What decides is what ships: [`killcord_model::job::Job`], [`killcord_model::warden::Warden`] and
//! [`killcord_model::sweep`]. What carries the decisions out is written here once more, as small as it can be: it
//! takes one effect at a time, so that between any two of them somebody can be killed, and it reads one
//! descriptor at a time, so that what is read late is read late in some path. The kernel does what the manual pages say:
//! it closes the ends of the dead, gives orphans to the next subreaper, and sends the parent's death signal.
//!
//! [`Setting`] bounds a walk: so many jobs, killed processes, lost messages. [`promises`] says what must hold in each
//! state. [`Fault`] is a mistake in the protocol that the walk must find, or it finds nothing at all.
//!
//! One thing is better in here than in the warden that ships: whose an orphan is, is always known. That one ends every
//! orphan while it knows of no job that was let go, and asks for the job's mark only from then on; what that leaves is
//! a row of `docs/safety/residual-risks.md` (RR-14).
//!
//! Not in here: bytes, descriptors that run out, and time as a measure. A deadline may come at any moment after it is due.

mod act;
mod keeper;
mod kernel;
mod owner;
pub mod promises;
mod sweep;
mod walk;
mod warden;
mod world;

pub use act::Act;
pub use walk::{Walked, setting_for, settings, walk};
pub use world::{Fault, Setting, World};
