//! `killcord sweep`: the claims of owners that are gone, and what is left of their jobs.

use crate::args::Sweep;
use crate::message::say;
use crate::paint::{Look, Paint, show};
use killcord::{SweepOptions, Swept};
use killcord_model::status;
use killcord_model::sweep::Reason;
use killcord_sys::clock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often the line that shows how far it is is written anew.
const EVERY: Duration = Duration::from_millis(100);
/// So many lines about single claims.
const SHOWN: usize = 20;

/// Sweeps and prints. Returns 0 when everything that is proven dead is gone, 1 when a step failed.
pub(super) fn reclaim(args: &Sweep) -> i32 {
    let mut progress = Progress::new();
    let options = SweepOptions { dry_run: args.dry_run, within: None };
    let swept = killcord::sweep(None, options, |swept| progress.show(swept));
    progress.clear();
    let swept = match swept {
        Ok(swept) => swept,
        Err(e) => {
            say(&e.to_string());
            return status::FAILED;
        }
    };
    if args.json {
        json(&swept, args.dry_run);
    } else {
        lines(&swept, args.dry_run);
    }
    i32::from(swept.failed > 0)
}

/// One line on a terminal, while there is much to do.
struct Progress {
    terminal: bool,
    next: Duration,
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), next: clock::now() + EVERY, shown: false }
    }

    fn show(&mut self, swept: &Swept) {
        if !self.terminal || clock::now() < self.next {
            return;
        }
        (self.next, self.shown) = (clock::now() + EVERY, true);
        let kept: u64 = swept.kept.values().sum();
        // A terminal that is gone needs no progress.
        let _ = write!(io::stderr(), "\r\x1b[Ksweeping: {} removed, {kept} kept", swept.removed);
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    dry_run: bool,
    complete: bool,
    removed: u64,
    processes_ended: u64,
    services_expired: u64,
    kept: BTreeMap<&'static str, u64>,
    failed: u64,
    errors: &'a [String],
    removed_claims: Vec<String>,
    kept_claims: Vec<Kept>,
}

#[derive(Serialize)]
struct Kept {
    path: String,
    reason: &'static str,
}

fn json(swept: &Swept, dry_run: bool) {
    let kept = Reason::ALL.map(|r| (r.text(), swept.kept.get(&r).copied().unwrap_or(0)));
    let stays = |(path, reason): &(std::path::PathBuf, Reason)| Kept {
        path: path.display().to_string(),
        reason: reason.text(),
    };
    let report = Report {
        version: 1,
        dry_run,
        complete: swept.complete,
        removed: swept.removed,
        processes_ended: swept.ended,
        services_expired: swept.services,
        kept: BTreeMap::from(kept),
        failed: swept.failed,
        errors: &swept.errors,
        removed_claims: swept.gone.iter().map(|path| path.display().to_string()).collect(),
        kept_claims: swept.stays.iter().map(stays).collect(),
    };
    // Numbers and strings alone can always be written.
    show(&format!("{}\n", serde_json::to_string(&report).unwrap_or_default()));
}

fn lines(swept: &Swept, dry_run: bool) {
    let paint = Paint::of_stdout();
    let gone = if dry_run { "would remove" } else { "removed" };
    let mut rows = Vec::new();
    for path in swept.gone.iter().take(SHOWN) {
        rows.push(vec![(Look::Good, gone.to_owned()), (Look::Plain, path.display().to_string())]);
    }
    for (path, reason) in swept.stays.iter().take(SHOWN) {
        let path = path.display().to_string();
        let kept = (Look::Dim, "kept".to_owned());
        rows.push(vec![kept, (Look::Plain, path), (Look::Dim, reason.text().to_owned())]);
    }
    let mut out = if paint.terminal || rows.len() <= SHOWN { paint.table(&rows) } else { String::new() };
    out.push_str(&summary(swept, dry_run));
    show(&out);
    for error in &swept.errors {
        say(error);
    }
}

/// One line with all counts.
fn summary(swept: &Swept, dry_run: bool) -> String {
    let (gone, ended) = if dry_run { ("would remove", "would end") } else { ("removed", "ended") };
    let mut parts = vec![format!("{gone} {}", count(swept.removed, "claim", "claims"))];
    if swept.ended > 0 {
        parts.push(format!("{ended} {} that they left", count(swept.ended, "process", "processes")));
    }
    if swept.services > 0 {
        parts.push(format!("{} a day old", count(swept.services, "service's exit", "services' exits")));
    }
    let kept: Vec<String> = swept.kept.iter().map(|(reason, n)| format!("{n} {}", reason.text())).collect();
    let why = if kept.is_empty() { String::new() } else { format!(" ({})", kept.join(", ")) };
    let sum: u64 = swept.kept.values().sum();
    format!("{}; kept {sum}{why}\n", parts.join(", "))
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
