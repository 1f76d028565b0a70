//! What one job costs on disk: its two records and its temporary directory, made and removed. On a tmpfs, where state
//! directories usually are, and on the file system of the temp directory.
//!
//!     cargo bench -p killcord --features test-hooks --bench claims

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has failed")]

use killcord::hooks::OnDisk;
use std::path::Path;

fn main() {
    divan::main();
}

fn one_job_in(bencher: divan::Bencher<'_, '_>, parent: &Path) {
    let state = tempfile::Builder::new().prefix("killcord-bench-").tempdir_in(parent).unwrap();
    let claim = OnDisk::claim(&state.path().join("state")).unwrap();
    bencher.bench_local(|| claim.one_job().unwrap());
}

/// The goal is less than 100 us.
#[divan::bench]
fn tmpfs(bencher: divan::Bencher<'_, '_>) {
    one_job_in(bencher, Path::new("/dev/shm"));
}

#[divan::bench]
fn temp_directory(bencher: divan::Bencher<'_, '_>) {
    one_job_in(bencher, &std::env::temp_dir());
}
