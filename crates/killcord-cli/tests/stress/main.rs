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

fn main() {
    killcord::init();
    host::play();
    let trial = |name, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("heavy_owners_of_every_kind_under_stress_leave_nothing", campaign::stress),
        trial("what_gets_away_is_counted_as_a_survivor", control::escapees_are_survivors),
        trial("what_nothing_holds_is_counted_as_a_survivor", control::the_uncontained_are_survivors),
        trial("a_wrong_exit_status_is_a_fault", control::a_wrong_status_is_a_fault),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
