//! What a program writes on its terminal, for somebody who is not sitting at it.
//!
//! Everything here is pure: bytes in, bytes or text out, no clock and no descriptor. All input is hostile: nothing
//! panics, memory has a bound, and time is linear in the bytes with a factor that no sequence can raise.
//!
//! - [`ring`]: the last bytes of an output, with true counts of what came and what is gone.
//! - [`screen`]: what the terminal shows, and what it answers by itself; behind a filter.
//! - [`plain`]: output as text to read, without escape sequences.
//! - [`keys`]: names of keys as the bytes that they send.
//! - [`prompt`]: whether a line looks as if it waits for input.
//!
//! A lexer tells text from sequences for both `screen` and `plain`.

pub(crate) mod filter;
pub mod keys;
mod lexer;
pub mod plain;
pub mod prompt;
pub mod ring;
pub mod screen;
