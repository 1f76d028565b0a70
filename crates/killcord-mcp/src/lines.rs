//! The lines of the input, each whole, and of one that is too long its beginning and its end.

use regex::bytes::Regex;
use rmcp::model::RequestId;
use std::io;
use std::sync::LazyLock;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

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

/// A reader of lines.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    longest: usize,
    /// What there is of the line that is being read.
    line: Line,
}

/// A line without its newline.
#[derive(Debug, Default)]
pub(crate) struct Line {
    length: usize,
    /// As much of its beginning as a line may have.
    kept: Vec<u8>,
    tail: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Of which none is kept beyond `longest` bytes.
    pub(crate) fn new(input: R, longest: usize) -> Self {
        Self { input: BufReader::with_capacity(16 * 1024, input), longest, line: Line::default() }
    }

    /// The next line, or `None` at the end; what stands there without a newline is no line. When the future is
    /// dropped, what has been read of a line is kept.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let there = self.input.fill_buf().await?;
            if there.is_empty() {
                return Ok(None);
            }
            let newline = memchr::memchr(b'\n', there);
            self.line.push(&there[..newline.unwrap_or(there.len())], self.longest);
            let used = newline.map_or(there.len(), |at| at + 1);
            self.input.consume(used);
            if newline.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
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

    /// All of it, unless it is too long. A byte order mark may be ignored (RFC 8259, section 8.1), and is.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        let whole = (self.length == self.kept.len()).then_some(&self.kept[..])?;
        Some(whole.strip_prefix(b"\xef\xbb\xbf").unwrap_or(whole))
    }

    /// The id of a line that is not read, if it has one where clients write it: before what is long, or at the very
    /// end.
    pub(crate) fn id(&self) -> Option<RequestId> {
        // In a broken line what looks like an id may be as broken as the rest, and is none then.
        let find = |pattern: &Option<Regex>, part: &[u8]| {
            serde_json::from_slice(pattern.as_ref()?.captures(part)?.get(1)?.as_bytes()).ok()
        };
        let beginning = &self.kept[..self.kept.len().min(LOOKED_AT)];
        find(&AT_THE_FRONT, beginning).or_else(|| find(&AT_THE_END, &self.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, longest: usize) -> Line {
        let mut line = Line::default();
        text.as_bytes().chunks(7).for_each(|part| line.push(part, longest));
        line
    }

    fn id(line_: &str) -> Option<String> {
        Some(serde_json::to_string(&line(line_, 1000).id()?).unwrap())
    }

    #[test]
    fn lines_are_whole_whatever_they_are_read_in_and_a_long_one_is_let_go() {
        let text = format!("one\n\n\u{feff}two\r\n{}\n{}\nno end", "x".repeat(100), "y".repeat(101));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut lines = Lines::new(text.as_bytes(), 100);
        let mut read = Vec::new();
        while let Some(line) = runtime.block_on(lines.next()).unwrap() {
            read.push(line.whole().map(<[u8]>::to_vec));
        }
        let whole = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(read, [whole("one"), whole(""), whole("two\r"), whole(&"x".repeat(100)), None]);
    }

    #[test]
    fn an_id_that_is_as_broken_as_its_line_is_none() {
        for broken in
            [r#""\q""#, "\"a\tb\"", "007", "9999999999999999999", "-9223372036854775809", r#""\ud800""#]
        {
            assert_eq!(id(&format!("{{\"id\":{broken},\"method\":")), None, "{broken}");
        }
        assert_eq!(id(r#"{"id":"\u20ac","method":"#).as_deref(), Some("\"\u{20ac}\""));
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
