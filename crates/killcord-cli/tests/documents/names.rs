//! The tests of the workspace, found in its source.

use super::{files_below, read, root};
use std::collections::{BTreeMap, BTreeSet};

/// Whether names of functions have this character.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name behind `fn`, if this line begins a function.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest =
        ["pub(crate) ", "pub ", "async "].iter().fold(line, |l, word| l.strip_prefix(word).unwrap_or(l));
    let rest = rest.strip_prefix("fn ")?;
    Some(rest.split(|c| !is_word(c)).next().unwrap_or_default())
}

/// Names of tests, and whether each is run.
pub(super) type Tests = BTreeMap<String, bool>;

/// The functions with `#[test]`, and whether no `#[ignore]` is beside it.
fn plain_tests(source: &str, tests: &mut Tests) {
    let (mut attributes, mut open) = (Vec::new(), 0);
    for line in source.lines().map(str::trim) {
        if open > 0 || line.starts_with("#[") || line.starts_with("//") {
            if !line.starts_with("//") {
                open += line.matches('[').count();
                open = open.saturating_sub(line.matches(']').count());
            }
            attributes.push(line);
            continue;
        }
        let has = |name: &str| attributes.iter().any(|a: &&str| a.starts_with(name));
        if has("#[test]")
            && let Some(name) = function(line).filter(|name| !name.is_empty())
        {
            tests.insert(name.to_owned(), !has("#[ignore"));
        }
        attributes.clear();
    }
}

/// What stands between a line that begins with `head` and the next line that is `foot`, each time.
fn blocks<'a>(source: &'a str, head: &'a str, foot: &'a str) -> impl Iterator<Item = &'a str> {
    source.match_indices(head).filter_map(move |(at, _)| {
        let begins_line = at == 0 || source[..at].ends_with('\n');
        let body = &source[at + head.len()..];
        begins_line.then(|| &body[..body.find(&format!("\n{foot}")).unwrap_or(body.len())])
    })
}

/// The tests that a macro of the file makes: their names stand before a colon.
fn tests_of_macros(source: &str, tests: &mut Tests) {
    for definition in blocks(source, "macro_rules! ", "}") {
        let name = definition.split(|c| !is_word(c)).next().unwrap_or_default();
        if !definition.contains("#[test]") {
            continue;
        }
        for line in blocks(source, &format!("{name}! {{"), "}").flat_map(str::lines) {
            let Some((names, _)) = line.split_once(':') else { continue };
            let run = !definition.contains("#[ignore");
            tests.extend(names.split(',').map(|name| (name.trim().to_owned(), run)));
        }
    }
}

/// The trials of the library's own harness, as it registers them: with the module's name. One that it lists is
/// run, unless somebody gives it the flag to be ignored.
fn trials(module: &str, source: &str, tests: &mut Tests) {
    let functions: BTreeSet<&str> = source.lines().filter_map(function).filter(|f| !f.is_empty()).collect();
    for name in blocks(source, "trials![", "]").flat_map(|body| body.split(',')).map(str::trim) {
        if functions.contains(name) {
            tests.insert(format!("{module}::{name}"), !source.contains("with_ignored_flag"));
        }
    }
}

/// Every test of the workspace.
pub(super) fn all_tests() -> Tests {
    let mut tests = Tests::new();
    for path in
        files_below(&root().join("crates")).iter().filter(|p| p.extension().is_some_and(|e| e == "rs"))
    {
        // What is made up below is no test.
        if path.ends_with("tests/documents/names.rs") {
            continue;
        }
        let source = read(path);
        plain_tests(&source, &mut tests);
        tests_of_macros(&source, &mut tests);
        trials(path.file_stem().unwrap().to_str().unwrap(), &source, &mut tests);
    }
    tests
}

#[test]
fn tests_are_found_however_they_are_registered() {
    let mut tests = Tests::new();
    let source = "
    /// Says something.
    #[test]
    #[expect(
        clippy::panic,
        reason = \"[so]\"
    )]
    fn plain() {}
    #[ignore = \"slow\"]
    #[test]
    fn ignored() {}
    fn helper() {}
trials![
    listed,
];
fn listed() {}
fn not_listed() {}
macro_rules! rows {
    ($($name:ident, $other:ident: $victims:expr;)*) => {$(
        #[test]
        fn $name() {}
    )*};
}
rows! {
    made, made_too: [One, Two];
}
";
    plain_tests(source, &mut tests);
    tests_of_macros(source, &mut tests);
    trials("module", source, &mut tests);
    let expected =
        [("ignored", false), ("made", true), ("made_too", true), ("module::listed", true), ("plain", true)];
    let found: Vec<(&str, bool)> = tests.iter().map(|(name, run)| (name.as_str(), *run)).collect();
    assert_eq!(found, expected);
}
