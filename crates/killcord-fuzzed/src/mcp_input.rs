use crate::input::Input;
use killcord_mcp::audit::{mask, mask_arguments};
use killcord_mcp::fuzzing::{TOOLS, arguments, lines};
use serde_json::{Map, Value};

/// What a client sends: every line of it goes through as it is, and behind one that cannot be read stands an answerable
/// one of ours; the arguments of a tool fit, or its client is told what would.
pub fn mcp_input(data: &[u8]) {
    let mut input = Input(data);
    let (cut, at_once) = (1 + usize::from(input.byte()), 1 + usize::from(input.byte()));
    let longest = usize::from(input.number() % 2048);
    let sent = input.take(usize::MAX);
    let passed = lines(std::iter::once(sent), longest, 65_536).unwrap();
    assert_eq!(passed, lines(sent.chunks(cut), longest, at_once).unwrap(), "the cuts matter");
    answered(sent, &passed, longest);
    for line in sent.split(|byte| *byte == b'\n') {
        if let Ok(given) = serde_json::from_slice::<Map<String, Value>>(line) {
            a_call(&given);
        }
    }
}

/// The lines that were sent, and those that were passed on.
fn answered(sent: &[u8], passed: &[u8], longest: usize) {
    let mut passed = Input(passed);
    for line in sent.split_inclusive(|byte| *byte == b'\n') {
        assert_eq!(passed.take(line.len()), line, "a line was changed");
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let text = std::str::from_utf8(line).map(|text| text.trim_start_matches('\u{feff}').trim());
        let is_empty = text.is_ok_and(str::is_empty);
        let is_json = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(is_json).is_ok() && text.is_ok();
        if line.len() > longest || !(is_json || is_empty) {
            let method = if line.len() > longest { "killcord/too-long" } else { "killcord/broken" };
            of_ours(passed.until(b'\n'), method);
        }
    }
    assert!(passed.0.is_empty(), "{:?} was never sent", String::from_utf8_lossy(passed.0));
}

fn of_ours(line: &[u8], method: &str) {
    let request: Value = serde_json::from_slice(line).unwrap();
    if request != Value::Array(Vec::new()) {
        assert_eq!(request["method"], method);
        assert!(request["id"].is_string() || request["id"].is_i64() || request["id"].is_u64(), "{request}");
    }
}

/// Arguments as they are, and as the parameters of a call.
fn a_call(given: &Map<String, Value>) {
    let nested = given.get("params").and_then(|params| params.get("arguments")).and_then(Value::as_object);
    for given in [Some(given), nested].into_iter().flatten() {
        for tool in TOOLS {
            match arguments(tool, given.clone()) {
                Ok(read) => assert!(!read.is_empty()),
                Err(told) => assert!(told.starts_with("the arguments do not fit: "), "{told}"),
            }
        }
        hidden(given);
    }
}

/// What is given under the name of a secret is in no record.
fn hidden(given: &Map<String, Value>) {
    let value = Value::Object(given.clone());
    let _ = mask(&value.to_string());
    let secret = serde_json::json!({ "password": value, "env": { "API_TOKEN": value.to_string() } });
    let masked = mask_arguments(&secret, false);
    assert_eq!(masked, serde_json::json!({ "password": "[masked]", "env": { "API_TOKEN": "[masked]" } }));
}
