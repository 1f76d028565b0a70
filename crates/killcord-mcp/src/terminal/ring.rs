//! The last bytes of an output.
//!
//! A program may write for ever, and its reader may come late or never. The ring keeps the last bytes, counts all
//! of them, and says how many a reader has missed. A reader gets text: a character is never cut, neither where the
//! ring begins nor where a read ends, and bytes that are no UTF-8 become U+FFFD and never hold up what follows.

use std::collections::VecDeque;

use super::lexer::is_beginning;

/// The longest character, and the least that a read asks for.
const CHARACTER: usize = 4;

/// The last bytes of an output, at most as many as its capacity.
#[derive(Debug)]
pub struct Ring {
    bytes: VecDeque<u8>,
    capacity: usize,
    dropped: u64,
    ended: bool,
}

/// What a read gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text; each broken character in it is a U+FFFD.
    pub text: String,
    /// Where it begins, counted from the first byte of the output.
    pub start: u64,
    /// The cursor for the next read.
    pub next: u64,
    /// How many bytes between the cursor and `start` are gone.
    pub missed: u64,
}

impl Ring {
    /// Keeps at most so many bytes (and at least one character). It takes memory only as output comes.
    pub fn new(capacity_bytes: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity: capacity_bytes.max(CHARACTER), dropped: 0, ended: false }
    }

    /// Adds output, and drops the oldest where there is no room.
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.capacity)..];
        let out = (self.bytes.len() + kept.len()).saturating_sub(self.capacity);
        self.bytes.drain(..out);
        self.dropped += (out + bytes.len() - kept.len()) as u64;
        let needed = self.bytes.len() + kept.len();
        if needed > self.bytes.capacity() {
            // Doubles as a vector does, but never beyond the bound.
            let goal = (needed * 2).min(self.capacity);
            self.bytes.reserve_exact(goal - self.bytes.len());
        }
        self.bytes.extend(kept);
    }

    /// No more output will come, so that the beginning of a character at the end is given out as broken.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// How many bytes there have ever been: the cursor of the end.
    pub fn produced(&self) -> u64 {
        self.dropped + self.bytes.len() as u64
    }

    /// How many bytes at the beginning are gone.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Reads from a cursor on, which is 0 or the `next` of an earlier read. Uses at most `max_bytes` (4 at least,
    /// so that every read gets further); the text is longer only by U+FFFD for single bytes.
    ///
    /// A cursor inside a character reads all of that character; one beyond the end reads nothing and stays there.
    pub fn read_from(&self, cursor: u64, max_bytes: usize) -> Piece {
        if cursor > self.produced() {
            return Piece { text: String::new(), start: cursor, next: cursor, missed: 0 };
        }
        let start = if cursor < self.dropped {
            // What is left of a character whose beginning is gone.
            self.rest_of_a_character()
        } else {
            self.start_of_character((cursor - self.dropped) as usize)
        };
        let end = start + max_bytes.max(CHARACTER).min(self.bytes.len() - start);
        let mut piece = self.piece(start, end, end < self.bytes.len() || !self.ended);
        piece.missed = piece.start.saturating_sub(cursor);
        piece
    }

    /// The last `lines` lines, of at most the last `max_bytes` bytes. A line feed at the very end belongs to the
    /// last line. `missed` is 0: there was no cursor.
    pub fn tail_lines(&self, lines: usize, max_bytes: usize) -> Piece {
        let length = self.bytes.len();
        let earliest = length - max_bytes.min(length);
        let mut ends =
            (earliest..length.saturating_sub(1)).rev().filter(|at| self.bytes.get(*at) == Some(&b'\n'));
        let start = match (lines, ends.nth(lines.saturating_sub(1))) {
            (0, _) => length,
            (_, Some(end)) => end + 1,
            (_, None) if earliest == 0 => self.rest_of_a_character(),
            (_, None) => match self.start_of_character(earliest) {
                start if start < earliest => earliest + self.length_of_rest(earliest),
                start => start,
            },
        };
        self.piece(start, length, !self.ended)
    }

    /// The text between two places in what is kept; leaves the beginning of a character at the end if `more` comes.
    fn piece(&self, start: usize, end: usize, more: bool) -> Piece {
        let bytes = self.copy(start, end);
        let mut used = bytes.len();
        if more {
            // Three bytes are the longest beginning of a character.
            let beginning = (1..CHARACTER.min(used + 1)).find(|n| is_beginning(&bytes[used - n..]));
            used -= beginning.unwrap_or(0);
        }
        let text = String::from_utf8_lossy(&bytes[..used]).into_owned();
        let start = self.dropped + start as u64;
        Piece { text, start, next: start + used as u64, missed: 0 }
    }

    /// Where the first character begins that the ring has from its first byte on.
    fn rest_of_a_character(&self) -> usize {
        if self.dropped == 0 { 0 } else { self.length_of_rest(0) }
    }

    /// How many bytes here can only be inside of a character.
    fn length_of_rest(&self, at: usize) -> usize {
        self.bytes.range(at..).take(CHARACTER - 1).take_while(|byte| is_inside(**byte)).count()
    }

    /// The beginning of the character that this place is in.
    fn start_of_character(&self, at: usize) -> usize {
        let before =
            (1..CHARACTER.min(at + 1)).find(|n| self.bytes.get(at - n).is_some_and(|byte| !is_inside(*byte)));
        match before {
            None if self.dropped > 0 && at < CHARACTER => self.rest_of_a_character().max(at),
            // What there is up to this place is a character's beginning, and what is here goes on with it.
            Some(n) if is_beginning(&self.copy(at - n, at)) && !self.is_broken(at - n, at + 1) => at - n,
            _ => at,
        }
    }

    /// Whether these bytes are neither a character nor the beginning of one.
    fn is_broken(&self, start: usize, end: usize) -> bool {
        let bytes = self.copy(start, end.min(self.bytes.len()));
        std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_some())
    }

    fn copy(&self, start: usize, end: usize) -> Vec<u8> {
        let (first, second) = self.bytes.as_slices();
        let middle = first.len();
        let mut copy = Vec::with_capacity(end - start);
        copy.extend_from_slice(&first[start.min(middle)..end.min(middle)]);
        copy.extend_from_slice(&second[start.max(middle) - middle..end.max(middle) - middle]);
        copy
    }
}

/// Whether this byte is never the first of a character.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn ring(capacity: usize, output: &[u8]) -> Ring {
        let mut ring = Ring::new(capacity);
        ring.push(output);
        ring
    }

    #[test]
    fn a_late_reader_is_told_what_it_missed() {
        let ring = ring(10, b"0123456789abcdef");
        let piece = ring.read_from(2, 100);
        assert_eq!((piece.text.as_str(), piece.start, piece.next, piece.missed), ("6789abcdef", 6, 16, 4));
        assert_eq!((ring.produced(), ring.dropped()), (16, 6));
        assert_eq!(ring.read_from(16, 100).text, "");
        assert_eq!(ring.read_from(9, 4).text, "9abc");
    }

    #[test]
    fn a_cursor_from_elsewhere_reads_nothing() {
        let piece = ring(10, b"abc").read_from(99, 100);
        assert_eq!((piece.text.as_str(), piece.next, piece.missed), ("", 99, 0));
    }

    #[test]
    fn half_a_character_stays_until_the_rest_has_come() {
        let mut ring = ring(100, b"x\xe2\x82");
        let piece = ring.read_from(0, 100);
        assert_eq!((piece.text.as_str(), piece.next), ("x", 1));
        ring.push(b"\xacy");
        assert_eq!(ring.read_from(piece.next, 100).text, "€y");
    }

    #[test]
    fn half_a_character_at_the_end_of_the_stream_is_broken() {
        let mut ring = ring(100, b"x\xe2\x82");
        ring.end();
        let piece = ring.read_from(0, 100);
        assert_eq!((piece.text.as_str(), piece.next), ("x\u{fffd}", 3));
    }

    #[test]
    fn a_read_of_limited_length_ends_between_characters() {
        let ring = ring(100, "aaa€b".as_bytes());
        let piece = ring.read_from(0, 5);
        assert_eq!((piece.text.as_str(), piece.next), ("aaa", 3));
        assert_eq!(ring.read_from(3, 1).text, "€b");
        assert_eq!(ring.read_from(4, 10).text, "€b");
        assert_eq!(ring.read_from(5, 10).text, "€b");
    }

    #[test]
    fn a_character_cut_by_the_capacity_is_missed_as_a_whole() {
        let ring = ring(6, "a€bcde".as_bytes());
        let piece = ring.read_from(0, 100);
        assert_eq!((piece.text.as_str(), piece.missed, piece.next), ("bcde", 4, 8));
    }

    #[test]
    fn bytes_that_are_no_text_never_stick() {
        let ring = ring(100, b"\xff\x80\xc3(\xf0\x9f\x98");
        let piece = ring.read_from(0, 100);
        assert_eq!((piece.text.as_str(), piece.next), ("\u{fffd}\u{fffd}\u{fffd}(", 4));
    }

    #[test]
    fn the_last_lines() {
        let output = ring(100, "eins\nzwei\ndrei €\n".as_bytes());
        assert_eq!(output.tail_lines(1, 100).text, "drei €\n");
        assert_eq!(output.tail_lines(2, 100).text, "zwei\ndrei €\n");
        assert_eq!(output.tail_lines(9, 100).text, "eins\nzwei\ndrei €\n");
        assert_eq!(output.tail_lines(0, 100).text, "");
        assert_eq!(output.tail_lines(9, 3).text, "\n");
        assert_eq!(output.tail_lines(9, 4).text, "€\n");
        assert_eq!(output.tail_lines(9, 4).next, output.produced());
        assert_eq!(ring(100, b"").tail_lines(3, 10).text, "");
        assert_eq!(ring(100, b"\n\n").tail_lines(1, 10).text, "\n");
    }

    #[test]
    fn heavy_200_mb_cost_no_more_than_the_capacity() {
        let began = Instant::now();
        let mut ring = Ring::new(1 << 20);
        let chunk = vec![b'y'; 65_536];
        for _ in 0..3200 {
            ring.push(&chunk);
        }
        assert_eq!(ring.produced(), 3200 * 65_536);
        assert_eq!(ring.bytes.len(), 1 << 20);
        assert!(ring.bytes.capacity() <= (1 << 20), "{}", ring.bytes.capacity());
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_the_counters_are_true(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..30),
            capacity in 0usize..64,
        ) {
            let mut ring = Ring::new(capacity);
            let mut total = 0;
            for chunk in &chunks {
                ring.push(chunk);
                total += chunk.len() as u64;
                prop_assert_eq!(ring.produced(), total);
                prop_assert!(ring.bytes.len() <= capacity.max(CHARACTER));
                prop_assert!(ring.bytes.capacity() <= capacity.max(CHARACTER));
            }
        }

        #[test]
        fn a_reader_that_keeps_up_gets_everything(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            max in 0usize..20,
        ) {
            let mut ring = Ring::new(1000);
            let (mut text, mut cursor) = (String::new(), 0);
            for chunk in &chunks {
                ring.push(chunk);
                let piece = ring.read_from(cursor, max);
                prop_assert_eq!(piece.missed, 0);
                text.push_str(&piece.text);
                cursor = piece.next;
            }
            ring.end();
            while cursor < ring.produced() {
                let piece = ring.read_from(cursor, max);
                prop_assert!(piece.next > cursor);
                text.push_str(&piece.text);
                cursor = piece.next;
            }
            let everything = chunks.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&everything));
        }

        #[test]
        fn text_is_never_cut(text in "\\PC{0,40}", capacity in 0usize..40, cursor in 0u64..60, max in 0usize..40) {
            let mut ring = Ring::new(capacity);
            ring.push(text.as_bytes());
            let piece = ring.read_from(cursor, max);
            let broken = piece.text.contains(char::REPLACEMENT_CHARACTER);
            prop_assert!(!broken || text.contains(char::REPLACEMENT_CHARACTER));
            prop_assert!(text.contains(&piece.text));
            let piece = ring.tail_lines(3, max);
            prop_assert!(text.contains(&piece.text));
        }
    }
}
