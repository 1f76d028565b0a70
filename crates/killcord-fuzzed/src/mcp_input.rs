use crate::input::Input;
use killcord_mcp::audit::{mask, mask_arguments};
use killcord_mcp::fuzzing::{TOOLS, Told, arguments, lines};
use serde_json::{Map, Value};

/// What a client sends: each line is a message or is answered by what is wrong with it, whatever parts it comes in; the
/// arguments of a tool fit, or its client is told what would.
pub fn mcp_input(data: &[u8]) {
    let mut input = Input(data);
    let cut = 1 + usize::from(input.byte());
    let longest = usize::from(input.number() % 2048);
    let sent = input.take(usize::MAX);
    let told = lines(std::iter::once(sent), longest).unwrap();
    assert_eq!(told, lines(sent.chunks(cut), longest).unwrap(), "the cuts matter");
    let whole = sent.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    let whole: Vec<&[u8]> = whole.collect();
    assert_eq!(told.len(), whole.len());
    for (line, told) in whole.into_iter().zip(&told) {
        one_line(line, told, longest);
        if let Ok(given) = serde_json::from_slice::<Map<String, Value>>(line) {
            a_call(&given);
        }
    }
}

/// What is made of one line.
fn one_line(line: &[u8], told: &Told, longest: usize) {
    let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    // As the protocol has it: a number that no machine holds is no JSON either.
    let is_json = serde_json::from_slice::<Value>(text).is_ok();
    match told {
        Told::Error(code, id) => {
            let expected = if line.len() > longest || is_json { &[-32600, -32602][..] } else { &[-32700] };
            assert!(expected.contains(code), "{code} for {:?}", String::from_utf8_lossy(line));
            assert!(id.as_ref().is_none_or(|id| id.is_string() || id.is_i64()), "{id:?}");
        }
        Told::Message(_) => assert!(is_json && line.len() <= longest),
        Told::Nothing => assert!(is_json || text.trim_ascii().is_empty()),
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
