use crate::input::Input;
use killcord_mcp::fuzzing::{Filtered, filter as filtered};
use killcord_mcp::terminal::prompt::looks_like_prompt;
use killcord_mcp::terminal::screen::{Screen, clamp};

/// What a program writes on its terminal: nothing of it breaks the terminal's model, the output of the filter is bounded
/// and is nothing that the filter would change again, and the places where the input is cut do not matter.
pub fn filter(data: &[u8]) {
    let mut input = Input(data);
    // Small ones: at a larger size there is more to compare, and nothing else.
    let mut size = || clamp(u16::from(input.byte()) % 128, u16::from(input.byte()) % 32);
    let (first, second) = (size(), size());
    let cut = 1 + usize::from(input.byte() % 16);
    let before = input.number();
    let before = input.take(usize::from(before));
    let after = input.take(usize::MAX);
    same_wherever_it_is_cut(first, before, cut);
    on_a_screen((first, second), [before, after], cut);
}

fn same_wherever_it_is_cut((columns, rows): (u16, u16), bytes: &[u8], cut: usize) {
    let (whole, left_out) = filtered(columns, rows, std::iter::once(bytes));
    assert_eq!((&whole, left_out), (&filtered(columns, rows, bytes.chunks(cut)).0, left_out));
    let shown: Vec<u8> = whole
        .iter()
        .flat_map(|part| match part {
            Filtered::Shown(bytes) => bytes.as_slice(),
            Filtered::Done(_) => &[],
        })
        .copied()
        .collect();
    // The longest sequence is one of colours: five digits and a sign for each of 32 parameters, left out in the input.
    assert!(shown.len() + whole.len() <= 8 * bytes.len() + 16, "{} became {}", bytes.len(), shown.len());
    assert!(looks_harmless(&shown), "{:?}", String::from_utf8_lossy(&shown));
    if left_out == 0 && whole.iter().all(|part| matches!(part, Filtered::Shown(_))) {
        let (again, left_out) = filtered(columns, rows, std::iter::once(&*shown));
        assert!(left_out > 0 || again == whole, "{whole:?} is filtered to {again:?}");
    }
}

/// Of what may go to the model: text, a few controls, and sequences that are whole and have bounded numbers.
fn looks_harmless(shown: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(shown) else { return false };
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        let fits = match next {
            '\x1b' => match rest.next() {
                Some('7' | '8' | '=' | '>') => true,
                Some('[') => {
                    let body: String = rest.by_ref().take_while(|c| !('@'..='~').contains(c)).collect();
                    body.len() < 256 && body.chars().all(|c| c.is_ascii_digit() || ";:?".contains(c))
                }
                _ => false,
            },
            '\x08' | '\n'..='\r' => true,
            other => other >= ' ' && other != '\x7f',
        };
        if !fits {
            return false;
        }
    }
    true
}

fn on_a_screen(sizes: ((u16, u16), (u16, u16)), halves: [&[u8]; 2], cut: usize) {
    let ((columns, rows), resized) = sizes;
    let mut whole = Screen::new(columns, rows);
    let mut parts = Screen::new(columns, rows);
    for (number, bytes) in halves.into_iter().enumerate() {
        if number == 1 {
            whole.resize(resized.0, resized.1);
            parts.resize(resized.0, resized.1);
        }
        let replies = whole.feed(bytes);
        assert!(replies.len() <= 3 * bytes.len() + 16, "{} bytes of answers", replies.len());
        let in_parts: Vec<u8> = bytes.chunks(cut).flat_map(|part| parts.feed(part)).collect();
        assert_eq!(replies, in_parts);
        assert_eq!(whole.lost() + parts.lost(), 0, "the model broke");
        let lines = whole.lines();
        assert_eq!(lines, parts.lines());
        assert_eq!((whole.cursor(), whole.title()), (parts.cursor(), parts.title()));
        assert_eq!(whole.is_alternate(), parts.is_alternate());
        assert_eq!(whole.left_out(), parts.left_out());
        let ((columns, rows), cursor) = (whole.size(), whole.cursor());
        assert!((1..=rows).contains(&cursor.line) && (1..=columns).contains(&cursor.column), "{cursor:?}");
        assert_eq!(lines.len(), usize::from(rows));
        assert!(whole.title().len() <= 256 && !whole.title().contains(char::is_control));
        for line in &lines {
            let _ = looks_like_prompt(line);
        }
    }
}
