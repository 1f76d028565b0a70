//! Names of keys as the bytes that xterm sends for them.
//!
//! `ctrl+c`, `enter`, `shift+tab`, `alt+x`, `f1`: an agent names keys as people do, and a program gets what it would
//! get from a person. References: `ctlseqs` of xterm, and its terminfo entry.

/// A name that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no key is called {name:?}; {}", hint(.close))]
pub struct UnknownKey {
    /// The name, shortened if it was long.
    pub name: String,
    /// Keys with a similar name; may be empty.
    pub close: Vec<String>,
}

fn hint(close: &[String]) -> String {
    if close.is_empty() {
        return "keys are single characters, enter, tab, esc, space, backspace, delete, insert, home, end, pageup, \
                pagedown, up, down, left, right and f1 to f12, after ctrl+, alt+ or shift+, with blanks between keys"
            .to_owned();
    }
    format!("did you mean {}?", close.join(" or "))
}

/// What a key sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// A character, which modifiers change.
    Character(char),
    /// `ESC [ A`, or `ESC O A` where the application has asked for it; modified `ESC [ 1 ; m A`.
    Cursor(char),
    /// F1 to F4: `ESC O P`; modified `ESC [ 1 ; m P`.
    Function(char),
    /// `ESC [ 3 ~`; modified `ESC [ 3 ; m ~`.
    Numbered(u8),
}

/// Every name; where a key has several, the first is the one that is proposed.
const NAMES: &[(&str, Key)] = &[
    ("enter", Key::Character('\r')),
    ("return", Key::Character('\r')),
    ("tab", Key::Character('\t')),
    ("esc", Key::Character('\x1b')),
    ("escape", Key::Character('\x1b')),
    ("space", Key::Character(' ')),
    ("backspace", Key::Character('\x7f')),
    ("delete", Key::Numbered(3)),
    ("del", Key::Numbered(3)),
    ("insert", Key::Numbered(2)),
    ("ins", Key::Numbered(2)),
    ("home", Key::Cursor('H')),
    ("end", Key::Cursor('F')),
    ("pageup", Key::Numbered(5)),
    ("pgup", Key::Numbered(5)),
    ("pagedown", Key::Numbered(6)),
    ("pgdn", Key::Numbered(6)),
    ("up", Key::Cursor('A')),
    ("down", Key::Cursor('B')),
    ("right", Key::Cursor('C')),
    ("left", Key::Cursor('D')),
    ("f1", Key::Function('P')),
    ("f2", Key::Function('Q')),
    ("f3", Key::Function('R')),
    ("f4", Key::Function('S')),
    ("f5", Key::Numbered(15)),
    ("f6", Key::Numbered(17)),
    ("f7", Key::Numbered(18)),
    ("f8", Key::Numbered(19)),
    ("f9", Key::Numbered(20)),
    ("f10", Key::Numbered(21)),
    ("f11", Key::Numbered(23)),
    ("f12", Key::Numbered(24)),
];

#[derive(Debug, Clone, Copy, Default)]
struct Modifiers {
    shift: bool,
    alt: bool,
    ctrl: bool,
}

impl Modifiers {
    /// Xterm's number for them; `None` for none.
    fn number(self) -> Option<u8> {
        let number = 1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl);
        (number > 1).then_some(number)
    }
}

/// The bytes for keys with blanks between them, like `ctrl+c enter up f1 alt+x`.
///
/// `application_cursor` is what the program has asked for (DECCKM). Names are the same in capitals; single characters
/// are not.
pub fn keys(names: &str, application_cursor: bool) -> Result<Vec<u8>, UnknownKey> {
    let mut bytes = Vec::new();
    for name in names.split_whitespace() {
        let (modifiers, key) = parse(name).ok_or_else(|| unknown(name))?;
        send(key, modifiers, application_cursor, &mut bytes).ok_or_else(|| unknown(name))?;
    }
    Ok(bytes)
}

fn parse(name: &str) -> Option<(Modifiers, Key)> {
    let mut modifiers = Modifiers::default();
    let mut rest = name;
    while let Some((first, after)) =
        rest.split_once('+').filter(|(first, after)| !first.is_empty() && !after.is_empty())
    {
        match first.to_ascii_lowercase().as_str() {
            "shift" => modifiers.shift = true,
            "alt" | "meta" | "option" => modifiers.alt = true,
            "ctrl" | "control" => modifiers.ctrl = true,
            _ => return None,
        }
        rest = after;
    }
    let mut characters = rest.chars();
    if let (Some(character), None) = (characters.next(), characters.next()) {
        return Some((modifiers, Key::Character(character)));
    }
    let rest = rest.to_ascii_lowercase();
    NAMES.iter().find(|(name, _)| *name == rest).map(|(_, key)| (modifiers, *key))
}

/// `None` where such a key sends nothing.
fn send(key: Key, modifiers: Modifiers, application_cursor: bool, bytes: &mut Vec<u8>) -> Option<()> {
    let sequence = match (key, modifiers.number()) {
        (Key::Character(character), _) => return send_character(character, modifiers, bytes),
        (Key::Cursor(action) | Key::Function(action), Some(number)) => format!("\x1b[1;{number}{action}"),
        (Key::Cursor(action), None) if application_cursor => format!("\x1bO{action}"),
        (Key::Cursor(action), None) => format!("\x1b[{action}"),
        (Key::Function(action), None) => format!("\x1bO{action}"),
        (Key::Numbered(key), Some(number)) => format!("\x1b[{key};{number}~"),
        (Key::Numbered(key), None) => format!("\x1b[{key}~"),
    };
    bytes.extend_from_slice(sequence.as_bytes());
    Some(())
}

fn send_character(character: char, modifiers: Modifiers, bytes: &mut Vec<u8>) -> Option<()> {
    if modifiers.alt {
        bytes.push(0x1b);
    }
    if modifiers.shift && character == '\t' {
        bytes.extend_from_slice(b"\x1b[Z");
        return Some(());
    }
    let character = if modifiers.ctrl {
        controlled(character)?
    } else if modifiers.shift {
        character.to_ascii_uppercase()
    } else {
        character
    };
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

/// What a character becomes with the control key.
fn controlled(character: char) -> Option<char> {
    Some(match character {
        'a'..='z' | 'A'..='Z' | '@' | '[' | '\\' | ']' | '^' | '_' => char::from(character as u8 & 0x1f),
        ' ' | '2' => '\0',
        '3'..='7' => char::from(character as u8 - b'3' + 0x1b),
        '/' => '\x1f',
        '8' | '?' => '\x7f',
        '\x7f' => '\x08',
        '\r' | '\t' | '\x1b' => character,
        _ => return None,
    })
}

fn unknown(name: &str) -> UnknownKey {
    let name: String = name.chars().take(40).collect();
    let (modifiers, key) = match name.rsplit_once('+') {
        Some((modifiers, key)) => (format!("{modifiers}+").to_ascii_lowercase(), key),
        None => (String::new(), name.as_str()),
    };
    let mut close = Vec::new();
    let mut letters = key.chars();
    match (letters.next(), letters.next(), letters.next(), letters.next()) {
        // As in `^C`, and in tmux and Emacs.
        (Some('^'), Some(letter), None, _) => close.push(format!("ctrl+{}", letter.to_ascii_lowercase())),
        (Some('C'), Some('-'), Some(letter), None) => close.push(format!("ctrl+{letter}")),
        (Some('M'), Some('-'), Some(letter), None) => close.push(format!("alt+{letter}")),
        _ => {
            let key = key.to_ascii_lowercase();
            let mut near: Vec<(usize, &str)> =
                NAMES.iter().map(|(name, _)| (distance(&key, name), *name)).collect();
            near.retain(|(distance, name)| *distance <= 2 && *distance < name.len().min(key.len()));
            let nearest = near.iter().map(|(distance, _)| *distance).min();
            near.retain(|(distance, _)| Some(*distance) == nearest);
            let known = modifiers
                .split_terminator('+')
                .all(|m| matches!(m, "ctrl" | "alt" | "shift" | "control" | "meta" | "option"));
            let modifiers = if known { modifiers } else { String::new() };
            close.extend(near.iter().take(3).map(|(_, name)| format!("{modifiers}{name}")));
        }
    }
    // What is meant may still be no key: `^ä` is none with ctrl.
    close.retain(|name| is_key(name));
    UnknownKey { name, close }
}

fn is_key(name: &str) -> bool {
    parse(name).is_some_and(|(modifiers, key)| send(key, modifiers, false, &mut Vec::new()).is_some())
}

/// How many letters are to be changed, added or left out to come from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.chars().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// The bytes for a pasted text. Ends of lines are sent as Enter, as terminals do. Where the program wants to know
/// that it is pasted (`bracketed`), the text is put between markers; a marker inside it, with which the rest would
/// count as typed, is left out.
pub fn paste(text: &str, bracketed: bool) -> Vec<u8> {
    const BEGIN: &str = "\x1b[200~";
    const END: &str = "\x1b[201~";
    let text = text.replace("\r\n", "\r").replace('\n', "\r");
    if !bracketed {
        return text.into_bytes();
    }
    let mut pasted = BEGIN.to_owned();
    for character in text.chars() {
        pasted.push(character);
        // Looked at as it grows: leaving out one marker may make another of what was around it.
        for marker in [END, "\u{9b}201~"] {
            if pasted.ends_with(marker) {
                pasted.truncate(pasted.len() - marker.len());
            }
        }
    }
    pasted.push_str(END);
    pasted.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(names: &str) -> String {
        String::from_utf8(keys(names, false).unwrap()).unwrap()
    }

    #[test]
    fn each_key_sends_what_xterm_does() {
        for (names, bytes) in [
            ("enter return tab esc escape space", "\r\r\t\x1b\x1b "),
            ("backspace delete insert", "\x7f\x1b[3~\x1b[2~"),
            ("home end pageup pagedown", "\x1b[H\x1b[F\x1b[5~\x1b[6~"),
            ("up down left right", "\x1b[A\x1b[B\x1b[D\x1b[C"),
            ("f1 f2 f3 f4 f5 f6", "\x1bOP\x1bOQ\x1bOR\x1bOS\x1b[15~\x1b[17~"),
            ("f7 f8 f9 f10 f11 f12", "\x1b[18~\x1b[19~\x1b[20~\x1b[21~\x1b[23~\x1b[24~"),
            ("ctrl+a ctrl+C CTRL+z", "\x01\x03\x1a"),
            ("ctrl+[ ctrl+\\ ctrl+] ctrl+^ ctrl+_ ctrl+@ ctrl+space ctrl+?", "\x1b\x1c\x1d\x1e\x1f\0\0\x7f"),
            ("ctrl+backspace alt+backspace", "\x08\x1b\x7f"),
            ("alt+x alt+X alt+enter ctrl+alt+a", "\x1bx\x1bX\x1b\r\x1b\x01"),
            ("shift+tab shift+a", "\x1b[ZA"),
            ("shift+up alt+up ctrl+up ctrl+shift+left", "\x1b[1;2A\x1b[1;3A\x1b[1;5A\x1b[1;6D"),
            ("ctrl+f1 shift+f5 ctrl+alt+delete", "\x1b[1;5P\x1b[15;2~\x1b[3;7~"),
            (": w q ! + ä 日 alt++", ":wq!+ä日\x1b+"),
            ("", ""),
        ] {
            assert_eq!(sent(names), bytes, "{names}");
        }
    }

    #[test]
    fn the_application_may_have_other_arrows() {
        assert_eq!(keys("up home f1 shift+up pageup", true).unwrap(), b"\x1bOA\x1bOH\x1bOP\x1b[1;2A\x1b[5~");
    }

    #[test]
    fn an_unknown_key_says_which_are_close() {
        for (name, close) in [
            ("entr", &["enter"][..]),
            ("page-up", &["pageup"]),
            ("ctrl+lefft", &["ctrl+left"]),
            ("^C", &["ctrl+c"]),
            ("C-c", &["ctrl+c"]),
            ("M-x", &["alt+x"]),
            ("hello", &[]),
            ("ctrl+ä", &[]),
        ] {
            let error = keys(&format!("up {name}"), false).unwrap_err();
            assert_eq!(error.close, close, "{name}");
        }
        let text = keys("entr", false).unwrap_err().to_string();
        assert_eq!(text, "no key is called \"entr\"; did you mean enter?");
        assert!(keys("hello", false).unwrap_err().to_string().contains("single characters, enter, tab"));
        assert_eq!(keys(&"x".repeat(10_000), false).unwrap_err().name.len(), 40);
    }

    #[test]
    fn what_is_proposed_is_a_key() {
        for name in ["^ä", "^é", "C-ä", "C-€", "ctrl+spac"] {
            for close in keys(name, false).unwrap_err().close {
                assert!(keys(&close, false).is_ok(), "{close} for {name}");
            }
        }
        assert_eq!(keys("^ä", false).unwrap_err().close, [""; 0]);
    }

    #[test]
    fn a_paste_cannot_end_itself() {
        assert_eq!(paste("a\nb\r\nc", false), b"a\rb\rc");
        assert_eq!(paste("a\nb", true), b"\x1b[200~a\rb\x1b[201~");
        assert_eq!(paste("a\x1b[201~b", true), b"\x1b[200~ab\x1b[201~");
        assert_eq!(paste("\x1b[20\x1b[201~1~rm", true), b"\x1b[200~rm\x1b[201~");
    }

    proptest! {
        #[test]
        fn nothing_panics(names in "\\PC{0,30}", application in any::<bool>()) {
            let _ = keys(&names, application);
        }

        #[test]
        fn the_end_of_a_paste_is_its_end(text in "[\x1b\\[201~\u{9b}ab]{0,40}") {
            let pasted = String::from_utf8(paste(&text, true)).unwrap();
            prop_assert_eq!(pasted.find("\x1b[201~"), Some(pasted.len() - 6));
            let other = pasted.contains("\u{9b}201~");
            prop_assert!(!other);
        }
    }
}
