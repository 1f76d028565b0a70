//! Every input that was ever found interesting, given to the property that it was found for.
//!
//! The fuzz targets themselves need libFuzzer and minutes; this needs neither, and a fault that was found once is found
//! at every run of the tests. A corpus that is empty, or a target without one, would pass without having tried anything, so
//! both are failures.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use killcord_fuzzed::TARGETS;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// So many inputs are kept for a target at most: they are in everybody's clone.
const MOST: usize = 100;
/// None is longer than this.
const LONGEST: usize = 16 * 1024;
/// How many small changes are tried of each input.
const CHANGES: u32 = 4;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The names in a directory, without their endings.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| name(entry.unwrap().path())).collect()
}

/// The inputs of a corpus, in the order of their names.
fn corpus(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = std::fs::read(directory.join(&name)).unwrap();
        (name, bytes)
    };
    let corpus: Vec<_> = names(directory).into_iter().map(read).collect();
    assert!(!corpus.is_empty(), "the corpus {} is empty", directory.display());
    corpus
}

/// The inputs for which a property does not hold.
fn failures(corpus: &[(String, Vec<u8>)], check: impl Fn(&[u8])) -> Vec<&str> {
    let fails = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| check(bytes))).is_err();
    corpus.iter().filter(|(_, bytes)| fails(bytes)).map(|(name, _)| name.as_str()).collect()
}

fn replay(target: &str) {
    let (_, check) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let corpus = corpus(&fuzz().join("corpus").join(target));
    assert!(corpus.len() <= MOST, "the corpus of {target} has {} inputs: minimise it", corpus.len());
    let long = corpus.iter().find(|(_, bytes)| bytes.len() > LONGEST);
    assert!(long.is_none(), "{target}: {:?} is longer than {LONGEST} bytes", long.map(|(name, _)| name));
    assert_eq!(failures(&corpus, check), [""; 0], "{target}");
    println!("{target}: {} inputs", corpus.len());
    changed(target, &corpus, *check);
}

/// Each input with a few bytes changed, by a generator that gives the same ones at each run.
fn changed(target: &str, corpus: &[(String, Vec<u8>)], check: fn(&[u8])) {
    let config = Config {
        cases: CHANGES * corpus.len() as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..Config::default()
    };
    let edit = (proptest::num::usize::ANY, proptest::num::u8::ANY, 0u8..3);
    let edits = proptest::collection::vec(edit, 1..4);
    let input = (0..corpus.len(), edits);
    TestRunner::new(config)
        .run(&input, |(which, edits)| {
            let mut bytes = corpus[which].1.clone();
            for (at, byte, how) in edits {
                let at = at % (bytes.len() + 1);
                match how {
                    0 => bytes.insert(at, byte),
                    1 if at < bytes.len() => bytes[at] = byte,
                    _ => bytes.truncate(at),
                }
            }
            check(&bytes);
            Ok(())
        })
        .unwrap_or_else(|e| panic!("{target}: {e}"));
}

#[test]
fn messages_hold_on_their_corpus() {
    replay("wire");
}

#[test]
fn records_hold_on_their_corpus() {
    replay("record");
}

#[test]
fn claims_hold_on_their_corpus() {
    replay("claim");
}

#[test]
fn files_of_proc_hold_on_their_corpus() {
    replay("proc");
}

#[test]
fn lists_of_mounts_hold_on_their_corpus() {
    replay("mountinfo");
}

#[test]
fn configurations_hold_on_their_corpus() {
    replay("config");
}

#[test]
fn filter_and_screen_hold_on_their_corpus() {
    replay("filter");
}

#[test]
fn plain_text_and_ring_hold_on_their_corpus() {
    replay("plain");
}

#[test]
fn keys_and_pastes_hold_on_their_corpus() {
    replay("keys");
}

#[test]
fn input_of_clients_holds_on_its_corpus() {
    replay("mcp_input");
}

#[test]
fn audit_logs_hold_on_their_corpus() {
    replay("audit");
}

#[test]
fn every_property_is_a_target_with_a_corpus_that_is_replayed() {
    let properties: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let replayed = include_str!("corpus.rs").lines().filter_map(|line| line.strip_prefix("    replay(\""));
    let replayed = replayed.map(|rest| rest.trim_end_matches("\");").to_owned()).collect();
    assert_eq!(properties.len(), TARGETS.len());
    assert_eq!(properties, replayed, "replayed here");
    assert_eq!(properties, names(&fuzz().join("fuzz_targets")), "fuzz targets");
    assert_eq!(properties, names(&fuzz().join("corpus")), "corpora");
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for target in &properties {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not built");
        let source = fuzz().join("fuzz_targets").join(format!("{target}.rs"));
        let source = std::fs::read_to_string(source).unwrap();
        assert!(
            source.contains(&format!("killcord_fuzzed::{target}(data)")),
            "{target} checks something else"
        );
    }
}

/// A reader with a fault in it: it trusts the length that a message says it has.
fn faulty(datagram: &[u8]) {
    let [_, _, length, rest @ ..] = datagram else { return };
    let _ = &rest[..usize::from(*length)];
}

#[test]
fn a_fault_is_found_by_the_corpus() {
    let corpus = corpus(&fuzz().join("corpus/wire"));
    let found = failures(&corpus, faulty);
    assert!(!found.is_empty() && found.len() < corpus.len(), "{found:?}");
    // And it is the fault that is found: without it nothing is.
    let mended = |datagram: &[u8]| {
        if let [_, _, length, rest @ ..] = datagram {
            let _ = rest.get(..usize::from(*length));
        }
    };
    assert_eq!(failures(&corpus, mended), [""; 0]);
}

#[test]
#[should_panic(expected = "is empty")]
fn an_empty_corpus_is_a_failure() {
    let nothing = tempfile::tempdir().unwrap();
    let _ = corpus(nothing.path());
}
