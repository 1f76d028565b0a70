//! docs/safety: the chain from losses to tests has no gap.
//!
//! A row of a table whose first cell is an id defines it; wherever else an id stands, it names what is defined elsewhere.

use super::guarantees::PROMISES;
use super::names::{Tests, all_tests, is_word};
use super::{files_below, quoted, read, root};
use std::collections::{BTreeMap, BTreeSet};

/// What a row's last cell has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Nothing about tests.
    Not,
    /// Tests.
    ByTests,
    /// Tests, or that there is no test.
    OrSaid,
}

/// One kind of id.
struct Kind {
    prefix: &'static str,
    /// Each of its rows names one of each of these.
    names: &'static [&'static str],
    /// Each of them is named by a row of this kind.
    named_by: Option<&'static str>,
    shown: Shown,
}

/// The chain, and what stands beside it. A promise is a `G` without a hyphen, and is defined in docs/guarantees.md.
const KINDS: [Kind; 7] = [
    Kind { prefix: "L", names: &[], named_by: Some("H"), shown: Shown::Not },
    Kind { prefix: "H", names: &["L"], named_by: Some("SC"), shown: Shown::Not },
    Kind { prefix: "SC", names: &["H"], named_by: Some("CS"), shown: Shown::Not },
    Kind { prefix: "UCA", names: &["H", "SC"], named_by: Some("CS"), shown: Shown::Not },
    Kind { prefix: "CS", names: &["UCA", "SC", "G"], named_by: None, shown: Shown::ByTests },
    Kind { prefix: "T", names: &["SC"], named_by: None, shown: Shown::ByTests },
    Kind { prefix: "RR", names: &["H"], named_by: None, shown: Shown::OrSaid },
];

/// What a row says that no test shows.
const NO_TEST: &str = "no test";

/// The kind of an id; `None` for a word that is none.
fn prefix_of(word: &str) -> Option<&'static str> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if word.strip_prefix('G').is_some_and(number) {
        return Some("G");
    }
    let (prefix, _) = word.split_once('-').filter(|(_, rest)| number(rest))?;
    KINDS.iter().map(|kind| kind.prefix).find(|known| *known == prefix)
}

/// The ids that a text has.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| prefix_of(word).is_some())
}

/// The cells of a line that is a row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

/// Whether a word in backticks can be nothing but a test's name.
fn looks_like_a_test(word: &str) -> bool {
    let lower = |c: char| is_word(c) && !c.is_ascii_uppercase();
    word.split("::").all(|part| !part.is_empty() && part.chars().all(lower)) && word.matches('_').count() > 3
}

/// The row that defines an id.
struct Row<'a> {
    kind: &'static Kind,
    cells: Vec<&'a str>,
}

impl Row<'_> {
    fn last(&self) -> &str {
        self.cells.last().copied().unwrap_or_default()
    }

    /// What it names of one kind.
    fn names(&self, prefix: &str) -> impl Iterator<Item = &str> {
        self.cells[1..].iter().flat_map(|cell| ids(cell)).filter(move |id| prefix_of(id) == Some(prefix))
    }
}

/// Every row that defines an id, and what is wrong with the tables.
fn rows<'a>(pages: &[&'a str], wrong: &mut Vec<String>) -> BTreeMap<&'a str, Row<'a>> {
    let mut rows = BTreeMap::new();
    for page in pages {
        let mut columns = None;
        for line in page.lines() {
            let Some(cells) = cells(line) else {
                columns = None;
                continue;
            };
            // The first line of a table says how many there are.
            let columns = *columns.get_or_insert(cells.len());
            let id = cells[0];
            let Some(kind) = KINDS.iter().find(|kind| prefix_of(id) == Some(kind.prefix)) else { continue };
            if cells.len() != columns {
                wrong.push(format!("{id}: {} cells in a table of {columns}", cells.len()));
            }
            if rows.insert(id, Row { kind, cells }).is_some() {
                wrong.push(format!("{id} is defined twice"));
            }
        }
    }
    rows
}

/// What is wrong with the name of a test.
fn wrong_with_test(name: &str, tests: &Tests) -> Option<String> {
    match tests.get(name) {
        Some(true) => None,
        Some(false) => Some(format!("{name} is ignored")),
        None => Some(format!("there is no test {name}")),
    }
}

/// What is wrong with the pages.
fn wrong_in_safety(pages: &[&str], tests: &Tests) -> Vec<String> {
    let mut wrong = Vec::new();
    let rows = rows(pages, &mut wrong);
    for (id, row) in &rows {
        for prefix in row.kind.names.iter().filter(|prefix| row.names(prefix).next().is_none()) {
            wrong.push(format!("{id} names no {prefix}"));
        }
        let shown = quoted(row.last()).next().is_some();
        match row.kind.shown {
            Shown::Not => continue,
            Shown::ByTests if !shown => wrong.push(format!("{id} has no test")),
            Shown::OrSaid if !shown && !row.last().contains(NO_TEST) => {
                wrong.push(format!("{id} has no test, and does not say {NO_TEST:?}"));
            }
            Shown::ByTests | Shown::OrSaid => {}
        }
        let faults = quoted(row.last()).filter_map(|name| wrong_with_test(name, tests));
        wrong.extend(faults.map(|fault| format!("{id}: {fault}")));
    }
    for kind in &KINDS {
        let Some(by) = kind.named_by else { continue };
        let users = rows.values().filter(|row| row.kind.prefix == by);
        let named: BTreeSet<&str> = users.flat_map(|row| row.names(kind.prefix)).collect();
        let of_kind = rows.iter().filter(|(_, row)| row.kind.prefix == kind.prefix).map(|(id, _)| *id);
        wrong.extend(of_kind.filter(|id| !named.contains(id)).map(|id| format!("{id} is named by no {by}")));
    }
    let promised = |id: &str| id[1..].parse().is_ok_and(|n| (1..=PROMISES).contains(&n));
    let known = |id: &str| if prefix_of(id) == Some("G") { promised(id) } else { rows.contains_key(id) };
    let unknown: BTreeSet<&str> = pages.iter().flat_map(|page| ids(page)).filter(|id| !known(id)).collect();
    wrong.extend(unknown.iter().map(|id| format!("{id} is not defined")));
    let elsewhere = pages.iter().flat_map(|page| quoted(page)).filter(|word| looks_like_a_test(word));
    let faults: BTreeSet<String> = elsewhere.filter_map(|name| wrong_with_test(name, tests)).collect();
    let unsaid = |fault: &String| !wrong.iter().any(|said| said.ends_with(fault.as_str()));
    let unsaid: Vec<String> = faults.into_iter().filter(unsaid).collect();
    wrong.extend(unsaid);
    wrong
}

#[test]
fn the_safety_case_goes_from_losses_to_tests_without_a_gap() {
    let pages: Vec<String> = files_below(&root().join("docs/safety"))
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .map(|path| read(path))
        .collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let wrong = wrong_in_safety(&pages, &all_tests());
    assert!(wrong.is_empty(), "docs/safety:\n{}", wrong.join("\n"));
    // A table that is not read as one has nothing wrong.
    let rows = rows(&pages, &mut Vec::new());
    for kind in &KINDS {
        let count = rows.values().filter(|row| row.kind.prefix == kind.prefix).count();
        println!("{} {}", count, kind.prefix);
        assert!(count >= 5, "{count} rows of {}", kind.prefix);
    }
}

/// Pages in which nothing is wrong.
const GOOD: [&str; 2] = [
    "
| id | what | more |
|---|---|---|
| L-1 | a loss | |
| H-1 | a hazard | L-1 |
| SC-1 | a constraint | H-1 |

Words with `snake_case`, `a::path`, `L-` and X-1.
",
    "
| id | what | by what | shown by |
|---|---|---|---|
| UCA-1 | late | H-1 | SC-1 |
| CS-1 | how: UCA-1 | SC-1, G14 | `real`, `module::a_real_one_of_the_library` |
| T-1 | who | SC-1 | `real` |
| RR-1 | what is left | H-1 | no test |
| RR-2 | what is left | H-1 | `real` with; without: no test |
",
];

#[test]
fn a_safety_case_with_something_wrong_is_refused() {
    let tests: Tests = [("real", true), ("module::a_real_one_of_the_library", true), ("asleep", false)]
        .map(|(name, run)| (name.to_owned(), run))
        .into();
    assert_eq!(wrong_in_safety(&GOOD, &tests), [] as [String; 0]);
    // What stands there once, what stands there instead, and what is said then.
    let faults: &[(&str, &str, &[&str])] = &[
        ("| RR-1 |", "| RR-2 |", &["RR-2 is defined twice"]),
        (
            "| what is left | H-1 | no test |",
            "| what is left (RR-3) | H-1 | no test |",
            &["RR-3 is not defined"],
        ),
        ("G14", "G15", &["G15 is not defined"]),
        ("SC-1, G14", "SC-1", &["CS-1 names no G"]),
        ("how: UCA-1", "how", &["CS-1 names no UCA", "UCA-1 is named by no CS"]),
        ("SC-1, G14", "G14", &["CS-1 names no SC", "SC-1 is named by no CS"]),
        ("late | H-1 | SC-1", "late | H-1 | none", &["UCA-1 names no SC"]),
        ("late | H-1 | SC-1", "late | none | SC-1", &["UCA-1 names no H"]),
        ("a hazard | L-1", "a hazard | L", &["H-1 names no L", "L-1 is named by no H"]),
        ("a constraint | H-1", "a constraint | none", &["SC-1 names no H", "H-1 is named by no SC"]),
        ("who | SC-1 | `real`", "who | SC-1 | nobody", &["T-1 has no test"]),
        ("who | SC-1 | `real`", "who | SC-1 | `made_up`", &["T-1: there is no test made_up"]),
        ("who | SC-1 | `real`", "who | SC-1 | `asleep`", &["T-1: asleep is ignored"]),
        ("who | SC-1 | `real`", "who | SC-1, `real`", &["T-1: 3 cells in a table of 4"]),
        ("| H-1 | no test |", "| H-1 | nothing |", &["RR-1 has no test, and does not say \"no test\""]),
        (
            "`snake_case`",
            "`a_test_that_nobody_has_written`",
            &["there is no test a_test_that_nobody_has_written"],
        ),
    ];
    for (old, new, said) in faults {
        let joined = GOOD.join("\n");
        assert_eq!(joined.matches(old).count(), 1, "{old}");
        let changed = GOOD.map(|page| page.replace(old, new));
        assert_eq!(wrong_in_safety(&changed.each_ref().map(String::as_str), &tests), *said, "{new}");
    }
}
