//! `killcord run` under an interactive shell, on a real terminal.
//!
//! Promised (G1, G13): programs behave as without killcord: their keys, job control, the window's size, pipelines.
//! The end of the terminal, like that of killcord, ends the whole job, and leaves a usable terminal to the shell.
//!
//! Not promised: job control on boundary `group`, whose jobs have no terminal; a terminal's settings, which a
//! program that is killed leaves as it had set them.

#[path = "kit/shell.rs"]
mod shell;

use killcord_testkit::{Guards, Host, Need, Scene, Signal, skip};
use shell::{INNER, SOON, Shell};
use std::time::{Duration, Instant};

/// Waits for the state letter of a process.
fn wait_state(process: &killcord_testkit::PinnedProcess, states: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let state = process.stat().map_or('?', |stat| stat.state);
        if states.contains(state) {
            return;
        }
        assert!(Instant::now() < deadline, "{} is in state {state}, not {states}", process.comm);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn ctrl_c_reaches_the_program_and_not_killcord() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut shell = Shell::start(&scene, who, boundary);
        // It says when its trap is over: a dash that is interrupted inside its trap can take the condition there for
        // true and exit, without killcord as with it.
        let script = "n=0; m=0; trap \"n=\\$((n+1)); echo int \\$n.; [ \\$n = 3 ] && exit 9\" INT; echo rea\"\"dy; \
                      while :; do sleep 0.02; [ $n = $m ] || { m=$n; echo after $n.; }; done";
        shell.line(&format!("$K sh -c '{script}'"));
        shell.sees("ready");
        for n in 1..=3 {
            shell.keys("\x03");
            shell.sees(&format!("int {n}."));
            if n < 3 {
                shell.sees(&format!("after {n}."));
            }
        }
        shell.prompt();
        shell.status(9);
        // A program that does not care ends of it, as it would by itself.
        shell.line("$K $L leaf 60");
        scene.wait_names(&["leaf"], SOON);
        shell.keys("\x03");
        shell.prompt();
        shell.status(130);
        assert!(
            !shell.terminal.text().contains("killcord: "),
            "{who:?} {boundary}: {}",
            shell.terminal.text()
        );
    }
}

#[test]
fn ctrl_z_stops_the_job_and_fg_and_bg_go_on_with_it() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut shell = Shell::start(&scene, who, boundary);
        // The program waits in a system call: a shell that is about to fork could not stop.
        shell.line("mkfifo go");
        shell.prompt();
        shell.line("$K sh -c '\"$L\" member 60 & echo rea\"\"dy; read x; echo got $x.; read y <go; echo en\"\"d; kill $!; exit 4'");
        shell.sees("ready");
        scene.wait_names(&["member"], SOON);
        let pinned = scene.pin();
        let member = pinned.get("member").unwrap();
        shell.keys("\x1a");
        shell.sees("Stopped");
        shell.prompt();
        wait_state(member, "T");
        shell.line("jobs");
        shell.sees("Stopped");
        shell.prompt();
        shell.line("fg");
        shell.answers("hello");
        wait_state(member, "SR");
        shell.keys("\x1a");
        shell.sees("Stopped");
        shell.prompt();
        wait_state(member, "T");
        shell.line("bg");
        shell.prompt();
        wait_state(member, "SR");
        shell.line("echo >go");
        shell.sees("end");
        shell.line("wait %1");
        shell.sees("Exit 4");
        assert!(member.wait_gone(SOON), "{who:?} {boundary}");
    }
}

#[test]
fn a_reader_in_the_background_is_stopped_until_it_is_brought_forward() {
    for (who, boundary) in Host::cells() {
        let mut shell = Shell::start(&Scene::new(), who, boundary);
        shell.line("$K sh -c 'read x; echo got $x.' &");
        shell.prompt();
        let killcord = shell.killcord();
        wait_state(&killcord, "T");
        shell.line("fg");
        shell.answers("word");
        shell.prompt();
        shell.status(0);
    }
}

#[test]
fn a_shell_in_a_shell_has_its_own_job_control() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut shell = Shell::start(&scene, who, boundary);
        shell.enter_inner();
        shell.line("$L one 60");
        scene.wait_names(&["one"], SOON);
        shell.keys("\x1a");
        shell.sees("Stopped");
        shell.sees(INNER);
        shell.line("fg");
        wait_state(scene.pin().get("one").unwrap(), "SR");
        shell.keys("\x03");
        shell.sees(INNER);
        shell.status_in(INNER, 130);
        // Ctrl-C at a prompt is a shell's business.
        shell.keys("half a line");
        shell.sees("half a line");
        // A shell that is interrupted while it draws its prompt draws it at the next line.
        shell.keys("\x03");
        shell.insists("\n", INNER);
        shell.line("exit 3");
        shell.prompt();
        shell.status(3);
        assert!(!shell.terminal.text().contains("no job control"), "{who:?} {boundary}");
    }
}

#[test]
fn a_leader_that_stops_alone_is_a_stopped_job_of_the_shell() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut shell = Shell::start(&scene, who, boundary);
        shell.line("$K sh -c 'echo rea\"\"dy; read x; echo got $x.'");
        shell.sees("ready");
        let leader = Guards::find(shell.killcord().pid, SOON).leader.unwrap();
        for _ in 0..2 {
            leader.kill(Signal::STOP).unwrap();
            shell.sees("Stopped");
            shell.prompt();
            shell.line("fg");
            wait_state(&leader, "SR");
        }
        shell.answers("word");
        shell.prompt();
        shell.status(0);
        // The same by a shell's own word.
        shell.enter_inner();
        for _ in 0..2 {
            shell.line("suspend");
            shell.sees("Stopped");
            shell.prompt();
            shell.line("fg");
            shell.line("echo aga\"\"in");
            shell.sees("again\r\n");
        }
        shell.line("exit");
        shell.prompt();
        shell.status(0);
    }
}

#[test]
fn the_window_and_its_size_are_the_programs_too() {
    for (who, boundary) in Host::cells() {
        let mut shell = Shell::start(&Scene::new(), who, boundary);
        let script = "trap \"s=\\$(stty size); echo size \\$s.; [ \\\"\\$s\\\" = \\\"20 60\\\" ] && exit 2\" WINCH; \
                      stty size; echo rea\"\"dy; while :; do sleep 0.02; done";
        shell.line(&format!("$K sh -c '{script}'"));
        shell.sees("24 80");
        shell.sees("ready");
        shell.resizes("", "size 20 60.");
        shell.prompt();
        shell.status(2);
    }
}

#[test]
fn an_editor_edits() {
    let Some(vim) = ["vim", "vim.tiny"].into_iter().find(|p| Host::get().has(Need::Program(p))) else {
        skip!(Need::Program("vim"));
    };
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        std::fs::write(scene.path("text"), "first line\n").unwrap();
        std::fs::set_permissions(scene.path("text"), std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .unwrap();
        let mut shell = Shell::start(&scene, who, boundary);
        shell.line(&format!("$K {vim} -u NONE -i NONE -N -n text"));
        shell.sees("first line");
        shell.keys("Oabove\x1b");
        shell.sees("above");
        // Ctrl-C does not end it, Ctrl-Z does what it does to any program, and a new size is drawn.
        shell.keys("\x03");
        shell.insists(":echo 'still' . 'here'\n", "stillhere");
        shell.keys("\x1a");
        shell.sees("Stopped");
        shell.prompt();
        shell.line("fg");
        shell.sees("first line");
        shell.resizes(":echo 'size' &columns &lines\n", "size 60 20");
        shell.keys(":wq\n");
        shell.prompt();
        shell.status(0);
        assert_eq!(std::fs::read_to_string(scene.path("text")).unwrap(), "above\nfirst line\n");
    }
}

#[test]
fn a_pager_pages_alone_and_at_either_end_of_a_pipeline() {
    if !Host::get().has(Need::Program("less")) {
        skip!(Need::Program("less"));
    }
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let lines: Vec<String> = (1..=500).map(|n| format!("line {n}.")).collect();
        std::fs::write(scene.path("text"), lines.join("\n")).unwrap();
        let mut shell = Shell::start(&scene, who, boundary);
        shell.line("export LESS= LESSHISTFILE=-");
        shell.prompt();
        for command in ["$K less text", "$K cat text | less", "cat text | $K less", "$K cat text | $K less"] {
            shell.line(command);
            shell.sees("line 20.");
            shell.keys("G");
            shell.sees("line 500.");
            // Without killcord as with it, less misses a key that comes just before it waits for the next.
            shell.insists("\x1a", "Stopped");
            shell.prompt();
            shell.line("fg");
            shell.sees("line 500.");
            shell.keys("q");
            shell.prompt();
            shell.status(0);
        }
    }
}

#[test]
fn what_is_typed_arrives_and_ctrl_d_ends_it() {
    for (who, boundary) in Host::cells() {
        let mut shell = Shell::start(&Scene::new(), who, boundary);
        shell.line("$K sh -c 'echo rea\"\"dy; exec cat'");
        shell.sees("ready");
        shell.line("typed");
        shell.sees("typed\r\ntyped\r\n");
        shell.keys("\x04");
        shell.prompt();
        shell.status(0);
    }
}

#[test]
fn a_closed_terminal_ends_the_whole_job() {
    for (who, boundary) in Host::cells() {
        // The window is closed; the window and the shell go at once; the shell is killed.
        for how in ["closed", "closed and killed", "killed"] {
            let scene = Scene::new();
            let mut shell = Shell::start(&scene, who, boundary);
            shell.line("$K sh -c 'nohup \"$L\" nohup 60 & setsid \"$L\" setsid 60 & trap \"\" HUP; \"$L\" leader 60; :'");
            scene.wait_names(&["nohup", "setsid", "leader"], SOON);
            let pinned = scene.pin();
            let killcord = shell.killcord();
            match how {
                "closed" => shell.terminal.close().unwrap(),
                "killed" => shell.terminal.kill(Signal::KILL),
                _ => drop(shell),
            }
            let gone = pinned.wait_gone(Duration::from_secs(2));
            assert!(gone.is_ok(), "{who:?} {boundary}, terminal {how}: {gone:?}");
            assert!(killcord.wait_gone(Duration::from_secs(2)));
        }
    }
}

#[test]
fn the_shell_gets_its_terminal_back_when_killcord_is_killed() {
    for (who, boundary) in Host::cells() {
        let scene = Scene::new();
        let mut shell = Shell::start(&scene, who, boundary);
        // A shell inside has made itself the foreground group.
        shell.enter_inner();
        shell.line("setsid $L away 60 & $L here 60");
        scene.wait_names(&["away", "here"], SOON);
        let pinned = scene.pin();
        shell.killcord().kill(Signal::KILL).unwrap();
        shell.sees("Killed");
        shell.prompt();
        pinned.wait_gone(Duration::from_secs(2)).unwrap();
        shell.line("read x; echo got $x.");
        shell.answers("word");
    }
}

#[test]
fn a_program_that_dies_in_the_foreground_leaves_the_terminal_to_the_shell() {
    for (who, boundary) in Host::cells() {
        let mut shell = Shell::start(&Scene::new(), who, boundary);
        shell.enter_inner();
        let leader = Guards::find(shell.killcord().pid, SOON).leader.unwrap();
        leader.kill(Signal::KILL).unwrap();
        shell.prompt();
        shell.status(137);
        // A child in the foreground reads, which a process that is not in the foreground group cannot.
        shell.line("sh -c 'read x; echo got $x.'");
        shell.answers("word");
    }
}

#[test]
fn the_first_process_of_a_namespace_has_the_terminal_too() {
    for (who, boundary) in Host::cells() {
        if !Host::get().has(Need::PidNamespace(who)) {
            skip!(Need::PidNamespace(who), continue);
        }
        let scene = Scene::new();
        let mut shell = Shell::start(&scene, who, boundary);
        let user = if who == killcord_testkit::Who::User { "--user --map-root-user" } else { "" };
        // Its process group and session began outside and have no number inside.
        shell.line(&format!("unshare {user} --pid --fork --mount-proc $K sh -c 'echo rea\"\"dy; read x; echo got $x.; exec \"$L\" leaf 60'"));
        shell.sees("ready");
        shell.answers("word");
        scene.wait_names(&["leaf"], SOON);
        let pinned = scene.pin();
        shell.keys("\x03");
        shell.prompt();
        pinned.wait_gone(SOON).unwrap();
        shell.status(130);
        shell.line("read x; echo got $x.");
        shell.answers("again");
    }
}
