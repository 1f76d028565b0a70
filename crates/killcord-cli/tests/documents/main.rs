//! The documents: what they name is there.
//!
//! Promised: each promise of docs/guarantees.md names tests that exist and are run, or says that it is not built yet;
//! the chain of docs/safety from losses to tests has no gap; README's exit statuses are those of the program, and its
//! example that of the library; every file of this repository that a document names exists.
//! The negative controls are documents made up for it, each with one thing wrong.
//!
//! Not promised: that a test shows what its row says it does. That is for who reads both.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

mod files;
mod guarantees;
mod names;
mod readme;
mod safety;

use std::path::{Path, PathBuf};

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

/// The words of a text that stand between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
