//! The audit log's file, when the disk is full or read-only, and when its server is killed.
//!
//! Promised: a record that cannot be written is an error, counted and named once, and nothing of it stays in the
//! file; the next record that can be written says how many were lost; a server that is killed at any moment leaves a
//! chain that the next one goes on with.

use killcord_mcp::audit::{Call, Event, Log, What, verify};
use killcord_mcp::config::Audit;
use killcord_testkit::{Need, Running, Signal, is_root, run, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);

fn writer() -> PathBuf {
    killcord_testkit::example("killcord-mcp", "audit_writer")
}

fn config(dir: &Path) -> Audit {
    Audit { directory: Some(dir.join("audit")), ..Audit::default() }
}

fn cancelled() -> Event {
    Event { call: Call::default(), what: What::Cancelled }
}

/// On a file system that no other process sees, mounted by this script in `$1`.
fn in_own_mounts(dir: &Path, script: &str) -> String {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh"]).arg(dir).arg(writer());
    let done = run(&mut command, SOON);
    assert_eq!(done.code(), 0, "{done:?}");
    done.stdout
}

#[test]
fn a_full_disk_costs_records_and_never_the_chain() {
    if !is_root() {
        skip!(Need::Root);
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=256k none \"$1\"; mkdir -m 700 \"$1/audit\"; \
                  head -c 100000 /dev/zero >\"$1/filler\"; \"$2\" \"$1/audit\" 700 65536 \"$1/filler\"";
    let said = in_own_mounts(dir.path(), script);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "writing");
    assert!(
        lines[1].starts_with("failed: failed to ") && lines[1].contains("No space left on device"),
        "{said}"
    );
    assert_eq!(lines[2], "intact true []");
    assert!(lines[3].ends_with("failed: 3, bytes: 0 }") || lines[3].contains("failed: 3,"), "{said}");
    assert_eq!(lines[4], "intact true []");
}

#[test]
fn a_read_only_disk_is_an_error_and_no_more() {
    if !is_root() {
        skip!(Need::Root);
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs none \"$1\"; mkdir -m 700 \"$1/audit\"; : >\"$1/filler\"; mount -o remount,ro \"$1\"; \
                  \"$2\" \"$1/audit\" 5 65536 \"$1/filler\"";
    let said = in_own_mounts(dir.path(), script);
    assert!(said.contains("failed: failed to open") && said.contains("Read-only file system"), "{said}");
    assert!(said.contains("written: 0, failed: 6"), "{said}");
}

#[test]
fn the_next_record_says_how_many_were_lost() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&config(dir.path())).unwrap();
    log.record(cancelled()).unwrap();
    // A directory that others may use is not trusted; a file that is gone makes the log look at it again.
    let audit = dir.path().join("audit");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::remove_file(audit.join("audit-1.000001.jsonl")).unwrap();
    std::fs::set_permissions(&audit, mode(0o755)).unwrap();
    assert!(log.record(cancelled()).is_err() && log.record(cancelled()).is_err());
    assert!(log.take_first_failure().unwrap().contains("others may use it"));
    assert_eq!(log.take_first_failure(), None);
    std::fs::set_permissions(&audit, mode(0o700)).unwrap();
    log.record(cancelled()).unwrap();
    let text = std::fs::read_to_string(audit.join("audit-1.000002.jsonl")).unwrap();
    assert!(
        text.lines().next().unwrap().contains("\"event\":\"recovered\"") && text.contains("\"lost\":2"),
        "{text}"
    );
    assert_eq!((text.matches("lost").count(), log.counters().failed), (1, 2));
    // The file that is gone is older than those that are there: as after a rotation.
    assert!(verify(&audit, None).unwrap().is_intact());
}

#[test]
fn heavy_a_server_that_is_killed_leaves_a_chain_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    for round in 0..20 {
        let mut command = Command::new(writer());
        let mut running = Running::start(command.arg(&audit).args(["100000000", "20000"]));
        running.stdout.expect("writing", SOON).unwrap();
        std::thread::sleep(Duration::from_millis(7 * round));
        running.kill(Signal::KILL);
        running.wait(SOON).unwrap();
        let before = verify(&audit, None).unwrap();
        // By a process of its own: this one's children would have copies of the lock.
        let done = run(Command::new(writer()).arg(&audit).args(["1", "20000"]), SOON);
        assert_eq!(done.code(), 0, "{done:?}");
        let after = verify(&audit, None).unwrap();
        assert!(after.is_intact(), "round {round}: {:?} then {:?}", before.problems, after.problems);
        assert_eq!(after.chains.len(), 1, "round {round}");
    }
}

#[test]
fn processes_at_once_write_chains_that_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    let start = |_| Running::start(Command::new(writer()).arg(&audit).args(["500", "20000"]));
    let mut writers: Vec<Running> = (0..4).map(start).collect();
    for writer in &mut writers {
        writer.stdout.expect("writing", SOON).unwrap();
        assert!(writer.wait(SOON).unwrap().success());
    }
    let report = verify(&audit, None).unwrap();
    assert!(report.is_intact(), "{:?}", report.problems);
    let records: u64 = report.chains.iter().map(|c| c.records).sum();
    assert!(records >= 4 * 501, "{records}");
}

#[test]
fn a_hash_can_be_checked_without_this_program() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&config(dir.path())).unwrap();
    log.record(cancelled()).unwrap();
    let script = r#"prev=0000000000000000000000000000000000000000000000000000000000000000
        while IFS= read -r line; do
            hash=$(printf %s "$line" | sed 's/,"hash":"[0-9a-f]*"}$/}/' | sha256sum | cut -d' ' -f1)
            case $line in *"\"prev\":\"$prev\",\"hash\":\"$hash\"}") ;; *) exit 1 ;; esac
            prev=$hash
        done"#;
    let input = std::fs::File::open(dir.path().join("audit/audit-1.000001.jsonl")).unwrap();
    let status = Command::new("bash").args(["-c", script]).stdin(input).status().unwrap();
    assert!(status.success());
}
