//! What all tests of `killcord run` begin with.

use killcord_testkit::{Scene, Who};
use std::process::Command;
use std::time::Duration;

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// `killcord run` with these options, as this user, in the scene. The program is to be added, after `--`.
pub(crate) fn killcord(scene: &Scene, who: Who, options: &[&str]) -> Command {
    let mut command = scene.command(who, env!("CARGO_BIN_EXE_killcord"));
    command.arg("run").args(options).arg("--");
    command
}
