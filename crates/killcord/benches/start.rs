//! What a start costs: from the call to the proven end of a program that does nothing.
//!
//! Compared with `std::process::Command`, for a tiny static program and for `/bin/true`, from a small owner; and,
//! with a session of the program's own, from an owner that has 2 GiB in memory, where each start that needs code
//! between fork and exec copies the owner's page tables. The ratios come from one interleaved run: what else the
//! machine does meets both sides alike. divan's own table of the single times follows.
//!
//!     cargo bench -p killcord --bench start

use killcord::{Boundary, Choice, Owner};
use killcord_testkit::{Host, bin, skipped};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Rounds of a small owner, and of a large one.
const SMALL: usize = 400;
const LARGE: usize = 30;
const GIB: usize = 1 << 30;

static TINY: LazyLock<std::path::PathBuf> = LazyLock::new(|| bin("kc-tiny"));
static TRUE: &str = "/bin/true";

fn main() {
    killcord::init();
    // Run as a test it only has to work.
    let rounds =
        if std::env::args().any(|a| a == "--bench") { (SMALL, LARGE, 2 * GIB) } else { (3, 3, 1 << 20) };
    small_owner(rounds.0);
    large_owner(rounds.1, rounds.2);
    divan::main();
}

/// The boundaries that can be had here.
fn boundaries() -> Vec<Boundary> {
    let mut all = vec![Boundary::Tree, Boundary::Cgroup, Boundary::Namespace];
    let who = killcord_testkit::Who::here()[0];
    all.retain(|boundary| match Host::need_of(boundary.name(), who) {
        Some(need) if !Host::get().has(need) => {
            skipped(need);
            false
        }
        _ => true,
    });
    all
}

fn owner(boundary: Boundary) -> Owner {
    Owner::builder().boundary(Choice::Exactly(boundary)).build().unwrap_or_else(|e| failed(&e))
}

fn failed(e: &dyn std::error::Error) -> ! {
    eprintln!("start: {e}");
    std::process::exit(1)
}

fn by_library(owner: &Owner, program: &Path) {
    let end = owner.command(program).spawn().and_then(|mut job| job.wait()).unwrap_or_else(|e| failed(&e));
    assert!(end.success(), "{end:?}");
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn by_std(program: &Path) {
    let status = command(program).status().unwrap_or_else(|e| failed(&e));
    assert!(status.success());
}

fn by_std_in_a_session(program: &Path) {
    let mut command = command(program);
    killcord_sys::fixture::lead_a_session(&mut command);
    assert!(command.status().unwrap_or_else(|e| failed(&e)).success());
}

/// Runs all in turn, so many times, and gives the median of each.
fn interleaved<const N: usize>(rounds: usize, all: [&dyn Fn(); N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (what, times) in all.iter().zip(&mut times) {
            let begun = Instant::now();
            what();
            times.push(begun.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

fn small_owner(rounds: usize) {
    for boundary in boundaries() {
        let owner = owner(boundary);
        let with = Path::new(TRUE);
        let (ours, theirs) = (|program: &Path| by_library(&owner, program), by_std);
        let all: [&dyn Fn(); 4] = [&|| ours(&TINY), &|| theirs(&TINY), &|| ours(with), &|| theirs(with)];
        let [tiny, std_tiny, with_true, std_true] = interleaved(rounds, all);
        println!("{boundary}, small owner, medians of {rounds}:");
        row("  tiny static program", tiny, std_tiny, "std");
        row("  /bin/true", with_true, std_true, "std");
    }
}

fn large_owner(rounds: usize, size: usize) {
    // Every page is touched: it is resident.
    let ballast = vec![1u8; size];
    for boundary in boundaries() {
        let owner = owner(boundary);
        let [tiny, std_tiny] =
            interleaved(rounds, [&|| by_library(&owner, &TINY), &|| by_std_in_a_session(&TINY)]);
        println!("{boundary}, owner with {} MiB resident, medians of {rounds}:", size >> 20);
        row("  tiny static program in a session", tiny, std_tiny, "std with pre_exec(setsid)");
    }
    black_box(&ballast);
}

fn row(what: &str, ours: Duration, theirs: Duration, name: &str) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{what}: {ours:.2?}, {name} {theirs:.2?}, ratio {ratio:.2}");
}

#[divan::bench]
fn std_tiny(bencher: divan::Bencher) {
    bencher.bench(|| by_std(&TINY));
}

#[divan::bench]
fn std_true(bencher: divan::Bencher) {
    bencher.bench(|| by_std(Path::new(TRUE)));
}

#[divan::bench(args = [Boundary::Tree, Boundary::Cgroup, Boundary::Namespace])]
fn library_tiny(bencher: divan::Bencher, boundary: Boundary) {
    if boundaries().contains(&boundary) {
        let owner = owner(boundary);
        bencher.bench(|| by_library(&owner, &TINY));
    }
}

#[divan::bench(args = [Boundary::Tree, Boundary::Cgroup, Boundary::Namespace])]
fn library_true(bencher: divan::Bencher, boundary: Boundary) {
    if boundaries().contains(&boundary) {
        let owner = owner(boundary);
        bencher.bench(|| by_library(&owner, Path::new(TRUE)));
    }
}
