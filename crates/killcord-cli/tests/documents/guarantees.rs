//! docs/guarantees.md: each promise has tests.

use super::names::{Tests, all_tests};
use super::{quoted, read, root};

/// How many promises there are.
pub(super) const PROMISES: usize = 14;
/// What a line begins with that says why a promise has no test.
const NOT_BUILT: &str = "Not built yet:";

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
