//! What stands between this server and its clients, and between a terminal and its reader, by itself: for the fuzz
//! targets.

use crate::arguments::{self, Kill, Nothing, Read, Resize, Run, Signal, Spawn, Write};
use crate::lines::{Line, Lines};
use crate::terminal::filter::{Filter, Step};
use crate::wire;
use rmcp::model::JsonObject;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, ReadBuf};

/// What the filter has made of some output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filtered {
    /// Bytes for the terminal's model, which may have come in several parts.
    Shown(Vec<u8>),
    /// Something that is done with the model, as its `Debug` has it.
    Done(String),
}

/// Filters output that comes in these parts. Gives what came of it, and how much was left out for what it costs.
pub fn filter<'a>(columns: u16, rows: u16, parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Filtered>, u64) {
    let (mut filter, mut all) = (Filter::new(columns, rows), Vec::new());
    for part in parts {
        filter.feed(part, &mut |step| match (step, all.last_mut()) {
            (Step::Show(bytes), Some(Filtered::Shown(shown))) => shown.extend_from_slice(bytes),
            (Step::Show(bytes), _) => all.push(Filtered::Shown(bytes.to_vec())),
            (other, _) => all.push(Filtered::Done(format!("{other:?}"))),
        });
    }
    (all, filter.left_out())
}

/// Input that comes in parts, for each of which the reader has to wait.
struct Parts<'a> {
    next: std::vec::IntoIter<&'a [u8]>,
    now: &'a [u8],
}

impl AsyncRead for Parts<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.now.is_empty() {
            let Some(part) = self.next.next() else { return Poll::Ready(Ok(())) };
            self.now = part;
            return Poll::Pending;
        }
        let (now, later) = self.now.split_at(self.now.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.now = later;
        Poll::Ready(Ok(()))
    }
}

/// What the protocol makes of the lines of an input that comes in these parts: a message (as JSON), nothing, or the error
/// that the line is answered with and its id.
///
/// # Errors
/// Never: nothing here fails to read.
pub fn lines<'a>(parts: impl Iterator<Item = &'a [u8]>, longest: usize) -> io::Result<Vec<Told>> {
    // An empty part would be the end.
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
    let parts = Parts { next: parts.into_iter(), now: &[] };
    let mut lines = Lines::new(parts, longest);
    let mut context = Context::from_waker(Waker::noop());
    let mut all = Vec::new();
    loop {
        // Dropped at each wait, as a caller may.
        match std::pin::pin!(lines.next()).poll(&mut context) {
            Poll::Pending => {}
            Poll::Ready(line) => match line? {
                Some(line) => all.push(told(&line, longest)),
                None => return Ok(all),
            },
        }
    }
}

/// What is made of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A message.
    Message(serde_json::Value),
    /// Nothing is expected of it.
    Nothing,
    /// It is answered with an error of this code, and has this id.
    Error(i32, Option<serde_json::Value>),
}

fn told(line: &Line, longest: usize) -> Told {
    match wire::message(line, longest) {
        Ok(Some(message)) => Told::Message(serde_json::to_value(message).unwrap_or_default()),
        Ok(None) => Told::Nothing,
        Err((id, error)) => Told::Error(error.code.0, id.and_then(|id| serde_json::to_value(id).ok())),
    }
}

/// The tools that [`arguments()`] knows.
pub const TOOLS: [&str; 8] = [
    "shell_run",
    "shell_spawn",
    "session_write",
    "session_read",
    "session_resize",
    "session_signal",
    "session_kill",
    "session_list",
];

/// Reads the arguments of a tool, and gives them as their `Debug` has them.
///
/// # Errors
/// What its client is told.
pub fn arguments(tool: &str, arguments: JsonObject) -> Result<String, String> {
    fn said<T: serde::de::DeserializeOwned + std::fmt::Debug>(from: JsonObject) -> Result<String, String> {
        arguments::read::<T>(from).map(|read| format!("{read:?}"))
    }
    match tool {
        "shell_run" => said::<Run>(arguments),
        "shell_spawn" => said::<Spawn>(arguments),
        "session_write" => said::<Write>(arguments),
        "session_read" => said::<Read>(arguments),
        "session_resize" => said::<Resize>(arguments),
        "session_signal" => said::<Signal>(arguments),
        "session_kill" => said::<Kill>(arguments),
        _ => said::<Nothing>(arguments),
    }
}
