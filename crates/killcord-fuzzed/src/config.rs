use killcord_mcp::config::{Shown, Wrong, keys, parse};

/// A configuration is read, and then what is shown of it reads back as the same; or each thing that is wrong in it is
/// named with its place in the file.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse(&text) {
        Ok(config) => {
            let shown = Shown(&config).to_string();
            assert_eq!(parse(&shown).as_ref(), Ok(&config), "{shown}");
        }
        Err(wrong) => {
            assert!(!wrong.is_empty(), "nothing is wrong, and it is refused");
            assert!(wrong.is_sorted());
            for one in &wrong {
                is_in(one, &text);
            }
        }
    }
}

fn is_in(wrong: &Wrong, text: &str) {
    let lines: Vec<&str> = text.split('\n').collect();
    let line = lines.get(wrong.line.wrapping_sub(1));
    let is_there = line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&wrong.column));
    assert!(is_there, "{wrong} is nowhere in {text:?}");
    assert!(!wrong.what.is_empty() && !wrong.what.contains('\n'), "{wrong:?}");
    // Of what is not known the key is the file's own; of what is, one of ours or a name in one of them.
    let known = keys();
    let ours = known.iter().any(|key| wrong.key == *key || wrong.key.starts_with(&format!("{key}.")));
    let section = known.iter().any(|key| key.split('.').next() == Some(&wrong.key));
    let own = wrong.what.starts_with("not known") || wrong.key.is_empty();
    assert!(ours || section || own, "{wrong:?}");
}
