//! What a service has printed: `killcord logs`.
//!
//! Promised (G9, G13): of the output the newest 4 MiB at least and 8 MiB at most are kept, in order, as bytes; they can
//! be read while it runs and followed to its end. A full disk does not hold up the service, and what was lost is said
//! with its exit.
//!
//! Not promised: that a follower sees all of an output that is written faster than it reads; then it says so.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use killcord_testkit::{Host, Need, Place, Running, Signal, Who, run, skip};
use std::time::Duration;

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
const SOON: Duration = Duration::from_secs(20);
/// What is promised for an end.
const TWO: Duration = Duration::from_secs(2);

fn place(who: Who) -> Place {
    Place::new(env!("CARGO_BIN_EXE_killcord"), who)
}

/// Numbers, one on each line, that must follow on each other; the first and the last.
fn consecutive(text: &str) -> (u64, u64) {
    // The oldest line may have been cut when what was before it went.
    let numbers: Vec<u64> = text.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1));
    (numbers[0], numbers[numbers.len() - 1])
}

#[test]
fn of_much_output_the_newest_is_kept_in_order() {
    for who in Who::here() {
        let place = place(*who);
        // 40 MiB.
        let mut service = place.start("web", &[], "seq 5378242");
        service.gone(SOON);
        let dir = std::fs::read_dir(place.state().join("services/web")).unwrap();
        let size: u64 = dir.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!((4 << 20..(8 << 20) + 4096).contains(&size), "{size}");
        let log = place.says(&["logs", "web"], 0, "");
        assert_eq!((consecutive(&log.stdout).1, log.stderr.as_str()), (5_378_242, ""));
        assert!(log.stdout.len() > 4 << 20, "{}", log.stdout.len());
    }
}

#[test]
fn a_service_that_never_stops_printing_can_be_stopped_and_its_owner_hears() {
    for who in Who::here() {
        let place = place(*who);
        let mut service = place.start("web", &[], "exec yes");
        place.log_until("web", |text| text.len() > 1 << 20);
        place.says(&["stop", "web"], 0, "web stopped\n");
        service.gone(TWO);
        let mut service = place.start("web", &[], "exec yes");
        place.log_until("web", |text| text.len() > 1 << 20);
        service.guards().0.kill(Signal::TERM).unwrap();
        service.gone(TWO);
        place.says(&["wait", "web"], 143, "web: stopped, ");
    }
}

#[test]
fn a_follower_sees_all_of_it_over_a_rotation_and_ends_with_the_service() {
    for who in Who::here() {
        let place = place(*who);
        // 10 MiB in pieces of 250 KiB, with time for the follower in between.
        let script = "until [ -e $D/go ]; do sleep .02; done; \
                      n=1; while [ $n -lt 1500000 ]; do seq $n $((n+36999)); n=$((n+37000)); sleep .05; done";
        let mut service = place.start("web", &[], script);
        let mut follower = Running::start(&mut place.killcord(&["logs", "-f", "web"]));
        std::fs::write(place.scene.path("go"), "").unwrap();
        let text = follower.stdout.read_to_end(SOON).unwrap();
        assert_eq!(follower.wait(SOON).unwrap().code(), Some(0));
        assert_eq!(follower.stderr.read_to_end(SOON).unwrap(), "");
        let (first, last) = consecutive(&format!("\n{text}"));
        assert!(first == 1 && last >= 1_499_999 && text.len() > 9 << 20, "{first} {last} {}", text.len());
        service.gone(TWO);
    }
}

#[test]
fn bytes_that_are_no_text_are_passed_on_and_a_running_service_can_be_read() {
    for who in Who::here() {
        let place = place(*who);
        let mut service = place.start("web", &[], r"printf 'a\377\000\033[31mz\n'; exec ./leaf.sh srv 50");
        place.log_until("web", |text| text.ends_with("z\n"));
        let log = place.killcord(&["logs", "web"]).output().unwrap();
        assert_eq!(log.stdout, b"a\xff\0\x1b[31mz\n");
        place.says(&["stop", "web"], 0, "web stopped\n");
        service.gone(TWO);
    }
}

#[test]
fn a_full_disk_does_not_hold_it_up_and_the_loss_is_said() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    let place = place(Who::Root);
    // The mount goes with its namespace, which goes with the shell.
    let script = r#"mkdir full && mount -t tmpfs -o size=1m none full && export KILLCORD_STATE_DIR=$D/full/state &&
        "$0" run --detach --name web --ttl 50 -- sh -c 'head -c 4000000 /dev/zero; exit 3' &&
        "$0" wait web; echo status $?; ls -A full/state/services"#;
    let mut shell = place.program("unshare");
    shell
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_killcord"));
    let done = run(&mut shell, SOON);
    if done.stderr.contains("mount") {
        skip!(Need::Other("no tmpfs of its own for a test"));
    }
    let (started, waited) = done.stdout.split_once('\n').unwrap();
    assert!(started.starts_with("web started: job "), "{done:?}");
    assert!(waited.starts_with("web: exited with 3; "), "{done:?}");
    assert!(waited.contains(" bytes of its output could not be written: no storage space, "), "{done:?}");
    let lost: u64 = waited.split(' ').nth(4).unwrap().parse().unwrap();
    assert!((2_900_000..4_000_000).contains(&lost), "{done:?}");
    assert!(waited.ends_with("status 3\n"), "{done:?}");
}
