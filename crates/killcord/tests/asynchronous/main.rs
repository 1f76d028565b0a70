//! Tests of the feature `tokio`, with real processes: waiting may be given up at any time, and nothing else is.
//!
//! An executable of its own for the reason that `tests/library` has, and because the feature must be asked for.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed, and without the built-in harness clippy sees no test"
)]

mod ends;
mod guards;
#[expect(dead_code, reason = "this suite needs a part of it")]
#[path = "../library/kit.rs"]
mod kit;
mod output;
mod runtime;
mod uncontained;

fn main() {
    uncontained::play_without_init();
    killcord::init();
    let trials =
        [ends::trials(), guards::trials(), output::trials(), runtime::trials(), uncontained::trials()];
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
