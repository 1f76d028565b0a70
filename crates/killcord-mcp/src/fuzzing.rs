//! What stands between this server and its clients, and between a terminal and its reader, by itself: for the fuzz
//! targets.

use crate::arguments::{self, Kill, Nothing, Read, Resize, Run, Signal, Spawn, Write};
use crate::lines::Lines;
use crate::terminal::filter::{Filter, Step};
use rmcp::model::JsonObject;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

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

/// What the protocol's reader gets of input that comes in these parts, where it takes `at_once` bytes at a time.
///
/// # Errors
/// Never: nothing here fails to read.
pub fn lines<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    longest: usize,
    at_once: usize,
) -> io::Result<Vec<u8>> {
    // An empty part would be the end.
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
    let parts = Parts { next: parts.into_iter(), now: &[] };
    let mut lines = Lines::new(parts, longest, Arc::new(Notify::new()));
    let mut context = Context::from_waker(Waker::noop());
    let (mut all, mut taken) = (Vec::new(), vec![0; at_once.max(1)]);
    loop {
        let mut buffer = ReadBuf::new(&mut taken);
        match Pin::new(&mut lines).poll_read(&mut context, &mut buffer) {
            Poll::Pending => {}
            Poll::Ready(result) => {
                result?;
                if buffer.filled().is_empty() {
                    return Ok(all);
                }
                all.extend_from_slice(buffer.filled());
            }
        }
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
