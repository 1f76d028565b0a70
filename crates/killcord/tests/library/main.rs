//! Tests of the library, with real processes: what a program that links killcord may rely on.
//!
//! One executable, because each that starts jobs must call `killcord::init()` first in `main`: it is its own
//! warden. With a role in its environment it plays a host (`roles.rs`), which the tests kill, abort and let
//! execute itself. Each module's head says what it promises. What a process does is proven by the kernel (a pidfd,
//! the end of a pipe); times are upper bounds, or lower bounds of a ladder's rung.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed, and without the built-in harness clippy sees no test"
)]

mod adopt;
mod at_most_once;
mod cancel;
mod caretaker;
mod contained;
mod examples;
mod flood;
mod hand_over;
mod held_output;
mod host;
mod kit;
mod ladder;
mod long_lived;
mod lost_warden;
mod requests;
mod roles;
mod spare;
mod terminal;
mod uncontained;

fn main() {
    // A host that has not called `init`: only the roles that say so.
    roles::play_without_init();
    killcord::init();
    roles::play();
    let trials = [
        adopt::trials(),
        at_most_once::trials(),
        cancel::trials(),
        caretaker::trials(),
        contained::trials(),
        examples::trials(),
        flood::trials(),
        hand_over::trials(),
        held_output::trials(),
        host::trials(),
        ladder::trials(),
        long_lived::trials(),
        lost_warden::trials(),
        requests::trials(),
        spare::trials(),
        terminal::trials(),
        uncontained::trials(),
    ];
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
