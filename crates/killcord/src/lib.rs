//! When the owner goes, everything it started stops.
//!
//! An [`owner::Owner`] asks its warden for jobs. The warden forks one keeper per job; the keeper arms
//! the job's boundary, starts the program inside it, and ends all of it by one ladder: when it is told
//! to, when the time is up, and when owner or warden are gone, for whatever reason.

mod arm;
mod keeper;
mod message;
mod numbers;
pub mod owner;
pub mod probe;
pub mod recover;
mod warden;

pub use killcord_model as model;
