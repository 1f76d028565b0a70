//! What a terminal shows.
//!
//! A program with a full screen is read by what it shows, not by what it wrote. [`Screen`] is `vt100` behind the
//! filter, with the answers that programs wait for. Lines that have left the screen are not kept:
//! the [`Ring`](super::ring::Ring) has them.
//!
//! # Where it differs from tmux
//!
//! - At a new width lines are cut, not wrapped anew, as in xterm: a program with a full screen draws anew, and a
//!   shell draws its last line. The scrolling region is reset, as tmux does.
//! - Bytes that are no UTF-8 are shown as U+FFFD; tmux 3.3 leaves them out.
//! - Characters are as wide as Unicode 16 says (crate `unicode-width`), each by itself; tmux asks the C library, and
//!   joins emoji sequences. A cell keeps at most 18 bytes of combining characters.
//! - What xterm does and tmux 3.3 does not: `CSI I`, `a` and `e`; REP of a character that is not ASCII; blanks
//!   inserted over more than half of what is there (tmux forgets to clear some of it); lines inserted and deleted outside of the scrolling region (nothing happens).
//! - Half of a wide character that is erased leaves two blanks; tmux prints the line a column shorter. Line drawing
//!   characters are given as they look; `capture-pane` gives the letters that stand for them.
//! - Each of the two screens has a scrolling region of its own; elsewhere one that an editor forgot stays.
//! - `CSI ? 1049 h` saves the cursor where `ESC 7` does.
//! - Tab stops are every eight columns whatever the program sets.
//! - The sequences that the filter leaves out: `CSI t`, mouse modes, pass-through, images, DECALN, DECSTR.

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::filter::{BROKEN, Filter};
use model::Model;

/// The smallest and the largest number of columns and of rows. `vt100` panics with a single row or column.
pub const SIZES: std::ops::RangeInclusive<u16> = 2..=500;

/// Puts a size into [`SIZES`]. The terminal that the program has must get this size too.
pub fn clamp(columns: u16, rows: u16) -> (u16, u16) {
    (columns.clamp(*SIZES.start(), *SIZES.end()), rows.clamp(*SIZES.start(), *SIZES.end()))
}

/// What a terminal shows.
pub struct Screen {
    filter: Filter,
    model: Model,
    lost: u64,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("size", &self.size()).field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// Where the cursor is; both count from 1, as people and terminals do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// From the top.
    pub line: u16,
    /// From the left.
    pub column: u16,
    /// The program has hidden it.
    pub hidden: bool,
}

impl Screen {
    /// An empty screen. Sizes outside of [`SIZES`] are changed to the nearest one.
    pub fn new(columns: u16, rows: u16) -> Self {
        let (columns, rows) = clamp(columns, rows);
        Self { filter: Filter::new(columns, rows), model: Model::new(columns, rows), lost: 0 }
    }

    /// Shows output of the program. Gives what the terminal answers to it, at most three bytes for each byte fed;
    /// they must be written to the program as if typed.
    #[must_use = "the program waits for the answers"]
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut replies = Vec::new();
        let Self { filter, model, .. } = self;
        let fed = AssertUnwindSafe(|| filter.feed(bytes, &mut |step| model.step(&step, &mut replies)));
        if catch_unwind(fed).is_err() {
            self.lose();
        }
        replies
    }

    /// Changes the size; lines are cut or padded.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let (columns, rows) = clamp(columns, rows);
        self.filter.resize(columns, rows);
        if catch_unwind(AssertUnwindSafe(|| self.model.resize(columns, rows))).is_err() {
            self.lose();
        }
    }

    /// The last net: the model broke, and begins anew with an empty screen, which says so.
    fn lose(&mut self) {
        let (columns, rows) = self.filter.size();
        *self = Self { lost: self.lost + 1, ..Self::new(columns, rows) };
        self.model.parser.process(b"[screen lost: the terminal could not be followed]\r\n");
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.model.parser.screen().size();
        (columns, rows)
    }

    /// Every line of the screen, without blanks at its end.
    pub fn lines(&self) -> Vec<String> {
        let (columns, _) = self.size();
        let line = |row: String| row.trim_end_matches(' ').replace(BROKEN, "\u{fffd}");
        self.model.parser.screen().rows(0, columns).map(line).collect()
    }

    /// The screen for a reader: its lines without blanks at their ends, down to the last one that is not empty.
    pub fn text(&self) -> String {
        let mut text = self.lines().join("\n");
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// Where the cursor is.
    pub fn cursor(&self) -> Cursor {
        let (line, column) = self.model.cursor();
        Cursor { line, column, hidden: self.model.parser.screen().hide_cursor() }
    }

    /// Whether the program has taken the whole screen, as editors and pagers do.
    pub fn is_alternate(&self) -> bool {
        self.model.parser.screen().alternate_screen()
    }

    /// The title that the program gave the window; empty if it gave none.
    pub fn title(&self) -> &str {
        &self.model.title
    }

    /// Whether arrow keys are sent the application's way (DECCKM), for [`keys`](super::keys::keys).
    pub fn application_cursor(&self) -> bool {
        self.model.parser.screen().application_cursor()
    }

    /// Whether the program wants to know what is pasted, for [`paste`](super::keys::paste).
    pub fn bracketed_paste(&self) -> bool {
        self.model.parser.screen().bracketed_paste()
    }

    /// How many sequences were left out because they cost too much: the screen may not be what the program meant.
    pub fn left_out(&self) -> u64 {
        self.filter.left_out()
    }

    /// How often the screen was lost. Nothing is known that does that.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests;
