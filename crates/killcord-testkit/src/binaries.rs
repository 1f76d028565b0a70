//! Where the fixtures' binaries are: tests of other packages have no `CARGO_BIN_EXE_` for them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::SystemTime;

/// The path of a fixture like `kc-leaf`, built if it is missing or older than its sources, and executable for
/// an ordinary user (see [`reachable`]).
///
/// Panics when it cannot be built. Cargo's own lock keeps concurrent tests from building it twice.
pub fn bin(name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let profile = profile_dir();
    let path = profile.join(name);
    if !is_fresh(&path, name) {
        build(&profile);
    }
    assert!(path.is_file(), "there is no fixture {name:?} in {}", profile.display());
    reachable(&path)
}

/// The path of an example of another package, built if it is missing or older than its source or its package's
/// library.
///
/// Panics when it cannot be built.
pub fn example(package: &str, name: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let profile = profile_dir();
    let path = profile.join("examples").join(name);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package);
    let sources = [manifest.join("examples").join(format!("{name}.rs")), manifest.join("src")];
    let fresh = modified(&path).is_ok_and(|built| {
        sources.iter().filter_map(|source| modified(source).ok()).all(|source| source <= built)
    });
    if !fresh {
        cargo_build(&profile, &manifest, &["--package", package, "--all-features", "--example", name]);
    }
    assert!(path.is_file(), "there is no example {name:?} in {}", profile.display());
    reachable(&path)
}

/// `target/debug` for a test in `target/debug/deps`.
fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_else(|e| panic!("own path unknown: {e}"));
    let mut dir = exe.parent().unwrap_or_else(|| panic!("{} is in no directory", exe.display()));
    if let (true, Some(above)) = (dir.ends_with("deps") || dir.ends_with("examples"), dir.parent()) {
        dir = above;
    }
    dir.to_path_buf()
}

fn is_fresh(path: &Path, name: &str) -> bool {
    let Ok(built) = modified(path) else { return false };
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = fs::read_dir(package.join("src")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sources = library.filter(|path| path.is_file()).collect::<Vec<_>>();
    sources.push(package.join("src/bin").join(format!("{name}.rs")));
    sources.push(package.join("../killcord-sys/src/fixture.rs"));
    // Sources that are not there (tests carried to another machine) make nothing old.
    sources.iter().filter_map(|source| modified(source).ok()).all(|source| source <= built)
}

/// When a file was changed; of a directory, the last of everything in it: its own time says nothing of what is
/// written into a file that is there already.
fn modified(path: &Path) -> io::Result<SystemTime> {
    let about = fs::metadata(path)?;
    let mut last = about.modified()?;
    if about.is_dir() {
        for entry in fs::read_dir(path)? {
            last = last.max(modified(&entry?.path())?);
        }
    }
    Ok(last)
}

fn build(profile: &Path) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    cargo_build(profile, package, &["--package", "killcord-testkit", "--bins"]);
}

fn cargo_build(profile: &Path, package: &Path, what: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Cargo marks its directory, and the one of the target platform that may be between it and the profile's.
    let marked = |dir: &Path| dir.join("CACHEDIR.TAG").exists();
    let above = profile.ancestors().skip_while(|dir| !marked(dir));
    let target = above.take_while(|dir| marked(dir)).last();
    let (Some(target), Some(name)) = (target, profile.file_name().and_then(|n| n.to_str())) else {
        panic!("{} is no build directory", profile.display())
    };
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet"]).args(what).arg("--manifest-path").arg(package.join("Cargo.toml"));
    command.arg("--target-dir").arg(target);
    // The flags are in the workspace's configuration, which cargo looks for from its working directory, and the test
    // may be anywhere. The platform is the test's own, named by the directory between the two.
    command.current_dir(package);
    if let Some(platform) = profile.parent().filter(|dir| *dir != target).and_then(Path::file_name) {
        command.arg("--target").arg(platform);
    }
    command.args(["--profile", if name == "debug" { "dev" } else { name }]);
    // What cargo set for the package under test is not meant for another build.
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(|key| key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_BIN_EXE_"))
        {
            command.env_remove(key);
        }
    }
    let done = command.stdin(Stdio::null()).output();
    match done {
        Ok(done) if done.status.success() => {}
        Ok(done) => panic!("building {what:?} failed: {}", String::from_utf8_lossy(&done.stderr)),
        Err(e) => panic!("cannot run {command:?}: {e}"),
    }
}

/// The path itself if everybody may execute it, else the path of a copy in the temp directory that everybody
/// may: a checkout below `/root` or a closed home directory is out of an ordinary user's reach.
pub fn reachable(path: &Path) -> PathBuf {
    if !crate::is_root() || is_open_to_all(path) {
        return path.to_path_buf();
    }
    copy(path).unwrap_or_else(|e| panic!("cannot copy {} to where all can reach it: {e}", path.display()))
}

fn is_open_to_all(path: &Path) -> bool {
    let may =
        |path: &Path, mode: u32| fs::metadata(path).is_ok_and(|m| m.permissions().mode() & mode == mode);
    may(path, 0o005) && path.ancestors().skip(1).all(|dir| may(dir, 0o001))
}

/// One directory for each version of each file, made whole under another name and renamed, so that concurrent
/// tests may all do it. It stays, as the build directory does.
fn copy(path: &Path) -> io::Result<PathBuf> {
    let meta = fs::metadata(path)?;
    let mut hash = DefaultHasher::new();
    (path, meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino()).hash(&mut hash);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = std::env::temp_dir().join(format!("killcord-testkit-{:016x}", hash.finish()));
    let copy = dir.join(name);
    if fs::symlink_metadata(&copy).is_ok_and(|m| m.uid() == 0 && m.is_file() && m.len() == meta.len()) {
        return Ok(copy);
    }
    let fresh = tempfile::Builder::new().prefix("killcord-testkit-").tempdir()?;
    fs::copy(path, fresh.path().join(name))?;
    fs::set_permissions(fresh.path().join(name), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(fresh.path(), fs::Permissions::from_mode(0o755))?;
    match fs::rename(fresh.path(), &dir) {
        Ok(()) => Ok(copy),
        // Another test was faster; its copy is as good.
        Err(_) if fs::symlink_metadata(&copy).is_ok_and(|m| m.uid() == 0 && m.len() == meta.len()) => {
            Ok(copy)
        }
        Err(e) => Err(e),
    }
}
