//! Output on tokio.
//!
//! Promised (G7, G8): it is what `into_output` gives, of pipes and of a terminal; it streams; a writer that never
//! stops and a holder that never closes hold up no end; dropping the future ends the job.

use crate::kit::{BOUND, SOON, boundaries, command, ms, owner_of, script, timed, trials};
use crate::runtime::{both, multi};
use killcord::{Cause, Leftovers, Stdio};
use killcord_testkit::Scene;
use std::io::ErrorKind::WouldBlock;
use tokio::net::unix::pipe;
use tokio::time::timeout;

trials![
    both_streams_are_collected_to_their_ends,
    a_terminals_output_is_collected_to_its_end,
    what_was_printed_before_a_timeout_is_kept,
    of_a_flood_head_tail_and_count_are_kept,
    a_holder_of_the_output_is_not_waited_for,
    a_flood_of_kept_leftovers_does_not_hide_the_leaders_end,
    dropping_the_future_ends_the_job,
    streams_are_read_and_written_as_they_come,
];

/// What `seq 1 LAST` prints.
fn numbers(last: u32, line_end: &str) -> String {
    (1..=last).flat_map(|n| [n.to_string(), line_end.to_owned()]).collect()
}

fn both_streams_are_collected_to_their_ends() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "cat; seq 1 20000; echo err >&2; exit 5";
        let mut command = script(&owner, &scene, text);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let job = command.spawn().unwrap();
        let output = runtime.block_on(async { timeout(SOON, job.into_output_async(1 << 20)).await });
        let output = output.unwrap().unwrap();
        let expected = numbers(20000, "\n");
        assert!(output.stdout.to_text() == expected, "{boundary}: {} bytes", output.stdout.total);
        assert_eq!(output.stderr.to_text(), "err\n", "{boundary}");
        assert_eq!(output.end.status.map(killcord::ExitStatus::as_shell), Some(5), "{boundary}");
    }
}

fn a_terminals_output_is_collected_to_its_end() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "test -t 1 && stty size; seq 1 5000; (sleep 0.05; echo last) & wait";
        let job = script(&owner, &scene, text).on_terminal(90, 30).spawn().unwrap();
        let output = runtime.block_on(async { timeout(SOON, job.into_output_async(1 << 20)).await });
        let output = output.unwrap().unwrap();
        let numbers = numbers(5000, "\r\n");
        assert!(output.stdout.to_text() == format!("30 90\r\n{numbers}last\r\n"), "{boundary}: {output:?}");
        assert!(output.end.success() && output.stderr.total == 0, "{boundary}: {output:?}");
    }
}

fn what_was_printed_before_a_timeout_is_kept() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command = script(&owner, &scene, "echo partial; exec sleep 50");
        let job = command.stdout(Stdio::piped()).timeout(ms(300)).spawn().unwrap();
        let (output, took) = timed(|| runtime.block_on(job.into_output_async(1000)).unwrap());
        assert_eq!((output.end.cause, output.stdout.to_text().as_str()), (Cause::Timeout, "partial\n"));
        assert!(took < BOUND, "{boundary}: {took:?}");
    }
}

fn of_a_flood_head_tail_and_count_are_kept() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "echo first; yes | head -c 50000000; echo last";
        let job = script(&owner, &scene, text).stdout(Stdio::piped()).spawn().unwrap();
        let output = runtime.block_on(async { timeout(SOON, job.into_output_async(1000)).await });
        let output = output.unwrap().unwrap().stdout;
        assert_eq!(
            (output.total, output.head.len(), output.tail.len()),
            (50_000_011, 500, 500),
            "{boundary}"
        );
        let text = output.to_text();
        assert!(text.starts_with("first\ny\n") && text.ends_with("y\nlast\n"), "{boundary}: {text}");
    }
}

fn a_holder_of_the_output_is_not_waited_for() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "\"$1\" leaf 60 & until [ -s \"$D/ids\" ]; do sleep 0.01; done; echo before";
        let mut command = script(&owner, &scene, text);
        let job = command.stdout(Stdio::piped()).leftovers(Leftovers::Keep).spawn().unwrap();
        let output = runtime.block_on(async { timeout(BOUND, job.into_output_async(1000)).await });
        let output = output.expect("it waits for the holder").unwrap();
        assert_eq!(output.stdout.to_text(), "before\n", "{boundary}");
        let named = output.end.leftovers.map(|(members, _)| members.count);
        assert_eq!(named, Some(1), "{boundary}");
        // The handle went with the call, and the job with the handle.
        scene.wait_gone(BOUND).unwrap();
    }
}

fn a_flood_of_kept_leftovers_does_not_hide_the_leaders_end() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "yes & yes & yes & yes >&2 & yes >&2 & sleep 0.3; exit 4";
        let mut command = script(&owner, &scene, text);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).leftovers(Leftovers::Keep);
        let job = command.spawn().unwrap();
        let output = runtime.block_on(async { timeout(SOON, job.into_output_async(1000)).await });
        let end = output.expect("the flood hides the end").unwrap().end;
        assert_eq!(end.status.map(killcord::ExitStatus::as_shell), Some(4), "{boundary}: {end:?}");
        assert!(end.goes_on(), "{boundary}: {end:?}");
    }
}

fn dropping_the_future_ends_the_job() {
    for (runtime, boundary) in both(boundaries()) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command = script(&owner, &scene, "setsid \"$2\" 60 & exec \"$2\" 60");
        let job = command.stdout(Stdio::piped()).spawn().unwrap();
        scene.wait_recorded(2, SOON);
        let pinned = scene.pin();
        let given_up = runtime.block_on(async { timeout(ms(50), job.into_output_async(1000)).await });
        assert!(given_up.is_err(), "{boundary}");
        let gone = pinned.wait_gone(BOUND);
        assert!(gone.is_ok(), "{boundary}: {gone:?}");
    }
}

/// Reads until this has come.
async fn expect(from: &pipe::Receiver, text: &str) {
    let (mut all, mut buffer) = (Vec::new(), [0; 1024]);
    while !String::from_utf8_lossy(&all).contains(text) {
        from.readable().await.unwrap();
        match from.try_read(&mut buffer) {
            Ok(0) => panic!("{text:?} is not in {:?}", String::from_utf8_lossy(&all)),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) => assert_eq!(e.kind(), WouldBlock),
        }
    }
}

fn streams_are_read_and_written_as_they_come() {
    let runtime = multi(2);
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "while read -r line; do echo \"out $line\"; echo \"err $line\" >&2; done; exit 6";
        let mut command = command(&owner, &scene, "sh");
        command.args(["-c", text]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut job = command.spawn().unwrap();
        let end = runtime.block_on(async {
            let input = job.take_stdin_async().unwrap().unwrap();
            let (out, err) =
                (job.take_stdout_async().unwrap().unwrap(), job.take_stderr_async().unwrap().unwrap());
            assert!(job.take_stdout_async().unwrap().is_none(), "they are taken once");
            for word in ["one", "two", "three"] {
                input.writable().await.unwrap();
                input.try_write(format!("{word}\n").as_bytes()).unwrap();
                let answers = async { tokio::join!(expect(&out, word), expect(&err, word)) };
                timeout(SOON, answers).await.unwrap();
            }
            drop(input);
            timeout(SOON, job.wait_async()).await.unwrap().unwrap()
        });
        assert_eq!(end.status.map(killcord::ExitStatus::as_shell), Some(6), "{boundary}");
    }
}
