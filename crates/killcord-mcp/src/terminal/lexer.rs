//! The output of a terminal program in pieces: text, control characters, escape sequences.
//!
//! What comes in is hostile: sequences that never end, parameters of a million digits, bytes that are no text. The
//! lexer keeps a few hundred bytes whatever happens, looks at each byte once, and gives the same pieces wherever
//! the input is cut (a long text may come as several, and they add up to the same).
//!
//! It follows the state machine of a VT500 (<https://vt100.net/emu/dec_ansi_parser>) for a terminal that speaks
//! UTF-8: there are no 8-bit controls.

/// More parameters than any sequence in use has; further ones are ignored, as xterm does.
const PARAMETERS: usize = 32;

/// The longest system command (a title, in practice) that is looked at; of a longer one nothing is.
const COMMAND_BYTES: usize = 1024;

/// A piece of terminal output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Characters from the space on, without DEL; C1 controls (U+0080 to U+009F) may be among them.
    Text(&'a str),
    /// Bytes that are no UTF-8, to be shown as one replacement character.
    Invalid,
    /// A C0 control character, but not ESC, CAN and SUB, which the lexer needs for itself.
    Control(u8),
    /// `ESC`, an intermediate byte or 0, a final byte.
    Escape(u8, u8),
    /// A control sequence.
    Csi(&'a Csi),
    /// The body of an operating system command, at most [`COMMAND_BYTES`] long.
    Command(&'a [u8]),
}

/// A control sequence: `ESC [`, prefix, parameters, intermediate byte, final byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Csi {
    /// `<`, `=`, `>`, `?` or 0.
    pub(crate) prefix: u8,
    /// 0 where there is none; sequences with several are unknown to everybody and dropped.
    pub(crate) intermediate: u8,
    /// What it does.
    pub(crate) action: u8,
    parameters: [u16; PARAMETERS],
    /// Bit `i` says that parameter `i` follows a colon and belongs to the one before.
    joined: u32,
    /// The number of the parameter that is being read; at `PARAMETERS` no more are taken.
    current: usize,
}

impl Csi {
    const EMPTY: Self =
        Self { prefix: 0, intermediate: 0, action: 0, parameters: [0; PARAMETERS], joined: 0, current: 0 };

    /// The parameters; at least one. One that was left out is 0, one that was too large is 65535.
    pub(crate) fn parameters(&self) -> &[u16] {
        &self.parameters[..(self.current + 1).min(PARAMETERS)]
    }

    /// Whether this parameter belongs to the one before it, by a colon.
    pub(crate) fn is_joined(&self, index: usize) -> bool {
        index < PARAMETERS && self.joined & (1 << index) != 0
    }

    /// A parameter as a count: 1 where it is left out or 0.
    pub(crate) fn count(&self, index: usize) -> u16 {
        self.parameters().get(index).copied().unwrap_or(0).max(1)
    }

    fn digit(&mut self, byte: u8) {
        if let Some(value) = self.parameters.get_mut(self.current) {
            *value = value.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
        }
    }

    fn next(&mut self, joined: bool) {
        self.current = (self.current + 1).min(PARAMETERS);
        if joined && self.current < PARAMETERS {
            self.joined |= 1 << self.current;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParameter,
    CsiIntermediate,
    /// Malformed; swallowed up to its final byte.
    CsiIgnore,
    /// `ESC ]`: collected up to a bound.
    Command,
    /// DCS, SOS, PM, APC, and the title of `screen` (`ESC k`): swallowed.
    String,
}

/// Cuts terminal output into [`Token`]s.
#[derive(Debug)]
pub(crate) struct Lexer {
    state: State,
    csi: Csi,
    /// The intermediate byte of an escape sequence.
    intermediate: u8,
    command: Vec<u8>,
    command_too_long: bool,
    /// The beginning of a character whose rest has not come.
    partial: Vec<u8>,
    /// How many bytes have been looked at.
    position: u64,
}

impl Lexer {
    /// Nothing read yet.
    pub(crate) fn new() -> Self {
        Self {
            state: State::Ground,
            csi: Csi::EMPTY,
            intermediate: 0,
            command: Vec::new(),
            command_too_long: false,
            partial: Vec::new(),
            position: 0,
        }
    }

    /// Reads these bytes. `token` gets each piece, and how many bytes there were up to the end of it; for text
    /// the number is only a lower bound.
    pub(crate) fn feed(&mut self, bytes: &[u8], token: &mut impl FnMut(Token<'_>, u64)) {
        let before = self.position;
        let mut at = 0;
        while at < bytes.len() {
            at += match self.state {
                State::Ground => self.text(&bytes[at..], token),
                State::String => self.swallow(&bytes[at..]),
                State::Command => self.collect(&bytes[at..], token),
                _ => {
                    self.position += 1;
                    self.step(bytes[at], token);
                    1
                }
            };
            self.position = before + at as u64;
        }
    }

    /// No more will come: the beginning of a character is invalid then.
    pub(crate) fn finish(&mut self, token: &mut impl FnMut(Token<'_>, u64)) {
        if !self.partial.is_empty() {
            self.partial.clear();
            token(Token::Invalid, self.position);
        }
    }

    /// Text, or one control character. Gives the number of bytes used.
    fn text(&mut self, bytes: &[u8], token: &mut impl FnMut(Token<'_>, u64)) -> usize {
        if !self.partial.is_empty() {
            return self.complete(bytes[0], token);
        }
        let length = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7f).unwrap_or(bytes.len());
        if length == 0 {
            match bytes[0] {
                0x1b => self.escape(),
                // CAN and SUB end what has begun; nothing has. DEL is a filler.
                0x18 | 0x1a | 0x7f => {}
                control => token(Token::Control(control), self.position + 1),
            }
            return 1;
        }
        let mut looked_at = 0;
        for chunk in bytes[..length].utf8_chunks() {
            if !chunk.valid().is_empty() {
                token(Token::Text(chunk.valid()), self.position);
            }
            let invalid = chunk.invalid();
            looked_at += chunk.valid().len() + invalid.len();
            // Only what nothing follows may be completed yet.
            if looked_at == bytes.len() && is_beginning(invalid) {
                self.partial.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                token(Token::Invalid, self.position);
            }
        }
        length
    }

    /// Another byte for the beginning of a character. A byte that does not belong to it is not used.
    fn complete(&mut self, byte: u8, token: &mut impl FnMut(Token<'_>, u64)) -> usize {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => token(Token::Text(text), self.position),
            Err(error) if error.error_len().is_none() => return 1,
            Err(_) => {
                self.partial.clear();
                token(Token::Invalid, self.position);
                return 0;
            }
        }
        self.partial.clear();
        1
    }

    fn escape(&mut self) {
        self.state = State::Escape;
        self.intermediate = 0;
    }

    /// A byte of an escape or control sequence.
    fn step(&mut self, byte: u8, token: &mut impl FnMut(Token<'_>, u64)) {
        match (self.state, byte) {
            (_, 0x1b) => self.escape(),
            (_, 0x18 | 0x1a) | (State::CsiIgnore, 0x40..=0x7e) => self.state = State::Ground,
            // Control characters inside a sequence are obeyed at once.
            (_, 0x00..=0x1f) => token(Token::Control(byte), self.position),
            (_, 0x7f..) | (State::CsiIgnore, 0x20..=0x3f) => {}
            (State::Escape, b'[') => {
                self.csi = Csi::EMPTY;
                self.state = State::CsiEntry;
            }
            (State::Escape, b']') => {
                self.command.clear();
                self.command_too_long = false;
                self.state = State::Command;
            }
            (State::Escape, b'P' | b'X' | b'^' | b'_' | b'k') => self.state = State::String,
            (State::Escape, 0x20..=0x2f) => {
                self.intermediate = byte;
                self.state = State::EscapeIntermediate;
            }
            // Several intermediates are unknown to everybody: 0x20 makes it a sequence that nobody handles.
            (State::EscapeIntermediate, 0x20..=0x2f) => self.intermediate = b' ',
            (State::Escape | State::EscapeIntermediate, _) => {
                self.state = State::Ground;
                token(Token::Escape(self.intermediate, byte), self.position);
            }
            (_, 0x40..=0x7e) => {
                self.csi.action = byte;
                self.state = State::Ground;
                token(Token::Csi(&self.csi), self.position);
            }
            (State::CsiEntry, 0x3c..=0x3f) => {
                self.csi.prefix = byte;
                self.state = State::CsiParameter;
            }
            (State::CsiEntry | State::CsiParameter, 0x30..=0x3b) => {
                match byte {
                    b':' => self.csi.next(true),
                    b';' => self.csi.next(false),
                    digit => self.csi.digit(digit),
                }
                self.state = State::CsiParameter;
            }
            (State::CsiEntry | State::CsiParameter, 0x20..=0x2f) => {
                self.csi.intermediate = byte;
                self.state = State::CsiIntermediate;
            }
            (_, 0x20..=0x3f) => self.state = State::CsiIgnore,
        }
    }

    /// A string that nobody looks at, up to what ends it. ESC does: the `\` after it is a sequence that does
    /// nothing, and a string that was forgotten hides the rest of the output no further than that.
    fn swallow(&mut self, bytes: &[u8]) -> usize {
        match bytes.iter().position(|byte| matches!(byte, 0x18 | 0x1a | 0x1b)) {
            None => bytes.len(),
            Some(end) => {
                self.state = State::Ground;
                if bytes[end] == 0x1b {
                    self.escape();
                }
                end + 1
            }
        }
    }

    /// A system command, up to BEL or ESC.
    fn collect(&mut self, bytes: &[u8], token: &mut impl FnMut(Token<'_>, u64)) -> usize {
        let end = bytes.iter().position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b));
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = COMMAND_BYTES - self.command.len();
        self.command_too_long |= part.len() > room;
        self.command.extend_from_slice(&part[..part.len().min(room)]);
        let Some(end) = end else { return bytes.len() };
        self.state = State::Ground;
        let whole = matches!(bytes[end], 0x07 | 0x1b) && !self.command_too_long;
        if whole {
            token(Token::Command(&self.command), self.position + end as u64 + 1);
        }
        if bytes[end] == 0x1b {
            self.escape();
        }
        end + 1
    }
}

/// Whether these bytes are the beginning of a character whose rest may still come.
pub(crate) fn is_beginning(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && std::str::from_utf8(bytes)
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(chunks: &[&[u8]]) -> Vec<String> {
        let mut lexer = Lexer::new();
        let mut seen: Vec<String> = Vec::new();
        let mut last_was_text = false;
        let mut token = |token: Token<'_>, at: u64| {
            let is_text = matches!(token, Token::Text(_));
            match token {
                Token::Text(text) if last_was_text => seen.last_mut().unwrap().push_str(text),
                Token::Text(text) => seen.push(text.to_owned()),
                Token::Csi(csi) => {
                    let parameters = csi.parameters();
                    seen.push(format!(
                        "csi {:?} {parameters:?} {} at {at}",
                        csi.prefix as char, csi.action as char
                    ));
                }
                other => seen.push(format!("{other:?} at {}", if other == Token::Invalid { 0 } else { at })),
            }
            last_was_text = is_text;
        };
        for chunk in chunks {
            lexer.feed(chunk, &mut token);
        }
        lexer.finish(&mut token);
        assert!(lexer.command.capacity() <= 2 * COMMAND_BYTES && lexer.partial.capacity() <= 8);
        seen
    }

    #[test]
    fn sequences_and_text_are_told_apart() {
        let input = b"a\x1b[?25;1049hb\r\x1b(0\x1b]0;title\x07c\x1bP1$q\x1b\\d\xe2\x82e\x1b[1;\n2H";
        let expected = [
            "a",
            "csi '?' [25, 1049] h at 12",
            "b",
            "Control(13) at 14",
            "Escape(40, 48) at 17",
            "Command([48, 59, 116, 105, 116, 108, 101]) at 27",
            "c",
            "Escape(0, 92) at 35",
            "d",
            "Invalid at 0",
            "e",
            "Control(10) at 44",
            "csi '\\0' [1, 2] H at 46",
        ];
        assert_eq!(seen(&[input]), expected);
    }

    #[test]
    fn parameters_have_bounds() {
        let many = format!("\x1b[{}m\x1b[{}C", "7;".repeat(100_000), "9".repeat(100_000));
        let seen = seen(&[many.as_bytes()]);
        assert_eq!(seen.len(), 2);
        assert!(
            seen[0].starts_with("csi '\\0' [7, 7,") && seen[0].matches('7').count() == PARAMETERS,
            "{seen:?}"
        );
        assert!(seen[1].contains("[65535]"), "{seen:?}");
    }

    #[test]
    fn a_command_that_is_too_long_is_none() {
        let long = format!("\x1b]2;{}\x07x\x1b]2;short\x07", "t".repeat(COMMAND_BYTES));
        assert_eq!(seen(&[long.as_bytes()]).iter().filter(|s| s.starts_with("Command")).count(), 1);
    }

    /// Bytes among which escape sequences and broken characters are frequent.
    pub(crate) fn terminal_bytes() -> impl Strategy<Value = Vec<u8>> {
        let interesting = prop::sample::select(
            b"\x1b\x1b[[]P?;:0123489HJKmbhlr\r\n\x08\x07\x18\\(kX \xe2\x82\xacaZ\xf0\x9f\x98\x80".to_vec(),
        );
        prop::collection::vec(prop_oneof![6 => interesting, 1 => any::<u8>()], 0..200)
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(bytes in terminal_bytes(), size in 1usize..7) {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(seen(&chunks), seen(&[&bytes]));
        }
    }
}
