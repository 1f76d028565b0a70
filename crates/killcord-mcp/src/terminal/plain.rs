//! Terminal output as text to read.
//!
//! Escape sequences, colours and bells are noise to a reader, and a progress bar is a thousand versions of one line.
//! [`Plain`] gives lines as they were when they were left: a carriage return or a backspace goes back in the line,
//! and what follows overwrites it. What moves the cursor to another line begins a line here: this is no screen.

use unicode_width::UnicodeWidthChar as _;

use super::lexer::{Csi, Lexer, Token};

/// A line that is longer, in columns, is given out in parts, and no part changes after that.
const LINE: usize = 4096;

/// How many bytes of combining characters there may be on one character.
const COMBINING: usize = 16;

/// Turns a stream of terminal output into lines of text.
#[derive(Debug)]
pub struct Plain {
    lexer: Lexer,
    line: Line,
}

impl Default for Plain {
    fn default() -> Self {
        Self::new()
    }
}

impl Plain {
    /// At the beginning of a line.
    pub fn new() -> Self {
        Self { lexer: Lexer::new(), line: Line::default() }
    }

    /// Reads output, and gives the lines that it has ended.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        let Self { lexer, line } = self;
        lexer.feed(bytes, &mut |token, _| line.token(&token, &mut text));
        text
    }

    /// The line that has no end yet, as it is now. Blanks at its end are kept: a prompt has one.
    pub fn unfinished(&self) -> String {
        let mut text = String::new();
        self.line.write(&mut text);
        text
    }

    /// The rest, where nothing more comes.
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        let Self { lexer, line } = &mut self;
        lexer.finish(&mut |token, _| line.token(&token, &mut text));
        self.line.write(&mut text);
        text
    }
}

/// All of this output as text.
pub fn plain(bytes: &[u8]) -> String {
    let mut plain = Plain::new();
    let mut text = plain.feed(bytes);
    text.push_str(&plain.finish());
    text
}

/// A column of a line.
#[derive(Debug, Clone)]
enum Column {
    Character(char),
    /// A character with combining ones.
    Combined(Box<str>),
    /// Covered by the wide character or the tab on its left.
    Covered,
}

/// The line that is being written.
#[derive(Debug, Default)]
struct Line {
    columns: Vec<Column>,
    cursor: usize,
}

impl Line {
    fn token(&mut self, token: &Token<'_>, text: &mut String) {
        match token {
            Token::Text(characters) => characters.chars().for_each(|c| self.put(c, text)),
            Token::Invalid => self.put(char::REPLACEMENT_CHARACTER, text),
            Token::Control(control) => self.control(*control, text),
            Token::Csi(csi) => self.csi(csi, text),
            // Index, next line, reverse index, reset.
            Token::Escape(0, b'D' | b'E' | b'M' | b'c') => self.leave(text),
            Token::Escape(..) | Token::Command(_) => {}
        }
    }

    fn control(&mut self, control: u8, text: &mut String) {
        match control {
            0x08 => self.cursor = self.cursor.saturating_sub(1),
            b'\t' => self.tab(text),
            b'\n' => self.end(text),
            0x0b | 0x0c => self.leave(text),
            b'\r' => self.cursor = 0,
            // NUL is a filler, BEL a sound; SO and SI change the set of characters.
            0x00 | 0x07 | 0x0e | 0x0f => {}
            other => {
                self.put('^', text);
                self.put(char::from(other + b'@'), text);
            }
        }
    }

    fn csi(&mut self, csi: &Csi, text: &mut String) {
        let count = usize::from(csi.count(0));
        match (csi.prefix, csi.intermediate, csi.action, csi.parameters()[0]) {
            (0, 0, b'K', 0) => {
                self.uncover(self.cursor);
                self.columns.truncate(self.cursor);
            }
            (0, 0, b'K', 1) => {
                for column in 0..=self.cursor.min(self.columns.len().saturating_sub(1)) {
                    self.blank(column);
                }
            }
            (0, 0, b'K', _) => self.columns.clear(),
            (0, 0, b'G' | b'`', _) => self.cursor = (count - 1).min(LINE - 1),
            (0, 0, b'C', _) => self.cursor = (self.cursor + count).min(LINE - 1),
            (0, 0, b'D', _) => self.cursor = self.cursor.saturating_sub(count),
            (0, 0, b'P', _) => {
                self.uncover(self.cursor);
                let end = (self.cursor + count).min(self.columns.len());
                self.uncover(end);
                self.columns.drain(self.cursor.min(end)..end);
            }
            (0, 0, b'X', _) => {
                for column in self.cursor..(self.cursor + count).min(self.columns.len()) {
                    self.blank(column);
                }
            }
            // To another line, or a cleared screen.
            (0, 0, b'H' | b'f' | b'A' | b'B' | b'E' | b'F' | b'd', _)
            | (0, 0, b'J', 2)
            | (b'?', 0, b'h' | b'l', 47 | 1047 | 1049) => self.leave(text),
            _ => {}
        }
    }

    /// Puts a character at the cursor.
    fn put(&mut self, character: char, text: &mut String) {
        match character.width() {
            // C1 controls.
            None => {}
            Some(0) => self.combine(character),
            Some(width) => {
                if self.cursor + width > LINE {
                    self.flush(text);
                }
                self.cover(width, Column::Character(character));
            }
        }
    }

    /// At the end of a line a tab stays a tab, for text that is copied; elsewhere it only moves.
    fn tab(&mut self, text: &mut String) {
        let width = 8 - self.cursor % 8;
        if self.cursor < self.columns.len() {
            self.cursor += width;
        } else {
            if self.cursor + width > LINE {
                self.flush(text);
            }
            self.cover(8 - self.cursor % 8, Column::Character('\t'));
        }
    }

    /// Puts something into the columns from the cursor on.
    fn cover(&mut self, width: usize, first: Column) {
        let end = self.cursor + width;
        if self.columns.len() < self.cursor {
            self.columns.resize(self.cursor, Column::Character(' '));
        }
        if self.cursor < self.columns.len() {
            self.uncover(self.cursor);
            self.uncover(end);
        }
        if self.columns.len() < end {
            self.columns.resize(end, Column::Covered);
        }
        self.columns[self.cursor + 1..end].fill(Column::Covered);
        self.columns[self.cursor] = first;
        self.cursor = end;
    }

    /// What reaches over this column from the left becomes blank: half of it goes.
    fn uncover(&mut self, column: usize) {
        if !matches!(self.columns.get(column), Some(Column::Covered)) {
            return;
        }
        let first = self.columns[..column].iter().rposition(|c| !matches!(c, Column::Covered)).unwrap_or(0);
        let covered = self.columns[column..].iter().take_while(|c| matches!(c, Column::Covered)).count();
        self.columns[first..column + covered].fill(Column::Character(' '));
    }

    fn blank(&mut self, column: usize) {
        self.uncover(column);
        self.uncover(column + 1);
        if let Some(column) = self.columns.get_mut(column) {
            *column = Column::Character(' ');
        }
    }

    /// Adds a character without width to the one before the cursor.
    fn combine(&mut self, character: char) {
        let end = self.cursor.min(self.columns.len());
        let Some(column) = self.columns[..end].iter_mut().rev().find(|c| !matches!(c, Column::Covered))
        else {
            return;
        };
        match column {
            Column::Character(base) => *column = Column::Combined(format!("{base}{character}").into()),
            Column::Combined(text) if text.len() < COMBINING => *text = format!("{text}{character}").into(),
            Column::Combined(_) | Column::Covered => {}
        }
    }

    /// A line feed.
    fn end(&mut self, text: &mut String) {
        self.flush(text);
        text.push('\n');
    }

    /// The cursor goes elsewhere; an empty line leaves nothing behind.
    fn leave(&mut self, text: &mut String) {
        if !self.columns.is_empty() {
            self.end(text);
        }
        self.cursor = 0;
    }

    fn flush(&mut self, text: &mut String) {
        self.write(text);
        self.columns.clear();
        self.cursor = 0;
    }

    fn write(&self, text: &mut String) {
        for column in &self.columns {
            match column {
                Column::Character(character) => text.push(*character),
                Column::Combined(combined) => text.push_str(combined),
                Column::Covered => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_as_it_is_read() {
        for (output, text) in [
            ("one\r\ntwo\nthree", "one\ntwo\nthree"),
            ("\x1b[1;31mred\x1b[0m \x1b[38:5:1mand\x1b[m so on", "red and so on"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
            ("a\x1bPq#1~~\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e\x1bktitle\x1b\\f", "abcdef"),
            ("\x1b(Ba\x1b)0b\x1b=\x1b>\x1b7\x1b8\x0e\x0f\x07\x00", "ab"),
            ("\x1b[?2004h$ ls\r\n\x1b[?2004l", "$ ls\n"),
            ("\x01\x7f\x1c!", "^A^\\!"),
            ("日本\t語e\u{301}\tx", "日本\t語e\u{301}\tx"),
            ("\u{85}a\u{9b}b\u{fffd}", "ab\u{fffd}"),
            ("$ ", "$ "),
            ("", ""),
        ] {
            assert_eq!(plain(output.as_bytes()), text, "{output:?}");
        }
        assert_eq!(plain(b"a\xffb\xe2\x82"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn what_is_overwritten_is_gone() {
        for (output, text) in [
            (" 10%\r 20%\r100%\r\n", "100%\n"),
            ("downloading\r\x1b[Kdone\n", "done\n"),
            ("abcdef\rxy\n", "xycdef\n"),
            ("abc\x08\x08X\n", "aXc\n"),
            ("abc\x08\x1b[K\n", "ab\n"),
            ("\x1b[2K\x1b[1Gfirst\x1b[2K\x1b[1Gsecond\n", "second\n"),
            ("abc\x1b[2Dx\x1b[Cy\n", "axcy\n"),
            ("日本\rab\n", "ab本\n"),
            ("日本\x08\x08x\n", "日x \n"),
            ("日本\x08x\n", "日 x\n"),
            ("a\tb\r\t-\n", "a\t-\n"),
            ("a\tb\rxyz\n", "xyz     b\n"),
            ("abcdef\r\x1b[2P\x1b[2X\n", "  ef\n"),
            ("abc\x1b[1K\n", "   \n"),
            ("\x1b[5Gx\n", "    x\n"),
        ] {
            assert_eq!(plain(output.as_bytes()), text, "{output:?}");
        }
    }

    #[test]
    fn another_line_is_another_line() {
        assert_eq!(plain(b"\x1b[H\x1b[2Ja\x1b[2;1Hb\x1b[3;1Hc"), "a\nb\nc");
        assert_eq!(plain(b"one: 1\r\n\x1b[Aone: 2\r\n"), "one: 1\none: 2\n");
        assert_eq!(plain(b"$ vi\r\n\x1b[?1049htext\x1b[?1049l$ "), "$ vi\ntext\n$ ");
    }

    #[test]
    fn an_unfinished_line_can_be_looked_at() {
        let mut plain = Plain::new();
        assert_eq!(plain.feed(b"a\r\nname: "), "a\n");
        assert_eq!(plain.unfinished(), "name: ");
        assert_eq!(plain.feed(b"\rNAME\r"), "");
        assert_eq!(plain.unfinished(), "NAME: ");
        assert_eq!(plain.finish(), "NAME: ");
    }

    #[test]
    fn a_long_line_comes_in_parts() {
        let line = "日".repeat(10_000);
        assert_eq!(plain(line.as_bytes()), line);
        let mut plain = Plain::new();
        let _ = plain.feed("e\u{301}".repeat(100_000).as_bytes());
        let _ = plain.feed(format!("x{}", "\u{301}".repeat(100_000)).as_bytes());
        assert!(plain.line.columns.len() <= LINE);
        assert!(plain.unfinished().len() <= LINE * (COMBINING + 4));
        let tabs = "\t".repeat(10_000);
        assert_eq!(super::plain(tabs.as_bytes()), tabs);
    }

    #[test]
    fn heavy_hostile_output_in_bounded_time() {
        for sequence in
            ["\x1b[4096G\x1b[1K", "\x1b[4000Gx\r\x1b[P", "\t\r\t\x1b[4000X", "x\r\x1b[4000G日\x08x"]
        {
            let output = sequence.repeat(33_000 / sequence.len());
            let began = Instant::now();
            let _ = plain(output.as_bytes());
            println!("{:?} {sequence:?}", began.elapsed());
            assert!(began.elapsed() < Duration::from_secs(4), "{sequence:?}: {:?}", began.elapsed());
        }
    }

    fn output() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            "a",
            "日",
            "\u{301}",
            "\t",
            "\r",
            "\n",
            "\x08",
            "\x1b[K",
            "\x1b[1K",
            "\x1b[2K",
            "\x1b[3G",
            "\x1b[9999C",
            "\x1b[2D",
            "\x1b[P",
            "\x1b[2X",
            "\x1b[A",
            "\x1b[m",
            "\x1b]0;t\x07",
            "\x1b",
            "[",
            "\u{85}",
        ];
        let piece = prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec());
        let any = prop::collection::vec(any::<u8>(), 0..4);
        prop::collection::vec(prop_oneof![5 => piece, 1 => any], 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(output in output(), cut in 1usize..7) {
            let mut parts = Plain::new();
            let mut text: String = output.chunks(cut).map(|part| parts.feed(part)).collect();
            prop_assert!(parts.line.columns.len() <= LINE);
            text.push_str(&parts.finish());
            prop_assert_eq!(&text, &plain(&output));
            let clean = !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            prop_assert!(clean, "{:?}", text);
        }
    }
}
