use crate::input::Input;
use killcord_mcp::terminal::plain::{Plain, plain as whole};
use killcord_mcp::terminal::ring::Ring;

/// So many columns has a line that is held back, each with a character and what combines with it.
const HELD: usize = 4096 * (16 + 4 + 4);

/// Output as a reader gets it, by lines or by the last of its bytes: clean, bounded, and the same wherever it was cut.
pub fn plain(data: &[u8]) {
    let mut input = Input(data);
    let (cut, capacity, most) = (1 + input.byte() % 16, input.byte(), input.byte());
    let cursor = input.number();
    let output = input.take(usize::MAX);
    as_lines(output, usize::from(cut));
    kept_up_with(output, usize::from(cut), usize::from(most));
    late(output, usize::from(capacity), u64::from(cursor), usize::from(most));
}

fn as_lines(output: &[u8], cut: usize) {
    let mut parts = Plain::new();
    let mut text = String::new();
    for part in output.chunks(cut) {
        text.push_str(&parts.feed(part));
        assert!(parts.unfinished().len() <= HELD, "{} bytes are held back", parts.unfinished().len());
    }
    text.push_str(&parts.finish());
    assert_eq!(text, whole(output));
    let dirt = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(dirt, None, "{text:?}");
    // What is clean stays as it is.
    assert_eq!(whole(text.as_bytes()), text);
}

/// A reader that keeps up gets all of it, once and in order.
fn kept_up_with(output: &[u8], cut: usize, most: usize) {
    let mut ring = Ring::new(output.len());
    let (mut text, mut cursor) = (String::new(), 0);
    for part in output.chunks(cut) {
        ring.push(part);
        let piece = ring.read_from(cursor, most);
        assert_eq!((piece.start, piece.missed), (cursor, 0));
        text.push_str(&piece.text);
        cursor = piece.next;
    }
    ring.end();
    while cursor < ring.produced() {
        let piece = ring.read_from(cursor, most);
        assert!(piece.next > cursor, "it stands still at {cursor}");
        text.push_str(&piece.text);
        cursor = piece.next;
    }
    assert_eq!(text, String::from_utf8_lossy(output));
}

/// A reader that comes late is told what it has missed, and never gets half a character of what is text.
fn late(output: &[u8], capacity: usize, cursor: u64, most: usize) {
    let mut ring = Ring::new(capacity);
    ring.push(output);
    assert_eq!(ring.produced(), output.len() as u64);
    assert!(ring.produced() - ring.dropped() <= capacity.max(4) as u64);
    let piece = ring.read_from(cursor, most);
    assert!(piece.start <= piece.next && piece.next - piece.start <= most.max(4) as u64 + 3, "{piece:?}");
    let tail = ring.tail_lines(usize::from(most as u8 % 8), most);
    assert!(tail.next <= ring.produced() && tail.start >= ring.dropped(), "{tail:?}");
    assert!(tail.text.matches('\n').count() <= most % 8, "{tail:?}");
    if let Ok(text) = std::str::from_utf8(output) {
        for piece in [piece, tail] {
            assert!(text.contains(&piece.text), "{piece:?} is not in {text:?}");
        }
    }
}
