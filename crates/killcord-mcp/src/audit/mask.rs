//! Secrets that are seen in what a client gives, taken out of what is recorded.
//!
//! This is a net with holes: it knows names that secrets are given under and shapes that they have. A password that
//! is an ordinary word at an unusual place is not seen. Values go whole; how long they were is not said.

use regex::{Captures, Regex};
use serde_json::Value;
use std::sync::LazyLock;

/// What stands in place of a secret that was recognised.
pub const MASKED: &str = "[masked]";
/// What stands in place of input that was not even looked at.
pub const WITHHELD: &str = "[withheld]";

/// Wherever they stand in a name.
const ANYWHERE: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "privatekey",
    "authorization",
];
/// As a word of a name: `API_KEY`, `authHeader`, `db-pass`.
const WORDS: [&str; 10] = ["key", "auth", "pass", "pwd", "pat", "otp", "pin", "jwt", "bearer", "cookie"];
/// The arguments of our own tools that are input.
const INPUT: [&str; 5] = ["text", "keys", "paste", "stdin", "input"];

/// Whether what has this name is taken for a secret: a name of an argument, an option, a variable or a header.
pub fn is_secret_name(name: &str) -> bool {
    let mut words: Vec<String> = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase();
    }
    let flat = words.concat();
    ANYWHERE.iter().any(|part| flat.contains(part)) || words.iter().any(|w| WORDS.contains(&w.as_str()))
}

/// A pattern, and how the text that it matches is written without its secret.
struct Rule {
    pattern: Regex,
    replace: fn(&Captures<'_>) -> String,
}

/// The patterns are constants, which a test compiles; one that did not compile would be left out.
fn rule(pattern: &str, replace: fn(&Captures<'_>) -> String) -> Option<Rule> {
    Regex::new(pattern).ok().map(|pattern| Rule { pattern, replace })
}

fn part<'a>(found: &'a Captures<'_>, n: usize) -> &'a str {
    found.get(n).map_or("", |m| m.as_str())
}

/// The first part, and what is masked behind it.
fn behind(found: &Captures<'_>) -> String {
    format!("{}{MASKED}", part(found, 1))
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let rules = [
        rule(r"(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----).*?(?:-----END [A-Z0-9 ]*-----|\z)", behind),
        rule(r#"(?i)((?:proxy-)?authorization["']?\s*[:=]\s*)[^"'\r\n]+"#, behind),
        rule(r#"(?i)\b((?:set-)?cookie["']?\s*:\s*)[^"'\r\n]+"#, behind),
        rule(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}", behind),
        // user:password@host; a password may itself hold an @.
        rule(r#"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@"']*:)[^\s/"']+(@)"#, |found| {
            format!("{}{MASKED}{}", part(found, 1), part(found, 2))
        }),
        // A token alone in place of the user: longer than names of users are.
        rule(r#"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/:@"']{20,}(@)"#, |found| {
            format!("{}{MASKED}{}", part(found, 1), part(found, 2))
        }),
        rule(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,})",
            behind,
        ),
        rule(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}", behind),
        rule(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}", behind),
        rule(r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?", behind),
        rule(
            r"\b(?:xox[a-z]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{20,}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,})",
            behind,
        ),
        // The options that well-known programs have for it.
        rule(r"(\bsshpass\s+-p\s*)\S+", behind),
        rule(r"(\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b[^|;&\n]*?\s-p)[^\s-]\S*", behind),
        rule(r#"(\bcurl\b[^|;&\n]*?\s(?:-u|--user)[ =]?["']?[^\s:"']+:)[^\s"']+"#, behind),
    ];
    rules.into_iter().flatten().collect()
});

/// A name with what parts it from its value, and the value that stands behind it.
struct Named {
    head: Regex,
    value: Regex,
}

static NAMED: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let named = |head: &str, value: &str| {
        Some(Named { head: Regex::new(head).ok()?, value: Regex::new(value).ok()? })
    };
    let quoted = r#"\[masked\]|"(?:[^"\\]|\\.)*"?|'[^']*'?"#;
    let name = r#"([A-Za-z_][A-Za-z0-9_.-]*)\\*["']?"#;
    let all = [
        // NAME=value, --name=value; a shell puts pieces that stand together into one.
        named(&format!(r"{name}\s*=\s*"), &format!(r#"^(?:{quoted}|[^\s"'&;|])+"#)),
        // "name": "value", Name: value.
        named(&format!(r"{name}\s*:\s*\\*"), &format!(r#"^(?:{quoted}|[^\s"',&;|}}\]]+)"#)),
        // --name value; what begins with a dash is the next option.
        named(r"(--?[A-Za-z][A-Za-z0-9_-]*)[ \t]+", &format!(r#"^(?:{quoted}|[^-\s"'&;|][^\s"'&;|]*)"#)),
    ];
    all.into_iter().flatten().collect()
});

impl Named {
    /// Masks the values behind names of secrets. A value behind another name is looked through for names of its own.
    fn mask(&self, text: &str) -> String {
        if !self.head.is_match(text) {
            return text.to_owned();
        }
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for found in self.head.captures_iter(text) {
            let Some(head) = found.get(0).filter(|head| head.start() >= at) else { continue };
            if !is_secret_name(part(&found, 1)) {
                continue;
            }
            if let Some(value) = self.value.find(&text[head.end()..]) {
                out.extend([&text[at..head.end()], MASKED]);
                at = head.end() + value.end();
            }
        }
        out + &text[at..]
    }
}

/// A text without the secrets that are recognised in it.
pub fn text(text: &str) -> String {
    // Whether there is anything to replace is found out without the memory that replacing takes.
    let shapes = RULES.iter().fold(text.to_owned(), |text, rule| {
        if rule.pattern.is_match(&text) {
            rule.pattern.replace_all(&text, rule.replace).into_owned()
        } else {
            text
        }
    });
    NAMED.iter().fold(shapes, |text, named| named.mask(&text))
}

/// Arguments of a call without the secrets that are recognised in them. With `withhold`, or where they say
/// `"sensitive": true`, what is input is withheld as a whole.
pub fn arguments(value: &Value, withhold: bool) -> Value {
    let withhold = withhold || value.get("sensitive") == Some(&Value::Bool(true));
    match value {
        Value::Object(members) => {
            let masked = members.iter().map(|(name, value)| {
                let is_text = matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_));
                let value = if withhold && is_text && INPUT.contains(&name.as_str()) {
                    WITHHELD.into()
                } else {
                    member(name, value)
                };
                (text(name), value)
            });
            Value::Object(masked.collect())
        }
        _ => nested(value),
    }
}

fn member(name: &str, value: &Value) -> Value {
    match value {
        // What is no text, such as a number of tokens, is kept: no secret is a truth value, and a PIN is a text.
        Value::Null | Value::Bool(_) => value.clone(),
        _ if is_secret_name(name) => MASKED.into(),
        _ => nested(value),
    }
}

fn nested(value: &Value) -> Value {
    match value {
        Value::String(said) => text(said).into(),
        Value::Array(items) => {
            // In a list of words, `--password` stands before its value.
            let mut secret = false;
            let masked = items.iter().map(|item| {
                let word = item.as_str().unwrap_or_default();
                let is_option = word.starts_with('-') && !word.contains('=');
                let hide = std::mem::replace(&mut secret, is_option && is_secret_name(word)) && !is_option;
                if hide { MASKED.into() } else { nested(item) }
            });
            Value::Array(masked.collect())
        }
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (text(name), member(name, value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// How many rules there are: each of them compiles.
    #[test]
    fn every_pattern_compiles() {
        assert_eq!((RULES.len(), NAMED.len()), (14, 3));
    }

    #[test]
    fn secrets_in_commands_are_masked_and_the_rest_stays() {
        for (given, kept) in [
            (
                "curl -H 'Authorization: Bearer abc.def' https://x",
                "curl -H 'Authorization: [masked]' https://x",
            ),
            ("curl -H \"authorization: Basic dXNlcjpw\" x", "curl -H \"authorization: [masked]\" x"),
            ("curl -u me:hunter2 https://x/y", "curl -u me:[masked] https://x/y"),
            ("git clone https://me:hunter2@host/r.git", "git clone https://me:[masked]@host/r.git"),
            ("git clone https://me:p@ss@host/r.git", "git clone https://me:[masked]@host/r.git"),
            ("git clone https://0123456789abcdef0123@host/r", "git clone https://[masked]@host/r"),
            ("git clone ssh://git@host/r", "git clone ssh://git@host/r"),
            ("psql postgres://u:s3@h:5432/d?sslmode=x", "psql postgres://u:[masked]@h:5432/d?sslmode=x"),
            ("login --password=hunter2 --user=me", "login --password=[masked] --user=me"),
            ("login --password hunter2 --user me", "login --password [masked] --user me"),
            ("login --api-key 'a b' now", "login --api-key [masked] now"),
            ("login --token --verbose", "login --token --verbose"),
            ("PGPASSWORD=x psql", "PGPASSWORD=[masked] psql"),
            ("export AWS_SECRET_ACCESS_KEY=\"a b\" && y", "export AWS_SECRET_ACCESS_KEY=[masked] && y"),
            ("DB_PASS='x y' MODE=fast ./run", "DB_PASS=[masked] MODE=fast ./run"),
            ("echo '{\"apiKey\": \"abc\", \"n\": 1}'", "echo '{\"apiKey\": [masked], \"n\": 1}'"),
            ("echo ghp_0123456789abcdefABCDEF0123456789abcd", "echo [masked]"),
            ("echo sk-proj-0123456789abcdef0123", "echo [masked]"),
            ("echo AKIAIOSFODNN7EXAMPLE", "echo [masked]"),
            ("echo eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "echo [masked]"),
            ("sshpass -p hunter2 ssh h", "sshpass -p [masked] ssh h"),
            ("mysql -u root -phunter2 db", "mysql -u root -p[masked] db"),
            (
                "echo '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n'",
                "echo '-----BEGIN RSA PRIVATE KEY-----[masked]",
            ),
            ("URL=https://x/?token=abc&n=1 y", "URL=https://x/?token=[masked]&n=1 y"),
            ("curl --url=https://x/?api_key=abc", "curl --url=https://x/?api_key=[masked]"),
            ("PASSWORD=a\"b c\"'d' next", "PASSWORD=[masked] next"),
            ("curl -d '{\"password\":\"a b\",\"n\":1}'", "curl -d '{\"password\":[masked],\"n\":1}'"),
            ("x -d \"{\\\"password\\\": \\\"abc\\\"}\"", "x -d \"{\\\"password\\\": \\[masked]"),
            ("curl -H 'X-Api-Key: abc' x", "curl -H 'X-Api-Key: [masked]' x"),
            ("PATH=/a:/b:$PATH make", "PATH=/a:/b:$PATH make"),
            ("cargo test --all -- keyboard author=me", "cargo test --all -- keyboard author=me"),
            ("git log --author=me --pretty=oneline", "git log --author=me --pretty=oneline"),
            ("ls -l /etc/passwd; grep token src", "ls -l /etc/passwd; grep token src"),
            ("make -j8 CC=gcc V=1", "make -j8 CC=gcc V=1"),
        ] {
            assert_eq!(text(given), kept, "{given}");
        }
    }

    #[test]
    fn a_text_of_megabytes_is_looked_through_in_a_moment() {
        for piece in ["a=", "token=", "https://a:", "'", "\"", "-p ", "Bearer ", "curl -u "] {
            let begun = std::time::Instant::now();
            text(&piece.repeat(200_000 / piece.len()));
            let took = begun.elapsed();
            assert!(took.as_secs() < 10, "{piece:?}: {took:?}");
        }
    }

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "TOKEN",
            "githubToken",
            "api-key",
            "apikey",
            "DB_PASS",
            "AUTH",
            "x-api-key",
            "MYSQL_PWD",
            "Cookie",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["keys", "keyboard", "author", "PATH", "command", "compass", "monkey", "patch", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn arguments_are_masked_by_name_and_by_shape() {
        let given = json!({
            "command": "x --token=abc", "cwd": "/tmp", "timeout_s": 5,
            "env": { "PATH": "/bin", "NPM_TOKEN": "abc", "PIN": 1234, "URL": "https://a:b@c/" },
            "args": ["login", "--password", "hunter2", "--verbose", "x"],
        });
        let kept = json!({
            "command": "x --token=[masked]", "cwd": "/tmp", "timeout_s": 5,
            "env": { "PATH": "/bin", "NPM_TOKEN": "[masked]", "PIN": "[masked]", "URL": "https://a:[masked]@c/" },
            "args": ["login", "--password", "[masked]", "--verbose", "x"],
        });
        assert_eq!(arguments(&given, false), kept);
    }

    #[test]
    fn sensitive_input_is_withheld_as_a_whole() {
        let given =
            json!({ "session": "s1", "text": "hunter2", "keys": ["a"], "paste": true, "sensitive": true });
        let kept =
            json!({ "session": "s1", "text": WITHHELD, "keys": WITHHELD, "paste": true, "sensitive": true });
        assert_eq!(arguments(&given, false), kept);
        let given = json!({ "session": "s1", "text": "hunter2" });
        assert_eq!(arguments(&given, true), json!({ "session": "s1", "text": WITHHELD }));
        assert_eq!(arguments(&given, false), given);
    }
}
