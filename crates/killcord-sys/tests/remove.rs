//! Removing a directory tree that is hostile input.
//!
//! Promised: whatever is in the tree and may be removed goes, for root and for an ordinary user, however deep it lies
//! and however many there are; nothing outside is touched, not over a link, not through a mount, not while names are
//! exchanged; nothing but directories is opened; what cannot go is named and does not keep the rest.
//!
//! Not promised: that a directory which is filled faster than it is emptied goes.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_sys::fixture::own_mounts;
use killcord_sys::{clock, remove};
use killcord_testkit::{Host, Need, USER, as_user, bin, is_root, reachable, run, skip};
use rustix::fs::{CWD, FileType, IFlags, Mode, OFlags, RenameFlags};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Removes `name` in `dir`.
fn tree(dir: &Path, name: &str, until: Option<Duration>) -> io::Result<remove::Removed> {
    remove::tree(File::open(dir).unwrap().as_fd(), OsStr::new(name), until)
}

/// Removes all of it, so many entries.
fn gone(dir: &Path, name: &str, entries: u64) {
    let removed = tree(dir, name, None).unwrap();
    assert_eq!(removed, remove::Removed { entries, complete: true });
    assert!(fs::symlink_metadata(dir.join(name)).is_err());
}

/// This test once more, in a process of its own.
fn once_more(command: &mut Command) {
    let thread = std::thread::current();
    let test = std::env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| thread.name().unwrap().to_owned());
    let done = run(command.args(["--exact", &test, "--nocapture"]), LIMIT);
    assert!(done.code() == 0 && done.stdout.contains("1 passed"), "{}{}", done.stdout, done.stderr);
}

fn this_program() -> PathBuf {
    reachable(&std::env::current_exe().unwrap())
}

/// In a fresh directory; as root, and then as an ordinary user.
fn for_everybody(test: impl Fn(&Path)) {
    for_everybody_in(&std::env::temp_dir(), test);
}

fn for_everybody_in(at: &Path, test: impl Fn(&Path)) {
    test(tempfile::tempdir_in(at).unwrap().path());
    if is_root() {
        once_more(&mut as_user(this_program()));
    }
}

/// A directory in memory, where there is one: on a busy disk this much takes a minute.
fn quick() -> PathBuf {
    let memory = Some(PathBuf::from("/dev/shm")).filter(|dir| tempfile::tempdir_in(dir).is_ok());
    memory.unwrap_or_else(std::env::temp_dir)
}

/// In a thread whose mounts nobody else sees.
fn with_own_mounts(test: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            own_mounts().unwrap();
            test();
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn bind(from: &Path, to: &Path) {
    rustix::mount::mount_bind(from, to).unwrap();
}

fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("sub/sub")).unwrap();
    for file in ["a", "sub/b", "sub/sub/c"] {
        fs::write(dir.join(file), "text").unwrap();
    }
}

#[test]
fn a_tree_goes_with_all_that_is_in_it() {
    for_everybody(|dir| {
        fill(&dir.join("tree"));
        gone(dir, "tree", 6);
        fs::create_dir(dir.join("empty")).unwrap();
        gone(dir, "empty", 1);
        gone(dir, "never there", 0);
        fs::write(dir.join("file"), "text").unwrap();
        gone(dir, "file", 1);
    });
}

#[test]
fn what_is_not_the_name_of_an_entry_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    for name in ["", ".", "..", "sub/b", "/", "sub/", "sub/.."] {
        assert_eq!(tree(dir.path(), name, None).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
    }
    assert!(dir.path().join("sub/sub/c").exists());
}

#[test]
fn a_link_is_removed_and_not_followed() {
    for_everybody(|dir| {
        fill(&dir.join("outside"));
        fs::create_dir(dir.join("tree")).unwrap();
        symlink(dir.join("outside"), dir.join("tree/absolute")).unwrap();
        symlink("../outside/sub", dir.join("tree/relative")).unwrap();
        symlink("..", dir.join("tree/up")).unwrap();
        symlink("nowhere", dir.join("tree/dangling")).unwrap();
        gone(dir, "tree", 5);
        symlink("outside", dir.join("top")).unwrap();
        gone(dir, "top", 1);
        assert!(dir.join("outside/sub/sub/c").exists());
    });
}

#[test]
fn nothing_but_directories_is_opened_and_names_may_be_any_bytes() {
    for_everybody(|dir| {
        let at = dir.join("tree");
        fs::create_dir(&at).unwrap();
        // Opening the FIFO would block until the deadline fails the test.
        rustix::fs::mknodat(CWD, at.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap();
        let mut entries = 4;
        if is_root() {
            rustix::fs::mknodat(CWD, at.join("device"), FileType::CharacterDevice, Mode::RUSR, 0).unwrap();
            entries += 1;
        }
        fs::create_dir(at.join(OsStr::from_bytes(b"\xff\xfe\n\x1b[2J"))).unwrap();
        fs::write(at.join(OsStr::from_bytes(b"\xff\xfe\n\x1b[2J/\x80")), "").unwrap();
        gone(dir, "tree", entries + 1);
        drop(socket);
    });
}

#[test]
fn a_directory_of_ours_without_permissions_goes() {
    for_everybody(|dir| {
        fill(&dir.join("tree"));
        for (sub, mode) in [("tree/sub/sub", 0), ("tree/sub", 0o500), ("tree", 0o300)] {
            fs::set_permissions(dir.join(sub), Permissions::from_mode(mode)).unwrap();
        }
        gone(dir, "tree", 6);
    });
}

/// Makes directories below each other, by descriptor: no path is that long.
fn nest(dir: &Path, depth: u32) {
    fs::create_dir(dir).unwrap();
    let mut at = rustix::fs::open(dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for _ in 1..depth {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    drop(rustix::fs::openat(&at, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap());
}

#[test]
fn heavy_a_hundred_thousand_levels_go_in_bounded_memory_and_few_descriptors() {
    for_everybody_in(&quick(), |dir| {
        nest(&dir.join("tree"), 100_000);
        let small = std::thread::Builder::new().stack_size(64 * 1024);
        let at = dir.to_owned();
        small.spawn(move || gone(&at, "tree", 100_001)).unwrap().join().unwrap();
    });
}

#[test]
fn few_descriptors_are_enough() {
    if let Some(dir) = std::env::var_os("NESTED") {
        return gone(Path::new(&dir), "tree", 1001);
    }
    for_everybody_in(&quick(), |dir| {
        nest(&dir.join("tree"), 1000);
        // A limit that no other test shares.
        let limited = ["-c", "ulimit -n 24; exec \"$0\" \"$@\""];
        once_more(Command::new("sh").args(limited).arg(this_program()).env("NESTED", dir));
        assert!(!dir.join("tree").exists());
    });
}

/// The most memory that this process has had so far, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn heavy_hundreds_of_thousands_of_files_cost_no_memory() {
    for_everybody_in(&quick(), |dir| {
        fs::create_dir(dir.join("tree")).unwrap();
        fs::write(dir.join("tree/file"), "text").unwrap();
        for i in 0..300_000 {
            fs::hard_link(dir.join("tree/file"), dir.join(format!("tree/{i}"))).unwrap();
        }
        let before = peak();
        gone(dir, "tree", 300_002);
        assert!(peak() - before < 4096, "{before} KiB before, {} after", peak());
    });
}

#[test]
fn an_empty_directory_costs_one_call() {
    if let Some(dir) = std::env::var_os("EMPTY") {
        return gone(Path::new(&dir), "empty", 1);
    }
    if !Host::get().has(Need::Program("strace")) {
        skip!(Need::Program("strace"));
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(dir.path().join("calls")).arg(this_program());
    once_more(strace.env("EMPTY", dir.path()));
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    let at = calls.iter().position(|call| call.contains("\"empty\", AT_REMOVEDIR")).unwrap();
    let named = calls.iter().filter(|call| call.contains("\"empty\""));
    assert_eq!(named.count(), 1);
    // Before it the parent was opened by the test; after it the test looks whether it is gone, and closes the parent.
    let around = [at - 1, at + 1].map(|i| calls.get(i).copied().unwrap_or_default());
    let closes = ["close(", "fcntl(3, F_GETFD"].iter().any(|call| around[1].contains(call));
    assert!(around[0].contains("openat(") && closes, "{around:?}");
}

#[test]
fn the_time_is_kept_and_what_is_left_goes_the_next_time() {
    for_everybody_in(&quick(), |dir| {
        fs::create_dir(dir.join("tree")).unwrap();
        for i in 0..20_000 {
            rustix::fs::mknodat(CWD, dir.join(format!("tree/{i}")), FileType::RegularFile, Mode::RUSR, 0)
                .unwrap();
        }
        // The time was up before: one attempt, which an empty directory would not survive.
        let at_once = tree(dir, "tree", Some(clock::now())).unwrap();
        assert_eq!(at_once, remove::Removed { entries: 0, complete: false });
        let (mut entries, mut rounds) = (0, 0);
        loop {
            let removed = tree(dir, "tree", Some(clock::now() + Duration::from_millis(5))).unwrap();
            entries += removed.entries;
            rounds += 1;
            if removed.complete {
                break;
            }
        }
        assert!(entries == 20_001 && rounds > 1, "{entries} in {rounds}");
    });
}

/// A tree with mounts in it: of the same file system, of another one, on a file, and deep below.
fn with_mounts(dir: &Path) {
    fill(&dir.join("outside"));
    fill(&dir.join("tree"));
    for sub in ["tree/same", "tree/sub/other", "tree/sub/sub/same"] {
        fs::create_dir(dir.join(sub)).unwrap();
    }
    bind(&dir.join("outside"), &dir.join("tree/same"));
    bind(&dir.join("outside"), &dir.join("tree/sub/sub/same"));
    bind(&dir.join("outside/a"), &dir.join("tree/a"));
    rustix::mount::mount(
        "tmpfs",
        dir.join("tree/sub/other"),
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None,
    )
    .unwrap();
    fs::write(dir.join("tree/sub/other/file"), "text").unwrap();
}

fn check_mounts(dir: &Path) {
    with_mounts(dir);
    let text = tree(dir, "tree", None).unwrap_err().to_string();
    assert!(text.ends_with(": a mount point, which is left alone"), "{text}");
    let first = text.split(':').next().unwrap();
    assert!(["same", "sub/other", "sub/sub/same", "a"].contains(&first), "{text}");
    for kept in ["outside/sub/sub/c", "tree/same/sub/sub/c", "tree/sub/sub/same/a", "tree/sub/other/file"] {
        assert!(dir.join(kept).exists(), "{kept}");
    }
    for went in ["tree/sub/b", "tree/sub/sub/c"] {
        assert!(!dir.join(went).exists(), "{went}");
    }
    // As the name itself.
    fs::create_dir(dir.join("mount")).unwrap();
    bind(&dir.join("outside"), &dir.join("mount"));
    let text = tree(dir, "mount", None).unwrap_err().to_string();
    assert_eq!(text, "mount: a mount point, which is left alone");
    assert!(dir.join("outside/sub/sub/c").exists());
}

#[test]
fn a_mount_is_neither_entered_nor_emptied() {
    if !is_root() {
        skip!(Need::Root);
    }
    with_own_mounts(|| check_mounts(tempfile::tempdir().unwrap().path()));
    // Where the mount is told by its number, and once more under the filter.
    if std::env::var_os("UNDER").is_none() {
        for filter in ["openat2", "openat2-forbidden"] {
            once_more(
                Command::new(bin("kc-deny")).args([filter, "--"]).arg(this_program()).env("UNDER", filter),
            );
        }
    }
}

#[test]
fn negative_control_the_standard_librarys_removal_empties_a_mount() {
    if !is_root() {
        skip!(Need::Root);
    }
    with_own_mounts(|| {
        let dir = tempfile::tempdir().unwrap();
        with_mounts(dir.path());
        fs::remove_dir_all(dir.path().join("tree/same")).unwrap_err();
        assert!(!dir.path().join("outside/sub").exists());
    });
}

#[test]
fn without_openat2_everything_else_is_as_with_it() {
    if std::env::var_os("UNDER").is_some() {
        return for_all_shapes(tempfile::tempdir().unwrap().path());
    }
    for filter in ["openat2", "openat2-forbidden"] {
        once_more(Command::new(bin("kc-deny")).args([filter, "--"]).arg(this_program()).env("UNDER", filter));
    }
}

fn for_all_shapes(dir: &Path) {
    fill(&dir.join("outside"));
    fill(&dir.join("tree"));
    symlink(dir.join("outside"), dir.join("tree/link")).unwrap();
    fs::set_permissions(dir.join("tree/sub"), Permissions::from_mode(0o000)).unwrap();
    gone(dir, "tree", 7);
    nest(&dir.join("deep"), 300);
    gone(dir, "deep", 301);
    assert!(dir.join("outside/sub/sub/c").exists());
}

#[test]
fn heavy_a_name_that_is_exchanged_for_a_link_never_leads_outside() {
    for_everybody_in(&quick(), exchanging);
    if std::env::var_os("UNDER").is_none() {
        once_more(
            Command::new(bin("kc-deny")).args(["openat2", "--"]).arg(this_program()).env("UNDER", "openat2"),
        );
    }
}

fn exchanging(dir: &Path) {
    let stop = AtomicBool::new(false);
    fill(&dir.join("outside"));
    let pairs: Vec<_> =
        (0..8).map(|i| [dir.join(format!("tree/{i}")), dir.join(format!("link-{i}"))]).collect();
    let (mut rounds, mut swaps) = (0, 0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                for [inside, link] in &pairs {
                    // Either may be gone at the moment.
                    let swapped = rustix::fs::renameat_with(CWD, inside, CWD, link, RenameFlags::EXCHANGE);
                    done += u32::from(swapped.is_ok());
                }
            }
            done
        });
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let _ = fs::create_dir(dir.join("tree"));
            for [inside, link] in &pairs {
                fill(&dir.join("fresh"));
                // What the last round left: a link is removed as such by the standard library too.
                let _ = fs::remove_dir_all(link);
                let _ = symlink(dir.join("outside"), link);
                let _ = fs::rename(dir.join("fresh"), inside);
                let _ = fs::remove_dir_all(dir.join("fresh"));
            }
            // Gone, or a name that kept being exchanged: both are allowed, reaching outside is not.
            let _ = tree(dir, "tree", Some(clock::now() + Duration::from_secs(1)));
            rounds += 1;
        }
        stop.store(true, Ordering::Relaxed);
        swaps = other.join().unwrap();
    });
    for kept in ["outside/a", "outside/sub/b", "outside/sub/sub/c"] {
        assert!(dir.join(kept).exists(), "{kept} after {rounds} rounds and {swaps} exchanges");
    }
    assert!(rounds > 5 && swaps > 200, "{rounds} rounds, {swaps} exchanges");
}

#[test]
fn heavy_several_removers_of_one_tree_are_no_error() {
    for_everybody_in(&quick(), |dir| {
        for round in 0..5 {
            fs::create_dir(dir.join("tree")).unwrap();
            for i in 0..200 {
                fill(&dir.join(format!("tree/{i}")));
            }
            nest(&dir.join("tree/deep"), 500);
            let entries: u64 = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(|| tree(dir, "tree", None))).collect();
                all.into_iter().map(|one| one.join().unwrap().unwrap().entries).sum()
            });
            assert!(!dir.join("tree").exists(), "{round}");
            assert_eq!(entries, 1 + 200 * 6 + 501);
        }
    });
}

#[test]
fn what_may_not_be_removed_is_named_and_does_not_keep_the_rest() {
    if !is_root() {
        skip!(Need::Root);
    }
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("tree"));
    let file = File::open(dir.path().join("tree/sub/b")).unwrap();
    match rustix::fs::ioctl_setflags(&file, IFlags::IMMUTABLE) {
        Ok(()) => {}
        Err(e) => skip!(Need::Other(Box::leak(format!("immutable files: {e}").into_boxed_str()))),
    }
    let text = tree(dir.path(), "tree", None).map_err(|e| e.to_string());
    let left: Vec<_> =
        fs::read_dir(dir.path().join("tree")).unwrap().map(|e| e.unwrap().file_name()).collect();
    let below = fs::read_dir(dir.path().join("tree/sub")).unwrap().count();
    rustix::fs::ioctl_setflags(&file, IFlags::empty()).unwrap();
    assert_eq!(text.unwrap_err(), "sub/b: Operation not permitted (os error 1)");
    assert_eq!((left, below), (vec!["sub".into()], 1));
    gone(dir.path(), "tree", 3);
}

#[test]
fn what_belongs_to_another_in_a_sticky_directory_stays_and_the_rest_goes() {
    if let Some(dir) = std::env::var_os("STICKY") {
        let text = tree(Path::new(&dir), "tree", None).unwrap_err().to_string();
        return assert_eq!(text, "sub/b: Operation not permitted (os error 1)");
    }
    if !is_root() {
        skip!(Need::Root);
    }
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("tree"));
    for (name, owner) in [("", USER), ("tree", USER), ("tree/a", USER), ("tree/sub", 0), ("tree/sub/b", 0)] {
        chown(dir.path().join(name), Some(owner), Some(owner)).unwrap();
    }
    for name in ["tree/sub/sub", "tree/sub/sub/c"] {
        chown(dir.path().join(name), Some(USER), Some(USER)).unwrap();
    }
    fs::set_permissions(dir.path().join("tree/sub"), Permissions::from_mode(0o1777)).unwrap();
    once_more(as_user(this_program()).env("STICKY", dir.path()));
    let left = |name: &str| fs::symlink_metadata(dir.path().join(name)).is_ok();
    assert_eq!(["tree/a", "tree/sub/sub", "tree/sub/b"].map(left), [false, false, true]);
    assert_eq!(fs::metadata(dir.path().join("tree/sub/b")).unwrap().uid(), 0);
}
