//! The same for TOML: a table is put at the end of the text, or taken out of it, without touching the rest.

use super::json::Refused;
use serde_json::Value;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A header, and the lines up to the next one.
struct Section {
    path: Vec<String>,
    /// From the beginning of the header's line to behind the last line that is neither empty nor a comment.
    span: Range<usize>,
    /// Behind the header's line.
    body: usize,
}

/// The text between the brackets as its parts.
fn header_path(inside: &str) -> Option<Vec<String>> {
    let line = format!("{inside} = 0");
    let table = DeTable::parse(&line).ok()?;
    let (mut path, mut here) =
        (Vec::new(), table.get_ref().iter().next().map(|(k, v)| (k.get_ref(), v.get_ref())));
    while let Some((key, value)) = here {
        path.push(key.to_string());
        here = value.as_table().and_then(|t| t.iter().next()).map(|(k, v)| (k.get_ref(), v.get_ref()));
    }
    Some(path)
}

/// Behind a string that begins here, in any of its four forms.
fn end_of_string(text: &[u8], at: usize) -> usize {
    let quote = text[at];
    let long = text[at..].starts_with(&[quote; 3]);
    let mut at = if long { at + 3 } else { at + 1 };
    while let Some(byte) = text.get(at) {
        if *byte == b'\\' && quote == b'"' {
            at += 2;
        } else if *byte != quote {
            at += 1;
        } else if !long {
            return at + 1;
        } else if text[at..].starts_with(&[quote; 3]) {
            // Up to two quotes of the text itself may stand before the three that close it.
            let more = text[at + 3..].iter().take(2).take_while(|b| **b == quote).count();
            return at + 3 + more;
        } else {
            at += 1;
        }
    }
    at
}

/// The sections of a text that a real parser has read.
fn sections(text: &str) -> Vec<Section> {
    let bytes = text.as_bytes();
    let mut found: Vec<Section> = Vec::new();
    let (mut at, mut depth, mut fresh, mut line) = (0, 0usize, true, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => {
                (fresh, line) = (depth == 0, at + 1);
                at += 1;
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'#' => {
                at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at);
                continue;
            }
            b'[' if fresh => {
                let mut end = at;
                while end < bytes.len() && bytes[end] != b'\n' && bytes[end] != b'#' {
                    end =
                        if matches!(bytes[end], b'"' | b'\'') { end_of_string(bytes, end) } else { end + 1 };
                }
                let inside = text[at..end].trim().trim_matches(['[', ']']);
                let body = bytes[end..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| end + n + 1);
                found.push(Section { path: header_path(inside).unwrap_or_default(), span: line..body, body });
                at = body;
                (fresh, line) = (true, body);
                continue;
            }
            b'"' | b'\'' => at = end_of_string(bytes, at),
            byte => {
                depth = match byte {
                    b'[' | b'{' => depth + 1,
                    b']' | b'}' => depth.saturating_sub(1),
                    _ => depth,
                };
                at += 1;
            }
        }
        fresh = false;
        // The section reaches to the end of this line, at least.
        let end =
            bytes[at.min(bytes.len())..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n + 1);
        if let Some(section) = found.last_mut() {
            section.span.end = end;
        }
    }
    found
}

/// A string, a list of strings or a number is written the same in both formats.
fn written(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A part of a key: bare where it may be.
fn key(text: &str) -> String {
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { text.to_owned() } else { Value::from(text).to_string() }
}

/// The table of one entry, as it is written.
pub(super) fn table(path: &[&str], members: &[(&str, Value)]) -> String {
    let header = path.iter().map(|part| key(part)).collect::<Vec<_>>().join(".");
    let lines = members.iter().map(|(name, value)| format!("{} = {}\n", key(name), written(value)));
    format!("[{header}]\n{}", lines.collect::<String>())
}

fn find<'t, 'i>(table: &'t DeTable<'i>, path: &[&str]) -> Option<&'t DeTable<'i>> {
    path.iter().try_fold(table, |table, key| table.get(*key)?.get_ref().as_table())
}

/// Whether two values are the same, of the kinds that an entry has.
fn is(value: &DeValue<'_>, other: &Value) -> bool {
    match (value, other) {
        (DeValue::String(a), Value::String(b)) => a == b,
        (DeValue::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is(a.get_ref(), b))
        }
        _ => false,
    }
}

/// Sets these members of the table at the path, which is made at the end if it is not there.
pub(super) fn set(text: &str, path: &[&str], members: &[(&str, Value)]) -> Result<String, Refused> {
    let document = DeTable::parse(text).map_err(|e| Refused(e.message().to_owned()))?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut out = text.to_owned();
    let Some(there) = find(document.get_ref(), path) else {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
        let blank = if text.trim().is_empty() { "" } else { newline };
        out.extend([end, blank, &table(path, members).replace('\n', newline)]);
        return Ok(out);
    };
    // From the last to the first, so that places stay what they are.
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut missing = String::new();
    for (name, value) in members {
        match there.get(*name) {
            Some(found) if is(found.get_ref(), value) => {}
            Some(found) => edits.push((found.span(), written(value))),
            None => missing.extend([&key(name), " = ", &written(value), newline]),
        }
    }
    if !missing.is_empty() {
        let section = sections(text).into_iter().find(|s| s.path == path);
        let body =
            section.map(|s| s.body).ok_or_else(|| Refused("its entry is no table of its own".to_owned()))?;
        edits.push((body..body, missing));
    }
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, with) in edits {
        out.replace_range(span, &with);
    }
    Ok(out)
}

/// Takes the table at the path out, with those below it. `None` if there is none.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<Option<String>, Refused> {
    let document = DeTable::parse(text).map_err(|e| Refused(e.message().to_owned()))?;
    if find(document.get_ref(), path).is_none() {
        return Ok(None);
    }
    let ours = |s: &Section| s.path.len() >= path.len() && s.path.iter().zip(path).all(|(a, b)| a == b);
    let found: Vec<Section> = sections(text).into_iter().filter(ours).collect();
    if found.is_empty() {
        return Err(Refused("its entry is no table of its own".to_owned()));
    }
    let mut out = text.to_owned();
    for section in found.iter().rev() {
        let mut start = section.span.start;
        // The empty line that parts it from what is before.
        for blank in ["\r\n", "\n"] {
            if start > 0 && out[..start].ends_with(&format!("\n{blank}")) {
                start -= blank.len();
                break;
            }
        }
        out.replace_range(start..section.span.end.min(out.len()), "");
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PATH: [&str; 2] = ["mcp_servers", "killcord"];

    fn set_one(text: &str) -> String {
        set(text, &PATH, &[("command", json!("/k")), ("args", json!(["mcp"]))]).unwrap()
    }

    const ENTRY: &str = "[mcp_servers.killcord]\ncommand = \"/k\"\nargs = [\"mcp\"]\n";

    #[test]
    fn a_table_is_put_at_the_end_and_taken_out_again_byte_for_byte() {
        assert_eq!(set_one(""), ENTRY);
        for text in [
            "model = \"x\"  # mine\n",
            "model = 'x'\n\n[mcp_servers.other]\ncommand = \"a\"\nargs = [\n  \"[mcp_servers.killcord]\",\n]\n# end\n",
            "a = \"\"\"\n[mcp_servers.killcord]\n\"\"\"\nb = '''\n[x]'''\r\n",
            "[[things]]\nx = { y = [1, 2] }\n\n[mcp_servers]\n",
        ] {
            let with = set_one(text);
            assert!(with.starts_with(text) && with.len() > text.len());
            let value: toml::Value = toml::from_str(&with).unwrap();
            assert_eq!(value["mcp_servers"]["killcord"]["command"].as_str(), Some("/k"));
            assert_eq!(set_one(&with), with);
            assert_eq!(remove(&with, &PATH).unwrap().unwrap(), text);
            assert_eq!(remove(text, &PATH).unwrap(), None);
        }
    }

    #[test]
    fn an_entry_that_is_there_is_changed_where_it_differs() {
        let text =
            "[mcp_servers.\"killcord\"] # here\ncommand = '/old' # why\nenv = { A = 'b' }\n\n[z]\ny = 1\n";
        let expected = text.replace("'/old'", "\"/k\"").replace("# here\n", "# here\nargs = [\"mcp\"]\n");
        assert_eq!(set_one(text), expected);
        assert_eq!(remove(text, &PATH).unwrap().unwrap(), "\n[z]\ny = 1\n");
        let inline = "mcp_servers = { killcord = { command = '/old', args = ['mcp'] } }\n";
        assert_eq!(set_one(inline), inline.replace("'/old'", "\"/k\""));
        assert!(remove(inline, &PATH).is_err());
    }

    #[test]
    fn tables_below_the_entry_go_with_it_and_comments_of_the_next_stay() {
        let text = "a = 1\n\n[mcp_servers.killcord]\ncommand = 'x'\n\n[mcp_servers.killcord.env]\nA = 'b'\n\n# of z\n[z]\n";
        assert_eq!(remove(text, &PATH).unwrap().unwrap(), "a = 1\n\n# of z\n[z]\n");
    }
}
