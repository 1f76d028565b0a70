//! Requests at the edge of what can be started, as a library's caller makes them.
//!
//! Promised (G7): a request that the kernel will not execute is answered by a typed refusal that names the stage
//! and the error, and nothing has run. Up to the kernel's own limit it is executed.
//!
//! Not promised: an answer to a message of more than 64 MiB, which is not read: its cord is closed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use killcord::model::boundary::{Boundary, Choice};
use killcord::model::id::JobId;
use killcord::model::spec::{Bytes, Leftovers, Limits, Policy, Request, Session, Spec};
use killcord::model::verdict::{End, Verdict};
use killcord::model::wire::{Refusal, Report, Stage};
use killcord::owner::{Heard, Job, Owner, Streams};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

const ALL: [(&str, fn()); 3] = [
    ("an_environment_of_eight_megabytes_is_refused", an_environment_of_eight_megabytes_is_refused),
    ("an_environment_of_a_megabyte_is_executed", an_environment_of_a_megabyte_is_executed),
    ("a_text_with_a_zero_byte_is_refused", a_text_with_a_zero_byte_is_refused),
];

/// The protocol of Rust's own test harness, as far as cargo and nextest use it.
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let asked: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-') && *arg != "terse").collect();
    for (name, test) in ALL {
        if has("--ignored") || !(asked.is_empty() || asked.iter().any(|part| name.contains(part.as_str()))) {
            continue;
        }
        if has("--list") {
            println!("{name}: test");
        } else {
            test();
            println!("test {name} ... ok");
        }
    }
}

fn request(environment: Vec<Bytes>) -> Request {
    let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
    Request {
        job: JobId::from_random([7; 16]),
        spec: Spec {
            program: b"/bin/touch".to_vec(),
            argv: vec![bytes("touch"), bytes("mark")],
            env: environment,
            umask: None,
            rlimits: Vec::new(),
            nice: None,
            oom_score_adj: 0,
            session: Session::Own,
            extra_fds: Vec::new(),
            ignored: Vec::new(),
        },
        policy: Policy { timeout: None, grace: Duration::from_secs(1), leftovers: Leftovers::End },
        limits: Limits::default(),
        boundary: Choice::Exactly(Boundary::Tree),
        require: None,
    }
}

fn variables(count: usize) -> Vec<Bytes> {
    (0..count).map(|n| Bytes(format!("V{n}={}", "x".repeat(131_000)).into_bytes())).collect()
}

/// Asks for the job in this directory and hears it to its end.
fn start(request: Request, directory: &Path) -> (Option<Refusal>, End) {
    let owner = Owner::fork(false).unwrap();
    let null = || File::open("/dev/null").unwrap().into();
    let streams = Streams {
        directory: File::open(directory).unwrap().into(),
        standard: [null(), null(), null()],
        extra: Vec::new(),
    };
    let mut job = owner.start(request, &streams).unwrap();
    let heard = hear(&mut job);
    owner.close(Duration::from_secs(1)).unwrap();
    heard
}

fn hear(job: &mut Job) -> (Option<Refusal>, End) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut refusal = None;
    while Instant::now() < deadline {
        match job.hear() {
            Heard::Message(Report::NotStarted(why)) => refusal = Some(why),
            Heard::Message(Report::Ended(end)) => return (refusal, *end),
            Heard::Message(_) => {}
            Heard::Nothing => std::thread::sleep(Duration::from_millis(2)),
            Heard::Closed => panic!("the cord ended without a last word"),
        }
    }
    panic!("no end was heard of");
}

fn an_environment_of_eight_megabytes_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (refusal, end) = start(request(variables(64)), directory.path());
    let e2big = 7;
    assert!(
        matches!(&refusal, Some(Refusal::Failed { stage: Stage::Exec, errno, what })
            if *errno == e2big && what == b"/bin/touch"),
        "{refusal:?}"
    );
    assert!(matches!(end.verdict, Verdict::Refused) && end.status.is_none(), "{end:?}");
    assert!(!directory.path().join("mark").exists());
}

fn an_environment_of_a_megabyte_is_executed() {
    let directory = tempfile::tempdir().unwrap();
    let (refusal, end) = start(request(variables(8)), directory.path());
    assert_eq!(refusal, None);
    assert!(matches!(end.verdict, Verdict::Empty(_)), "{end:?}");
    assert!(directory.path().join("mark").exists());
}

fn a_text_with_a_zero_byte_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (refusal, end) = start(request(vec![Bytes(b"A=b\0c".to_vec())]), directory.path());
    assert!(matches!(&refusal, Some(Refusal::Failed { stage: Stage::Exec, errno: 22, .. })), "{refusal:?}");
    assert!(matches!(end.verdict, Verdict::Refused), "{end:?}");
    assert!(!directory.path().join("mark").exists());
}
