//! Putting a member into a JSON text, and taking one out, without touching the rest of it.
//!
//! The text has been read by a real parser before; here only places are looked for in it.

use serde_json::Value;
use std::ops::Range;

/// Why a text is not edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused(pub(super) String);

/// A member of an object, as it stands in the text.
#[derive(Debug, Clone)]
struct Member {
    key: String,
    key_at: usize,
    value: Range<usize>,
}

/// An object, as it stands in the text.
#[derive(Debug, Clone)]
struct Object {
    /// Behind the opening brace.
    open: usize,
    /// At the closing brace.
    close: usize,
    members: Vec<Member>,
}

fn skip_blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The end of a string that begins here.
fn end_of_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// The end of a value that begins here. Its depth costs no stack.
fn end_of_value(text: &[u8], at: usize) -> usize {
    let (mut at, mut depth) = (at, 0usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            // Behind a plain value.
            b',' | b'}' | b']' if depth == 0 => return at,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => at += 1,
        }
        if depth == 0 && matches!(text.get(at - 1), Some(b'"' | b'}' | b']')) {
            return at;
        }
    }
    at
}

/// The object that begins here.
fn object(text: &str, at: usize) -> Option<Object> {
    let bytes = text.as_bytes();
    let at = skip_blank(bytes, at);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    let (open, mut at, mut members) = (at + 1, skip_blank(bytes, at + 1), Vec::new());
    while bytes.get(at) == Some(&b'"') {
        let end = end_of_string(bytes, at);
        let key = serde_json::from_str(text.get(at..end)?).ok()?;
        let colon = skip_blank(bytes, end);
        let start = skip_blank(bytes, colon + 1);
        let value = start..end_of_value(bytes, start);
        let behind = skip_blank(bytes, value.end);
        members.push(Member { key, key_at: at, value });
        at = if bytes.get(behind) == Some(&b',') { skip_blank(bytes, behind + 1) } else { behind };
    }
    (bytes.get(at) == Some(&b'}')).then_some(Object { open, close: at, members })
}

impl Object {
    /// The member of this name; two of them are more than anybody can mean.
    fn member(&self, key: &str) -> Result<Option<&Member>, Refused> {
        let mut found = self.members.iter().filter(|m| m.key == key);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Refused(format!("it has {key:?} twice"))),
            (first, None) => Ok(first),
        }
    }
}

/// The object at the end of a path of members; the path so far as it leads.
fn walk(text: &str, path: &[&str]) -> Result<(Object, usize), Refused> {
    let not = |what: &str| Refused(format!("{what} is no object"));
    let mut here = object(text, 0).ok_or_else(|| not("it"))?;
    for (depth, key) in path.iter().enumerate() {
        let Some(member) = here.member(key)? else { return Ok((here, depth)) };
        here = object(text, member.value.start).ok_or_else(|| not(&format!("{key:?} in it")))?;
    }
    Ok((here, path.len()))
}

/// How the text is laid out.
struct Layout {
    newline: &'static str,
    indent: String,
    /// Everything is on one line.
    compact: bool,
}

impl Layout {
    fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = object(text, 0).and_then(|o| o.members.first().map(|m| text[..m.key_at].to_owned()));
        let line = first.as_deref().and_then(|before| before.rsplit_once('\n'));
        let indent = line.map(|(_, blank)| blank.to_owned()).filter(|b| b.trim().is_empty() && !b.is_empty());
        Self {
            newline,
            indent: indent.unwrap_or_else(|| "  ".to_owned()),
            compact: first.is_some() && line.is_none(),
        }
    }

    /// A value as a text that stands at this depth.
    fn write(&self, value: &Written, depth: usize) -> String {
        let Written::Object(members) = value else {
            let Written::Plain(value) = value else { return String::new() };
            return plain(value, self.compact);
        };
        let inner: Vec<String> = members.iter().map(|(k, v)| self.member(k, v, depth + 1)).collect();
        if self.compact {
            return format!("{{{}}}", inner.join(","));
        }
        let (line, end) = (self.line(depth + 1), self.line(depth));
        format!("{{{line}{}{end}}}", inner.join(&format!(",{line}")))
    }

    fn member(&self, key: &str, value: &Written, depth: usize) -> String {
        let colon = if self.compact { ":" } else { ": " };
        format!("{}{colon}{}", Value::from(key), self.write(value, depth))
    }

    /// The beginning of a line at this depth.
    fn line(&self, depth: usize) -> String {
        if self.compact { String::new() } else { format!("{}{}", self.newline, self.indent.repeat(depth)) }
    }
}

/// A list stays on its line.
fn plain(value: &Value, compact: bool) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            format!("[{}]", items.join(if compact { "," } else { ", " }))
        }
        other => other.to_string(),
    }
}

/// What is to be written: objects in the order that is given.
enum Written {
    Plain(Value),
    Object(Vec<(String, Written)>),
}

/// Sets these members of the object at the path; what is missing of the path is made. Other members of the object
/// stay.
pub(super) fn set(text: &str, path: &[&str], members: &[(&str, Value)]) -> Result<String, Refused> {
    let fresh = text.trim().is_empty();
    let mut text = if fresh { "{}\n".to_owned() } else { text.to_owned() };
    let layout = if fresh {
        Layout { newline: "\n", indent: "  ".to_owned(), compact: false }
    } else {
        Layout::of(&text)
    };
    let (_, depth) = walk(&text, path)?;
    if let Some(missing) = path.get(depth..).filter(|rest| !rest.is_empty()) {
        let members = members.iter().map(|(k, v)| ((*k).to_owned(), Written::Plain(v.clone()))).collect();
        let mut value = Written::Object(members);
        for key in missing.iter().skip(1).rev() {
            value = Written::Object(vec![((*key).to_owned(), value)]);
        }
        return put(&text, &path[..depth], missing[0], &value, &layout);
    }
    for (key, value) in members {
        let (object, _) = walk(&text, path)?;
        match object.member(key)? {
            Some(member) => {
                let old: Option<Value> = serde_json::from_str(&text[member.value.clone()]).ok();
                if old.as_ref() != Some(value) {
                    text.replace_range(member.value.clone(), &plain(value, layout.compact));
                }
            }
            None => text = put(&text, path, key, &Written::Plain(value.clone()), &layout)?,
        }
    }
    Ok(text)
}

/// Puts a new member behind the last one of an object.
fn put(text: &str, path: &[&str], key: &str, value: &Written, layout: &Layout) -> Result<String, Refused> {
    let (object, _) = walk(text, path)?;
    let depth = path.len() + 1;
    let member = layout.member(key, value, depth);
    let mut out = text.to_owned();
    if let Some(last) = object.members.last() {
        // An object that stands on one line goes on there.
        let inside = &text[object.open..object.close];
        let line = if inside.contains('\n') || layout.compact { layout.line(depth) } else { " ".to_owned() };
        out.insert_str(last.value.end, &format!(",{line}{member}"));
    } else {
        let inside = format!("{}{member}{}", layout.line(depth), layout.line(depth - 1));
        out.replace_range(object.open..object.close, &inside);
    }
    Ok(out)
}

/// Takes a member out of the object at the path. `None` if there is none.
pub(super) fn remove(text: &str, path: &[&str], key: &str) -> Result<Option<String>, Refused> {
    let (object, depth) = walk(text, path)?;
    if depth < path.len() {
        return Ok(None);
    }
    let Some(found) = object.member(key)? else { return Ok(None) };
    let at = object.members.iter().position(|m| m.key == key).unwrap_or_default();
    let cut = match (at.checked_sub(1).map(|i| &object.members[i]), object.members.get(at + 1)) {
        // With the comma before it.
        (Some(before), _) => before.value.end..found.value.end,
        // With the comma behind it.
        (None, Some(next)) => found.key_at..next.key_at,
        (None, None) => object.open..object.close,
    };
    let mut out = text.to_owned();
    out.replace_range(cut, "");
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry() -> Vec<(&'static str, Value)> {
        vec![("command", json!("/k")), ("args", json!(["mcp"]))]
    }

    fn set_one(text: &str) -> String {
        set(text, &["servers", "k"], &entry()).unwrap()
    }

    #[test]
    fn an_entry_is_put_in_as_the_file_is_laid_out() {
        let written = "\"k\": {\n      \"command\": \"/k\",\n      \"args\": [\"mcp\"]\n    }";
        assert_eq!(set_one(""), format!("{{\n  \"servers\": {{\n    {written}\n  }}\n}}\n"));
        assert_eq!(set_one("{}"), format!("{{\n  \"servers\": {{\n    {written}\n  }}\n}}"));
        assert_eq!(
            set_one("{\"a\":1.0}"),
            "{\"a\":1.0,\"servers\":{\"k\":{\"command\":\"/k\",\"args\":[\"mcp\"]}}}"
        );
        let other = "{\n  \"servers\": {\n    \"o\": {\"x\": [1, \"}\\\"\"]}\n  },\n  \"z\": 1e5\n}\n";
        let expected = other.replace("]}\n", &format!("]}},\n    {written}\n"));
        assert_eq!(set_one(other), expected);
        let tabs = "{\r\n\t\"servers\": {}\r\n}\r\n";
        let expected = "{\r\n\t\"servers\": {\r\n\t\t\"k\": {\r\n\t\t\t\"command\": \"/k\",\r\n\t\t\t\"args\": [\"mcp\"]\r\n\t\t}\r\n\t}\r\n}\r\n";
        assert_eq!(set_one(tabs), expected);
    }

    #[test]
    fn what_is_put_in_is_taken_out_again_byte_for_byte() {
        for text in [
            "{\n  \"servers\": {\n    \"o\": {\"x\": 1}\n  }\n}\n",
            "{\"servers\":{\"o\":{}}}",
            "{\"servers\":{}}",
            "{ \"a\" : [ { } ] , \"servers\" : { \"\\u006f\" : null , \"p\":-1.50e+3} }",
        ] {
            let with = set_one(text);
            let value: Value = serde_json::from_str(&with).unwrap();
            assert_eq!(value["servers"]["k"], json!({ "command": "/k", "args": ["mcp"] }));
            assert_eq!(remove(&with, &["servers"], "k").unwrap().unwrap(), text);
            assert_eq!(remove(text, &["servers"], "k").unwrap(), None);
        }
    }

    #[test]
    fn an_entry_that_is_there_is_changed_where_it_differs() {
        let text =
            "{\"servers\": {\"k\": {\"env\": {\"A\": \"b\"}, \"command\": \"/old\", \"args\": [ \"mcp\" ]}}}";
        assert_eq!(set_one(text), text.replace("/old", "/k"));
        assert_eq!(set_one(&set_one(text)), set_one(text));
        let text = "{\"servers\": {\"k\": {\"command\": \"/k\"}}}";
        assert_eq!(remove(text, &["servers"], "k").unwrap().unwrap(), "{\"servers\": {}}");
    }

    #[test]
    fn the_first_of_several_is_taken_out_with_its_comma() {
        let text = "{\n  \"k\": 1,\n  \"o\": 2\n}";
        assert_eq!(remove(text, &[], "k").unwrap().unwrap(), "{\n  \"o\": 2\n}");
    }

    #[test]
    fn what_nobody_can_mean_is_refused() {
        let says = |text: &str| set(text, &["servers", "k"], &entry()).unwrap_err().0;
        assert_eq!(says("{\"servers\": {}, \"servers\": {}}"), "it has \"servers\" twice");
        assert_eq!(says("{\"servers\": []}"), "\"servers\" in it is no object");
        assert_eq!(says("[]"), "it is no object");
    }
}
