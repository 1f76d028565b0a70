//! The harness: scenes and pins, output and terminals, guards, users.
//!
//! Promised: it finds what it must, also in a pid namespace, takes nobody for somebody else, and ends what it
//! started.

use std::process::Command;
use std::time::{Duration, Instant};

use killcord_testkit::{
    Guards, Host, Need, Recorded, Running, Scene, Signal, Terminal, Who, alive_now, as_user, bin, run, skip,
};

const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_panic_ends_what_was_recorded() {
    let leaf = std::sync::Mutex::new(None);
    let failed = std::panic::catch_unwind(|| {
        let scene = Scene::new();
        // Not a child of ours that `Running` would end: a daemon.
        let script = "setsid \"$1\" away 30 </dev/null >/dev/null 2>&1 &";
        run(scene.command(Who::here()[0], "sh").args(["-c", script, "sh"]).arg(bin("kc-leaf")), SOON);
        scene.wait_names(&["away"], SOON);
        *leaf.lock().unwrap() = Some(scene.pin());
        panic!("as a failing test does");
    });
    assert!(failed.is_err());
    let pinned = leaf.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).unwrap();
    assert_eq!(pinned.len(), 1);
    pinned.wait_gone(SOON).unwrap();
}

#[test]
fn a_recycled_number_is_not_the_recorded_process() {
    let own = std::process::id();
    let start = killcord_testkit::procs::start_time(own).unwrap();
    let space = None;
    let me = Recorded { pid: own, start, name: "me".to_owned(), space };
    let other = Recorded { start: start + 1, ..me.clone() };
    let elsewhere = Recorded { space: Some(1), ..me.clone() };
    assert_eq!(alive_now(&[me]).len(), 1);
    assert_eq!(alive_now(&[other, elsewhere]), []);
}

#[test]
fn a_process_in_a_pid_namespace_is_found_and_ended() {
    if !Host::get().has(Need::PidNamespace(Who::here()[0])) {
        skip!(Need::PidNamespace(Who::here()[0]));
    }
    for mount_proc in [true, false] {
        let scene = Scene::new();
        let mut command = scene.command(Who::here()[0], "unshare");
        command.args(["--user", "--map-current-user", "--pid", "--fork", "--kill-child"]);
        if mount_proc {
            command.arg("--mount-proc");
        }
        let inside = Running::start(command.arg(bin("kc-leaf")).args(["inside", "30"]));
        let ids = scene.wait_recorded(1, SOON);
        assert_eq!(ids[0].pid == 1, mount_proc);
        let pinned = scene.pin();
        assert_eq!(pinned.names(), ["inside"]);
        assert_eq!(scene.alive().len(), 1);
        drop(scene);
        pinned.wait_gone(SOON).unwrap();
        drop(inside);
    }
}

#[test]
fn output_is_awaited_by_events_and_within_a_deadline() {
    let mut shell =
        Running::start(Command::new("sh").args(["-c", "echo one; read x; echo two $x; exec sleep 30"]));
    shell.stdout.expect("one\n", SOON).unwrap();
    let early = shell.stdout.expect("two", Duration::from_millis(50)).unwrap_err();
    assert_eq!((early.text.as_str(), early.ended), ("one\n", false));
    shell.send(b"three\n");
    assert_eq!(shell.stdout.expect("two three\n", SOON).unwrap(), "one\ntwo three\n");
    assert!(shell.wait(Duration::from_millis(50)).is_none());
    shell.kill(Signal::TERM);
    assert!(!shell.wait(SOON).unwrap().success());
    shell.stdout.read_to_end(SOON).unwrap();
    assert_eq!(run(Command::new("sh").args(["-c", "kill -9 $$"]), SOON).code(), 137);
    // More than a pipe holds, on both streams.
    let much =
        run(Command::new("sh").args(["-c", "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero"]), SOON);
    assert_eq!((much.stdout.len(), much.stderr.len()), (300_000, 300_000));
}

#[test]
fn run_tells_its_own_end_from_the_end_of_its_output() {
    let begun = Instant::now();
    let done = run(Command::new("sh").args(["-c", "sleep 1 & echo hi"]), SOON);
    assert!(
        begun.elapsed() >= Duration::from_secs(1) && done.elapsed < Duration::from_millis(900),
        "{done:?}"
    );
}

#[test]
fn guards_are_found_below_a_run() {
    // Stand-ins with the names and the parentage of the contract; names are given by the executable's file.
    let scene = Scene::new();
    let (warden, keeper) = (scene.path("killcord-warden"), scene.path("killcord-keeper"));
    for path in [&warden, &keeper] {
        std::fs::copy("/bin/sh", path).unwrap();
    }
    let script = "\"$1\" -c '\"$1\" -c \"\\\"\\$1\\\" leader 30; :\" k \"$2\"; :' w \"$2\" \"$3\"; :";
    let mut tree = Command::new("sh");
    tree.args(["-c", script, "sh"]).args([&warden, &keeper]).arg(bin("kc-leaf")).env("D", scene.dir());
    let tree = Running::start(&mut tree);
    let ids = scene.wait_recorded(1, SOON);
    let guards = Guards::find(tree.pid(), SOON);
    let leader = guards.leader.unwrap();
    assert_eq!((leader.pid, leader.start), (ids[0].pid, ids[0].start));
    let (warden, keeper) = (guards.warden.unwrap(), guards.keeper.unwrap());
    for (process, signal) in [(&leader, Signal::KILL), (&keeper, Signal::KILL), (&warden, Signal::KILL)] {
        // A shell whose child has ended ends too, perhaps before the signal.
        let _ = killcord_testkit::procs::kill(process, signal);
        assert!(process.wait_gone(SOON));
    }
    // None is found where there is none, at once.
    let none = Guards::find(std::process::id(), Duration::ZERO);
    assert!(none.warden.is_none() && none.leader.is_none());
}

#[test]
fn an_ordinary_user_has_no_privilege_and_a_place_to_write() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    let script =
        "id -u; id -G; grep CapEff /proc/self/status; echo x >\"$HOME/x\" && mktemp && touch \"$D/mine\"";
    let done = run(scene.command(Who::User, "sh").args(["-c", script]), SOON);
    assert!(
        done.code() == 0 && done.stdout.starts_with("54321\n54321\nCapEff:\t0000000000000000\n"),
        "{done:?}"
    );
    assert_eq!(run(as_user(bin("kc-fds")).env("X", "y"), SOON).code(), 0);
}

#[test]
fn a_program_out_of_reach_is_copied() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let closed = tempfile::tempdir().unwrap();
    std::fs::set_permissions(closed.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let program = closed.path().join("mytrue");
    std::fs::copy("/bin/true", &program).unwrap();
    assert_eq!(run(&mut as_user(&program), SOON).code(), 0);
    let copy = killcord_testkit::reachable(&program);
    assert_ne!(copy, program);
    std::fs::remove_dir_all(copy.parent().unwrap()).unwrap();
    assert_eq!(killcord_testkit::reachable("/bin/true".as_ref()), std::path::Path::new("/bin/true"));
}

#[test]
fn a_terminal_is_a_real_one() {
    for who in Who::here() {
        let scene = Scene::new();
        let mut terminal = Terminal::start(scene.command(*who, "bash").args(["--norc", "-i"]));
        terminal.send(b"PS1='> '; tty; stty size\n");
        terminal.expect(terminal.name().to_str().unwrap().to_owned().as_str(), SOON).unwrap();
        terminal.expect("24 80", SOON).unwrap();
        terminal.resize(100, 30);
        terminal.send(b"stty size\n");
        terminal.expect("30 100", SOON).unwrap();
        // Job control: the child is another foreground group, and Ctrl-C reaches it, not the shell.
        terminal.send(format!("{} fg 30\n", bin("kc-leaf").display()).as_bytes());
        let ids = scene.wait_recorded(1, SOON);
        assert_eq!(terminal.foreground_group(), Some(ids[0].pid));
        terminal.send(b"\x03");
        terminal.expect("> ", SOON).unwrap();
        terminal.send(b"echo status $?\n");
        terminal.expect("status 130", SOON).unwrap();
        terminal.send(b"exit 7\n");
        terminal.read_to_end(SOON).unwrap();
        assert_eq!(terminal.wait(SOON).unwrap().code(), Some(7));
    }
}

#[test]
fn the_host_is_probed() {
    let cells = Host::cells();
    for who in Who::here() {
        assert!(cells.contains(&(*who, "tree")));
    }
    assert!(!Host::get().has(Need::Other("nothing has this")));
    assert!(Host::get().has(Need::Program("sh")) && !Host::get().has(Need::Program("kc-no-such-program")));
}

#[test]
fn a_demanded_thing_is_not_skipped_in_ci() {
    // In a process of its own, since the variable is the whole process's: this very test, told to skip.
    if std::env::var_os("KC_SKIP_NOW").is_some() {
        skip!(Need::PidNamespace(Who::User));
    }
    let again = |ci: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "a_demanded_thing_is_not_skipped_in_ci"])
            .env("KC_SKIP_NOW", "1")
            // It is no skip of this suite.
            .env_remove("KILLCORD_TEST_SKIPS")
            .env("CI", ci);
        run(&mut command, Duration::from_secs(20))
    };
    let (there, here) = (again("true"), again(""));
    assert_ne!(there.code(), 0);
    assert!(here.code() == 0 && here.stderr.contains("SKIPPED: no pid namespaces for User"), "{here:?}");
}
