//! Files that documents name.

use super::names::is_word;
use super::{files_below, read, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
