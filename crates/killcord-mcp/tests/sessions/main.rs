//! Commands and terminals through the server, as an agent uses them.
//!
//! Promised: of a command its exit or signal, its output to the byte, also what was left out of an answer, its
//! background processes by name, and an environment without the server's secrets; nothing of it waits for a terminal
//! that is not there. Of a terminal its screen, its keys, its size, a wait that says why it is over, and an audit log
//! without passwords. Limits hold: sessions, time, memory, descriptors.
//! A deadline fails a test and never passes one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

#[path = "../line_client/mod.rs"]
#[expect(dead_code, reason = "this suite needs a part of it")]
mod line_client;
#[path = "../stage/mod.rs"]
mod stage;

mod commands;
mod heavy;
mod limits;
mod terminals;
