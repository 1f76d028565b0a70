//! Lines that are too long. What speaks the protocol for us passes over them, so their requests would never be
//! answered, and a client would wait for as long as it waits for anything.
//!
//! Behind such a line goes a request of our own with its id, to a method that is always answered with an error.

use regex::bytes::Regex;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// The method that a request is taken to be for whose line was too long.
pub(crate) const TOO_LONG: &str = "killcord/too-long";
/// How much of the beginning and of the end of a line is looked at for its id.
const LOOKED_AT: usize = 512;

/// A reader that passes everything on, and behind a line that is too long a request in its place.
pub(crate) struct Lines<R> {
    inner: R,
    longest: usize,
    /// What has been read and not passed on.
    read: Box<[u8]>,
    at: usize,
    end: usize,
    /// What goes before that.
    first: Vec<u8>,
    line: Line,
}

/// The line that is being passed on.
#[derive(Default)]
struct Line {
    length: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Line {
    fn push(&mut self, part: &[u8]) {
        self.length += part.len();
        let room = LOOKED_AT.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(&part[..room]);
        self.tail.extend_from_slice(&part[part.len().saturating_sub(LOOKED_AT)..]);
        let over = self.tail.len().saturating_sub(LOOKED_AT);
        self.tail.drain(..over);
    }

    /// A request with the line's id, if it has one where clients write it: before what is long, or at the very end.
    fn in_its_place(&self) -> Option<Vec<u8>> {
        const ID: &str = r#""id"\s*:\s*(-?[0-9]{1,19}|"(?:[^"\\]|\\.)*")\s*"#;
        const BEFORE: &str = r#"(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"#;
        const BEHIND: &str = r#"(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*)*"#;
        let find = |pattern: String, part: &[u8]| {
            let id = Regex::new(&pattern).ok()?.captures(part)?.get(1)?.as_bytes().to_vec();
            String::from_utf8(id).ok()
        };
        let id = find(format!(r"(?s-u)^\s*\{{\s*{BEFORE}{ID},"), &self.head)
            .or_else(|| find(format!(r"(?s-u),\s*{ID}{BEHIND}\}}\s*$"), &self.tail))?;
        // In the newer era a request without metadata would be answered with an error about that.
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{TOO_LONG}","params":{{"_meta":{meta}}}}}"#);
        Some((request + "\n").into_bytes())
    }
}

impl<R> Lines<R> {
    /// Of which no line is longer than `longest` bytes.
    pub(crate) fn new(inner: R, longest: usize) -> Self {
        let read = vec![0; 16 * 1024].into_boxed_slice();
        Self { inner, longest, read, at: 0, end: 0, first: Vec::new(), line: Line::default() }
    }

    /// Passes on what there is, to the end of a line that was too long at most.
    fn pass(&mut self, buffer: &mut ReadBuf<'_>) {
        while buffer.remaining() > 0 && self.first.is_empty() && self.at < self.end {
            let rest = &self.read[self.at..self.end];
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let part = &rest[..newline.map_or(rest.len(), |at| at + 1).min(buffer.remaining())];
            buffer.put_slice(part);
            self.at += part.len();
            match part.strip_suffix(b"\n") {
                None => self.line.push(part),
                Some(text) => {
                    self.line.push(text);
                    let line = std::mem::take(&mut self.line);
                    if line.length > self.longest {
                        self.first = line.in_its_place().unwrap_or_default();
                    }
                }
            }
        }
        let part = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..part]);
        self.first.drain(..part);
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.first.is_empty() && this.at == this.end {
            let mut read = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            (this.at, this.end) = (0, read.filled().len());
        }
        this.pass(buffer);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(line: &str) -> Option<String> {
        let mut whole = Line::default();
        for part in line.as_bytes().chunks(7) {
            whole.push(part);
        }
        let request = whole.in_its_place()?;
        let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
        Some(request["id"].to_string())
    }

    #[test]
    fn the_id_is_found_where_clients_write_it_and_nowhere_else() {
        let long = "x".repeat(2000);
        let found = |line: String| id(&line);
        assert_eq!(
            found(format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":"{long}"}}"#)).as_deref(),
            Some("7")
        );
        assert_eq!(
            found(format!(r#"{{"method":"m","params":"{long}","jsonrpc":"2.0","id":"a b"}}"#)).as_deref(),
            Some("\"a b\"")
        );
        assert_eq!(
            found(format!(r#"{{"params":"{long}", "id": -1, "method": "m"}}"#)).as_deref(),
            Some("-1")
        );
        assert_eq!(found(format!(r#"{{"method":"m","params":{{"a":"{long}","id":7}}}}"#)), None);
        assert_eq!(found(format!(r#"{{"method":"m","params":"{long},\"id\":7}}"#)), None);
        assert_eq!(found(format!(r#"{{"method":"m","params":{{"id":7,"a":"{long}"}}}}"#)), None);
        assert_eq!(found(long), None);
    }
}
