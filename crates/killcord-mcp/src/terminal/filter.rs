//! What stands between a hostile program and the terminal's model.
//!
//! `vt100` trusts its input: a sequence of ten bytes may cost it a gigabyte of copying, a system command without an
//! end is kept in memory, and some sizes make it panic. So it never sees what a program wrote. The filter reads that
//! with the [`lexer`](super::lexer) and writes it anew: only sequences that it knows, each complete, with counts no
//! larger than the screen. It leaves out the rest.
//!
//! It also adds what `vt100` lacks and real programs use: repetition (REP), line drawing characters, `CSI f`, `s`,
//! `u`, `a`, `e`, `` ` ``, `I`, `ESC D`, `ESC E`, modes 1047 and 1048; and it tells the [`Step`]s that only somebody with the
//! screen at hand can do.
//!
//! # Cost
//!
//! A sequence that touches many cells is paid for in cells. Each byte of input earns [`CELLS_PER_BYTE`], and
//! [`SCREENS_IN_ADVANCE`] full screens may be spent before they are earned. What is not paid for is left out and
//! counted. A program that draws what it clears never gets there. The account depends on the bytes alone, not on how
//! they were cut.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

use super::lexer::{Csi, Lexer, Token};

/// How many cells a byte of input may change, on average.
const CELLS_PER_BYTE: u64 = 256;

/// How many full screens may be changed in advance.
const SCREENS_IN_ADVANCE: u64 = 16;

/// Stands for U+FFFD on its way through `vt100`, which draws no U+FFFD. It is no character, so that nothing else
/// is written with it.
pub(crate) const BROKEN: char = '\u{fdd0}';

/// The longest title that is kept, in bytes.
const TITLE_BYTES: usize = 256;

/// What is to be done with the screen, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Give these bytes to the model.
    Show(&'a [u8]),
    /// Put this character at the cursor: the program has changed how that is done.
    Place(char, Placing),
    /// Put this character at the cursor so many times, but not beyond the end of the line (REP).
    Repeat(char, u16, Placing),
    /// Go to the alternate screen, which is then empty.
    Alternate,
    /// Scroll only between these lines, from 1; 0 stands for the first and the last one (DECSTBM).
    Region(u16, u16),
    /// Insert (`L`) or delete (`M`) so many lines, if the cursor is in the region.
    Lines(u8, u16),
    /// Go up a line; at the top of the region scroll (RI).
    ReverseIndex,
    /// Begin anew (RIS).
    Reset,
    /// Move so many tab stops to the right.
    Tab(u16),
    /// Move so many tab stops to the left.
    BackTab(u16),
    /// The program waits for an answer.
    Ask(Query),
    /// The window's title.
    Title(&'a str),
}

/// How a character is put at the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placing {
    /// At the end of a line it goes to the next one (DECAWM).
    pub(crate) wrap: bool,
    /// What is there moves to the right (IRM).
    pub(crate) insert: bool,
}

/// A question that the terminal itself must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    /// DA1: which terminal is this?
    PrimaryAttributes,
    /// DA2: which version?
    SecondaryAttributes,
    /// DSR 5: does it work?
    Status,
    /// DSR 6: where is the cursor?
    CursorPosition,
}

/// Which of the sets of characters G0 and G1 are line drawing, and which is in use.
#[derive(Debug, Clone, Copy, Default)]
struct Charsets {
    drawing: [bool; 2],
    shifted: bool,
}

/// The program's side of the filter: what came so far.
#[derive(Debug)]
pub(crate) struct Filter {
    lexer: Lexer,
    rules: Rules,
}

impl Filter {
    /// For a screen of this size.
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        Self { lexer: Lexer::new(), rules: Rules::new(columns, rows) }
    }

    /// From now on the screen has this size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        (self.rules.columns, self.rules.rows) = (columns, rows);
    }

    /// Columns and rows of the screen.
    pub(crate) fn size(&self) -> (u16, u16) {
        (self.rules.columns, self.rules.rows)
    }

    /// How many sequences were left out because they cost too much.
    pub(crate) fn left_out(&self) -> u64 {
        self.rules.left_out
    }

    /// Reads output of the program.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Step<'_>)) {
        let Self { lexer, rules } = self;
        lexer.feed(bytes, &mut |token, position| rules.token(&token, position, sink));
    }
}

#[derive(Debug)]
struct Rules {
    columns: u16,
    rows: u16,
    charsets: Charsets,
    saved_charsets: Charsets,
    placing: Placing,
    alternate: bool,
    /// The character just before, for REP.
    last: Option<char>,
    /// A sequence on its way to the model.
    sequence: String,
    /// What has been spent, on the scale of what `position * CELLS_PER_BYTE` has earned.
    spent: u64,
    left_out: u64,
}

impl Rules {
    fn new(columns: u16, rows: u16) -> Self {
        Self {
            columns,
            rows,
            charsets: Charsets::default(),
            saved_charsets: Charsets::default(),
            placing: Placing { wrap: true, insert: false },
            alternate: false,
            last: None,
            sequence: String::new(),
            spent: 0,
            left_out: 0,
        }
    }

    fn token(&mut self, token: &Token<'_>, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        match *token {
            Token::Text(text) => self.text(text, sink),
            Token::Invalid => self.characters(std::iter::once(BROKEN), sink),
            Token::Control(control) => {
                self.last = None;
                match control {
                    b'\t' => sink(Step::Tab(1)),
                    0x08..=0x0d => sink(Step::Show(&[control])),
                    0x0e => self.charsets.shifted = true,
                    0x0f => self.charsets.shifted = false,
                    _ => {}
                }
            }
            Token::Escape(intermediate, action) => {
                self.last = None;
                self.escape(intermediate, action, position, sink);
            }
            Token::Csi(csi) => {
                let last = self.last.take();
                self.csi(csi, last, position, sink);
            }
            Token::Command(body) => title(body, sink),
        }
    }

    fn text(&mut self, text: &str, sink: &mut impl FnMut(Step<'_>)) {
        let drawing = self.charsets.drawing[usize::from(self.charsets.shifted)];
        let plain = Placing { wrap: true, insert: false };
        if drawing || self.placing != plain || text.contains('\u{fffd}') {
            let drawn = text.chars().map(|c| match c {
                '\u{fffd}' => BROKEN,
                c if drawing => line_drawing(c),
                c => c,
            });
            self.characters(drawn, sink);
        } else {
            self.last = text.chars().next_back();
            sink(Step::Show(text.as_bytes()));
        }
    }

    fn characters(&mut self, characters: impl Iterator<Item = char>, sink: &mut impl FnMut(Step<'_>)) {
        for character in characters {
            self.last = Some(character);
            if self.placing.wrap && !self.placing.insert {
                sink(Step::Show(character.encode_utf8(&mut [0; 4]).as_bytes()));
            } else {
                sink(Step::Place(character, self.placing));
            }
        }
    }

    fn escape(&mut self, intermediate: u8, action: u8, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        match (intermediate, action) {
            (b'(' | b')', set) => self.charsets.drawing[usize::from(intermediate - b'(')] = set == b'0',
            (0, b'7') => self.save(sink),
            (0, b'8') => self.restore(sink),
            (0, b'=' | b'>') => sink(Step::Show(&[0x1b, action])),
            (0, b'M') => sink(Step::ReverseIndex),
            (0, b'D') => sink(Step::Show(b"\n")),
            (0, b'E') => sink(Step::Show(b"\r\n")),
            (0, b'c') if self.pay(2 * self.cells(), position) => {
                let (spent, left_out) = (self.spent, self.left_out);
                *self = Self { spent, left_out, ..Self::new(self.columns, self.rows) };
                sink(Step::Reset);
            }
            _ => {}
        }
    }

    fn csi(&mut self, csi: &Csi, last: Option<char>, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        let first = csi.parameters()[0];
        let single = csi.parameters().len() == 1;
        match (csi.prefix, csi.intermediate, csi.action) {
            (0, 0, b'A'..=b'H' | b'a' | b'd'..=b'f' | b'`' | b'j' | b'k' | b'I' | b'Z') => {
                self.movement(csi, position, sink);
            }
            (0, 0, b'@' | b'P' | b'X' | b'L' | b'M' | b'S' | b'T') | (0 | b'?', 0, b'J' | b'K') => {
                self.change(csi, position, sink);
            }
            (0, 0, b'b') => self.repeat(last, csi.count(0).min(self.columns), position, sink),
            (0, 0, b'r') => {
                let bottom = csi.parameters().get(1).copied().unwrap_or(0);
                sink(Step::Region(first.min(self.rows), bottom.min(self.rows)));
            }
            (0, 0, b's') if single && first == 0 => self.save(sink),
            (0, 0, b'u') if single && first == 0 => self.restore(sink),
            (0, 0, b'm') => self.rendition(csi, sink),
            (0, 0, action @ (b'h' | b'l')) if csi.parameters().contains(&4) => {
                self.placing.insert = action == b'h';
            }
            (b'?', 0, action @ (b'h' | b'l')) => {
                for mode in csi.parameters() {
                    self.mode(*mode, action == b'h', position, sink);
                }
            }
            (0, 0, b'c') if first == 0 => sink(Step::Ask(Query::PrimaryAttributes)),
            (b'>', 0, b'c') if first == 0 => sink(Step::Ask(Query::SecondaryAttributes)),
            (0, 0, b'n') if first == 5 => sink(Step::Ask(Query::Status)),
            (0, 0, b'n') if first == 6 => sink(Step::Ask(Query::CursorPosition)),
            _ => {}
        }
    }

    /// What moves the cursor, and costs nothing.
    fn movement(&mut self, csi: &Csi, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        let (columns, rows, count) = (self.columns, self.rows, csi.count(0));
        let action = match csi.action {
            b'H' | b'f' => {
                return self.show(b'H', &[count.min(rows), csi.count(1).min(columns)], 0, position, sink);
            }
            b'I' => return sink(Step::Tab(count.min(columns))),
            b'Z' => return sink(Step::BackTab(count.min(columns))),
            b'a' => b'C',
            b'e' => b'B',
            b'`' => b'G',
            b'j' => b'D',
            b'k' => b'A',
            other => other,
        };
        self.show(action, &[count.min(columns.max(rows))], 0, position, sink);
    }

    /// What changes cells, and is paid for.
    fn change(&mut self, csi: &Csi, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        let first = csi.parameters()[0];
        let single = csi.parameters().len() == 1;
        let (columns, rows, count) = (self.columns, self.rows, csi.count(0));
        let (wide, high) = (u64::from(columns), u64::from(rows));
        match csi.action {
            action @ (b'@' | b'P') => {
                let count = count.min(columns);
                self.show(action, &[count], u64::from(count) * wide / 2, position, sink);
            }
            b'X' => self.show(b'X', &[count.min(columns)], wide, position, sink),
            action @ (b'L' | b'M') => {
                let count = count.min(rows);
                if self.pay(u64::from(count) * (wide + high), position) {
                    sink(Step::Lines(action, count));
                }
            }
            action @ (b'S' | b'T') if single => {
                let count = count.min(rows);
                self.show(action, &[count], u64::from(count) * (wide + high), position, sink);
            }
            // 3 is about the lines above the screen, which are not kept.
            b'J' if first <= 2 => self.show(b'J', &[first], self.cells(), position, sink),
            b'K' if first <= 2 => self.show(b'K', &[first], wide, position, sink),
            _ => {}
        }
    }

    /// A private mode.
    fn mode(&mut self, mode: u16, on: bool, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        match mode {
            1 | 6 | 25 | 2004 => self.show_mode(mode, on, sink),
            7 => self.placing.wrap = on,
            1048 if on => self.save(sink),
            1048 => self.restore(sink),
            47 | 1047 | 1049 if on && !self.alternate => {
                // The model clears the other screen.
                if !self.pay(self.cells(), position) {
                    return;
                }
                self.saved_charsets = self.charsets;
                sink(Step::Alternate);
            }
            // Without it there is nothing to restore, and the cursor stays.
            1049 if !on && self.alternate => {
                self.show_mode(1049, false, sink);
                self.charsets = self.saved_charsets;
            }
            47 | 1047 if !on => self.show_mode(47, false, sink),
            _ => {}
        }
        if matches!(mode, 47 | 1047 | 1049) {
            self.alternate = on;
        }
    }

    fn show_mode(&mut self, mode: u16, on: bool, sink: &mut impl FnMut(Step<'_>)) {
        self.sequence.clear();
        // Writing to a string does not fail.
        let _ = write!(self.sequence, "\x1b[?{mode}{}", if on { 'h' } else { 'l' });
        sink(Step::Show(self.sequence.as_bytes()));
    }

    /// Colours and the like.
    fn rendition(&mut self, csi: &Csi, sink: &mut impl FnMut(Step<'_>)) {
        self.sequence.clear();
        self.sequence.push_str("\x1b[");
        for (index, parameter) in csi.parameters().iter().enumerate() {
            match index {
                0 => {}
                index if csi.is_joined(index) => self.sequence.push(':'),
                _ => self.sequence.push(';'),
            }
            // Writing to a string does not fail.
            let _ = write!(self.sequence, "{parameter}");
        }
        self.sequence.push('m');
        sink(Step::Show(self.sequence.as_bytes()));
    }

    fn repeat(&mut self, last: Option<char>, count: u16, position: u64, sink: &mut impl FnMut(Step<'_>)) {
        // A combining character repeated would only pile up on one cell.
        let Some(character) = last.filter(|c| c.width().unwrap_or(0) > 0) else { return };
        // A character costs several times what clearing its cell does.
        if self.pay(u64::from(count) * 8, position) {
            sink(Step::Repeat(character, count, self.placing));
        }
    }

    fn save(&mut self, sink: &mut impl FnMut(Step<'_>)) {
        self.saved_charsets = self.charsets;
        sink(Step::Show(b"\x1b7"));
    }

    fn restore(&mut self, sink: &mut impl FnMut(Step<'_>)) {
        self.charsets = self.saved_charsets;
        sink(Step::Show(b"\x1b8"));
    }

    /// Writes a control sequence, if it can be paid for.
    fn show(
        &mut self,
        action: u8,
        parameters: &[u16],
        cells: u64,
        position: u64,
        sink: &mut impl FnMut(Step<'_>),
    ) {
        if !self.pay(cells, position) {
            return;
        }
        self.sequence.clear();
        self.sequence.push_str("\x1b[");
        for (index, parameter) in parameters.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = write!(self.sequence, "{}{parameter}", if index == 0 { "" } else { ";" });
        }
        self.sequence.push(char::from(action));
        sink(Step::Show(self.sequence.as_bytes()));
    }

    fn cells(&self) -> u64 {
        u64::from(self.columns) * u64::from(self.rows)
    }

    /// Whether so many cells may be changed now; if not, the sequence is left out.
    fn pay(&mut self, cells: u64, position: u64) -> bool {
        let earned = position.saturating_mul(CELLS_PER_BYTE);
        let spent = self.spent.max(earned) + cells;
        if cells > 0 && spent > earned + SCREENS_IN_ADVANCE * self.cells() {
            self.left_out += 1;
            return false;
        }
        self.spent = spent;
        true
    }
}

/// A window's title, from an operating system command (0 or 2).
fn title(body: &[u8], sink: &mut impl FnMut(Step<'_>)) {
    let Some(title) = body.strip_prefix(b"0;").or_else(|| body.strip_prefix(b"2;")) else { return };
    let mut kept = String::new();
    for character in String::from_utf8_lossy(title).chars().filter(|c| !c.is_control()) {
        if kept.len() + character.len_utf8() > TITLE_BYTES {
            break;
        }
        kept.push(character);
    }
    sink(Step::Title(&kept));
}

/// The character that the DEC special graphics set has in place of this one.
fn line_drawing(c: char) -> char {
    const FROM_UNDERSCORE: &str = "\u{a0}◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";
    match c {
        '_'..='~' => FROM_UNDERSCORE.chars().nth(c as usize - '_' as usize).unwrap_or(c),
        other => other,
    }
}

#[cfg(test)]
mod tests;
