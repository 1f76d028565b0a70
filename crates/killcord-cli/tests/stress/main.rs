//! Stress: owners of every kind at once, whose processes are killed, stopped, cancelled and flooded at random.
//!
//! Promised (G1 to G6, G11, G12): whatever is done to whichever of killcord's processes, everything of a job is gone within the
//! bound of the death table; with owner, warden and keeper killed at the same instant, after the next sweep. The next owner
//! works as if nothing had been. Strangers and the jobs of neighbours hear nothing of it. At the end there is no process, no
//! zombie, no descriptor, no cgroup, no claim and no directory.
//!
//! Each round has an owner in a `kc-nest`, which ends when no descendant is left, so that nobody gets away unseen, whoever
//! killed what; above the nests is this process, a subreaper: what a nest might lose comes here. All owners of a user share
//! one state directory, so that they sweep for each other as they start.
//!
//! Not promised, and so not counted: that on `group` those end who left their group; that a job that was released ends.
//! The harness ends those, through their pidfds.
//!
//! It takes 45 s, an hour with `KILLCORD_CAMPAIGN=full` and n seconds with `KILLCORD_STRESS_SECONDS=n`; `tools/stress` is the
//! command for that. `KILLCORD_SEED` gives the same rounds again and `KILLCORD_STRESS_ROUND=n` nothing but that round; the
//! instants at which things meet are the machine's.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a round that panics is a fault that was found, and without the built-in harness clippy sees no test"
)]

/// The list of a module's tests. One that is not listed is dead code, which the compiler reports.
macro_rules! trials {
    ($($test:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial(concat!(module_path!(), "::", stringify!($test)), $test)),*]
        }
    };
}

mod aftermath;
mod bystanders;
mod campaign;
mod control;
mod den;
mod dice;
mod events;
mod host;
mod mcp;
mod payload;
mod residue;
mod round;
mod run;
mod service;
mod tally;

use libtest_mimic::{Arguments, Trial};

pub(crate) fn trial(path: &'static str, test: fn()) -> Trial {
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

fn main() {
    killcord::init();
    host::play();
    let trials = [campaign::trials(), control::trials()].into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
