//! Output without end does not fill the owner.
//!
//! Promised (G9): whatever a job prints, the owner's memory grows by less than 50 MB, head and tail are kept and every
//! byte is counted, partial output comes back on timeout and cancel, and neither of them waits for the output.
//!
//! Each of these is a host of its own, so that its peak of memory is its own.

use crate::kit::{ms, play as in_a_host, timed, trials};
use crate::roles::say;
use killcord::{Captured, Cause, Job, Ladder, Output, Owner, Stdio};
use killcord_testkit::Scene;
use std::io::Read;
use std::time::Duration;

const KEEP: usize = 64 * 1024;
const LIMIT: Duration = Duration::from_secs(50);

trials![
    heavy_yes_for_five_seconds,
    heavy_a_line_of_200_megabytes,
    eight_noisy_writers_on_stderr,
    bytes_that_are_no_text,
    heavy_a_cancel_is_on_time_whether_or_not_somebody_reads,
];

fn run(role: &str) {
    println!("{}", in_a_host(&Scene::new(), role, LIMIT));
}

fn heavy_yes_for_five_seconds() {
    run("yes");
}

fn heavy_a_line_of_200_megabytes() {
    run("long line");
}

fn eight_noisy_writers_on_stderr() {
    run("eight writers");
}

fn bytes_that_are_no_text() {
    run("no text");
}

fn heavy_a_cancel_is_on_time_whether_or_not_somebody_reads() {
    run("cancel");
}

/// Plays one of this module's roles; false when there is none of that name.
pub(crate) fn play(role: &str) -> bool {
    let owner = Owner::new().unwrap();
    // What a first job needs is part of the idle size.
    assert!(
        owner
            .command("true")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
            .into_output(KEEP)
            .unwrap()
            .end
            .success()
    );
    let idle = peak_kib();
    match role {
        "yes" => yes(&owner),
        "long line" => long_line(&owner),
        "eight writers" => eight_writers(&owner),
        "no text" => no_text(&owner),
        "cancel" => cancel(&owner),
        _ => return false,
    }
    let grown = peak_kib() - idle;
    assert!(grown < 50_000, "the owner has grown by {grown} KiB");
    say(&format!("{role}: {grown} KiB over {idle} KiB"));
    true
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn shell(owner: &Owner, text: &str) -> killcord::Command {
    let mut command = owner.command("sh");
    command.args(["-c", text]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn parts(kept: &Captured) -> (usize, usize, u64) {
    (kept.head.len(), kept.tail.len(), kept.total)
}

fn yes(owner: &Owner) {
    let mut command = owner.command("yes");
    let job = command.stdout(Stdio::piped()).timeout(Duration::from_secs(5)).spawn().unwrap();
    let (output, took) = timed(|| job.into_output(KEEP).unwrap());
    assert_eq!(output.end.cause, Cause::Timeout);
    assert!((ms(4990)..ms(6500)).contains(&took), "{took:?}");
    let (head, tail, total) = parts(&output.stdout);
    assert_eq!((head, tail), (KEEP / 2, KEEP / 2));
    assert!(total > 50_000_000 && output.stdout.left_out() == total - KEEP as u64, "{total}");
    assert!(output.stdout.head.chunks(2).all(|c| c == b"y\n"));
    say(&format!("{} MB of yes in {took:?}", total / 1_000_000));
}

fn long_line(owner: &Owner) {
    let text = "printf start; head -c 200000000 /dev/zero | tr '\\0' x; printf 'the end'";
    let output = shell(owner, text).spawn().unwrap().into_output(KEEP).unwrap();
    assert!(output.end.success(), "{:?}", output.end);
    assert_eq!(parts(&output.stdout), (KEEP / 2, KEEP / 2, 200_000_012));
    let text = output.stdout.to_text();
    assert!(text.starts_with("startxxx") && text.ends_with("xxxthe end"));
    assert!(text.contains(&format!("[{} bytes left out]", 200_000_012 - KEEP)));
}

fn eight_writers(owner: &Owner) {
    let text = "for i in 1 2 3 4 5 6 7 8; do head -c 5000000 /dev/zero >&2 & done; wait; echo done";
    let output: Output = shell(owner, text).spawn().unwrap().into_output(KEEP).unwrap();
    assert!(output.end.success());
    assert_eq!(parts(&output.stderr), (KEEP / 2, KEEP / 2, 40_000_000));
    assert_eq!(output.stdout.to_text(), "done\n");
}

fn no_text(owner: &Owner) {
    let text = "printf '\\377\\376ok\\200\\000'; head -c 3000000 /dev/urandom >&2";
    let output = shell(owner, text).spawn().unwrap().into_output(KEEP).unwrap();
    assert!(output.end.success());
    assert_eq!(output.stdout.to_text(), "\u{fffd}\u{fffd}ok\u{fffd}\0");
    assert_eq!((output.stdout.total, output.stderr.total), (6, 3_000_000));
    assert!(output.stderr.to_text().contains("bytes left out"));
}

/// Started, and deaf by the time that something is printed.
fn flooding(mut command: killcord::Command) -> Job {
    let mut job = command.spawn().unwrap();
    job.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    job.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    job
}

fn cancel(owner: &Owner) {
    // Somebody reads: the order comes first, the flood goes on until it is carried out.
    let deaf = "trap '' TERM HUP; yes & yes >&2 & yes";
    let job = flooding(shell(owner, deaf));
    let (output, took) = timed(|| {
        job.end(Ladder::with_grace(ms(1000))).unwrap();
        job.into_output(KEEP).unwrap()
    });
    assert!((ms(990)..ms(2500)).contains(&took), "{took:?}");
    assert!(output.stdout.total > KEEP as u64 && output.stderr.total > KEEP as u64);
    // Nobody reads: the writers are blocked on full pipes.
    let mut job = flooding(shell(owner, deaf));
    let (end, took) = timed(|| {
        job.end(Ladder::with_grace(ms(1000))).unwrap();
        job.wait().unwrap()
    });
    assert!((ms(990)..ms(2500)).contains(&took), "{took:?} {end:?}");
    // The timeout is the keeper's, and not the reader's either.
    let job = shell(owner, deaf).timeout(ms(700)).grace(ms(300)).spawn().unwrap();
    let (output, took) = timed(|| job.into_output(KEEP).unwrap());
    assert_eq!(output.end.cause, Cause::Timeout);
    assert!((ms(990)..ms(2500)).contains(&took), "{took:?}");
}
