//! What a job inherits.
//!
//! Promised (G10): descriptors 0 to 2 and those asked for, as they are, and no other; stdin is null where it is
//! closed or a terminal that is not ours to read; no controlling terminal and a session of its own where there
//! is no terminal; signals as a program expects them; the umask, and the environment with the job's name in it.
//!
//! Not promised: a `TMPDIR` of the job's own, which needs a claim. On the caller's own terminal the job shares
//! its session and what it ignores (tests/terminal.rs).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

mod kit;

use killcord_testkit::{Host, Need, Running, Scene, Terminal, Who, bin, is_root, reachable, run, skip};
use kit::{SOON, killcord};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;

fn program() -> PathBuf {
    reachable(env!("CARGO_BIN_EXE_killcord").as_ref())
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{e}: {text:?}"))
}

/// A shell that prepares something and then becomes `killcord run ... -- kc-fds`; what that printed.
fn inherited(scene: &Scene, who: Who, boundary: &str, prepare: &str, options: &str) -> Value {
    let script = format!("{prepare}\nexec \"$1\" run --boundary {boundary} {options} -- \"$2\"");
    let done =
        run(scene.command(who, "bash").args(["-c", &script, "bash"]).arg(program()).arg(bin("kc-fds")), SOON);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
    parse(&done.stdout)
}

fn numbers(seen: &Value) -> Vec<u64> {
    seen["fds"].as_array().unwrap().iter().map(|fd| fd["fd"].as_u64().unwrap()).collect()
}

fn target(seen: &Value, number: u64) -> &str {
    let fds = seen["fds"].as_array().unwrap();
    fds.iter().find(|fd| fd["fd"] == number).map_or("", |fd| fd["target"].as_str().unwrap())
}

#[test]
fn a_job_has_the_standard_descriptors_and_no_other() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        // Descriptors without close-on-exec, also at numbers where killcord or its guards would have their own.
        let open = "exec 3</dev/zero 4>\"$D/four\" 5<. 6<&0 9</etc/passwd 63</dev/null 200</dev/null";
        let seen = inherited(&scene, who, boundary, open, "");
        assert_eq!(numbers(&seen), [0, 1, 2], "{who:?} {boundary}: {seen}");
    }
}

#[test]
fn a_descriptor_that_is_asked_for_is_passed_under_its_number() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let open = "exec 5<>\"$D/five\" 6</dev/null 700<>\"$D/many\"";
        let seen = inherited(&scene, who, boundary, open, "--pass-fd 5 --pass-fd 700");
        assert_eq!(numbers(&seen), [0, 1, 2, 5, 700], "{who:?} {boundary}: {seen}");
        assert_eq!(target(&seen, 5), scene.path("five").to_str().unwrap());
        assert_eq!(target(&seen, 700), scene.path("many").to_str().unwrap());
    }
    // It works, and not only shows.
    let scene = Scene::new();
    let script = "exec 5<>\"$D/five\"; \"$1\" run --pass-fd 5 -- sh -c 'echo through >&5'; cat \"$D/five\"";
    let done = run(scene.command(Who::here()[0], "sh").args(["-c", script, "sh"]).arg(program()), SOON);
    assert_eq!(done.stdout, "through\n");
}

#[test]
fn a_descriptor_that_is_asked_for_twice_is_passed_once() {
    let scene = Scene::new();
    let seen = inherited(&scene, Who::here()[0], "auto", "exec 5</dev/null", "--pass-fd 5 --pass-fd 5");
    assert_eq!(numbers(&seen), [0, 1, 2, 5]);
}

#[test]
fn closed_standard_descriptors_are_null_and_take_nobody_elses_place() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let seen = inherited(&scene, who, boundary, "exec <&-", "");
        assert_eq!((numbers(&seen), target(&seen, 0)), (vec![0, 1, 2], "/dev/null"), "{who:?} {boundary}");
        // With all three closed, what the guards open must not become the job's output.
        let script =
            "exec <&- >&- 2>&-; exec \"$1\" run --boundary \"$3\" -- sh -c '\"$1\" >\"$D/seen\"' sh \"$2\"";
        let arguments = ["-c", script, "sh"];
        let mut command = scene.command(who, "sh");
        command.args(arguments).arg(program()).arg(bin("kc-fds")).arg(boundary);
        assert_eq!(run(&mut command, SOON).code(), 0);
        let seen = parse(&scene.wait_file("seen", SOON));
        assert_eq!((numbers(&seen), target(&seen, 2)), (vec![0, 1, 2], "/dev/null"), "{who:?} {boundary}");
    }
}

#[test]
fn a_terminal_that_is_not_ours_is_not_read() {
    let scene = Scene::new();
    let holder = Terminal::start(scene.command(Who::here()[0], "sleep").arg("30"));
    for (who, boundary) in Host::cells() {
        let slave = fs::OpenOptions::new().read(true).write(true).open(holder.name()).unwrap();
        // The tests may themselves run on a terminal, which a session of its own has not.
        let mut command = scene.command(who, "setsid");
        command
            .args(["--wait"])
            .arg(program())
            .args(["run", "--boundary", boundary, "--"])
            .arg(bin("kc-fds"));
        let done = command.stdin(Stdio::from(slave)).output().unwrap();
        let seen = parse(&String::from_utf8(done.stdout).unwrap());
        assert_eq!((target(&seen, 0), &seen["tty"]), ("/dev/null", &Value::from(0)), "{who:?} {boundary}");
    }
}

#[test]
fn a_job_without_a_terminal_leads_a_session_of_its_own() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let seen = inherited(&scene, who, boundary, ":", "");
        assert_eq!(seen["session"], seen["pid"], "{who:?} {boundary}: {seen}");
        assert_eq!((&seen["group"], &seen["tty"]), (&seen["pid"], &Value::from(0)));
    }
    // Also when the caller has a terminal, but none of its standard streams is that.
    let scene = Scene::new();
    let mut command = scene.command(Who::here()[0], "sh");
    let script = "\"$1\" run -- \"$2\" </dev/null 2>/dev/null | cat >\"$D/seen\"; sleep 30";
    command.args(["-c", script, "sh"]).arg(program()).arg(bin("kc-fds"));
    let _terminal = Terminal::start(&command);
    let seen = parse(&scene.wait_file("seen", SOON));
    assert_eq!((&seen["session"], &seen["tty"]), (&seen["pid"], &Value::from(0)), "{seen}");
}

#[test]
fn signals_are_as_a_program_expects_them() {
    if !Host::get().has(Need::Program("perl")) {
        skip!(Need::Program("perl"));
    }
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let perl = "use POSIX; my $s = POSIX::SigSet->new(SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGPIPE, 40); \
                    sigprocmask(SIG_BLOCK, $s); $SIG{$_} = 'IGNORE' for qw(TERM INT USR1 PIPE HUP QUIT CHLD WINCH); \
                    exec @ARGV";
        let mut command = scene.command(who, "perl");
        command.args(["-e", perl]).arg(program()).args(["run", "--boundary", boundary, "--"]);
        let done = run(command.arg(bin("kc-fds")), SOON);
        let seen = parse(&done.stdout);
        assert_eq!(seen["blocked"], Value::from(Vec::<u32>::new()), "{who:?} {boundary}: {seen}");
        assert_eq!(seen["ignored"], Value::from(Vec::<u32>::new()), "{who:?} {boundary}: {seen}");
    }
}

#[test]
fn a_caller_that_blocks_and_ignores_signals_can_still_be_told_to_end() {
    if !Host::get().has(Need::Program("perl")) {
        skip!(Need::Program("perl"));
    }
    let scene = Scene::new();
    let perl = "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGTERM, SIGCHLD)); \
                $SIG{CHLD} = 'IGNORE'; exec @ARGV";
    let mut command = scene.command(Who::here()[0], "perl");
    command.args(["-e", perl]).arg(program()).args(["run", "--"]).arg(bin("kc-leaf")).args(["leaf", "30"]);
    let mut running = Running::start(&mut command);
    scene.wait_names(&["leaf"], SOON);
    let pinned = scene.pin();
    running.kill(killcord_testkit::Signal::TERM);
    assert_eq!(running.wait(SOON).and_then(|status| status.code()), Some(143));
    pinned.wait_gone(std::time::Duration::ZERO).unwrap();
}

#[test]
fn the_umask_is_kept() {
    for (who, boundary) in Host::cells() {
        let seen = inherited(&Scene::new(), who, boundary, "umask 0137", "");
        assert_eq!(seen["umask"], 0o137, "{who:?} {boundary}");
    }
}

#[test]
fn the_environment_carries_the_name_of_the_job() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut command = killcord(&scene, who, &["--boundary", boundary]);
        // The name of an outer job is not this job's.
        let done = run(command.arg("env").env("KILLCORD_JOB", "outer").env("KEPT", "a=b\nc"), SOON);
        let names: Vec<&str> = done.stdout.lines().filter_map(|l| l.strip_prefix("KILLCORD_JOB=")).collect();
        assert_eq!(names.len(), 1, "{done:?}");
        assert!(names[0].len() == 32 && names[0].bytes().all(|b| b.is_ascii_hexdigit()), "{names:?}");
        assert!(done.stdout.contains("KEPT=a=b\nc\n"));
    }
}

#[test]
fn a_clean_environment_has_nothing_but_the_listed() {
    let scene = Scene::new();
    let mut command = killcord(&scene, Who::here()[0], &["--env-clean"]);
    for kept in ["LANG", "LC_TIME", "TZ", "TERM", "USER", "LOGNAME", "SHELL"] {
        command.env(kept, "C");
    }
    let done = run(command.arg("env").env("AWS_SECRET_ACCESS_KEY", "x").env("LD_LIBRARY_PATH", "/x"), SOON);
    let mut names: Vec<&str> = done.stdout.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    names.retain(|name| !name.starts_with("LC_") && *name != "LANGUAGE");
    let listed = ["HOME", "KILLCORD_JOB", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
    assert_eq!(names, listed, "{done:?}");
}

#[test]
fn output_is_passed_and_not_copied() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let (out, err) = (scene.path("out"), scene.path("err"));
        let (stdout, stderr) = (fs::File::create(&out).unwrap(), fs::File::create(&err).unwrap());
        let stdin = fs::File::open("/etc/passwd").unwrap();
        let mut command = killcord(&scene, who, &["--boundary", boundary]);
        command.args(["stat", "-L", "-c", "%d:%i"]).args([
            "/proc/self/fd/0",
            "/proc/self/fd/1",
            "/proc/self/fd/2",
        ]);
        let done = command.stdin(stdin).stdout(stdout).stderr(stderr).status().unwrap();
        let inode = |path: &str| fs::metadata(path).map(|m| format!("{}:{}\n", m.dev(), m.ino())).unwrap();
        let expected: String =
            ["/etc/passwd", out.to_str().unwrap(), err.to_str().unwrap()].map(inode).concat();
        assert_eq!(
            (done.code(), fs::read_to_string(&out).unwrap()),
            (Some(0), expected),
            "{who:?} {boundary}"
        );
        assert_eq!(fs::read_to_string(&err).unwrap(), "");
    }
}

#[test]
fn a_pipe_is_the_callers_own_and_ends_with_the_job() {
    // The guards hold no copy of it. killcord run has its own until it ends.
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut command = killcord(&scene, who, &["--boundary", boundary]);
        let script = "echo before; exec >&- 2>&- <&-; \"$1\" silent 30";
        let mut running = Running::start(command.args(["sh", "-c", script, "sh"]).arg(bin("kc-leaf")));
        scene.wait_names(&["silent"], SOON);
        let inode = fs::read_link(format!("/proc/{}/fd/1", running.pid())).unwrap();
        let holders = holders_of(&inode);
        assert!(holders.iter().all(|pid| *pid == running.pid()), "{who:?} {boundary}: {holders:?}");
        running.kill(killcord_testkit::Signal::TERM);
        assert!(running.wait(SOON).is_some());
        assert_eq!(running.stdout.read_to_end(SOON).unwrap(), "before\n");
    }
}

/// Who has this pipe open, as far as we may look, but us.
fn holders_of(pipe: &std::path::Path) -> Vec<u32> {
    let mut holders = killcord_testkit::procs::all();
    holders.retain(|pid| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        *pid != std::process::id() && fds.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|t| t == pipe)
    });
    assert!(!is_root() || !holders.is_empty(), "root sees killcord run itself");
    holders
}

#[test]
fn a_large_output_arrives_whole_and_in_order() {
    let scene = Scene::new();
    let done = run(killcord(&scene, Who::here()[0], &[]).args(["seq", "400000"]), SOON);
    assert_eq!(done.stdout.lines().count(), 400_000);
    assert!(done.stdout.ends_with("\n399999\n400000\n"));
}
