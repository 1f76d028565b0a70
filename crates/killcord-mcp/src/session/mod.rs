//! Sessions: the jobs of this server, their output and their terminals.
//!
//! Each job has a task that alone owns it: it reads the output, types the input and passes on orders. Everybody else
//! looks at the state that it keeps and waits for changes of it. So a call that is cancelled stops waiting, and
//! nothing else.

mod follow;
mod registry;
mod start;
mod state;
mod wait;

pub(crate) use registry::{Bounds, Refused, Registry};
pub(crate) use start::{Place, Start};
pub(crate) use state::{Kind, Life, Order, Session, State};
pub(crate) use wait::{Watch, Why};
