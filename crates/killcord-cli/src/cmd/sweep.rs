//! `killcord sweep`: what is left of owners that are gone, and what other makers left.

mod adopt;
mod reclaim;

use crate::args::Sweep;

/// Sweeps, prints what was found, and returns the exit status.
pub(crate) fn sweep(args: &Sweep) -> i32 {
    if let Some(prefix) = &args.adopt {
        return adopt::adopt(prefix, args);
    }
    reclaim::reclaim(args)
}
