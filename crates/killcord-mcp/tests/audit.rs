//! The audit log's chain, on real files.
//!
//! Promised: a record that was changed in any byte, left out, moved, repeated or cut is found, with its file and
//! line, through rotation and restart; several servers at once write chains that are whole; what is secret is not in
//! the files; nobody but their user may read them.
//!
//! Nothing here starts a program: while one is being started it has a copy of each lock of this process, and a log that
//! is closed and opened in that moment gets another chain.
//!
//! Not promised: that the end of a chain is still there. The last test shows that only a hash noted elsewhere tells.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_mcp::audit::{Call, Digest, End, Event, Kind, Log, Reader, Report, What, verify};
use killcord_mcp::config::Audit;
use killcord_model::status::ExitStatus;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn config(dir: &Path) -> Audit {
    Audit { directory: Some(dir.join("audit")), ..Audit::default() }
}

fn call() -> Call {
    Call {
        client: Some("claude-code 2.1".to_owned()),
        request: Some("7".to_owned()),
        tool: Some("shell_run".to_owned()),
        job: None,
    }
}

fn start(command: &str) -> Event {
    Event { call: call(), what: What::Start { arguments: json!({ "command": command }) } }
}

fn file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("audit/audit-1.{number:06}.jsonl"))
}

/// A small log in `dir`: as many records as there are commands, and the one that opens it.
fn small(dir: &Path, commands: &[&str]) {
    let log = Log::open(&config(dir)).unwrap();
    for command in commands {
        log.record(start(command)).unwrap();
    }
}

fn check(dir: &Path) -> Report {
    verify(&dir.join("audit"), None).unwrap()
}

/// The kinds of what is wrong.
fn kinds(dir: &Path) -> Vec<Kind> {
    check(dir).problems.into_iter().map(|p| p.kind).collect()
}

#[test]
fn a_record_says_what_was_asked_and_what_came_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&config(dir.path())).unwrap();
    let arguments = json!({ "command": "curl -u me:hunter2 https://x", "env": { "API_TOKEN": "hunter2" }, "timeout_s": 5 });
    log.record(Event { call: call(), what: What::Start { arguments } }).unwrap();
    let mut digest = Digest::new();
    digest.update(b"hello ");
    digest.update(b"world\n");
    let end = End {
        output: Some(digest.output()),
        exit: Some(ExitStatus::Signal(9)),
        cause: Some("timeout".to_owned()),
        verdict: Some("empty".to_owned()),
        boundary: Some("cgroup".to_owned()),
        duration: Duration::from_millis(1234),
    };
    log.record(Event { call: Call { job: Some("3f9a".to_owned()), ..call() }, what: What::End(end) })
        .unwrap();
    let input = json!({ "session": "s1", "text": "hunter2", "sensitive": true });
    log.record(Event { call: call(), what: What::Write { arguments: input, echo_off: false } }).unwrap();
    let input = json!({ "session": "s1", "text": "hunter2" });
    log.record(Event { call: call(), what: What::Write { arguments: input, echo_off: true } }).unwrap();
    let kill = What::Kill { arguments: json!({ "session": "s1" }) };
    log.record(Event { call: call(), what: kill }).unwrap();
    log.record(Event { call: call(), what: What::Cancelled }).unwrap();
    let refused =
        What::Refused { arguments: json!({ "command": "rm -rf /" }), why: "denied by rm".to_owned() };
    log.record(Event { call: call(), what: refused }).unwrap();
    assert_eq!((log.counters().written, log.counters().failed), (8, 0));

    let text = fs::read_to_string(file(dir.path(), 1)).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("hello"), "{text}");
    // What is another in each run stands for itself.
    let mut shown = String::new();
    for line in text.lines() {
        let mut record: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
        for name in ["time", "server", "pid", "prev", "hash", "version"] {
            record.remove(name);
        }
        shown.extend([&serde_json::to_string(&record).unwrap(), "\n"]);
    }
    insta::assert_snapshot!(shown);
    assert!(check(dir.path()).is_intact());
}

#[test]
fn nobody_else_may_read_it() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["true"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&dir.path().join("audit")), mode(&file(dir.path(), 1))), (0o700, 0o600));
    // A directory that others may use is not used.
    fs::set_permissions(dir.path().join("audit"), fs::Permissions::from_mode(0o755)).unwrap();
    let log = Log::open(&config(dir.path())).unwrap();
    let said = log.record(start("true")).unwrap_err().to_string();
    assert!(said.ends_with("others may use it (mode 0755, not 0700)"), "{said}");
    assert!(Log::open(&Audit { required: true, ..config(dir.path()) }).is_err());
}

#[test]
fn any_changed_inserted_or_removed_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one", "two"]);
    let path = file(dir.path(), 1);
    let good = fs::read(&path).unwrap();
    assert!(check(dir.path()).is_intact());
    for at in 0..good.len() {
        for other in [good[at] ^ 1, b'\n'] {
            if other == good[at] {
                continue;
            }
            let mut bad = good.clone();
            bad[at] = other;
            fs::write(&path, &bad).unwrap();
            let report = check(dir.path());
            assert!(!report.is_intact(), "byte {at} as {other}: not noticed");
            assert!(report.problems[0].file == path && report.problems[0].line >= 1);
        }
        let mut bad = good.clone();
        bad.remove(at);
        fs::write(&path, &bad).unwrap();
        assert!(!check(dir.path()).is_intact(), "byte {at} removed: not noticed");
        let mut bad = good.clone();
        bad.insert(at, b' ');
        fs::write(&path, &bad).unwrap();
        assert!(!check(dir.path()).is_intact(), "a blank before byte {at}: not noticed");
    }
}

#[test]
fn a_changed_record_is_named_once_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one", "two", "three"]);
    let text = fs::read_to_string(file(dir.path(), 1)).unwrap();
    fs::write(file(dir.path(), 1), text.replace("two", "TWO")).unwrap();
    let problems = check(dir.path()).problems;
    assert_eq!((problems.len(), problems[0].line, problems[0].kind), (1, 3, Kind::Changed));
    assert_eq!(problems[0].what, "record 3 was changed: its hash is not that of its bytes");
}

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in items.iter().enumerate() {
        let rest: Vec<usize> = items.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, x)| *x).collect();
        all.extend(permutations(&rest).into_iter().map(|p| [vec![*first], p].concat()));
    }
    all
}

#[test]
fn every_other_order_and_every_missing_or_repeated_record_is_found() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one", "two", "three", "four"]);
    let path = file(dir.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let orders = permutations(&(0..lines.len()).collect::<Vec<_>>());
    assert_eq!(orders.len(), 120);
    for order in orders {
        fs::write(&path, order.iter().map(|i| lines[*i]).collect::<String>()).unwrap();
        assert_eq!(check(dir.path()).is_intact(), order.is_sorted(), "{order:?}");
    }
    for at in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(at);
        fs::write(&path, fewer.concat()).unwrap();
        // The end can be cut off: that is what a hash noted elsewhere is for.
        assert_eq!(check(dir.path()).is_intact(), at == lines.len() - 1, "without line {}", at + 1);
        let mut more = lines.clone();
        more.insert(at, lines[at]);
        fs::write(&path, more.concat()).unwrap();
        assert_eq!(kinds(dir.path()).len(), 1 + usize::from(at == 0), "line {} twice", at + 1);
    }
}

#[test]
fn a_record_of_another_log_does_not_fit() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    small(one.path(), &["a", "b"]);
    small(two.path(), &["a", "c"]);
    let of = |dir: &Path| fs::read_to_string(file(dir, 1)).unwrap();
    let (first, second) = (of(one.path()), of(two.path()));
    let mut lines: Vec<&str> = first.split_inclusive('\n').collect();
    lines[1] = second.split_inclusive('\n').nth(1).unwrap();
    fs::write(file(one.path(), 1), lines.concat()).unwrap();
    assert_eq!(kinds(one.path()), [Kind::Unlinked, Kind::Unlinked]);
}

#[test]
fn the_chain_goes_on_through_rotation_and_restart_and_old_files_go() {
    let dir = tempfile::tempdir().unwrap();
    let config = Audit { max_bytes: 4096, files: 3, ..config(dir.path()) };
    for _ in 0..4 {
        let log = Log::open(&config).unwrap();
        for n in 0..40 {
            log.record(start(&format!("echo {n}"))).unwrap();
        }
        assert_eq!(log.counters().failed, 0);
    }
    let report = check(dir.path());
    assert!(report.is_intact(), "{report:?}");
    let chain = &report.chains[0];
    assert_eq!((report.chains.len(), chain.files.len()), (1, 3));
    assert!(chain.last_seq > 4 * 41 && chain.records < chain.last_seq);
    for path in &chain.files {
        let size = fs::metadata(path).unwrap().len();
        assert!(size < 4096 + 1024, "{size}");
    }
    // A file in the middle that is gone, or the first record of the oldest, is noticed.
    let oldest = fs::read_to_string(&chain.files[0]).unwrap();
    fs::write(&chain.files[0], oldest.split_once('\n').unwrap().1).unwrap();
    assert_eq!(kinds(dir.path()), [Kind::OutOfPlace]);
    fs::write(&chain.files[0], oldest).unwrap();
    fs::remove_file(&chain.files[1]).unwrap();
    assert_eq!(kinds(dir.path()), [Kind::Missing, Kind::Missing]);
    // By itself a file is whole.
    assert!(verify(&chain.files[2], None).unwrap().is_intact());
}

#[test]
fn a_record_that_was_cut_is_reported_and_the_next_server_closes_it() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one", "two"]);
    let path = file(dir.path(), 1);
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for end in (last + 1..whole.len()).step_by(30).chain([whole.len() - 1]) {
        let _ = fs::remove_file(file(dir.path(), 2));
        fs::write(&path, &whole[..end]).unwrap();
        assert_eq!(kinds(dir.path()), [Kind::Cut]);
        small(dir.path(), &["three"]);
        let report = check(dir.path());
        assert!(report.is_intact(), "{end}: {:?}", report.problems);
        assert_eq!((report.chains[0].recovered, report.chains[0].last_seq), (1, 4));
        assert!(fs::read_to_string(file(dir.path(), 2)).unwrap().contains("\"event\":\"recovered\""));
    }
    // What was cut cannot be changed afterwards, or taken away.
    let mut bad = fs::read(&path).unwrap();
    bad.pop();
    fs::write(&path, &bad).unwrap();
    assert_eq!(kinds(dir.path()), [Kind::Cut]);
    fs::write(&path, &bad[..last]).unwrap();
    assert_eq!(kinds(dir.path()), [Kind::Missing]);
}

#[test]
fn a_damaged_end_is_not_made_good_by_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one", "two"]);
    let text = fs::read_to_string(file(dir.path(), 1)).unwrap();
    fs::write(file(dir.path(), 1), text.replace("two", "TWO")).unwrap();
    small(dir.path(), &["three"]);
    let kinds = kinds(dir.path());
    assert_eq!(kinds, [Kind::Changed, Kind::OutOfPlace]);
}

#[test]
fn an_empty_file_of_a_server_that_ended_too_early_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one"]);
    fs::write(file(dir.path(), 2), "").unwrap();
    small(dir.path(), &["two"]);
    assert!(check(dir.path()).is_intact(), "{:?}", check(dir.path()).problems);
    assert_eq!(fs::read_to_string(file(dir.path(), 2)).unwrap().lines().count(), 2);
}

#[test]
fn a_file_that_is_changed_under_a_running_server_is_found() {
    for (what, expected) in [("cut", vec![Kind::Missing]), ("more", vec![Kind::Foreign]), ("gone", vec![])] {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(&config(dir.path())).unwrap();
        for command in ["one", "two", "three"] {
            log.record(start(command)).unwrap();
        }
        let text = fs::read_to_string(file(dir.path(), 1)).unwrap();
        let kept: String = text.split_inclusive('\n').take(2).collect();
        match what {
            "cut" => fs::write(file(dir.path(), 1), kept).unwrap(),
            "more" => fs::write(file(dir.path(), 1), text + "{}\n").unwrap(),
            _ => fs::remove_file(file(dir.path(), 1)).unwrap(),
        }
        log.record(start("four")).unwrap();
        assert_eq!(log.counters().failed, 0);
        assert_eq!(kinds(dir.path()), expected, "{what}");
        let four = fs::read_to_string(file(dir.path(), 2)).unwrap();
        assert!(four.contains("\"seq\":6") && four.contains("four"), "{four}");
    }
}

#[test]
fn servers_at_once_have_chains_of_their_own_and_threads_share_one() {
    let dir = tempfile::tempdir().unwrap();
    let config = Audit { max_bytes: 8192, files: 1000, ..config(dir.path()) };
    let logs: Vec<Log> = (0..4).map(|_| Log::open(&config).unwrap()).collect();
    std::thread::scope(|scope| {
        for log in &logs {
            for thread in 0..4 {
                scope.spawn(move || {
                    for n in 0..50 {
                        log.record(start(&format!("echo {thread} {n}"))).unwrap();
                    }
                });
            }
        }
    });
    let report = check(dir.path());
    assert!(report.is_intact(), "{:?}", report.problems);
    assert_eq!(report.chains.len(), 4);
    let entries = Reader::new(&dir.path().join("audit")).read().unwrap();
    assert_eq!(entries.iter().filter(|e| e.text("event") == "start").count(), 4 * 4 * 50);
    // The next server goes on with a chain that is free.
    drop(logs);
    small(dir.path(), &["true"]);
    assert_eq!(check(dir.path()).chains.len(), 4);
}

#[test]
fn a_log_that_is_being_written_and_rotated_is_intact_at_every_look() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&Audit { max_bytes: 4096, files: 2, ..config(dir.path()) }).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..4000 {
                log.record(start(&format!("echo {n}"))).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut looks = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) || looks == 0 {
            let report = check(dir.path());
            assert!(report.is_intact(), "{:?}", report.problems);
            looks += 1;
        }
    });
}

#[test]
fn a_long_argument_is_cut_and_keeps_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&config(dir.path())).unwrap();
    log.record(start(&"é".repeat(100_000))).unwrap();
    let many: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
    log.record(Event { call: call(), what: What::Start { arguments: json!({ "command": many }) } }).unwrap();
    let text = fs::read_to_string(file(dir.path(), 1)).unwrap();
    assert!(
        text.len() < 6000 && text.contains("[200000 bytes, sha256 ") && text.contains("omitted_bytes"),
        "{text}"
    );
    assert!(check(dir.path()).is_intact());
}

#[test]
fn a_log_that_is_switched_off_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&Audit { enabled: false, required: true, ..config(dir.path()) }).unwrap();
    log.record(start("true")).unwrap();
    assert!(!log.is_required() && !dir.path().join("audit").exists());
}

#[test]
fn an_end_that_was_cut_off_is_found_only_by_a_hash_noted_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), &["one", "two"]);
    let noted = check(dir.path()).chains[0].last_hash.clone();
    let text = fs::read_to_string(file(dir.path(), 1)).unwrap();
    let shorter: String = text.split_inclusive('\n').take(2).collect();
    let with = |hash: &str| verify(&dir.path().join("audit"), Some(hash)).unwrap();
    assert!(with(&noted).is_intact());
    fs::write(file(dir.path(), 1), shorter).unwrap();
    assert!(check(dir.path()).is_intact());
    assert!(!with(&noted).is_intact() && with(&noted).expected_found == Some(false));
}
