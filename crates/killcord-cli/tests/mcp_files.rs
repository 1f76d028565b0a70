//! `killcord audit`, `killcord config` and `killcord mcp install`, as they are typed.
//!
//! Promised: the exit statuses that the help pages say; one line for each thing that is wrong; a log whose every
//! change is found; a client's file that is changed only where it has to be. Each runs with a home directory of its
//! own and never sees the real one.
//!
//! Not promised here: the details, which are tested in the crate `killcord-mcp`.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_mcp::audit::{Call, End, Event, Log, What};
use killcord_mcp::config::Audit;
use killcord_model::status::ExitStatus;
use killcord_testkit::{Finished, Running, run};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A deadline that fails a test and never passes one.
const SOON: Duration = Duration::from_secs(20);

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_killcord"));
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.0.path());
        command.current_dir(self.0.path());
        command
    }

    fn run(&self, args: &[&str]) -> Finished {
        run(&mut self.command(args), SOON)
    }

    /// The exit status and what was printed, without the directory's own name.
    fn says(&self, args: &[&str]) -> (i32, String, String) {
        let done = self.run(args);
        let plain = |text: &str| text.replace(self.0.path().to_str().unwrap(), "HOME");
        (done.code(), plain(&done.stdout), plain(&done.stderr))
    }
}

fn records(home: &Home) -> Log {
    let log =
        Log::open(&Audit { directory: Some(home.path(".local/state/killcord/audit")), ..Audit::default() });
    let log = log.unwrap();
    let at = |s: u64| UNIX_EPOCH + Duration::from_secs(1_796_074_727 + s);
    let call = |job: Option<&str>| Call {
        client: Some("test".to_owned()),
        request: Some("1".to_owned()),
        tool: Some("shell_run".to_owned()),
        job: job.map(str::to_owned),
    };
    let start = What::Start {
        arguments: json!({ "command": "login --token hunter2 \u{1b}[2J", "cwd": "/tmp", "timeout_s": 5 }),
    };
    log.record_at(Event { call: call(Some("3f9a1c")), what: start }, at(0)).unwrap();
    let end = End {
        exit: Some(ExitStatus::Signal(15)),
        verdict: Some("empty".to_owned()),
        duration: Duration::from_millis(1500),
        ..End::default()
    };
    log.record_at(Event { call: call(Some("3f9a1c")), what: What::End(end) }, at(2)).unwrap();
    let refused =
        What::Refused { arguments: json!({ "command": "mkfs /dev/sda" }), why: "denied by mkfs".to_owned() };
    log.record_at(Event { call: call(None), what: refused }, at(3)).unwrap();
    log
}

fn file(home: &Home) -> PathBuf {
    home.path(".local/state/killcord/audit/audit-1.000001.jsonl")
}

#[test]
fn a_log_is_intact_until_somebody_touches_it() {
    let home = Home::new();
    let (code, _, said) = home.says(&["audit", "verify"]);
    assert_eq!(code, 125);
    assert_eq!(
        said,
        "killcord: failed to read HOME/.local/state/killcord/audit: No such file or directory (os error 2)\n"
    );
    records(&home);
    let (code, said, _) = home.says(&["audit", "verify"]);
    assert_eq!(code, 0);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "HOME/.local/state/killcord/audit/audit-1.000001.jsonl: 4 records in 1 file");
    let hash = lines[1].strip_prefix("  last 4 ").unwrap();
    assert_eq!((hash.len(), lines[2]), (64, "intact"));
    assert_eq!(home.run(&["audit", "verify", "--expect", hash]).code(), 0);

    let text = fs::read_to_string(file(&home)).unwrap();
    fs::write(file(&home), text.replace("mkfs /dev/sda", "mkfs /dev/sdb")).unwrap();
    let (code, said, _) = home.says(&["audit", "verify"]);
    assert_eq!(code, 1);
    assert!(said.starts_with(
        "HOME/.local/state/killcord/audit/audit-1.000001.jsonl:4: record 4 was changed: its hash is not that of its bytes\n"
    ));
    assert!(said.ends_with("broken\n"));
    let report: Value = serde_json::from_str(&home.run(&["audit", "verify", "--json"]).stdout).unwrap();
    assert_eq!(
        (&report["intact"], &report["problems"][0]["line"], &report["version"]),
        (&json!(false), &json!(4), &json!(1))
    );
    assert_eq!(report["problems"][0]["kind"], "changed");

    // Cut at a record's end: only the noted hash shows it.
    let shorter: String = text.split_inclusive('\n').take(3).collect();
    fs::write(file(&home), shorter).unwrap();
    assert_eq!(home.run(&["audit", "verify"]).code(), 0);
    let (code, said, _) = home.says(&["audit", "verify", "--expect", hash]);
    assert!(code == 1 && said.contains("no record has the expected hash"), "{said}");
    assert_eq!(home.run(&["audit", "verify", "--expect", "3f"]).code(), 125);
    assert_eq!(home.run(&["audit", "verify", "/no/such"]).code(), 125);
}

#[test]
fn records_are_shown_in_columns_without_secrets() {
    let home = Home::new();
    records(&home);
    let (code, said, _) = home.says(&["audit", "show", "--job", "3f9a"]);
    assert_eq!(code, 0);
    assert_eq!(
        said,
        "2026-11-30 21:38:47.000  start      shell_run       3f9a1c        login --token [masked]  [2J cwd=/tmp timeout_s=5\n\
         2026-11-30 21:38:49.000  end        shell_run       3f9a1c        SIGTERM, in 1500 ms, empty\n"
    );
    let shown = |args: &[&str]| home.run(&[&["audit", "show"], args].concat()).stdout.lines().count();
    assert_eq!((shown(&[]), shown(&["-n", "2"]), shown(&["--since", "2026-11-30T21:38:50"])), (4, 2, 2));
    let json = home.run(&["audit", "show", "--json"]).stdout;
    let mut lines: Vec<&str> = json.lines().collect();
    // By time: the first record, of now, may stand last.
    lines.sort_by_key(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64());
    assert_eq!(lines.join("\n") + "\n", fs::read_to_string(file(&home)).unwrap());
    assert_eq!(home.run(&["audit", "show", "--since", "soon"]).code(), 125);
}

#[test]
fn following_shows_what_comes() {
    let home = Home::new();
    let log = records(&home);
    let mut running = Running::start(&mut home.command(&["audit", "show", "-f", "-n", "0"]));
    // Whether it has looked already or not, what comes later is shown.
    for n in 0..1000 {
        let arguments = json!({ "command": format!("echo {n}") });
        log.record_at(Event { call: Call::default(), what: What::Start { arguments } }, SystemTime::now())
            .unwrap();
        if running.stdout.expect("echo", Duration::from_millis(100)).is_ok() {
            return;
        }
    }
    unreachable!("nothing was shown");
}

#[test]
fn a_configuration_is_checked() {
    let home = Home::new();
    let (code, said, _) = home.says(&["config", "check"]);
    assert_eq!(
        (code, said.as_str()),
        (0, "ok: there is no HOME/.config/killcord/config.toml, and the defaults hold\n")
    );
    fs::create_dir_all(home.path(".config/killcord")).unwrap();
    fs::write(home.path(".config/killcord/config.toml"), "[run]\ntimeout_s = 5\n").unwrap();
    assert_eq!(home.says(&["config", "check"]).1, "ok: HOME/.config/killcord/config.toml\n");
    assert!(home.says(&["config", "show"]).1.starts_with("[run]\ntimeout_s = 5\nyield_s = 30\n"));

    fs::write(home.path("bad.toml"), "[run]\ntimeout = 5\ngrace_s = 601\n").unwrap();
    let expected = "bad.toml:2:1: run.timeout: not known; did you mean timeout_s?\n\
                    bad.toml:3:11: run.grace_s: 601 is out of bounds; use a whole number from 0 to 600\n";
    assert_eq!(home.says(&["config", "check", "bad.toml"]), (1, expected.to_owned(), String::new()));
    assert_eq!(home.run(&["config", "show", "bad.toml"]).code(), 1);
    let report: Value =
        serde_json::from_str(&home.run(&["config", "check", "--json", "bad.toml"]).stdout).unwrap();
    assert_eq!((&report["ok"], &report["wrong"][1]["line"]), (&json!(false), &json!(3)));
    let (code, _, said) = home.says(&["config", "check", "none.toml"]);
    assert_eq!(
        (code, said.as_str()),
        (125, "killcord: failed to read none.toml: No such file or directory (os error 2)\n")
    );
}

#[test]
fn the_server_is_entered_and_taken_out() {
    let home = Home::new();
    let path = home.path(".cursor/mcp.json");
    let install = |more: &[&str]| home.says(&[&["mcp", "install", "--client", "cursor"], more].concat());
    let (code, said, _) = install(&["--dry-run"]);
    assert!(code == 0 && said.contains("+    \"killcord\": {\n") && !path.exists(), "{said}");
    assert_eq!(install(&[]).1, "HOME/.cursor/mcp.json: killcord entered; restart Cursor\n");
    let text = fs::read_to_string(&path).unwrap();
    let entered: Value = serde_json::from_str(&text).unwrap();
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_killcord")).unwrap();
    assert_eq!(entered["mcpServers"]["killcord"]["command"], program.to_str().unwrap());
    assert_eq!(install(&[]).1, "HOME/.cursor/mcp.json: already there\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let (code, said, _) = install(&["--remove"]);
    assert!(
        code == 0
            && said.contains("killcord taken out; the old file is HOME/.cursor/mcp.json.killcord-backup-"),
        "{said}"
    );
    assert_eq!(install(&["--remove"]).1, "HOME/.cursor/mcp.json: it is not in there\n");

    fs::write(&path, "{ // mine\n}\n").unwrap();
    let (code, snippet, said) = install(&[]);
    assert_eq!((code, fs::read_to_string(&path).unwrap().as_str()), (1, "{ // mine\n}\n"));
    assert!(said.starts_with("killcord: HOME/.cursor/mcp.json is left as it is: it is not JSON: "), "{said}");
    assert!(serde_json::from_str::<Value>(&snippet).is_ok(), "{snippet}");
    let (code, _, said) = home.says(&["mcp", "install", "--client", "emacs"]);
    assert!(code == 125 && said.contains("use claude, codex, gemini, cursor or vscode"), "{said}");
    assert_eq!(install(&["--name", "a b"]).0, 125);
    assert!(!Path::new(&home.path(".claude.json")).exists());
}
