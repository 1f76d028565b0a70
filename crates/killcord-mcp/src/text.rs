//! The texts that an agent reads: one block, whose first and last line are the status.

use crate::session::{Life, Session, State, Why};
use crate::terminal::ring::Ring;
use killcord::{Cause, End, ExitStatus, Fate, Members, Verdict};
use killcord_sys::signals;
use std::time::Duration;

/// So many processes are named.
const NAMED: usize = 5;

/// The longest character, in bytes.
const CHARACTER: usize = 4;

/// A number of bytes, short.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2}s", time.as_secs_f64())
}

fn names(members: &Members) -> String {
    let named = members.named.iter().take(NAMED);
    let shown: Vec<String> = named.map(|m| format!("{} ({})", m.command, m.pid)).collect();
    let more = (members.count as usize).saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// How a program ended: `exit 1`, `SIGKILL`.
pub(crate) fn ending(end: &End) -> String {
    match (end.status, &end.verdict) {
        (Some(ExitStatus::Code(code)), _) => format!("exit {code}"),
        (Some(ExitStatus::Signal(signal)), _) => format!("ended by {}", signals::name(signal)),
        (None, Verdict::Refused) => "nothing ran".to_owned(),
        (None, _) => "its end was not seen".to_owned(),
    }
}

/// What is worth a word beside the status.
fn remarks(end: &End) -> Vec<String> {
    let mut all = Vec::new();
    match end.cause {
        Cause::WardenGone | Cause::KeeperGone => {
            all.push("its guard was killed, and it was ended".to_owned());
        }
        Cause::LeaderExited | Cause::Timeout | Cause::Asked | Cause::OwnerGone => {}
    }
    if end.memory_kills > 0 {
        all.push(format!("{} killed by the memory limit", end.memory_kills));
    }
    if let Some((members, fate)) = &end.leftovers {
        match fate {
            Fate::Ended => all.push(format!("left behind and ended: {}", names(members))),
            Fate::Kept if end.goes_on() => all.push(format!("left behind and kept: {}", names(members))),
            Fate::Released => all.push(format!("left behind and let go: {}", names(members))),
            Fate::Kept | Fate::EndedByThemselves => {}
        }
    }
    match &end.verdict {
        Verdict::Survivors(members) if !end.goes_on() => {
            all.push(format!("could not be ended: {}", names(members)));
        }
        Verdict::Unconfirmed(why) => all.push(format!("not known whether all is gone: {why}")),
        Verdict::Survivors(_) | Verdict::Empty(_) | Verdict::Refused => {}
    }
    if !end.boundary.ends_escapees() {
        all.push(format!("boundary {}: what left its group is not ended", end.boundary));
    }
    all
}

/// The parts of a status line about how a session stands.
pub(crate) fn standing(session: &Session, state: &State) -> Vec<String> {
    let mut parts = Vec::new();
    match (state.end(), &state.life) {
        (Some(end), life) => {
            let timeout = if end.cause == Cause::Timeout { "timeout, " } else { "" };
            parts.push(format!("{timeout}{} in {}", ending(end), seconds(end.duration)));
            if matches!(life, Life::LeftBehind(_)) {
                parts.push(format!("session {} goes on", session.id));
            }
            parts.extend(remarks(end));
        }
        (None, Life::Ending) => parts.push(format!("ending, {}", seconds(session.started.elapsed()))),
        (None, _) => parts.push(format!("running for {}", seconds(session.started.elapsed()))),
    }
    if state.given_up {
        parts.push("killcord failed in it and ended it: output is missing".to_owned());
    }
    parts
}

/// A status line.
pub(crate) fn status(parts: &[String]) -> String {
    format!("[{}]", parts.join(" | "))
}

/// A text between two status lines; a single one where there is nothing between.
pub(crate) fn framed(parts: &[String], body: &str) -> String {
    let status = status(parts);
    match body {
        "" => status,
        body if body.ends_with('\n') => format!("{status}\n{body}{status}"),
        body => format!("{status}\n{body}\n{status}"),
    }
}

/// Why the wait is over, for a status line.
pub(crate) fn waited(why: &Why) -> Option<String> {
    why.text().map(|text| format!("waited: {text}"))
}

/// Head and tail of an output, and how much is between them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) head: String,
    pub(crate) tail: String,
    /// Where what was left out begins, and how much of it there is.
    pub(crate) from: u64,
    pub(crate) left_out: u64,
}

/// The longest beginning of a text that has at most so many bytes, to the end of a line if one is near.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    match text.rfind('\n') {
        Some(newline) if newline + 1 >= end / 2 => &text[..=newline],
        _ => text,
    }
}

/// A text that begins somewhere in a line, from the beginning of the next one if that is near.
fn whole_lines(text: &str) -> &str {
    match text.find('\n') {
        Some(newline) if newline < text.len() / 2 => &text[newline + 1..],
        _ => text.trim_start_matches('\u{fffd}'),
    }
}

/// Cuts an output down to so many bytes.
pub(crate) fn cut(head: &[u8], ring: &Ring, most: usize) -> Cut {
    let total = ring.produced();
    if total <= most as u64 && ring.dropped() == 0 {
        let all = ring.read_from(0, most).text;
        return Cut { head: all, tail: String::new(), from: total, left_out: 0 };
    }
    let half = most / 2;
    let whole = String::from_utf8_lossy(&head[..half.min(head.len())]);
    // A character that was cut in two is left to the rest.
    let whole = whole.trim_end_matches('\u{fffd}');
    let first = beginning(whole, half);
    // A cursor inside a character begins before it, and all to the end is wanted.
    let last = ring.read_from(total.saturating_sub(half as u64), half + CHARACTER).text;
    let last = whole_lines(&last);
    let from = first.len() as u64;
    let left_out = total.saturating_sub(from + last.len() as u64);
    Cut { head: first.to_owned(), tail: last.to_owned(), from, left_out }
}

impl Cut {
    /// The text, with a line at the cut that says how much is missing and which call reads it.
    pub(crate) fn body(&self, session: &str) -> String {
        if self.left_out == 0 {
            return format!("{}{}", self.head, self.tail);
        }
        let newline = if self.head.is_empty() || self.head.ends_with('\n') { "" } else { "\n" };
        format!(
            "{}{newline}[... {} bytes left out; read them: session_read \
             {{\"session\":\"{session}\",\"mode\":\"from\",\"cursor\":{}}} ...]\n{}",
            self.head, self.left_out, self.from, self.tail
        )
    }

    /// How much of it is shown.
    pub(crate) fn shown(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(text: &str) -> Ring {
        let mut ring = Ring::new(1 << 20);
        ring.push(text.as_bytes());
        ring
    }

    #[test]
    fn a_short_output_is_whole() {
        let cut = cut(b"a\nb\n", &ring("a\nb\n"), 100);
        assert_eq!((cut.body("s1").as_str(), cut.left_out), ("a\nb\n", 0));
    }

    #[test]
    fn a_long_output_is_cut_at_lines_and_says_what_is_missing() {
        let lines: Vec<String> = (0..100).map(|n| format!("line {n}\n")).collect();
        let text = lines.concat();
        let cut = cut(text.as_bytes(), &ring(&text), 60);
        assert_eq!(cut.head, "line 0\nline 1\nline 2\nline 3\n");
        assert_eq!(cut.tail, "line 97\nline 98\nline 99\n");
        assert_eq!(cut.from + cut.left_out + cut.tail.len() as u64, text.len() as u64);
        assert!(cut.body("s1").contains("\"cursor\":28}"), "{}", cut.body("s1"));
    }

    #[test]
    fn a_character_is_never_cut() {
        let text = "é".repeat(100);
        let cut = cut(text.as_bytes(), &ring(&text), 51);
        assert!(!cut.body("s1").contains('\u{fffd}'));
        assert_eq!(cut.from + cut.left_out + cut.tail.len() as u64, text.len() as u64);
    }

    #[test]
    fn the_end_is_whole_wherever_a_character_is_cut() {
        for most in 40..60 {
            let text = "€".repeat(100) + "end";
            let cut = cut(text.as_bytes(), &ring(&text), most);
            assert!(cut.tail.ends_with("€end"), "{most}: {}", cut.tail);
            assert_eq!(cut.from + cut.left_out + cut.tail.len() as u64, text.len() as u64);
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([0, 999, 1000, 40_960, 2_500_000].map(size), ["0 B", "999 B", "1 kB", "40 kB", "2.5 MB"]);
    }
}
