//! `killcord sweep --adopt`: directories that other makers left in the temp directory.
//!
//! Promised: without `--yes` nothing is changed; with it, what belongs to this user, is old enough and is used by
//! nobody goes, and nothing else: no directory that a live process has open, works in, has as its root, executes or
//! has mapped, none with a bound socket or a mount, no link and nothing behind one. What stays is named with the
//! reason, what is not proven is said.
//!
//! Not promised: that a program does not come back to a directory of which it only remembers the path; use from
//! another mount namespace under another path, or by processes that may not be looked into.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use killcord_sys::fixture::own_mounts;
use killcord_testkit::{
    Finished, Need, Running, Scene, Terminal, USER, Who, bin, is_root, reachable, run, skip,
};
use rustix::fs::{CWD, FileType, IFlags, Mode};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const PREFIX: &str = "other_tool-";
/// What nobody is asked to wait for.
const AT_ONCE: [&str; 2] = ["--older-than", "0"];

fn command(scene: &Scene, who: Who, args: &[&str]) -> Command {
    let mut command = scene.command(who, reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
    command.arg("sweep").args(args).current_dir("/");
    command
}

/// `killcord sweep --adopt PREFIX ARGS --json`, and the reason, or else the fate, of each entry.
fn adopt(scene: &Scene, who: Who, args: &[&str]) -> (Finished, Vec<(String, String)>) {
    let done = run(command(scene, who, &["--adopt", PREFIX, "--json"]).args(args), SOON);
    let fates = fates(&done);
    (done, fates)
}

fn parsed(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

fn fates(done: &Finished) -> Vec<(String, String)> {
    let fate = |entry: &Value| {
        let name = Path::new(entry["path"].as_str().unwrap()).file_name().unwrap().to_str().unwrap();
        let fate = entry["reason"].as_str().or(entry["fate"].as_str()).unwrap();
        (name.strip_prefix(PREFIX).unwrap().to_owned(), fate.to_owned())
    };
    parsed(done)["entries"].as_array().unwrap().iter().map(fate).collect()
}

/// Where an entry is in the temp directory of the scene.
fn at(scene: &Scene, name: &str) -> PathBuf {
    scene.path("tmp").join(format!("{PREFIX}{name}"))
}

fn give(path: &Path, who: Who) {
    if is_root() {
        let owner = if who == Who::User { USER } else { 0 };
        chown(path, Some(owner), Some(owner)).unwrap();
    }
}

/// A directory like a browser's profile, with a FIFO and a link to the outside in it.
fn profile(scene: &Scene, who: Who, name: &str) -> PathBuf {
    let dir = at(scene, name);
    fs::create_dir_all(dir.join("Default/Cache")).unwrap();
    fs::write(dir.join("Default/Cache/data"), vec![7; 8192]).unwrap();
    rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    symlink(scene.path("precious"), dir.join("link")).unwrap();
    fs::create_dir_all(scene.path("precious")).unwrap();
    fs::write(scene.path("precious/file"), "precious").unwrap();
    for sub in ["Default/Cache/data", "Default/Cache", "Default", "fifo", ""] {
        give(&dir.join(sub), who);
    }
    dir
}

fn precious(scene: &Scene) {
    assert_eq!(fs::read_to_string(scene.path("precious/file")).unwrap(), "precious");
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, fate)| ((*name).to_owned(), (*fate).to_owned())).collect()
}

/// Everything below a directory, with what a change would show.
fn picture(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap()) {
        let meta = fs::symlink_metadata(entry.path()).unwrap();
        let (changed, nanos) = (meta.ctime(), meta.ctime_nsec());
        let path = entry.path();
        lines.push(format!("{} {} {} {changed}.{nanos}", path.display(), meta.ino(), meta.mode()));
        if meta.is_dir() {
            lines.extend(picture(&entry.path()));
        }
    }
    lines.sort();
    lines
}

#[test]
fn without_yes_nothing_is_changed_and_with_it_what_is_proven_goes() {
    for who in Who::here() {
        let scene = Scene::new();
        let dir = profile(&scene, *who, "a");
        fs::create_dir(scene.path("tmp/other_tool")).unwrap();
        let before = picture(&scene.path("tmp"));
        for args in [&AT_ONCE[..], &["--older-than", "0", "--dry-run"]] {
            let (done, fates) = adopt(&scene, *who, args);
            assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
            assert_eq!(fates, pairs(&[("a", "would_remove")]));
            assert_eq!(parsed(&done)["dry_run"], true);
        }
        assert_eq!(picture(&scene.path("tmp")), before);
        let (done, fates) = adopt(&scene, *who, &["--older-than", "0", "--yes"]);
        assert_eq!((done.code(), fates), (0, pairs(&[("a", "removed")])));
        let object = parsed(&done);
        assert_eq!(
            (&object["dry_run"], &object["entries"][0]["entries_removed"]),
            (&false.into(), &6.into())
        );
        assert!(object["entries"][0]["bytes"].as_u64().unwrap() >= 8192);
        assert!(!dir.exists() && scene.path("tmp/other_tool").exists());
        precious(&scene);
    }
}

/// Holds a directory in this way; it goes once the holder has ended, and not before.
fn is_kept_while(who: Who, how: &str) {
    let scene = Scene::new();
    let dir = profile(&scene, who, "held");
    profile(&scene, who, "free");
    let path = match how {
        "open" | "map" | "thread" => dir.join("Default/Cache/data"),
        "socket" => dir.join("Default/socket"),
        "cwd" => dir.join("Default"),
        _ => dir.clone(),
    };
    let mut holder = if how == "execute" {
        let program = dir.join("program");
        fs::copy(bin("kc-hold"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Running::start(scene.command(who, &program).args(["remember", "nothing"]).current_dir("/"))
    } else {
        Running::start(scene.command(who, bin("kc-hold")).arg(how).arg(path))
    };
    holder.stdout.expect("ok\n", SOON).unwrap_or_else(|e| panic!("{how}: {e:?}"));
    let (done, fates) = adopt(&scene, who, &["--older-than", "0", "--yes"]);
    assert_eq!(fates, pairs(&[("free", "removed"), ("held", "in_use")]), "{how}");
    let held = &parsed(&done)["entries"][1];
    if how != "socket" {
        assert_eq!(held["pid"], holder.pid(), "{how}: {held}");
    }
    assert!(dir.join("Default/Cache/data").exists(), "{how}");
    // The negative control: the same directory without its holder.
    holder.close_stdin();
    assert!(holder.wait(SOON).is_some_and(|status| status.success()), "{how}");
    let (_, fates) = adopt(&scene, who, &["--older-than", "0", "--yes"]);
    assert_eq!(fates, pairs(&[("held", "removed")]), "{how}");
    precious(&scene);
}

#[test]
fn what_a_live_process_uses_stays_until_the_process_has_ended() {
    for who in Who::here() {
        for how in ["open", "map", "cwd", "execute", "socket", "thread"] {
            is_kept_while(*who, how);
        }
    }
}

#[test]
fn what_is_the_root_of_a_live_process_stays_until_it_has_ended() {
    if !is_root() {
        skip!(Need::Root);
    }
    is_kept_while(Who::Root, "root");
}

#[test]
fn negative_control_a_path_that_is_only_remembered_keeps_nothing() {
    let (scene, who) = (Scene::new(), Who::here()[0]);
    let dir = profile(&scene, who, "a");
    let mut holder = Running::start(scene.command(who, bin("kc-hold")).arg("remember").arg(&dir));
    holder.stdout.expect("ok\n", SOON).unwrap();
    let (_, fates) = adopt(&scene, who, &["--older-than", "0", "--yes"]);
    assert_eq!(fates, pairs(&[("a", "removed")]));
    holder.close_stdin();
}

#[test]
fn links_and_what_is_no_directory_stay_and_nothing_is_followed() {
    for who in Who::here() {
        let scene = Scene::new();
        profile(&scene, *who, "a");
        symlink(scene.path("precious"), at(&scene, "link")).unwrap();
        symlink("nowhere", at(&scene, "nowhere")).unwrap();
        fs::write(at(&scene, "file"), "").unwrap();
        let (done, fates) = adopt(&scene, *who, &["--older-than", "0", "--yes"]);
        let expected = [("a", "removed"), ("file", "no_directory"), ("link", "link"), ("nowhere", "link")];
        assert_eq!((done.code(), fates), (0, pairs(&expected)));
        assert!(fs::symlink_metadata(at(&scene, "link")).is_ok() && at(&scene, "file").exists());
        precious(&scene);
    }
}

#[test]
fn what_belongs_to_another_user_stays() {
    if !is_root() {
        skip!(Need::Root);
    }
    for (who, other) in [(Who::Root, Who::User), (Who::User, Who::Root)] {
        let scene = Scene::new();
        let dir = profile(&scene, other, "theirs");
        profile(&scene, who, "ours");
        let (done, fates) = adopt(&scene, who, &["--older-than", "0", "--yes"]);
        assert_eq!((done.code(), fates), (0, pairs(&[("ours", "removed"), ("theirs", "other_user")])));
        assert!(dir.join("Default/Cache/data").exists());
    }
}

#[test]
fn what_was_changed_lately_stays() {
    let (scene, who) = (Scene::new(), Who::here()[0]);
    let dir = profile(&scene, who, "a");
    // The default is an hour. A date that was set is not believed, but for the directory's own.
    let old = std::time::SystemTime::now() - Duration::from_secs(100_000);
    for name in ["fifo", "link"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    for name in ["Default/Cache/data", "Default/Cache", "Default", ""] {
        fs::File::open(dir.join(name)).unwrap().set_modified(old).unwrap();
    }
    for args in [&["--yes"][..], &["--yes", "--older-than", "1d"], &["--yes", "--older-than", "30m"]] {
        let (done, fates) = adopt(&scene, who, args);
        assert_eq!((done.code(), fates), (0, pairs(&[("a", "young")])), "{args:?}");
    }
    // An empty one is as old as its list, and so it can be old.
    fs::create_dir(at(&scene, "empty")).unwrap();
    give(&at(&scene, "empty"), who);
    fs::File::open(at(&scene, "empty")).unwrap().set_modified(old).unwrap();
    let (_, fates) = adopt(&scene, who, &["--yes", "--older-than", "2d"]);
    assert_eq!(fates, pairs(&[("a", "young"), ("empty", "young")]));
    let (_, fates) = adopt(&scene, who, &["--yes", "--older-than", "1d"]);
    assert_eq!(fates, pairs(&[("a", "young"), ("empty", "removed")]));
}

#[test]
fn a_mount_keeps_its_directory_and_what_it_shows() {
    if !is_root() {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    // The thread's mounts are those of the programs it starts.
    let mounted = || {
        own_mounts().unwrap();
        for name in ["below", "on", "source"] {
            profile(&scene, Who::Root, name);
        }
        let elsewhere = scene.path("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        rustix::mount::mount_bind(scene.path("precious"), at(&scene, "below/Default/Cache")).unwrap();
        rustix::mount::mount_bind(scene.path("precious"), at(&scene, "on")).unwrap();
        rustix::mount::mount_bind(at(&scene, "source/Default"), &elsewhere).unwrap();
        let (done, fates) = adopt(&scene, Who::Root, &["--older-than", "0", "--yes"]);
        assert_eq!(done.code(), 0);
        assert_eq!(fates, pairs(&[("below", "in_use"), ("on", "in_use"), ("source", "in_use")]));
        precious(&scene);
        assert!(elsewhere.join("Cache/data").exists());
    };
    std::thread::scope(|scope| scope.spawn(mounted).join()).unwrap_or_else(|e| std::panic::resume_unwind(e));
    // The negative control: without those mounts all of them go.
    let (_, fates) = adopt(&scene, Who::Root, &["--older-than", "0", "--yes"]);
    assert_eq!(fates, pairs(&[("below", "removed"), ("on", "removed"), ("source", "removed")]));
    precious(&scene);
}

/// A directory of the host is shown in another mount namespace, as a container has it, and a file of a leftover is open
/// there under that path. Returns the fate meanwhile, and how the leftover was used.
fn in_a_container(shown: &str, path: &str) -> (Vec<(String, String)>, String) {
    let scene = Scene::new();
    profile(&scene, Who::Root, "shared");
    fs::create_dir(scene.path("inside")).unwrap();
    let script = "mount --bind \"$1\" \"$2\" && cd / && exec \"$4\" open \"$2/$3\"";
    let mut container = scene.command(Who::Root, "unshare");
    container.args(["--mount", "sh", "-c", script, "sh"]).arg(scene.path(shown)).arg(scene.path("inside"));
    let mut container = Running::start(container.arg(path).arg(bin("kc-hold")));
    container.stdout.expect("ok\n", SOON).unwrap();
    let (done, meanwhile) = adopt(&scene, Who::Root, &["--older-than", "0", "--yes"]);
    let object = parsed(&done);
    assert!(object["processes_in_other_mount_namespaces"].as_u64().unwrap() > 0);
    container.close_stdin();
    assert!(container.wait(SOON).is_some());
    let (_, fates) = adopt(&scene, Who::Root, &["--older-than", "0", "--yes"]);
    assert_eq!(fates, pairs(&[("shared", "removed")]));
    (meanwhile, object["entries"][0]["why"].to_string())
}

#[test]
fn what_a_container_was_given_or_has_open_under_another_path_stays() {
    if !is_root() {
        skip!(Need::Root);
    }
    let (fates, why) = in_a_container("tmp/other_tool-shared/Default", "Cache/data");
    assert_eq!(fates, pairs(&[("shared", "in_use")]));
    assert!(why.contains("mounted"), "{why}");
    let file = "other_tool-shared/Default/Cache/data";
    for (shown, path) in [("tmp", file), ("", &format!("tmp/{file}"))] {
        let (fates, why) = in_a_container(shown, path);
        assert_eq!(fates, pairs(&[("shared", "in_use")]), "{shown}");
        assert!(why.contains("has it open"), "{why}");
    }
}

#[test]
fn what_cannot_be_removed_is_named_with_status_1_and_has_its_name_back() {
    if !is_root() {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    let dir = profile(&scene, Who::Root, "a");
    profile(&scene, Who::Root, "b");
    let file = fs::File::open(dir.join("Default/Cache/data")).unwrap();
    if let Err(e) = rustix::fs::ioctl_setflags(&file, IFlags::IMMUTABLE) {
        skip!(Need::Other(Box::leak(format!("immutable files: {e}").into_boxed_str())));
    }
    drop(file);
    let (done, fates) = adopt(&scene, Who::Root, &["--older-than", "0", "--yes"]);
    let file = fs::File::open(dir.join("Default/Cache/data")).unwrap();
    rustix::fs::ioctl_setflags(&file, IFlags::empty()).unwrap();
    assert_eq!((done.code(), fates), (1, pairs(&[("a", "failed"), ("b", "removed")])));
    let why = &parsed(&done)["entries"][0]["why"];
    assert_eq!(why, "Default/Cache/data: Operation not permitted (os error 1)");
}

#[test]
fn a_prefix_that_fits_too_much_and_options_without_it_are_refused() {
    let scene = Scene::new();
    let who = Who::here()[0];
    let dir = profile(&scene, who, "a");
    let too_short = "a prefix has at least 3 characters";
    let no_slash = "a prefix is the beginning of a name in the temp directory, without `/`";
    for (args, words) in [
        (&["--adopt", "", "--yes"][..], too_short),
        (&["--adopt", "ot", "--yes"], too_short),
        (&["--adopt", "/", "--yes"], no_slash),
        (&["--adopt", "../other_tool-", "--yes"], no_slash),
        (&["--adopt"], "a value is required"),
        (&["--yes"], "--adopt <PREFIX>"),
        (&["--older-than", "1h"], "--adopt <PREFIX>"),
        (&["--adopt", "other_tool-", "--yes", "--dry-run"], "cannot be used with"),
        (&["--adopt", "other_tool-", "--older-than", "soon"], "is not a duration"),
        (&["--adopt", "killcord-", "--yes"], "killcord's own directory"),
    ] {
        let done = run(&mut command(&scene, who, args), SOON);
        assert_eq!((done.code(), done.stdout.as_str()), (125, ""), "{args:?}");
        let line = done.stderr.strip_suffix('\n').unwrap();
        assert!(line.starts_with("killcord: ") && line.contains(words) && !line.contains('\n'), "{line}");
    }
    assert!(dir.join("Default/Cache/data").exists());
}

#[test]
fn a_pipe_gets_a_line_for_each_and_a_terminal_a_table_with_what_is_not_proven() {
    for who in Who::here() {
        let scene = Scene::new();
        profile(&scene, *who, "a");
        fs::write(at(&scene, "file\n\x1b[2J"), "").unwrap();
        let args = [&["--adopt", PREFIX][..], &AT_ONCE].concat();
        let done = run(&mut command(&scene, *who, &args), SOON);
        let fields: Vec<Vec<&str>> = done.stdout.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!((done.code(), fields.len()), (0, 2), "{done:?}");
        assert_eq!(fields[0][..2], ["would remove", at(&scene, "a").to_str().unwrap()]);
        assert_eq!(fields[1][4], "not a directory");
        assert!(fields[1][1].ends_with("file??[2J"), "{done:?}");
        let said: Vec<&str> = done.stderr.lines().collect();
        assert!(said[0].starts_with("killcord: 1 would be removed ("), "{done:?}");
        assert!(said[0].ends_with("), 1 left; nothing was changed; --yes removes them"), "{done:?}");
        assert!(said[1].starts_with("killcord: not proven: ") && said.len() == 2, "{done:?}");
        if *who == Who::User && is_root() {
            assert!(said[1].contains(" processes could not be looked into; "), "{done:?}");
        }
        let mut terminal = Terminal::start(&command(&scene, *who, &args));
        terminal.expect("not proven: ", SOON).unwrap();
        assert!(terminal.text().contains("would remove"), "{}", terminal.text());
    }
}

#[test]
fn without_openat2_it_is_the_same() {
    for who in Who::here() {
        let scene = Scene::new();
        profile(&scene, *who, "a");
        let mut filtered = scene.command(*who, bin("kc-deny"));
        filtered.args(["openat2", "--"]).arg(reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
        filtered.args(["sweep", "--adopt", PREFIX, "--json", "--yes", "--older-than", "0"]);
        let done = run(&mut filtered, SOON);
        assert_eq!((done.code(), fates(&done)), (0, pairs(&[("a", "removed")])));
        precious(&scene);
    }
}
