//! Lines that are too long, or no JSON. What speaks the protocol for us passes over them, so their requests would never
//! be answered, and a client would wait for as long as it waits for anything.
//!
//! Behind such a line goes a request of our own with its id, to a method that is always answered with an error. Where no
//! id is found, JSON goes there that is no message: it is answered with an error without an id.

use regex::bytes::Regex;
use serde::de::IgnoredAny;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// The method that a request is taken to be for whose line was too long.
pub(crate) const TOO_LONG: &str = "killcord/too-long";
/// The method that a request is taken to be for whose line was no JSON.
pub(crate) const BROKEN: &str = "killcord/broken";
/// JSON that is no message.
const NO_MESSAGE: &[u8] = b"[]\n";
/// How much of the beginning and of the end of a line is looked at for its id.
const LOOKED_AT: usize = 512;

/// An id.
const ID: &str = r#""id"\s*:\s*(-?[0-9]{1,19}|"(?:[^"\\]|\\.)*")\s*"#;

/// Where an id stands before what is long. Made once: a client may send any number of broken lines.
static AT_THE_FRONT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const BEFORE: &str = r#"(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"#;
    Regex::new(&format!(r"(?s-u)^\s*\{{\s*{BEFORE}{ID},")).ok()
});

/// Where it stands at the very end.
static AT_THE_END: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const BEHIND: &str = r#"(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*)*"#;
    Regex::new(&format!(r"(?s-u),\s*{ID}{BEHIND}\}}\s*$")).ok()
});

/// A reader that passes everything on, and behind a line that will not be read a request in its place. It says
/// when it is at its end.
pub(crate) struct Lines<R> {
    inner: R,
    ended: Arc<Notify>,
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
    /// As much of its beginning as a line may have.
    kept: Vec<u8>,
    tail: Vec<u8>,
}

impl Line {
    fn push(&mut self, part: &[u8], longest: usize) {
        self.length += part.len();
        let room = longest.saturating_sub(self.kept.len()).min(part.len());
        self.kept.extend_from_slice(&part[..room]);
        self.tail.extend_from_slice(&part[part.len().saturating_sub(LOOKED_AT)..]);
        let over = self.tail.len().saturating_sub(LOOKED_AT);
        self.tail.drain(..over);
    }

    /// What has to go behind it.
    fn answered_by(&self, longest: usize) -> Vec<u8> {
        let method = if self.length > longest {
            TOO_LONG
        } else if self.is_broken() {
            BROKEN
        } else {
            return Vec::new();
        };
        self.in_its_place(method).unwrap_or_else(|| NO_MESSAGE.to_vec())
    }

    /// Whether it is no JSON. A line of spaces is none, and nothing is expected of it.
    fn is_broken(&self) -> bool {
        // A byte order mark may be ignored (RFC 8259, section 8.1), and is.
        let text = self.kept.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.kept);
        match std::str::from_utf8(text) {
            Ok(text) => !text.trim().is_empty() && serde_json::from_str::<IgnoredAny>(text).is_err(),
            Err(_) => true,
        }
    }

    /// A request with the line's id, if it has one where clients write it: before what is long, or at the very end.
    fn in_its_place(&self, method: &str) -> Option<Vec<u8>> {
        let find = |pattern: &Option<Regex>, part: &[u8]| {
            let id = pattern.as_ref()?.captures(part)?.get(1)?.as_bytes().to_vec();
            String::from_utf8(id).ok().filter(|id| is_id(id))
        };
        let id = find(&AT_THE_FRONT, &self.kept[..self.kept.len().min(LOOKED_AT)])
            .or_else(|| find(&AT_THE_END, &self.tail))?;
        // In the newer era a request without metadata would be answered with an error about that.
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{meta}}}}}"#);
        Some((request + "\n").into_bytes())
    }
}

/// Whether this is an id as JSON has it: in a broken line what looks like one may be as broken as the rest, and a request
/// with it would be passed over, too.
fn is_id(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|id| id.is_string() || id.is_i64())
}

impl<R> Lines<R> {
    /// Of which no line is longer than `longest` bytes. Its end, or a failure to read, is notified.
    pub(crate) fn new(inner: R, longest: usize, ended: Arc<Notify>) -> Self {
        let read = vec![0; 16 * 1024].into_boxed_slice();
        Self { inner, ended, longest, read, at: 0, end: 0, first: Vec::new(), line: Line::default() }
    }

    /// Passes on what there is, to the end of a line that will not be read at most.
    fn pass(&mut self, buffer: &mut ReadBuf<'_>) {
        while buffer.remaining() > 0 && self.first.is_empty() && self.at < self.end {
            let rest = &self.read[self.at..self.end];
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let part = &rest[..newline.map_or(rest.len(), |at| at + 1).min(buffer.remaining())];
            buffer.put_slice(part);
            self.at += part.len();
            match part.strip_suffix(b"\n") {
                None => self.line.push(part, self.longest),
                Some(text) => {
                    self.line.push(text, self.longest);
                    self.first = std::mem::take(&mut self.line).answered_by(self.longest);
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
            let result = ready!(Pin::new(&mut this.inner).poll_read(context, &mut read));
            (this.at, this.end) = (0, read.filled().len());
            if this.end == 0 {
                this.ended.notify_one();
            }
            result?;
        }
        this.pass(buffer);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered_by(line: &[u8], longest: usize) -> Option<serde_json::Value> {
        let mut whole = Line::default();
        for part in line.chunks(7) {
            whole.push(part, longest);
        }
        let behind = whole.answered_by(longest);
        (!behind.is_empty()).then(|| serde_json::from_slice(&behind).unwrap())
    }

    fn id(line: &str) -> Option<String> {
        let request = answered_by(line.as_bytes(), 1000).unwrap();
        Some(request.get("id")?.to_string())
    }

    #[test]
    fn a_line_that_is_no_json_is_answered_and_one_that_is_or_is_empty_is_passed_on() {
        for good in
            ["{}", " [1, 2] ", "", "  \r", "\u{feff}{\"id\":1}", r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#]
        {
            assert_eq!(answered_by(good.as_bytes(), 1000), None, "{good:?}");
        }
        for broken in [&b"{"[..], b"\xff\xfe", b"nonsense", b"[1,2", b"{\"id\":1}}"] {
            assert_eq!(answered_by(broken, 1000), Some(serde_json::json!([])), "{broken:?}");
        }
        let cut = answered_by(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"#, 1000).unwrap();
        assert_eq!((&cut["id"], &cut["method"]), (&serde_json::json!(7), &serde_json::json!(BROKEN)));
    }

    #[test]
    fn an_id_that_is_as_broken_as_its_line_is_none() {
        for id in [r#""\q""#, "\"a\tb\"", "007", "9999999999999999999", "-9223372036854775809", r#""\ud800""#]
        {
            let line = format!("{{\"id\":{id},\"method\":");
            assert_eq!(answered_by(line.as_bytes(), 1000), Some(serde_json::json!([])), "{id}");
        }
        let whole = answered_by(br#"{"id":"\u20ac","method":"#, 1000).unwrap();
        assert_eq!(whole["id"], "\u{20ac}");
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
