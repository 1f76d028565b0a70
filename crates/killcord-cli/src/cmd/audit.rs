//! `killcord audit`: what `killcord mcp` has recorded, and whether it is whole.

use crate::args::{Audit, AuditCommand, AuditShow, AuditVerify};
use crate::message::say;
use crate::paint::{Look, Paint, show};
use killcord_mcp::audit::{Begins, ChainReport, Entry, Reader, Report, rfc3339, verify};
use killcord_mcp::config;
use killcord_model::status;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the files are looked at again.
const AGAIN: Duration = Duration::from_millis(200);

/// Checks or shows, and returns the exit status.
pub(crate) fn audit(args: &Audit) -> i32 {
    let done = match &args.command {
        AuditCommand::Verify(args) => check(args),
        AuditCommand::Show(args) => print(args),
    };
    done.unwrap_or_else(|why| {
        say(&why);
        status::FAILED
    })
}

/// The path that is named, or the one of the configuration.
fn place(named: Option<&Path>) -> Result<PathBuf, String> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => config::load(None).map(|config| config.audit.directory()).map_err(|e| e.to_string()),
    }
}

fn check(args: &AuditVerify) -> Result<i32, String> {
    let path = place(args.path.as_deref())?;
    let report = verify(&path, args.expect.as_deref()).map_err(|e| e.to_string())?;
    if args.json {
        let mut value = serde_json::to_value(&report).map_err(|e| e.to_string())?;
        value["version"] = 1.into();
        value["intact"] = report.is_intact().into();
        show(&format!("{value}\n"));
    } else {
        show(&told(&report, &path, Paint::of_stdout()));
    }
    Ok(i32::from(!report.is_intact()))
}

fn told(report: &Report, path: &Path, paint: Paint) -> String {
    let mut out = String::new();
    for problem in &report.problems {
        let place = format!("{}:{}:", problem.file.display(), problem.line);
        out.extend([format!("{} {}\n", paint.text(Look::Bad, &clean(&place)), clean(&problem.what))]);
    }
    let more = report.problem_count - report.problems.len();
    if more > 0 {
        out.extend([format!("and {more} more\n")]);
    }
    if report.chains.is_empty() {
        out.extend([format!("{}: no records\n", path.display())]);
    }
    for chain in &report.chains {
        out.push_str(&one(chain));
    }
    if report.expected_found == Some(false) {
        let text = "no record has the expected hash: the end was cut off, or the log is another";
        out.extend([format!("{}\n", paint.text(Look::Bad, text))]);
    }
    let (look, word) = if report.is_intact() { (Look::Good, "intact") } else { (Look::Bad, "broken") };
    out.extend([format!("{}\n", paint.text(look, word))]);
    out
}

fn one(chain: &ChainReport) -> String {
    let newest = chain.files.last().map(|path| path.display().to_string()).unwrap_or_default();
    let begins = match chain.begins {
        Begins::AtTheFirst => "",
        Begins::WithTheOldestFile => ", older ones are gone",
    };
    let recovered = match chain.recovered {
        0 => String::new(),
        n => format!(", {n} cut by a failure and closed"),
    };
    let files = chain.files.len();
    format!(
        "{newest}: {} records in {files} file{}{begins}{recovered}\n  last {} {}\n",
        chain.records,
        if files == 1 { "" } else { "s" },
        chain.last_seq,
        chain.last_hash
    )
}

/// What comes from a file may hold what moves a terminal's cursor.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn print(args: &AuditShow) -> Result<i32, String> {
    let mut reader = Reader::new(&place(args.path.as_deref())?);
    let since = args.since.map(rfc3339);
    let paint = Paint::of_stdout();
    let mut last = args.n;
    loop {
        let mut entries = reader.read().map_err(|e| e.to_string())?;
        entries.retain(|entry| {
            since.as_ref().is_none_or(|since| entry.text("time") >= since.as_str())
                && args.job.as_ref().is_none_or(|job| is_of(entry, job))
        });
        // Only of what was there already: all that comes is shown.
        if let Some(n) = last.take() {
            entries.drain(..entries.len().saturating_sub(n));
        }
        let text: String =
            entries.iter().map(|e| if args.json { e.line.clone() + "\n" } else { line(e, paint) }).collect();
        if !text.is_empty() && !put(&text) {
            return Ok(0);
        }
        if !args.follow {
            return Ok(0);
        }
        std::thread::sleep(AGAIN);
    }
}

/// Whether somebody still reads.
fn put(text: &str) -> bool {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// A job by its id, or a session by the argument that names it.
fn is_of(entry: &Entry, job: &str) -> bool {
    let session = entry.members.get("arguments").and_then(|a| a.get("session")).and_then(Value::as_str);
    let is = |id: &str| !id.is_empty() && id.starts_with(job);
    is(entry.text("job")) || session.is_some_and(is)
}

/// One record for a person: when, what, of which tool and job, and what there is to say about it.
fn line(entry: &Entry, paint: Paint) -> String {
    if entry.members.is_empty() {
        return format!("{}\n", paint.text(Look::Bad, &format!("not a record: {}", clean(&entry.line))));
    }
    let event = entry.text("event");
    let look = match event {
        "refused" | "recovered" => Look::Bad,
        "cancelled" | "kill" => Look::Odd,
        "end" => Look::Good,
        _ => Look::Plain,
    };
    let time = entry.text("time").replace('T', " ");
    let job: String = entry.text("job").chars().take(12).collect();
    let or = |text: &str| if text.is_empty() { "-".to_owned() } else { clean(text) };
    format!(
        "{}  {}  {:<14}  {:<12}  {}\n",
        paint.text(Look::Dim, &clean(time.trim_end_matches('Z'))),
        paint.text(look, &format!("{:<9}", or(event))),
        or(entry.text("tool")),
        or(&job),
        clean(&about(entry))
    )
}

fn about(entry: &Entry) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(lost) = entry.number("lost") {
        parts.push(format!("({lost} records before this could not be written)"));
    }
    if let Some(code) = entry.number("exit") {
        parts.push(format!("exit {code}"));
    }
    if let Some(signal) = entry.number("signal") {
        parts.push(killcord_sys::signals::name(signal as i32));
    }
    for (name, before, behind) in
        [("duration_ms", "in ", " ms"), ("output_bytes", "", " bytes"), ("cut_bytes", "cut: ", " bytes")]
    {
        if let Some(n) = entry.number(name) {
            parts.push(format!("{before}{n}{behind}"));
        }
    }
    for name in ["cause", "verdict", "boundary", "why"] {
        if !entry.text(name).is_empty() {
            parts.push(entry.text(name).to_owned());
        }
    }
    parts.extend(entry.members.get("arguments").map(arguments));
    if let Some(pid) = entry.number("pid") {
        parts.push(format!("killcord {} ({pid})", entry.text("version")));
    }
    parts.join(", ")
}

/// The command as it is, and what else was given, by name.
fn arguments(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let command = members.get("command").map(plain);
    let others = members.iter().filter(|(name, _)| *name != "command");
    command
        .into_iter()
        .chain(others.map(|(name, value)| format!("{name}={}", plain(value))))
        .collect::<Vec<_>>()
        .join(" ")
}
