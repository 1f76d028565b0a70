//! Bad input to `killcord run`.
//!
//! Promised (G7, G13): a start that fails has run nothing, says so in one line on stderr that names what is
//! wrong, and exits with 125 (killcord failed), 126 (not executable) or 127 (not found). A limit or a boundary
//! that cannot be had is refused, never left out. What is large but legal works.
//!
//! Not promised: the wording of the system's own errors, which the snapshots show as this C library has it; a
//! refusal of what the kernel already refuses to the caller, who then never starts killcord.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod kit;

use killcord_testkit::{Finished, Host, Need, Scene, Who, bin, run, skip};
use kit::{SOON, killcord};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// One line for its user, and nothing else.
fn message(done: &Finished) -> &str {
    let line = done.stderr.strip_suffix('\n').unwrap_or_default();
    assert!(line.starts_with("killcord: ") && !line.contains('\n'), "{done:?}");
    assert_eq!(done.stdout, "", "{done:?}");
    line
}

/// Runs it with a program that leaves a mark, and asserts that it did not. Returns the message.
fn refused(scene: &Scene, mut command: Command, code: i32) -> String {
    let done = run(command.args(["touch", "mark"]), SOON);
    assert_eq!(done.code(), code, "{done:?}");
    assert!(!scene.path("mark").exists(), "it has run: {done:?}");
    message(&done).to_owned()
}

/// Runs a program that cannot be executed.
fn not_executed(scene: &Scene, who: Who, program: &str, code: i32) -> String {
    // As with `execvp(3)`, a directory in PATH that may not be searched would be the answer.
    let done = run(killcord(scene, who, &[]).args([program, "argument"]).env("PATH", "/usr/bin:/bin"), SOON);
    assert_eq!(done.code(), code, "{done:?}");
    message(&done).to_owned()
}

fn write(scene: &Scene, name: &str, text: &str, mode: u32) -> String {
    let path = scene.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_program_that_is_not_there_is_127_and_named() {
    for who in Who::here() {
        let scene = Scene::new();
        assert_eq!(
            not_executed(&scene, *who, "no-such-program", 127),
            "killcord: no-such-program: not found"
        );
        assert_eq!(
            not_executed(&scene, *who, "/no/such/program", 127),
            "killcord: /no/such/program: not found"
        );
        assert_eq!(not_executed(&scene, *who, "", 127), "killcord: the program's name is empty: not found");
        // What moves a terminal's cursor is not printed.
        assert_eq!(not_executed(&scene, *who, "\x1b[2Jno\nsuch", 127), "killcord:  [2Jno such: not found");
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_126_and_named() {
    for who in Who::here() {
        let scene = Scene::new();
        assert_eq!(
            not_executed(&scene, *who, "/", 126),
            "killcord: failed to execute /: Permission denied (os error 13)"
        );
        assert_eq!(
            not_executed(&scene, *who, "/etc/passwd", 126),
            "killcord: failed to execute /etc/passwd: Permission denied (os error 13)"
        );
        let text = write(&scene, "script", "#!/no/such/interpreter\n", 0o755);
        assert!(not_executed(&scene, *who, &text, 127).contains(&text));
    }
    // Root reads everything.
    let scene = Scene::new();
    let sealed = write(&scene, "sealed", "#!/bin/sh\ntouch mark\n", 0o711);
    if killcord_testkit::is_root() {
        // It is executed, and its interpreter may not read it: the answer is the interpreter's.
        let done = run(killcord(&scene, Who::User, &[]).arg(&sealed), SOON);
        let plain = run(scene.command(Who::User, "sh").args(["-c", "exec \"$1\"", "sh", &sealed]), SOON);
        assert_eq!((done.code(), &done.stderr), (plain.code(), &plain.stderr));
        assert!(done.code() != 0 && !scene.path("mark").exists(), "{done:?}");
        let shut = write(&scene, "shut", "#!/bin/sh\ntouch mark\n", 0o700);
        assert!(not_executed(&scene, Who::User, &shut, 126).contains(&shut));
    }
}

#[test]
fn a_name_in_path_that_may_not_be_executed_does_not_hide_a_later_one() {
    let scene = Scene::new();
    fs::create_dir(scene.path("bin")).unwrap();
    write(&scene, "bin/true", "#!/bin/sh\nexit 1\n", 0o644);
    write(&scene, "bin/kc-mine", "#!/bin/sh\nexit 1\n", 0o644);
    let path = format!("{}:/usr/bin:/bin", scene.path("bin").display());
    for who in Who::here() {
        let with_path = |program: &str| {
            let mut command = killcord(&scene, *who, &[]);
            run(command.arg(program).env("PATH", &path), SOON)
        };
        assert_eq!(with_path("true").code(), 0);
        let done = with_path("kc-mine");
        assert_eq!(done.code(), 126);
        assert!(message(&done).contains("bin/kc-mine"), "{done:?}");
    }
}

#[test]
fn a_script_without_a_first_line_runs_in_the_shell() {
    for who in Who::here() {
        let scene = Scene::new();
        let script = write(&scene, "script", "echo \"$0 $1\"\nexit 3\n", 0o755);
        let done = run(killcord(&scene, *who, &[]).args([&script, "a b"]), SOON);
        assert_eq!((done.code(), done.stdout), (3, format!("{script} a b\n")));
    }
}

#[test]
fn no_command_is_a_wrong_command_line() {
    let scene = Scene::new();
    for arguments in [&["run"][..], &["run", "--"]] {
        let done = run(scene.command(Who::here()[0], env!("CARGO_BIN_EXE_killcord")).args(arguments), SOON);
        assert_eq!(done.code(), 125, "{done:?}");
        let required =
            "killcord: the following required arguments were not provided: <PROGRAM>...; see killcord --help";
        assert_eq!(message(&done), required);
    }
}

#[test]
fn wrong_values_are_named_with_what_would_be_right() {
    let scene = Scene::new();
    let wrong: [&[&str]; 21] = [
        &["--timeout", "5x"],
        &["--timeout=-1"],
        &["--timeout", ""],
        &["--timeout", "nan"],
        &["--timeout", "99999999999d"],
        &["--grace", "soon"],
        &["--memory", "0"],
        &["--memory", "lots"],
        &["--pids", "0"],
        &["--pids", "1.5"],
        &["--pids=-1"],
        &["--cpu", "0"],
        &["--cpu", "many"],
        &["--boundary", "cage"],
        &["--require", "cage"],
        &["--require", "auto"],
        &["--leftovers", "eat"],
        &["--watch-parent=maybe"],
        &["--pass-fd", "2"],
        &["--pass-fd", "4096"],
        &["--memroy", "1M"],
    ];
    let mut said = String::new();
    for options in wrong {
        let text = refused(&scene, killcord(&scene, Who::here()[0], options), 125);
        assert!(text.contains(options[0].split('=').next().unwrap()), "{text}");
        said.extend([text.trim_start_matches("killcord: "), "\n"]);
    }
    insta::assert_snapshot!(said);
}

#[test]
fn an_option_that_is_not_known_is_no_program() {
    let scene = Scene::new();
    let mut command = scene.command(Who::here()[0], env!("CARGO_BIN_EXE_killcord"));
    let done = run(command.args(["run", "--memroy", "touch", "mark"]), SOON);
    assert_eq!((done.code(), scene.path("mark").exists()), (125, false));
    assert!(message(&done).contains("--memroy"));
    // Options behind the program are the program's, and so is one behind `--`.
    let mut command = scene.command(Who::here()[0], env!("CARGO_BIN_EXE_killcord"));
    let done = run(command.args(["run", "echo", "--memroy", "--", "--timeout", "x"]), SOON);
    assert_eq!((done.code(), done.stdout.as_str()), (0, "--memroy -- --timeout x\n"));
    assert!(not_executed(&scene, Who::here()[0], "--odd", 127).contains("--odd"));
}

#[test]
fn a_boundary_that_cannot_be_had_is_refused() {
    for who in Who::here() {
        let scene = Scene::new();
        let contradicting = killcord(&scene, *who, &["--boundary", "tree", "--require", "cgroup"]);
        let text = "killcord: no boundary as strong as cgroup can be had here (--boundary and --require contradict each \
                    other); `killcord doctor` says what would help";
        assert_eq!(refused(&scene, contradicting, 125), text);
        // Without namespaces; `auto` does not try them, and asking for them names them.
        for options in [["--require", "namespace"], ["--boundary", "namespace"]] {
            let mut denied = scene.command(*who, bin("kc-deny"));
            denied
                .args(["namespaces", "--"])
                .arg(killcord_testkit::reachable(env!("CARGO_BIN_EXE_killcord").as_ref()));
            denied.arg("run").args(options).arg("--");
            let text = "killcord: no boundary as strong as namespace can be had here (namespace: pid namespaces: Operation \
                        not permitted (os error 1)); `killcord doctor` says what would help";
            assert_eq!(refused(&scene, denied, 125), text);
        }
    }
}

#[test]
fn a_user_without_a_cgroup_of_his_own_gets_none() {
    if Host::get().has(Need::Cgroup(Who::User)) {
        skip!(Need::Other("a user without a writable cgroup"));
    }
    let scene = Scene::new();
    for options in [["--boundary", "cgroup"], ["--require", "cgroup"]] {
        let text = refused(&scene, killcord(&scene, Who::User, &options), 125);
        assert!(
            text.starts_with("killcord: no boundary as strong as cgroup can be had here (cgroup: "),
            "{text}"
        );
        assert!(text.ends_with("`killcord doctor` says what would help"), "{text}");
    }
    for limit in [["--memory", "64M"], ["--pids", "20"], ["--cpu", "0.5"]] {
        for boundary in ["auto", "tree", "namespace"] {
            let options = [limit[0], limit[1], "--boundary", boundary];
            let text = refused(&scene, killcord(&scene, Who::User, &options), 125);
            assert!(text.starts_with(&format!("killcord: {} cannot be enforced here: ", limit[0])), "{text}");
            assert!(text.ends_with("or run as root; nothing was started"), "{text}");
        }
    }
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_start() {
    for who in Who::here() {
        let scene = Scene::new();
        let report = killcord(&scene, *who, &["--report", "/no/such/dir/report"]);
        let text =
            "killcord: failed to open the report /no/such/dir/report: No such file or directory (os error 2)";
        assert_eq!(refused(&scene, report, 125), text);
        let report = killcord(&scene, *who, &["--report", "/"]);
        assert!(refused(&scene, report, 125).contains("failed to open the report /: "));
    }
}

#[test]
fn a_descriptor_that_is_not_open_cannot_be_passed() {
    let scene = Scene::new();
    let text = refused(&scene, killcord(&scene, Who::here()[0], &["--pass-fd", "77"]), 125);
    assert_eq!(text, "killcord: --pass-fd 77: Bad file descriptor (os error 9)");
}

#[test]
fn a_working_directory_need_not_be_readable_or_still_there() {
    for who in Who::here() {
        let scene = Scene::new();
        let program = killcord_testkit::reachable(env!("CARGO_BIN_EXE_killcord").as_ref());
        for make in ["mkdir here; cd here; chmod 111 .", "mkdir gone; cd gone; rmdir ../gone"] {
            let script = format!(
                "{make}; \"$1\" run -- sh -c 'stat -Lc %i .; exit 4' && exit; s=$?; stat -Lc %i .; exit $s"
            );
            let done = run(scene.command(*who, "sh").args(["-c", &script, "sh"]).arg(&program), SOON);
            let mut inodes = done.stdout.lines();
            assert_eq!(done.code(), 4, "{done:?}");
            assert!(inodes.next().is_some_and(|inside| inodes.next() == Some(inside)), "{done:?}");
            fs::remove_dir(scene.path("here")).unwrap_or_default();
        }
    }
}

#[test]
fn a_working_directory_that_may_not_be_entered_is_named() {
    if !killcord_testkit::is_root() {
        skip!(Need::Root);
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("closed")).unwrap();
    fs::set_permissions(scene.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = killcord(&scene, Who::User, &[]);
    command.current_dir(scene.path("closed"));
    let text = refused(&scene, command, 125);
    assert!(text.starts_with("killcord: failed to open the working directory "), "{text}");
    assert!(text.contains("Permission denied"), "{text}");
}

/// Exports `megabytes` of variables, each as large as the kernel takes them, and becomes `killcord run`.
fn with_environment(scene: &Scene, who: Who, megabytes: u32, program: &str) -> Finished {
    let script = format!(
        "ulimit -s 65536; v=$(printf '%0131000d' 0); for i in $(seq {}); do export V$i=$v; done; unset v; \
         exec \"$1\" run -- {program}",
        megabytes * 8
    );
    let killcord = killcord_testkit::reachable(env!("CARGO_BIN_EXE_killcord").as_ref());
    run(scene.command(who, "bash").args(["-c", &script, "bash"]).arg(killcord), SOON)
}

#[test]
fn an_environment_of_megabytes_reaches_the_program() {
    for who in Who::here() {
        let scene = Scene::new();
        for megabytes in [1, 5] {
            let done = with_environment(&scene, *who, megabytes, "env");
            assert_eq!(done.code(), 0, "{}", done.stderr);
            let large =
                done.stdout.lines().filter(|line| line.len() > 131_000 && line.starts_with('V')).count();
            assert_eq!(large as u32, megabytes * 8);
        }
    }
}

#[test]
fn a_larger_environment_than_the_kernels_own_limit_starts_nothing() {
    // The kernel refuses it to whoever starts killcord: it never runs.
    let scene = Scene::new();
    let mut command = killcord(&scene, Who::here()[0], &[]);
    for i in 0..64 {
        command.env(format!("V{i}"), "x".repeat(131_000));
    }
    let error = command.args(["touch", "mark"]).spawn().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ArgumentListTooLong);
    let done = with_environment(&scene, Who::here()[0], 8, "touch mark");
    assert!(done.code() == 126 && done.stderr.contains("Argument list too long"), "{done:?}");
    assert!(!scene.path("mark").exists());
}
