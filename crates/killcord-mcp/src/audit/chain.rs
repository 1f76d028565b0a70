//! One record as a line, and what holds it to the one before.
//!
//! A line is a JSON object whose last member is `hash`, and that is the SHA-256 of the line's own bytes without that
//! member: `{"seq":2,...,"prev":"..."}`. Since `prev`, the hash of the record before, is among these bytes, it is
//! covered. Nothing is parsed and written anew to be compared: the bytes that stand in the file are what counts, and
//! `sed` and `sha256sum` can check them.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What stands in place of the hash before the first record of all.
pub(super) const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const MEMBER: &str = ",\"hash\":\"";
/// The member, its 64 digits, the quote and the brace.
const TAIL: usize = MEMBER.len() + 64 + 2;

/// SHA-256 in lower case.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A JSON object as a line with its hash, without the newline, and that hash.
pub(super) fn seal(body: &str) -> (String, String) {
    let hash = sha256(body.as_bytes());
    let open = body.strip_suffix('}').unwrap_or(body);
    (format!("{open}{MEMBER}{hash}\"}}"), hash)
}

/// What the chain needs to know of a record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) event: String,
    pub(super) prev: String,
    /// The hash that the record says it has.
    pub(super) hash: String,
    /// The number of the file, in the first record of each.
    pub(super) file: Option<u64>,
    /// What stands after the last newline of the file before.
    pub(super) cut_bytes: Option<u64>,
    pub(super) cut_sha256: Option<String>,
}

/// A line as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Its hash is that of its bytes.
    Intact(Head),
    /// It reads as a record, and its hash is another.
    Changed(Head),
    /// It is no record.
    Foreign,
}

/// Reads a line without its newline.
pub(super) fn read(line: &[u8]) -> Found {
    let Ok(head) = serde_json::from_slice::<Head>(line) else { return Found::Foreign };
    let intact = line.len().checked_sub(TAIL).is_some_and(|end| {
        let (body, tail) = line.split_at(end);
        let hash = sha256(&[body, b"}"].concat());
        head.hash == hash && tail == format!("{MEMBER}{hash}\"}}").as_bytes()
    });
    if intact { Found::Intact(head) } else { Found::Changed(head) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_record_is_intact_and_any_changed_byte_is_seen() {
        let body = format!("{{\"seq\":1,\"event\":\"start\",\"prev\":\"{NONE}\"}}");
        let (line, hash) = seal(&body);
        assert!(line.ends_with(&format!(",\"hash\":\"{hash}\"}}")));
        assert!(matches!(read(line.as_bytes()), Found::Intact(head) if head.hash == hash && head.seq == 1));
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut bytes = line.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(!matches!(read(&bytes), Found::Intact(_)), "byte {at}, bit {bit}");
            }
        }
        for with_blank in [format!("{line} "), format!(" {line}"), line.to_uppercase(), String::new()] {
            assert!(!matches!(read(with_blank.as_bytes()), Found::Intact(_)), "{with_blank:?}");
        }
    }
}
