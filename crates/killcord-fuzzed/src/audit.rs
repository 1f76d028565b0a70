use crate::input::{Input, scratch};
use killcord_mcp::audit::{Reader, parse_time, rfc3339, verify};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A log that somebody has changed: lines taken out, moved, repeated, rewritten with a right hash, or anything at all in
/// their place. It is read whatever it is, and found intact only where nothing but its end is missing.
pub fn audit(data: &[u8]) {
    let mut input = Input(data);
    a_time(data);
    let (written, mut log) = (written(), written());
    let mut forged = false;
    while !input.0.is_empty() {
        forged |= change(&mut log, &mut input);
    }
    let intact = written.starts_with(&log);
    // Nothing stands behind the last record that would name its hash: who replaces it is not found without a hash that
    // was noted elsewhere, as who cuts it off is not.
    let last_is_open = forged && log.split_last().is_some_and(|(_, before)| written.starts_with(before));
    let dir = scratch();
    let first = dir.path().join("audit-1.000001.jsonl");
    let text: Vec<u8> = log.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
    fs::write(&first, &text).unwrap();
    // A file that has one behind it: of the newest, a line without its end is waited for.
    fs::write(dir.path().join("audit-1.000002.jsonl"), b"").unwrap();
    let alone = verify(&first, None).unwrap();
    let report = verify(dir.path(), None).unwrap();
    assert_eq!(report.chains.len(), 1);
    assert_eq!(report.problem_count == 0, report.problems.is_empty());
    if intact && !log.is_empty() {
        assert!(report.is_intact() && alone.is_intact(), "{:?}", report.problems);
        assert_eq!(report.chains[0].records, log.len() as u64);
        let noted = written.last().and_then(|line| line.get(line.len() - 66..line.len() - 2)).unwrap();
        let expected = verify(dir.path(), std::str::from_utf8(noted).ok()).unwrap();
        assert_eq!(expected.is_intact(), log == written, "what was cut off the end");
    } else if !last_is_open {
        assert!(!report.is_intact(), "the change was not seen: {}", String::from_utf8_lossy(&text));
    }
    all_is_read(dir.path(), &text);
}

fn all_is_read(dir: &Path, text: &[u8]) {
    let mut reader = Reader::new(dir);
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert_eq!(reader.read().unwrap().len(), lines);
    assert_eq!(reader.read().unwrap().len(), 0);
}

/// A log that the real one has written.
fn written() -> Vec<Vec<u8>> {
    include_str!("audit.jsonl").lines().map(|line| line.as_bytes().to_vec()).collect()
}

/// One change, by the next bytes. Whether it gives a record its right hash.
fn change(log: &mut Vec<Vec<u8>>, input: &mut Input<'_>) -> bool {
    let (what, at) = (input.byte(), usize::from(input.byte()));
    if log.is_empty() {
        return false;
    }
    let at = at % log.len();
    match what % 7 {
        0 => drop(log.remove(at)),
        1 => log.swap(at, 0),
        2 => log.insert(at, log[at].clone()),
        3 => {
            let byte = usize::from(input.number()) % log[at].len().max(1);
            if let Some(byte) = log[at].get_mut(byte) {
                *byte ^= input.byte();
            }
        }
        4 => log[at] = input.until(b'\n').to_vec(),
        5 => log.truncate(at),
        _ => {
            log[at] = resealed(&log[at], input);
            return true;
        }
    }
    false
}

/// A line with one number more in it than it had and the hash that belongs to it, as somebody makes it who knows how.
fn resealed(line: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    const TAIL: usize = ",\"hash\":\"\"}".len() + 64;
    let body = &line[..line.len().saturating_sub(TAIL)];
    let body = [body, b",\"n\":", input.byte().to_string().as_bytes()].concat();
    let digest = Sha256::digest([&*body, b"}"].concat());
    let hash = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hash: Vec<u8> = hash.map(|half| b"0123456789abcdef"[usize::from(half)]).collect();
    [&*body, b",\"hash\":\"", &*hash, b"\"}"].concat()
}

/// A point in time, as somebody asks for it.
fn a_time(data: &[u8]) {
    let Some(time) = parse_time(&String::from_utf8_lossy(data)) else { return };
    let read = parse_time(&rfc3339(time)).unwrap();
    assert!(time.duration_since(read).unwrap() < Duration::from_millis(1), "{time:?} is not {read:?}");
}
