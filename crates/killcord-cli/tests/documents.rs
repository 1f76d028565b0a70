//! The documents: what they name is there.
//!
//! Promised: each promise of docs/guarantees.md names tests that exist and are run, or says that it is not built
//! yet; README's exit statuses are those of the program, and its example that of the library; every file of this
//! repository that a document names exists.
//! The negative controls are documents made up for it, each with one thing wrong.
//!
//! Not promised: that a test shows what its row says it does. That is for who reads both.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use killcord_model::status::{self, ExitStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many promises there are.
const PROMISES: usize = 14;
/// What a line begins with that says why a promise has no test.
const NOT_BUILT: &str = "Not built yet:";

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Everything below a directory that is a file.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let is_dir = entry.file_type().unwrap().is_dir();
            if is_dir { &mut dirs } else { &mut found }.push(entry.path());
        }
    }
    found
}

fn is_word(c: char) -> bool {
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
type Tests = BTreeMap<String, bool>;

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
fn all_tests() -> Tests {
    let mut tests = Tests::new();
    for path in
        files_below(&root().join("crates")).iter().filter(|p| p.extension().is_some_and(|e| e == "rs"))
    {
        // What is made up below is no test.
        if path.ends_with("tests/documents.rs") {
            continue;
        }
        let source = read(path);
        plain_tests(&source, &mut tests);
        tests_of_macros(&source, &mut tests);
        trials(path.file_stem().unwrap().to_str().unwrap(), &source, &mut tests);
    }
    tests
}

/// The words of a text that stand between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The promises of a page, each with its lines.
fn promises(page: &str) -> Vec<(String, Vec<&str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            found.push((title.split(' ').next().unwrap_or_default().to_owned(), Vec::new()));
        } else if let Some((_, lines)) = found.last_mut() {
            lines.push(line);
        }
    }
    found.retain(|(name, _)| name.strip_prefix('G').is_some_and(|n| n.parse::<usize>().is_ok()));
    found
}

/// What is wrong with a page of guarantees.
fn wrong_in_guarantees(page: &str, tests: &Tests) -> Vec<String> {
    let mut wrong = Vec::new();
    if page.contains("TODO-TESTS") {
        wrong.push("a row still says TODO-TESTS".to_owned());
    }
    let promises = promises(page);
    let names: Vec<&str> = promises.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<String> = (1..=PROMISES).map(|n| format!("G{n}")).collect();
    if names != expected {
        wrong.push(format!("the promises are {names:?}"));
    }
    for (promise, lines) in &promises {
        let mut shown = 0;
        for row in lines.iter().filter(|line| line.starts_with("| G")) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [number, what, by] = cells[..] else {
                wrong.push(format!("{promise}: not three columns: {row}"));
                continue;
            };
            if number != promise {
                wrong.push(format!("{promise}: a row of {number}: {what}"));
            }
            if quoted(by).next().is_none() {
                wrong.push(format!("{promise}: no test shows: {what}"));
            }
            for name in quoted(by) {
                shown += 1;
                match tests.get(name) {
                    Some(true) => {}
                    Some(false) => wrong.push(format!("{promise}: {name} is ignored")),
                    None => wrong.push(format!("{promise}: there is no test {name}")),
                }
            }
        }
        if shown == 0 && !lines.iter().any(|line| line.starts_with(NOT_BUILT)) {
            wrong.push(format!("{promise}: no test, and no line that begins with {NOT_BUILT:?}"));
        }
    }
    wrong
}

#[test]
fn each_promise_names_tests_that_exist_and_are_run() {
    let page = read(&root().join("docs/guarantees.md"));
    let wrong = wrong_in_guarantees(&page, &all_tests());
    assert!(wrong.is_empty(), "docs/guarantees.md:\n{}", wrong.join("\n"));
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

#[test]
fn a_page_of_guarantees_with_something_wrong_is_refused() {
    let tests = Tests::from([("real".to_owned(), true), ("asleep".to_owned(), false)]);
    let row = |n: usize, name: &str| format!("## G{n} Title\n\n| G{n} | shown | `{name}` |\n\n");
    let page = |third: &str| {
        let sections = (1..=PROMISES).map(|n| if n == 3 { third.to_owned() } else { row(n, "real") });
        sections.collect::<String>()
    };
    let wrong = |third: &str| wrong_in_guarantees(&page(third), &tests);
    assert_eq!(wrong(&row(3, "real")), [] as [String; 0]);
    assert_eq!(wrong("## G3 Title\n\nNot built yet: it comes.\n"), [] as [String; 0]);
    assert_eq!(wrong(&row(3, "made_up")), ["G3: there is no test made_up"]);
    assert_eq!(wrong(&row(3, "asleep")), ["G3: asleep is ignored"]);
    assert_eq!(wrong("## G3 Title\n\nWords.\n").len(), 1);
    assert_eq!(wrong("## G3 Title\n\n| G3 | shown | TODO-TESTS |\n").len(), 3);
    assert_eq!(wrong("## G3 Title\n\n| G4 | shown | `real` |\n"), ["G3: a row of G4: shown"]);
    assert!(wrong("")[0].starts_with("the promises are "));
}

/// The rows of README's table of exit statuses.
fn exit_statuses(readme: &str) -> BTreeMap<&str, &str> {
    let table = readme.lines().skip_while(|line| !line.starts_with("| exit status |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.trim_matches('|').split_once('|')).map(|(a, b)| (a.trim(), b.trim())).collect()
}

/// What is wrong with a table of exit statuses.
fn wrong_in_statuses(readme: &str) -> Vec<String> {
    let rows = exit_statuses(readme);
    let means = [
        (status::TIMED_OUT, "timeout"),
        (status::FAILED, "nothing ran"),
        (status::NOT_EXECUTABLE, "could not be executed"),
        (status::NOT_FOUND, "was not found"),
        (status::GUARD_LOST, "a guard was killed"),
    ];
    let mut wrong = Vec::new();
    for (number, words) in means {
        if !rows.get(number.to_string().as_str()).is_some_and(|meaning| meaning.contains(words)) {
            wrong.push(format!("{number} is not said to mean {words:?}"));
        }
    }
    let known: Vec<String> = means.iter().map(|(number, _)| number.to_string()).collect();
    for number in rows.keys().filter(|n| n.parse::<i32>().is_ok() && !known.iter().any(|k| k == *n)) {
        wrong.push(format!("{number} is no exit status of ours"));
    }
    let by_signal = format!("{} + n", ExitStatus::Signal(0).as_shell());
    for row in ["the program's own", &by_signal] {
        if !rows.contains_key(row) {
            wrong.push(format!("there is no row {row:?}"));
        }
    }
    wrong
}

#[test]
fn the_exit_statuses_of_the_readme_are_the_programs() {
    let readme = read(&root().join("README.md"));
    assert_eq!(wrong_in_statuses(&readme), [] as [String; 0]);
    // As many constants as rows are compared above: a new one needs a row.
    let source = read(&root().join("crates/killcord-model/src/status.rs"));
    assert_eq!(source.matches("pub const ").count(), 5);
    let changed = readme.replace("| 124 |", "| 123 |");
    assert_eq!(
        wrong_in_statuses(&changed),
        ["124 is not said to mean \"timeout\"", "123 is no exit status of ours"]
    );
}

#[test]
fn the_readme_has_the_librarys_own_example() {
    let library = read(&root().join("crates/killcord/src/lib.rs"));
    let lines = library.lines().skip_while(|line| *line != "//! ```").skip(1);
    let example = lines.take_while(|line| *line != "//! ```").map(|line| line.trim_start_matches("//!"));
    let flat = |lines: &mut dyn Iterator<Item = &str>| lines.map(str::trim).collect::<Vec<_>>().join("\n");
    let example = flat(&mut example.into_iter());
    assert!(example.contains("killcord::init()"));
    assert!(flat(&mut read(&root().join("README.md")).lines()).contains(&example));
}

/// The documents that name files.
fn documents() -> Vec<PathBuf> {
    let root = root();
    let mut all: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap()
        .map(|e| e.unwrap().path())
        .chain(files_below(&root.join("docs")))
        .collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "md"));
    all.sort();
    all
}

/// The targets of the links of a page that are files.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

/// What a page that stands in `dir` names and is not in the repository: targets of links, paths from the root, and
/// names of files that end in what is ours to write.
fn missing(page: &str, dir: &Path) -> Vec<String> {
    let root = root();
    let mut missing: Vec<String> =
        links(page).filter(|target| !dir.join(target).exists()).map(str::to_owned).collect();
    let top: Vec<String> = std::fs::read_dir(&root)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.file_type().unwrap().is_dir() && e.file_name() != "target")
        .map(|e| format!("{}/", e.file_name().to_str().unwrap()))
        .collect();
    let names: BTreeSet<PathBuf> = ["crates", "docs"]
        .iter()
        .flat_map(|dir| files_below(&root.join(dir)))
        .chain(std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()))
        .filter_map(|path| path.file_name().map(PathBuf::from))
        .collect();
    let part_of_path = |c: char| is_word(c) || "./-*<>".contains(c);
    for word in page.split(|c| !part_of_path(c)).map(|word| word.trim_end_matches('.')) {
        let is_path = top.iter().any(|dir| word.starts_with(dir.as_str()) && word.len() > dir.len());
        let is_ours =
            ["rs", "md", "toml"].iter().any(|e| Path::new(word).extension().is_some_and(|w| w == *e));
        let pattern = word.contains(['*', '<', '>']);
        let there = pattern
            || if is_path {
                root.join(word).exists()
            } else {
                !is_ours || word.contains('/') || names.contains(Path::new(word))
            };
        if !there {
            missing.push(word.to_owned());
        }
    }
    missing
}

#[test]
fn every_file_that_a_document_names_exists() {
    let documents = documents();
    assert!(documents.len() > 10, "{documents:?}");
    for document in documents {
        let missing = missing(&read(&document), document.parent().unwrap());
        assert_eq!(missing, [] as [String; 0], "{}", document.display());
    }
}

#[test]
fn a_document_that_names_a_file_that_is_not_there_is_refused() {
    let root = root();
    let good = "[a](README.md) and [b](docs/guarantees.md#g1), `crates/killcord/src/lib.rs`, deny.toml; [c](https://x.y/z).";
    assert_eq!(missing(good, &root), [] as [String; 0]);
    let bad = "[a](NO.md#x), `crates/killcord/src/none.rs`, benches/none and Nothing.toml.";
    assert_eq!(
        missing(bad, &root),
        ["NO.md", "NO.md", "crates/killcord/src/none.rs", "benches/none", "Nothing.toml"]
    );
    // A link is relative to its page.
    assert_eq!(missing("[a](../README.md)", &root.join("docs")), [] as [String; 0]);
    assert_eq!(missing("[a](../README.md)", &root.join("docs/decisions")), ["../README.md"]);
}
