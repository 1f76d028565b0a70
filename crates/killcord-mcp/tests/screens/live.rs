//! Real programs on a real terminal, recorded.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use killcord_testkit::{Need, Terminal, skip};

use killcord_mcp::terminal::screen::Screen;

use super::tmux::{self, Tmux};
use super::{COLUMNS, ROWS, assert_same, recordings};

const LIMIT: Duration = Duration::from_secs(20);

/// Starts a program with a home of its own.
fn start(home: &Path, program: &str, arguments: &[&str]) -> Terminal {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("TERM", "xterm-256color");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C.UTF-8");
    command.env("PS1", "$ ").env("HISTFILE", "/dev/null");
    Terminal::start(&command)
}

/// Types, and waits until the program has written this.
fn type_until(terminal: &mut Terminal, keys: &str, text: &str) {
    terminal.send(keys.as_bytes());
    let got = terminal.expect(text, LIMIT);
    assert!(got.is_ok(), "{text:?} did not come after {keys:?}: {:?}", terminal.text());
}

/// Compares what has been written so far, and keeps it as a file if that is asked for.
fn compare(name: &str, tmux: &Tmux, terminal: &Terminal) {
    let text = terminal.text();
    if std::env::var_os("KILLCORD_RECORD").is_some() {
        std::fs::write(recordings().join(name), &text).unwrap();
    }
    assert!(text.len() < 50_000, "{name}: {} bytes are too many for a recording", text.len());
    assert_same(name, tmux, text.as_bytes());
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Lines that are long, indented, wide and combined.
fn text() -> String {
    let lines = (1..=60).map(|n| match n % 6 {
        0 => format!("{n:3}  {}\n", "a long line that does not fit ".repeat(5)),
        1 => format!("{n:3}  日本語のテキスト、全角文字 {}\n", "宽".repeat(n)),
        2 => format!("{n:3}\tcafe\u{301} nai\u{308}ve Zu\u{308}rich\n"),
        3 => format!("{n:3}\t\tfn main() {{ println!(\"{n}\"); }}\n"),
        4 => "\n".to_owned(),
        _ => format!("{n:3}  ┌──┐ │ box │ └──┘ ✓ → € ± “quotes”\n"),
    });
    lines.collect()
}

#[test]
fn vim_live() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    if !is_there("vim.tiny") {
        skip!(Need::Program("vim.tiny"));
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("text"), text()).unwrap();
    let mut vim = start(home.path(), "vim.tiny", &["-N", "-u", "NONE", "-i", "NONE", "-n", "text"]);
    type_until(&mut vim, "", "60L");
    type_until(&mut vim, ":set number ruler showmode\r", "number");
    for keys in [
        "/naive\r",
        "5j",
        "dd",
        "p",
        "yyP",
        "3J",
        "ihello 世界 e\u{301}\x1b",
        "x",
        "u",
        "20jzz",
        "\x06",
        "\x02",
        "5\x05",
        ">>",
    ] {
        vim.send(keys.as_bytes());
    }
    type_until(&mut vim, ":set columns?\r", "columns=80");
    compare("vim", &tmux, &vim);
    for keys in [":split\r", "G", ":set list\r", "\x17j", "5dd", "O", "new text\t日\x1b", "\x17=", "\x1b"] {
        vim.send(keys.as_bytes());
    }
    type_until(&mut vim, ":set lines?\r", "lines=24");
    compare("vim-windows", &tmux, &vim);
    vim.send(b":qa!\r");
    assert!(vim.wait(LIMIT).is_some());
}

#[test]
fn less_live() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    if !is_there("less") {
        skip!(Need::Program("less"));
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("text"), text()).unwrap();
    let mut less = start(home.path(), "less", &["text"]);
    type_until(&mut less, "", "text");
    for keys in [" ", "b", "jjj", "k", "/main\r", "n", "50%", "\x1b[C", "\x1b[D", "-S\r", "jj"] {
        less.send(keys.as_bytes());
    }
    type_until(&mut less, "G", "(END)");
    type_until(&mut less, "kkkk", ":");
    compare("less", &tmux, &less);
    less.send(b"q");
    assert!(less.wait(LIMIT).is_some());
}

#[test]
fn htop_live() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    if !is_there("htop") {
        skip!(Need::Program("htop"));
    }
    let home = tempfile::tempdir().unwrap();
    // Only processes of this test: recordings are kept. They end by themselves, and with the terminal.
    let script =
        "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 40 & p=$p,$!; done; exec htop -d 5 -p $$$p";
    let mut htop = start(home.path(), "sh", &["-c", script]);
    type_until(&mut htop, "", "Quit");
    type_until(&mut htop, "\x1bOB\x1bOB\x1bOBt", "List");
    type_until(&mut htop, "\x1bOR", "Cancel");
    compare("htop", &tmux, &htop);
    htop.send(b"\x1bq");
    let _ = htop.wait(Duration::from_secs(3));
}

#[test]
fn shell_live() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    if !is_there("bash") {
        skip!(Need::Program("bash"));
    }
    let home = tempfile::tempdir().unwrap();
    let mut shell = start(home.path(), "bash", &["--norc", "--noprofile", "-i"]);
    type_until(&mut shell, "", "$ ");
    type_until(&mut shell, "echo 日本語 cafe\u{301} $((40+2))\r", "42");
    // Edited in the middle: the line editor moves over wide and combined characters.
    type_until(
        &mut shell,
        "echo 世界 nai\u{308}ve 한국어\x1b[D\x1b[D\x1b[Dx\x01\x1bf\x1b[C日\x7f本\x05 $((50+1))\r",
        "51",
    );
    // Longer than a line.
    let long = "宽字符".repeat(20);
    type_until(&mut shell, &format!("echo {long} e\u{301}nd $((60+1))\x01\x1bf\x05\r"), "61");
    type_until(
        &mut shell,
        "printf '%s\\r%s\\n' 'progress  10%' 'progress 100%'; printf 'a\\tb\\tc\\n%80s|\\n' x; echo $((70+1))\r",
        "71",
    );
    type_until(&mut shell, "echo no\u{308}t run 日本\x15echo $((80+1))\r", "81");
    type_until(&mut shell, "", "$ ");
    compare("shell", &tmux, &shell);
    shell.send(b"\x04");
    assert!(shell.wait(LIMIT).is_some());
}

/// Line drawing characters, as a dialog of ncurses draws them.
#[test]
fn dialog_live() {
    let Some(tmux) = Tmux::new() else { skip!(tmux::MISSING) };
    if !is_there("whiptail") {
        skip!(Need::Program("whiptail"));
    }
    let home = tempfile::tempdir().unwrap();
    let mut dialog = start(
        home.path(),
        "whiptail",
        &["--title", "日本 question", "--yesno", "Go on? cafe\u{301}", "10", "40"],
    );
    type_until(&mut dialog, "", "No>");
    type_until(&mut dialog, "\t", "No>");
    compare("dialog", &tmux, &dialog);
    dialog.send(b"\r");
    assert!(dialog.wait(LIMIT).is_some());
}

/// The program waits for the terminal's answer, which has the place of the cursor.
#[test]
fn a_program_gets_its_answers() {
    if !is_there("bash") {
        skip!(Need::Program("bash"));
    }
    let home = tempfile::tempdir().unwrap();
    let script = "stty -echo; for ask in '\\033[5;3H\\033[6n' '\\033[5n' '\\033[c' '\\033[>c'; do printf \"$ask\"; \
                  IFS= read -rs -n 1 -d '' first; IFS= read -rs -d '[' rest; reply=; \
                  while IFS= read -rs -n 1 c; do reply=$reply$c; case $c in [a-zA-Z]) break;; esac; done; \
                  printf '<%s>' \"$reply\"; done; echo end";
    let mut program = start(home.path(), "bash", &["-c", script]);
    let mut screen = Screen::new(COLUMNS, ROWS);
    let mut fed = 0;
    for (question, answer) in [("[6n", "<5;3R>"), ("[5n", "<0n>"), ("[c", "<?1;2c>"), ("[>c", "<>0;10;0c>")] {
        program.expect(question, LIMIT).unwrap();
        let text = program.text();
        let replies = screen.feed(&text.as_bytes()[fed..]);
        fed = text.len();
        type_until(&mut program, std::str::from_utf8(&replies).unwrap(), answer);
    }
    program.expect("end", LIMIT).unwrap();
    assert!(program.wait(LIMIT).is_some());
}
