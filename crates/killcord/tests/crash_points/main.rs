//! Every crash point of a program that links the library, which executes its warden, and whose keepers are forked ahead.
//!
//! Promised (G1, G2, G4, G7): as in the test of that name of `killcord run`, with this process's own word for what it is
//! told: an `Empty` is one, a status is the program's own, "nothing ran" means that nothing ran; and an owner whose guards
//! were killed starts its next job all the same. What is different: no warden is the owner's child, and the owner is no
//! subreaper, so that with warden and keeper killed it ends what carries the job's mark, and says what it cannot know.
//!
//! The short form comes to each point once, in one cell and with one choice of victims; `KILLCORD_CAMPAIGN=full` to each
//! with every choice in every cell, as the other test does.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed, and without the built-in harness clippy sees no test"
)]

mod every_point;
mod host;
mod kill;
#[expect(dead_code, reason = "this suite needs a part of it")]
#[path = "../library/kit.rs"]
mod kit;

fn main() {
    killcord::init();
    host::play();
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), every_point::trials()).exit();
}
