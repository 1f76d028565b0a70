//! Whether a program seems to wait for input.
//!
//! There is no way to know. What can be seen is a last line without an end, and how it ends; silence, which the
//! caller adds, makes it likely. A prompt that is not recognised costs waiting; a progress line that is taken for a
//! prompt makes an agent type into a build. So the rules are narrow.

/// A prompt is no longer than this, in bytes.
const LONGEST: usize = 512;

/// Whether this line, the last one and without an end, looks like a prompt. Blanks at its end matter: it must be as
/// it was written, but without escape sequences.
pub fn looks_like_prompt(last_line: &str) -> bool {
    if last_line.len() > LONGEST || last_line.contains('\n') {
        return false;
    }
    // A shell's prompt on the right, or a theme's, leaves more than one blank at times; a table does not end in one.
    let line = last_line.trim_start();
    let text = line.trim_end();
    if text.is_empty() {
        return false;
    }
    is_pager(text)
        || asks_for_a_secret(text)
        || offers_a_choice(text)
        || (text.len() < line.len() && ends_in_mark(text))
}

/// `less`, `more`, `man`.
fn is_pager(text: &str) -> bool {
    text == ":" || text == "(END)" || text.ends_with("(END)") || text.starts_with("--More--")
}

/// `[sudo] password for me:`, `Enter passphrase for key '/home/me/.ssh/id':`, `Enter PIN:`; the blank after the
/// colon is often missing.
fn asks_for_a_secret(text: &str) -> bool {
    let Some(text) = text.strip_suffix(':') else { return false };
    let words = text.to_lowercase();
    // A log's `password: changed` has an end; what stands alone before the colon asks.
    ["password", "passphrase", "passcode", "verification code", "pin", "otp"].iter().any(|word| {
        words.strip_suffix(word).is_some_and(|before| !before.ends_with(char::is_alphanumeric))
            || words.contains(&format!("{word} for "))
            || words.starts_with(&format!("{word} "))
    })
}

/// `Proceed? [Y/n]`, `(yes/no)`, `Press any key to continue . . .`.
fn offers_a_choice(text: &str) -> bool {
    let text = text.trim_end_matches([':', '?', ' ']).to_lowercase();
    let inside = |open: char, close: char| {
        text.strip_suffix(close).and_then(|text| text.rsplit_once(open)).map(|(_, choice)| choice.to_owned())
    };
    let choice = inside('[', ']').or_else(|| inside('(', ')'));
    let is_choice = |choice: &str| {
        let first = choice.split('/').next().unwrap_or_default();
        choice.contains('/') && matches!(first, "y" | "n" | "yes" | "no")
    };
    let press = text.trim_end_matches(['.', ' ']);
    choice.is_some_and(|choice| is_choice(&choice))
        || (press.starts_with("press ") && press.contains("continue"))
        || (press.starts_with("hit ") && press.contains("continue"))
}

/// `$ `, `# `, `% `, `> `, `>>> `, `: `, `? ` and the arrows of shells' themes; not `100% `, `[====> ` or `#### `.
fn ends_in_mark(text: &str) -> bool {
    let mut characters = text.chars();
    let Some(mark) = characters.next_back() else { return false };
    let before = characters.next_back();
    match mark {
        ')' => matches!(text, "(gdb)" | "(lldb)" | "(dlv)" | "(Pdb)" | "(pdb)" | "(rdb)" | "(byebug)"),
        // Python's second line.
        '.' => text == "...",
        '$' | '?' | '❯' | '➜' | 'λ' | '»' => true,
        // A bar of `curl -#` is made of these.
        '#' => before != Some('#'),
        // `me@mac ~ % ` is a shell's, `12 % ` is not.
        '%' => !text.trim_end_matches(['%', ' ', '.']).ends_with(|c: char| c.is_ascii_digit()),
        // `db=> ` is PostgreSQL's, `    -> ` MySQL's; `==> ` and `[--> ` are a build's.
        '>' => match before {
            Some('=') => text.trim_end_matches("=>").ends_with(|c: char| c.is_alphanumeric()),
            Some('-') => text == "->",
            _ => true,
        },
        // A question ends in it; so do `12:30: ` and `error: `, which something follows.
        ':' => before.is_some_and(|c| !c.is_ascii_digit() && c != ':') && !is_log(text),
        _ => false,
    }
}

/// `error: `, `warning: `, `src/main.rs:3: `: the beginning of a message that is still being written.
fn is_log(text: &str) -> bool {
    let text = text.trim_end_matches(':').to_lowercase();
    let last = text.rsplit([' ', ':', '[', ']']).next().unwrap_or_default();
    [
        "error",
        "warning",
        "warn",
        "info",
        "debug",
        "note",
        "fatal",
        "progress",
        "downloading",
        "compiling",
        "building",
    ]
    .contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_are_prompts() {
        for line in [
            "$ ",
            "# ",
            "bash-5.2$ ",
            "root@host:/# ",
            "me@host:~/src (main) $ ",
            "host% ",
            "me@mac ~ % ",
            "(gdb) ",
            "(Pdb) ",
            "... ",
            "   ...> ",
            "irb(main):001:0> ",
            "127.0.0.1:6379> ",
            "> ",
            ">>> ",
            "In [1]: ",
            "(gdb) > ",
            "mysql> ",
            "    -> ",
            "db=> ",
            "db=# ",
            "❯ ",
            "Name: ",
            "login: ",
            "What is your name? ",
            "Password:",
            "Password: ",
            "[sudo] password for me: ",
            "me@host's password: ",
            "Enter passphrase for key '/home/me/.ssh/id_ed25519': ",
            "Enter PIN:",
            "Proceed (y/n)",
            "Do you want to continue? [Y/n] ",
            "Overwrite? (yes/no): ",
            "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
            "Press any key to continue . . . ",
            "Press ENTER to continue",
            ":",
            "(END)",
            "--More--(12%)",
        ] {
            assert!(looks_like_prompt(line), "{line:?}");
        }
    }

    #[test]
    fn these_are_not() {
        for line in [
            "",
            "   ",
            "$",
            "done",
            "costs 5$",
            "100% ",
            "12.5 % ",
            "[=====> ",
            "[-----> ",
            "==> ",
            "######## ",
            "error: ",
            "src/main.rs:3: ",
            "12:30: ",
            "Compiling: ",
            "warning: ",
            "the password was changed",
            "spin:",
            "-rw-r--r-- 1 me me 10 ",
            "a: b",
            "std:: ",
            "(see a/b) ",
            "(done) ",
            "wait... ",
        ] {
            assert!(!looks_like_prompt(line), "{line:?}");
        }
        assert!(!looks_like_prompt(&format!("{}$ ", "x".repeat(LONGEST))));
        assert!(!looks_like_prompt("$ \n$ "));
    }
}
