//! Writes the first inputs of each corpus: what the real writers write, and real files of the kernel.
//!
//! `cargo run -p killcord-fuzzed --example seeds -- DIRECTORY` makes `DIRECTORY/TARGET/NAME` for each. A fuzzer starts from
//! these; what it makes of them is kept by `tools/fuzz --keep`.

#![expect(clippy::unwrap_used, reason = "it writes all of them or none")]

use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::{JobId, Member};
use killcord_model::ladder::{Ladder, Signal};
use killcord_model::record::{self, Exit, Job, Owner, Place, Process, State};
use killcord_model::spec::{Bytes, Limits, Policy, Request, Spec};
use killcord_model::status::ExitStatus;
use killcord_model::verdict::{Members, Verdict};
use killcord_model::wire::{Answer, Call, FromWarden, Order, Refusal, Report, Stage, ToWarden, encode};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn main() {
    let directory = PathBuf::from(std::env::args_os().nth(1).unwrap());
    wire(&directory.join("wire"));
    records(&directory.join("record"), &directory.join("claim"));
    texts(&directory);
}

fn put(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join(name), bytes).unwrap();
}

fn wire(to: &Path) {
    let job = JobId(7);
    let member = Member { pid: 9, start: 10, command: "sleep".to_owned(), state: 'S' };
    let verdict = Verdict::Survivors(Members { count: 1, named: vec![member] });
    put(to, "in-memory", &encode(&<ToWarden>::InMemory).unwrap());
    put(to, "keeper-lost", &encode(&FromWarden::KeeperLost { job, verdict }).unwrap());
    put(to, "go", &encode(&Order::Go).unwrap());
    put(to, "signal", &encode(&Order::Signal(Signal::Term)).unwrap());
    let ladder = Ladder::with_grace(Duration::from_secs(5));
    put(to, "end", &encode(&Order::End(ladder)).unwrap());
    let armed = Report::Armed { boundary: Boundary::Cgroup, notes: vec!["a note".to_owned()] };
    put(to, "armed", &encode(&armed).unwrap());
    put(to, "started", &encode(&Report::Started { pid: 300 }).unwrap());
    put(to, "exited", &encode(&Report::Exited(ExitStatus::Signal(9))).unwrap());
    let failed = Refusal::Failed { stage: Stage::Exec, errno: 2, what: b"/bin/none".to_vec() };
    put(to, "failed", &encode(&Report::NotStarted(failed)).unwrap());
    let tried = vec![(Boundary::Tree, "no /proc".to_owned())];
    let refused = Report::NotStarted(Refusal::Boundary { wanted: Boundary::Cgroup, tried });
    put(to, "refused", &encode(&refused).unwrap());
    put(to, "stop", &encode(&Call::Stop { job: Some(job), now: true }).unwrap());
    put(to, "over", &encode(&Answer::Over(job)).unwrap());
    put(to, "not-running", &encode(&Answer::NotRunning).unwrap());
    put(to, "other-version", &[9, 0, 1]);
    put(to, "empty", b"");
    put(to, "start", &encode(&ToWarden::Start(Box::new(request(job)))).unwrap());
}

fn request(job: JobId) -> Request {
    let mut spec = Spec::new(b"/bin/sh".to_vec(), vec![Bytes(b"-c".to_vec())], vec![Bytes(b"A=b".to_vec())]);
    (spec.umask, spec.nice, spec.extra_fds) = (Some(0o22), Some(-5), vec![3, 300]);
    let (choice, require) = (Choice::Exactly(Boundary::Tree), Some(Boundary::Group));
    let policy = Policy { timeout: Some(Duration::from_secs(60)), ..Policy::default() };
    Request { job, spec, policy, limits: Limits::default(), boundary: choice, require, wait_for_go: true }
}

fn records(record: &Path, claim: &Path) {
    let place = Place { boot: "boot".to_owned(), pid_namespace: 1, time_namespace: 0 };
    let process = Process { pid: 1, start: 2 };
    let program = "make".to_owned();
    let owner = Owner {
        place: place.clone(),
        process,
        program: program.clone(),
        since: 3,
        service: Some("web".to_owned()),
    };
    let job = Job {
        place,
        state: State::Started,
        boundary: Boundary::Cgroup,
        leaf: Some("/sys/fs/cgroup/killcord-1".to_owned()),
        limits: vec!["/sys/fs/cgroup/pids/killcord-1".to_owned()],
        tag: Some(7),
        keeper: Some(process),
        program,
        since: 9,
    };
    let exit = Exit { job: JobId(1).to_string(), status: 1, how: "exit 1".to_owned(), at: 4 };
    let (owner, job) = (record::encode(&owner).unwrap(), record::encode(&job).unwrap());
    put(record, "owner", &owner);
    put(record, "job", &job);
    put(record, "exit", &record::encode(&exit).unwrap());
    put(record, "newer", b"{\"v\":2,\"state\":{\"x\":1}}");
    put(record, "no-number", b"{\"v\":1,\"place\":{\"boot\":\"b\",\"pid_namespace\":-1}}");
    put(record, "id", JobId(0x1234).to_string().as_bytes());
    put(record, "path", b"/usr/bin/ma\x1bke");
    // The kinds of lease and marker, the marker, and a job by a good name and one by a bad one.
    let jobs = [&b"\x02\x00\0"[..], &job, b"\0\x00not a job\0", &job, b"\0"].concat();
    for (name, lease, marker) in [
        ("free", 0, 0),
        ("held", 1, 0),
        ("missing", 2, 2),
        ("links", 5, 5),
        ("fifos", 4, 4),
        ("large", 0, 7),
        ("names", 6, 6),
        ("directories", 3, 3),
    ] {
        put(claim, name, &[&[lease, marker][..], &owner, b"\0", &jobs].concat());
    }
    put(claim, "ours", &[&[1, 1][..], &jobs].concat());
    put(claim, "no-marker", &[&[0, 2][..], b"\0", &jobs].concat());
    put(claim, "broken", &[&[0, 0][..], b"{\"v\":1", b"\0\x01\x05link\0x\0"].concat());
}

fn texts(to: &Path) {
    let stat = b"42 (a) b (c) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 1 2\n";
    put(&to.join("proc"), "stat", stat);
    put(
        &to.join("proc"),
        "zombie",
        b"1 (sh) Z 0 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 18446744073709551615 1 2\n",
    );
    put(&to.join("proc"), "children", b"\x0312 345 4294967296 0 7 ");
    put(&to.join("proc"), "session", b"4294967295");
    put(&to.join("proc"), "statm", b"100 25 7 1 0 9 0\n");
    put(&to.join("proc"), "environ", b"PATH=/bin\0KILLCORD_JOB=1\0");
    put(&to.join("proc"), "events", b"low 0\noom 1\noom_kill 3\n");

    let mounts = &to.join("mountinfo");
    put(mounts, "list", b"30 29 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n39 29 0:36 /docker/abc /sys/fs/cgroup/uni\\040fied rw shared:3 - cgroup2 cgroup2 rw,nsdelegate\n0::/docker/abc/x\n4:memory:/a\n");
    put(mounts, "paths", b"docker/abc\0sys/fs/c group\0x.slice/y z");
    put(mounts, "escapes", b"a\\040b\\134c\\777\\09\0mnt\0");

    let config = &to.join("config");
    put(config, "run", b"[run]\ntimeout_s = 60\nboundary = \"tree\"\nrequire = \"cgroup\"\nleftovers = \"keep\"\ngrace_s = 0x10\n");
    put(config, "all", b"[limits]\nmemory = \"512M\"\npids = 100\ncpu = 0.5\n[sessions]\nmax = 4\nshell = \"~/bin/sh\"\ncolumns = 80\n[environment]\npass = [\"LANG\", \"CARGO_*\"]\nset = { A = \"b\", C = \"d\" }\n[policy]\ndeny = ['\\brm\\s+-rf']\nread_only = true\n[audit]\nenabled = true\ndirectory = \"/var/log\"\nfiles = 3\n[log]\nlevel = \"warn\"\n");
    put(config, "wrong", b"[run]\ntimeout = 1\nmax_chars = \"x\"\n[rum]\nx = 1\n[policy]\ndeny = ['(', '']\n[environment]\nset = { \"1\" = \"x\", B = 2 }\n");
    put(config, "broken", "[run\ntimeout_s = \u{fc}\n\"".as_bytes());

    let filter = &to.join("filter");
    let output = |bytes: &str| [b"\x14\x04\x0a\x05\x03\x00\x10", bytes.as_bytes()].concat();
    for (name, text) in [
        ("plain", "plain text, wide \u{65e5}\u{672c}, combining e\u{301}\r\n\x08\t\x0b\x0c"),
        (
            "moves",
            "\x1b[5;7H\x1b[2J\x1b[1K\x1b[3X\x1b7\x1b8\x1b=\x1b>\x1b[2A\x1b[3B\x1b[2C\x1b[1D\x1b[4G\x1b[2d\x1b[2a\x1b[2e\x1b[3`\x1b[2j\x1b[2k",
        ),
        (
            "modes",
            "\x1b[?25l\x1b[?1h\x1b[?2004h\x1b[?6h\x1b[?7l\x1b[?1047hx\x1b[?1047l\x1b[?1049h\x1b[?1048h\x1b[?47l\x1b[4hx\x1b[4l",
        ),
        ("colours", "\x1b[1;38:2:1:2:3;4m\x1b[0;31mred\x1b[m"),
        ("lines", "\x1b[2;3r\x1b[3L\x1b[2M\x1bM\x1bD\x1bE\x1b[2S\x1b[2T\x1b[r\x1b[2@\x1b[2P"),
        ("repeats", "-\x1b[99999b\x1b[3I\x1b[2Z\x1bc\x1b(0lqk\x1b(B\x1b)0\x0eq\x0f"),
        ("asks", "\x1b[c\x1b[>c\x1b[5n\x1b[6n\x1b[0c"),
        (
            "strings",
            "\x1b]0;a title\x07\x1b]2;c\x1b\\\x1bPq#0\x1b\\\x1b_x\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\\x1bkt\x1b\\",
        ),
        ("edge", "\u{65e5}\u{65e5}\u{65e5}\r\n\x1b[?1049h\u{65e5}\u{65e5}\x1b[1;19H\u{65e5}"),
    ] {
        put(filter, name, &output(text));
        put(&to.join("plain"), name, &[b"\x02\x40\x08\x03\x00", text.as_bytes()].concat());
    }
    put(filter, "broken", b"\x14\x04\x0a\x05\x03\x08\x00a\xffb\xe2\x82\x1b[\x1b[\x1b");
    put(&to.join("plain"), "progress", b"\x02\x40\x08\x03\x00 10%\r 20%\r100%\r\nabc\x08\x08X\x1b[Kdone\n");
    put(&to.join("plain"), "broken", b"\x02\x06\x05\x01\x00a\xffb\xe2\x82\x01\x7f");

    let keys = &to.join("keys");
    put(keys, "names", b"ctrl+c enter up f1 alt+x shift+tab ctrl+alt+delete shift+f5 pgdn space : w q alt++");
    for (name, text) in [
        ("near", "entr"),
        ("modified", "ctrl+lefft"),
        ("caret", "^C"),
        ("emacs", "M-x"),
        ("dash", "C-c"),
        ("other", "ctrl+\u{e4}"),
        ("none", "hello"),
    ] {
        put(keys, name, text.as_bytes());
    }
    put(keys, "paste", b"a\nb\r\n\x1b[20\x1b[201~1~rm\xc2\x9b201~");

    let lines = &to.join("mcp_input");
    let sent = |text: &str| [b"\x06\x20\xff\x00", text.as_bytes()].concat();
    for (name, text) in [
        (
            "call",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"shell_run\",\"arguments\":{\"command\":\"make\",\"env\":{\"A\":\"b\"},\"timeout_s\":1.5,\"leftovers\":\"keep\"}}}\n",
        ),
        (
            "write",
            "{\"session\":\"s1\",\"text\":\"x\",\"keys\":\"enter\",\"paste\":true,\"wait\":{\"until\":\"prompt\",\"quiet_ms\":10}}\n{\"session\":\"s1\",\"cols\":80,\"rows\":24}\n{\"session\":\"s1\",\"mode\":\"from\",\"cursor\":3}\n",
        ),
        (
            "broken",
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\n\n  \r\nnonsense\n{\"params\":1,\"id\":\"a \\\" b\",\"method\":\"x\"}}\n\u{feff}{}\n",
        ),
        ("cut", "{}\n{\"id\":"),
    ] {
        put(lines, name, &sent(text));
    }
    let long = format!(
        "{{\"id\":-5,\"method\":\"m\",\"params\":\"{}\"}}\n{{\"params\":\"{}\",\"id\":6}}\n",
        "x".repeat(90),
        "y".repeat(90)
    );
    put(lines, "long", &[b"\x06\x20\x40\x00", long.as_bytes()].concat());

    let audit = &to.join("audit");
    put(audit, "as-it-is", b"");
    put(audit, "removed", b"\x00\x02");
    put(audit, "swapped", b"\x01\x03");
    put(audit, "repeated", b"\x02\x01");
    put(audit, "flipped", b"\x03\x02\x15\x00\x01");
    put(audit, "foreign", b"\x04\x01{\"seq\":2}\n");
    put(audit, "cut", b"\x05\x03");
    put(audit, "resealed", b"\x06\x02\x07");
    put(audit, "time", b"2026-11-30T21:38:47.123Z");
    put(audit, "day", b"2026-03-01");
}
