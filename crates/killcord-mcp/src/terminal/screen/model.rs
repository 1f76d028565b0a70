//! `vt100`, and around it what it lacks or does otherwise than terminals do.

use unicode_width::UnicodeWidthChar as _;
use vt100::Parser;

use super::SIZES;
use crate::terminal::filter::{Placing, Query, Step};

/// `vt100`, and what it lacks.
pub(super) struct Model {
    pub(super) parser: Parser,
    pub(super) title: String,
    /// The first and the last line, from 0, between which the main and the alternate screen scroll.
    regions: [(u16, u16); 2],
}

impl Model {
    pub(super) fn new(columns: u16, rows: u16) -> Self {
        Self { parser: Parser::new(rows, columns, 0), title: String::new(), regions: [(0, rows - 1); 2] }
    }

    pub(super) fn step(&mut self, step: &Step<'_>, replies: &mut Vec<u8>) {
        match *step {
            Step::Show(bytes) => self.parser.process(bytes),
            Step::Place(character, placing) => self.place(character, placing),
            Step::Repeat(character, count, placing) => self.repeat(character, count, placing),
            Step::Region(top, bottom) => self.set_region(top, bottom),
            Step::Lines(action, count) => self.move_lines(action, count),
            Step::ReverseIndex => {
                // `vt100` would scroll a region below.
                if self.parser.screen().cursor_position().0 > 0 || self.region().0 == 0 {
                    self.parser.process(b"\x1bM");
                }
            }
            Step::Reset => self.reset(),
            Step::Alternate => self.enter_alternate(),
            Step::Tab(count) => self.tab(count),
            Step::BackTab(count) => {
                let column = self.parser.screen().cursor_position().1;
                let target = (column.div_ceil(8).saturating_sub(count)) * 8;
                self.control(format_args!("\x1b[{}G", target + 1));
            }
            Step::Ask(query) => self.answer(query, replies),
            Step::Title(title) => title.clone_into(&mut self.title),
        }
    }

    fn repeat(&mut self, character: char, count: u16, placing: Placing) {
        let (_, columns) = self.parser.screen().size();
        let (_, column) = self.parser.screen().cursor_position();
        let width = character.width().unwrap_or(1).max(1) as u16;
        for _ in 0..count.min(columns.saturating_sub(column) / width) {
            self.place(character, placing);
        }
    }

    fn set_region(&mut self, top: u16, bottom: u16) {
        let (rows, _) = self.parser.screen().size();
        let region = (top.max(1) - 1, if bottom == 0 { rows } else { bottom } - 1);
        // One that is upside down, or a single line, is none.
        if region.0 < region.1 {
            *self.region() = region;
            // The cursor goes to the first line of the region in origin mode only; in `vt100` always.
            self.control(format_args!("\x1b[{top};{bottom}r\x1b[H"));
        }
    }

    fn move_lines(&mut self, action: u8, count: u16) {
        // `vt100` would move lines on the other side of the edge.
        let (row, _) = self.parser.screen().cursor_position();
        let (top, bottom) = *self.region();
        if (top..=bottom).contains(&row) {
            let count = count.min(bottom - row + 1);
            self.control(format_args!("\x1b[{count}{}", char::from(action)));
        }
    }

    fn enter_alternate(&mut self) {
        // The cursor stays where it is; `vt100` would move it to the corner.
        let (line, column) = self.cursor();
        self.control(format_args!("\x1b[?1049h\x1b[{line};{column}H"));
        let (rows, _) = self.parser.screen().size();
        *self.region() = (0, rows - 1);
    }

    fn tab(&mut self, count: u16) {
        let (_, columns) = self.parser.screen().size();
        let (_, column) = self.parser.screen().cursor_position();
        // Behind the last column it stays: the next character still wraps.
        if column < columns {
            let target = (column / 8).saturating_add(count).saturating_mul(8);
            self.control(format_args!("\x1b[{}G", target.min(columns - 1) + 1));
        }
    }

    /// `vt100` would keep both screens until it has made new ones, which takes half as much memory again.
    fn reset(&mut self) {
        let (rows, columns) = self.parser.screen().size();
        let (least, _) = SIZES.into_inner();
        self.parser = Parser::new(least, least, 0);
        *self = Self::new(columns, rows);
    }

    fn control(&mut self, sequence: std::fmt::Arguments<'_>) {
        self.parser.process(sequence.to_string().as_bytes());
    }

    /// Between which lines the screen that is shown scrolls.
    fn region(&mut self) -> &mut (u16, u16) {
        &mut self.regions[usize::from(self.parser.screen().alternate_screen())]
    }

    /// Line and column, from 1. Behind the last column, where the next character wraps, it is on the last one.
    pub(super) fn cursor(&self) -> (u16, u16) {
        let (row, column) = self.parser.screen().cursor_position();
        let (_, columns) = self.parser.screen().size();
        (row + 1, (column + 1).min(columns))
    }

    fn place(&mut self, character: char, placing: Placing) {
        let width = character.width().unwrap_or(0) as u16;
        let (_, columns) = self.parser.screen().size();
        let has_room = self.parser.screen().cursor_position().1 + width <= columns;
        if !has_room && !placing.wrap {
            return;
        }
        if placing.insert && has_room && width > 0 {
            self.control(format_args!("\x1b[{width}@"));
        }
        self.parser.process(character.encode_utf8(&mut [0; 4]).as_bytes());
        if !placing.wrap && self.parser.screen().cursor_position().1 >= columns {
            // It stays on the last column, so that the next character overwrites this one.
            self.control(format_args!("\x1b[{columns}G"));
        }
    }

    fn answer(&self, query: Query, replies: &mut Vec<u8>) {
        match query {
            // A VT100 with the advanced video option, as tmux says.
            Query::PrimaryAttributes => replies.extend_from_slice(b"\x1b[?1;2c"),
            // A VT100 of version 10: editors do not ask on for what a newer terminal might have.
            Query::SecondaryAttributes => replies.extend_from_slice(b"\x1b[>0;10;0c"),
            Query::Status => replies.extend_from_slice(b"\x1b[0n"),
            Query::CursorPosition => {
                let (line, column) = self.cursor();
                replies.extend_from_slice(format!("\x1b[{line};{column}R").as_bytes());
            }
        }
    }

    /// `vt100` cuts a wide character in half at the new edge and panics on the half later, on the hidden one of
    /// its two screens too. So these are cleared before.
    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        let alternate = self.parser.screen().alternate_screen();
        let other = |on: bool| if on { b"\x1b[?47h" } else { b"\x1b[?47l" };
        self.prepare(columns);
        self.parser.process(other(!alternate));
        self.prepare(columns);
        self.parser.process(other(alternate));
        self.parser.screen_mut().set_size(rows, columns);
        self.regions = [(0, rows - 1); 2];
    }

    fn prepare(&mut self, columns: u16) {
        let (row, column) = self.parser.screen().cursor_position();
        // Without a region, lines count from the top in origin mode as well.
        self.parser.process(b"\x1b[r");
        let (rows, old) = self.parser.screen().size();
        for row in (0..rows).filter(|_| columns < old) {
            if self.parser.screen().cell(row, columns - 1).is_some_and(vt100::Cell::is_wide) {
                self.control(format_args!("\x1b[{};{columns}H\x1b[X", row + 1));
            }
        }
        self.control(format_args!("\x1b[{};{}H", row + 1, column.min(old - 1) + 1));
    }
}
