//! Colour and columns, where somebody looks.

use killcord_sys::terminal;
use std::io::{self, IsTerminal, Write};

/// How wide text is made for a pipe, and at most for a terminal: longer lines are hard to read.
const WIDEST: usize = 100;

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Look {
    /// As the terminal has it.
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Odd,
}

/// What standard output can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    /// Whether a person looks at it.
    pub(crate) terminal: bool,
    colour: bool,
    /// How wide it is.
    pub(crate) columns: usize,
}

impl Paint {
    /// Looks at standard output and at the environment (`NO_COLOR`, see no-color.org, and `TERM`).
    pub(crate) fn of_stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let columns = terminal::columns(io::stdout()).map_or(WIDEST, usize::from).min(WIDEST);
        Self { terminal, colour: terminal && !dumb && set("NO_COLOR").is_none(), columns }
    }

    /// For a pipe of this width.
    #[cfg(test)]
    pub(crate) fn plain(columns: usize) -> Self {
        Self { terminal: false, colour: false, columns }
    }

    /// A text in its look.
    pub(crate) fn text(self, look: Look, text: &str) -> String {
        let code = match look {
            Look::Plain => return text.to_owned(),
            Look::Bold => "1",
            Look::Dim => "2",
            Look::Good => "32",
            Look::Bad => "31",
            Look::Odd => "33",
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Cells below each other in columns, each row behind an indent of two.
    pub(crate) fn table(self, rows: &[Vec<(Look, String)>]) -> String {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|(_, t)| t.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        let mut out = String::new();
        for row in rows {
            let mut line = String::from("  ");
            for (c, (look, text)) in row.iter().enumerate() {
                line.push_str(&self.text(*look, text));
                let last = row[c + 1..].iter().all(|(_, t)| t.is_empty());
                if !last {
                    line.push_str(&" ".repeat(widths[c] - text.chars().count() + 2));
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// Text in lines that fit, the first behind `first`, the others behind as many blanks; never broken at
    /// a blank of the kind U+00A0.
    pub(crate) fn wrapped(self, first: &str, look: Look, text: &str) -> String {
        let indent = first.chars().count();
        let room = self.columns.saturating_sub(indent).max(20);
        let mut lines: Vec<String> = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.len() - 1;
            let used = lines[line].chars().count();
            if used > 0 && used + 1 + word.chars().count() > room {
                lines.push(word.to_owned());
            } else {
                if used > 0 {
                    lines[line].push(' ');
                }
                lines[line].push_str(word);
            }
        }
        let blank = " ".repeat(indent);
        let painted = lines.iter().enumerate().map(|(i, line)| {
            let front = if i == 0 { first } else { &blank };
            format!("{front}{}\n", self.text(look, line))
        });
        painted.collect()
    }
}

/// Writes to standard output, at once. A blank at which no line was to be broken is a plain one there.
pub(crate) fn show(text: &str) {
    let text = text.replace('\u{a0}', " ");
    let mut out = io::stdout().lock();
    // Whoever stopped reading does not want the rest.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_lines_end_with_text() {
        let row = |a: &str, b: &str| vec![(Look::Bold, a.to_owned()), (Look::Dim, b.to_owned())];
        let table = Paint::plain(80).table(&[row("a", "x"), row("long", ""), row("é", "y")]);
        assert_eq!(table, "  a     x\n  long\n  é     y\n");
    }

    #[test]
    fn a_long_text_is_broken_between_words_behind_its_front() {
        let text = Paint::plain(30).wrapped("  - ", Look::Plain, "one two three four five six seven");
        assert_eq!(text, "  - one two three four five\n    six seven\n");
    }

    #[test]
    fn colour_is_closed_where_it_was_opened() {
        let paint = Paint { terminal: true, colour: true, columns: 80 };
        assert_eq!(paint.text(Look::Bad, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint::plain(80).text(Look::Bad, "x"), "x");
    }
}
