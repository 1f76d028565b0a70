//! Campaigns: searches whose size is a choice.
//!
//! Each has a short form, which is an ordinary test, and a full one: the same test with `KILLCORD_CAMPAIGN=full`. At its
//! end it says what was tried and how many faults that found, to whoever reads the output and as a row of `just prove`.

use std::fs::OpenOptions;
use std::io::Write;

/// Whether everything is to be tried, however long that takes, and not a sample.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("KILLCORD_CAMPAIGN").is_some_and(|size| size == "full")
}

/// Where the random numbers of a campaign begin: `KILLCORD_SEED`, or one that is new each time. It is printed, so that
/// what was found can be looked for again.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var("KILLCORD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64)
    });
    println!("KILLCORD_SEED={seed}");
    seed
}

/// Says what a campaign has tried and how many faults it found; `size` is a phrase like `812 kills at 74 points`.
///
/// # Panics
/// When the file that `KILLCORD_CAMPAIGNS` names cannot be written: a table with a row missing would be a wrong one.
pub fn report(name: &str, size: &str, found: usize) {
    let row = format!("campaign | {name} | {size} | {found}");
    println!("{row}");
    if let Some(file) = std::env::var_os("KILLCORD_CAMPAIGNS") {
        // One write, so that rows of campaigns that end at once are whole.
        let file = OpenOptions::new().append(true).create(true).open(&file);
        let written = file.and_then(|mut file| file.write_all(format!("{row}\n").as_bytes()));
        assert!(written.is_ok(), "KILLCORD_CAMPAIGNS: {written:?}");
    }
}
