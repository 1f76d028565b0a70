//! README.md: the exit statuses and the example.

use super::{read, root};
use killcord_model::status::{self, ExitStatus};
use std::collections::BTreeMap;

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
