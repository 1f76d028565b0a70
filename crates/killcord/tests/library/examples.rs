//! The examples do what their first lines say.

use crate::kit::{SOON, here, trials};
use killcord_testkit::{Finished, Scene, example, run};

trials![
    tool_call_keeps_what_was_printed_before_the_timeout,
    mcp_wrapper_passes_the_streams_through_and_ends_with_its_input,
    mcp_wrapper_has_the_servers_exit_status,
    keep_across_exec_finds_its_job_again,
    hand_over_makes_the_other_process_the_owner,
];

fn play(name: &str, args: &[&str]) -> Finished {
    let scene = Scene::new();
    run(scene.command(here(), example("killcord", name)).args(args), SOON)
}

fn tool_call_keeps_what_was_printed_before_the_timeout() {
    let done = play("tool_call", &["sh", "-c", "echo partial; sleep 30 & sleep 30"]);
    assert!(done.stdout.contains("timed out") && done.stdout.contains("partial"), "{done:?}");
    assert!(done.stdout.contains("Empty") && done.code() == 0, "{done:?}");
    let done = play("tool_call", &["sh", "-c", "echo whole; exit 3"]);
    assert!(done.stdout.contains("exit status 3") && done.stdout.contains("whole"), "{done:?}");
}

fn mcp_wrapper_passes_the_streams_through_and_ends_with_its_input() {
    let scene = Scene::new();
    let mut command = scene.command(here(), example("killcord", "mcp_wrapper"));
    // A server that answers each line, and that has a helper which it does not end.
    let server = "sleep 30 & while read -r line; do echo \"answer to $line\"; done; echo bye >&2";
    let mut running = killcord_testkit::Running::start(command.args(["sh", "-c", server]));
    running.send(b"one\n");
    running.stdout.expect("answer to one\n", SOON).unwrap();
    running.send(b"two\n");
    running.stdout.expect("answer to two\n", SOON).unwrap();
    running.close_stdin();
    running.stderr.expect("bye\n", SOON).unwrap();
    // The end of the stream says that the helper, which holds it, is gone as well.
    running.stdout.read_to_end(SOON).unwrap();
    assert!(running.wait(SOON).unwrap().success());
}

fn mcp_wrapper_has_the_servers_exit_status() {
    let done = play("mcp_wrapper", &["sh", "-c", "exit 7"]);
    assert_eq!(done.code(), 7, "{done:?}");
    let done = play("mcp_wrapper", &["no-such-server"]);
    assert!(done.code() == 1 && done.stderr.contains("no-such-server"), "{done:?}");
}

fn keep_across_exec_finds_its_job_again() {
    let done = play("keep_across_exec", &[]);
    assert_eq!(done.code(), 0, "{done:?}");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].starts_with("started job ") && lines[1].starts_with("after exec: job "), "{done:?}");
    assert!(lines[1].contains("still runs") && lines[2].contains("ended"), "{done:?}");
}

fn hand_over_makes_the_other_process_the_owner() {
    let done = play("hand_over", &[]);
    assert_eq!(done.code(), 0, "{done:?}");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].contains("hands job") && lines[1].contains("adopts job"), "{done:?}");
    assert!(lines[2].contains("still runs") && lines[3].contains("ended"), "{done:?}");
}
