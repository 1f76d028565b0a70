//! A screen is what tmux shows for the same bytes.
//!
//! Promised: for what real programs write (vim, less, htop, a shell whose lines have wide and combining characters),
//! and for the sequences in `cases`, each line, the place of the cursor and which of the two screens it is are the
//! same as in tmux. Not promised: what the documentation of `terminal::screen` lists as different.
//!
//! The files in `tests/recordings` are what such programs wrote; with `KILLCORD_RECORD=1` the live tests write them
//! anew. `tests/recordings` needs tmux alone, the live tests need the programs too.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod live;
mod tmux;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use killcord_mcp::terminal::screen::Screen;
use killcord_testkit::skip;

use tmux::{Shown, Tmux};

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// What our screen shows for these bytes, fed in parts that cut sequences and characters.
fn ours(bytes: &[u8]) -> Shown {
    let mut screen = Screen::new(COLUMNS, ROWS);
    for part in bytes.chunks(7) {
        let _ = screen.feed(part);
    }
    assert_eq!((screen.lost(), screen.left_out()), (0, 0));
    let cursor = screen.cursor();
    Shown { lines: screen.lines(), cursor: (cursor.column, cursor.line), alternate: screen.is_alternate() }
}

fn assert_same(name: &str, tmux: &Tmux, bytes: &[u8]) {
    assert_eq!(differences(name, tmux, bytes), "");
}

/// Empty if it is the same.
fn differences(name: &str, tmux: &Tmux, bytes: &[u8]) -> String {
    let (ours, theirs) = (ours(bytes), tmux.show(bytes));
    let mut differences = String::new();
    for (number, (ours, theirs)) in ours.lines.iter().zip(&theirs.lines).enumerate() {
        if ours != theirs {
            let number = number + 1;
            write!(differences, "{name}, line {number}:\n  ours {ours:?}\n  tmux {theirs:?}\n").unwrap();
        }
    }
    if differences.is_empty() && ours != theirs {
        differences = format!("{name}:\n  ours {ours:?}\n  tmux {theirs:?}\n");
    }
    differences
}

#[test]
fn recorded_screens_are_those_of_tmux() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    for name in ["vim", "vim-windows", "less", "htop", "shell", "dialog"] {
        let path = recordings().join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_same(name, &tmux, &bytes);
    }
}

/// Without the last of it the screen is another one: the comparison sees differences.
#[test]
fn half_a_recording_shows_something_else() {
    let bytes = std::fs::read(recordings().join("less")).unwrap();
    assert_ne!(ours(&bytes), ours(&bytes[..bytes.len() / 2]));
    let bytes = std::fs::read(recordings().join("shell")).unwrap();
    let other = String::from_utf8(bytes.clone()).unwrap().replace('日', "a");
    assert_ne!(ours(&bytes), ours(other.as_bytes()));
}

#[test]
fn sequences_do_what_they_do_in_tmux() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    let full: Vec<String> = (1..=24).map(|n| format!("\x1b[{n}Hline {n}: abcdefghij 日本語")).collect();
    let full = full.concat();
    let different =
        CASES.iter().map(|(name, sequence)| differences(name, &tmux, format!("{full}{sequence}").as_bytes()));
    let different: String = different.collect();
    assert!(different.is_empty(), "\n{different}");
}

/// Sequences by chance, the same ones each time: movement, text at and over the edges, erasing, inserting, deleting,
/// scrolling, regions, both screens.
#[test]
fn sequences_by_chance_do_what_they_do_in_tmux() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    let mut chance = Chance(1, false);
    let mut different = String::new();
    for number in 0..100 {
        // tmux cuts wide characters in half otherwise than others do, so these are only written and overwritten.
        let is_wide = number % 3 == 0;
        chance.1 = false;
        let mut pieces: Vec<String> =
            (0..120).map(|_| piece(&mut chance, is_wide, number % 2 == 0)).collect();
        if differences("", &tmux, pieces.concat().as_bytes()).is_empty() {
            continue;
        }
        // Without what does not matter for it.
        for index in (0..pieces.len()).rev() {
            let without = [&pieces[..index], &pieces[index + 1..]].concat();
            if !differences("", &tmux, without.concat().as_bytes()).is_empty() {
                pieces = without;
            }
        }
        let bytes = pieces.concat();
        different = differences(&format!("number {number}: {bytes:?}"), &tmux, bytes.as_bytes());
        break;
    }
    assert!(different.is_empty(), "\n{different}");
}

/// Knuth's linear congruential generator; and whether the alternate screen is shown.
struct Chance(u64, bool);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn piece(chance: &mut Chance, is_wide: bool, is_saving: bool) -> String {
    let (line, column, few) = (chance.below(26), chance.below(84), chance.below(4));
    match chance.below(if is_wide { 8 } else { 24 }) {
        // Nor is tmux right about the second half of one on the first column.
        0 | 1 if column == 2 => "\x1b[H".to_owned(),
        0 | 1 => format!("\x1b[{line};{column}H"),
        2 => "\r\n".to_owned(),
        3 => "\t".to_owned(),
        4 if is_wide => "日本語e\u{301}\u{308}".to_owned(),
        5 if is_wide => "한글\u{301}x".to_owned(),
        4..=7 => "text of some words".chars().take(column as usize).collect(),
        8 => format!("\x1b[{few}J"),
        9 | 10 => format!("\x1b[{few}K"),
        11 => format!("\x1b[{few}X"),
        12 => format!("\x1b[{few}@"),
        13 => format!("\x1b[{few}P"),
        14 => format!("\x1b[{few}S"),
        15 => format!("\x1b[{few}{}", ['A', 'B', 'C', 'D', 'E', 'F'][column as usize % 6]),
        16 => format!("\x1b[{line}d\x1b[{column}G"),
        17 => "\x1bM\x1bM".to_owned(),
        18 => "\n\n\x1bD".to_owned(),
        19 => format!("\x1b[{};{}r", few + 1, few + 9),
        // The cursor is in the region.
        20 => format!(
            "\x1b[{};{}r\x1b[{};1H\x1b[{few}{}",
            few + 1,
            few + 9,
            few + 3,
            ['L', 'M'][column as usize % 2]
        ),
        21 => "\x1b[r".to_owned(),
        // Never both, and the main screen only from the other one: see the documentation of `screen`.
        22 if is_saving => ["\x1b7", "\x1b8", "\x1b[?7l", "\x1b[?7h"][column as usize % 4].to_owned(),
        22 if line < 13 => ["\x1b[4h", "\x1b[4l"][column as usize % 2].to_owned(),
        22 => {
            chance.1 = !chance.1;
            if chance.1 { "\x1b[r\x1b[?1049h" } else { "\x1b[r\x1b[?1049l" }.to_owned()
        }
        _ => format!("x\x1b[{column}b\x08y\x1b[Z"),
    }
}

/// Written over 24 lines of text.
const CASES: &[(&str, &str)] = &[
    (
        "erase",
        "\x1b[5;8H\x1b[K\x1b[6;8H\x1b[1K\x1b[7;8H\x1b[2K\x1b[8;8H\x1b[3X\x1b[20;5H\x1b[J\x1b[3;5H\x1b[1J",
    ),
    ("overwrite half of a wide character", "\x1b[5;22H\x1b[K\x1b[8;22Hx\x1b[9;21Hx\x1b[10;22H日"),
    (
        "insert and delete characters",
        "\x1b[5;8H\x1b[4@\x1b[6;8H\x1b[4P\x1b[8;8H\x1b[99P\x1b[9;70Hend\x1b[9;1H\x1b[9@",
    ),
    ("insert and delete lines", "\x1b[5;8H\x1b[2L\x1b[10;3H\x1b[3M\x1b[20H\x1b[99M\x1b[2;2H"),
    (
        "lines in a region",
        "\x1b[5;10r\x1b[6;1H\x1b[2L\x1b[9;1H\x1b[M\x1b[10;1H\nnew\x1b[5;1H\x1bMtop\x1b[r\x1b[3;3H",
    ),
    ("lines outside of a region", "\x1b[5;10r\x1b[1;1H\x1bM\x1b[24;1H\n\n\x1b[r"),
    ("no regions", "\x1b[10;5rx\x1b[6;6ry\x1b[24;1H\nz\x1b[9;99r\x1b[24;1H\nu"),
    ("scroll", "\x1b[3S\x1b[5;10r\x1b[2T\x1b[r\x1b[T"),
    ("origin", "\x1b[5;10r\x1b[?6h\x1b[1;1Ha\x1b[99;1Hb\x1b[2;3Hc\x1b[?6l\x1b[1;1Hd\x1b[r"),
    (
        "at the end of the line",
        "\x1b[5;79Habcd\x1b[7;79Hab\rcd\x1b[9;80Ha\x1b[Db\x1b[11;80Ha\x08b\x1b[13;79H日本\x1b[15;80H日\x1b[17;80Ha\nb",
    ),
    ("no wrap", "\x1b[?7l\x1b[5;78Habcdef\x1b[?7h"),
    ("insert mode", "\x1b[4h\x1b[5;8Hxyz\x1b[4l\x1b[5;8Hq"),
    ("save and restore", "\x1b[5;8H\x1b7\x1b[9;9H\x1b8a\x1b[7;7H\x1b[s\x1b[H\x1b[ub"),
    ("the other screen", "\x1b[5;8H\x1b[?1049hother\x1b[?1049lback"),
    ("stay on the other screen", "\x1b[5;8H\x1b[?1049h\x1b[Hother\x1b[3;3Htext"),
    ("repeat", "\x1b[5;8H-\x1b[10b+\x1b[99b"),
    ("tabs", "\x1b[5;3H\ta\tb\x1b[Zc\x1b[7;50H\x1b[2Zd"),
    ("movement", "\x1b[5;8Ha\x1b[3Bb\x1b[2Ac\x1b[5Cd\x1b[9De\x1b[2Ef\x1b[3Fg\x1b[9Gh\x1b[12di\x1b[4`j"),
    ("beyond the edges", "\x1b[99;99Ha\x1b[H\x1b[9D\x1b[9Ab\x1b[99Bc\x1b[99Cd"),
    ("combining", "\x1b[5;8He\u{301}x\u{308}\u{301}日\u{301}\x1b[6;80He\u{301}f\u{301}\x1b[8;1H\u{301}a"),
    (
        "strings",
        "\x1b[5;8Ha\x1b]2;title\x07b\x1bPq1\x1b\\c\x1b_x\x1b\\d\x1b^y\x1b\\e\x1bXz\x1b\\f\x1bktitle\x1b\\g",
    ),
    ("index", "\x1b[5;8Ha\x1bDb\x1bEc\x1bMd\x1b[24;5H\x1bDe\x1b[1;5H\x1bMf"),
    ("reset", "\x1b[5;10r\x1b[?25l\x1bcnew"),
];
