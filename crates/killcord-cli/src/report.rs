//! The report of `killcord run`: one JSON object about the end of a job.

use killcord_model::boundary::Boundary;
use killcord_model::id::{JobId, Member};
use killcord_model::status::ExitStatus;
use killcord_model::verdict::{Cause, End, Members, Verdict};
use killcord_sys::signals;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Everything that is known at the end. Times are in milliseconds, sizes in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    job: String,
    program: String,
    /// What `killcord run` exits with.
    exit_status: i32,
    /// The program's exit code, when it exited.
    status: Option<i32>,
    /// The signal that ended it, when one did.
    signal: Option<i32>,
    signal_name: Option<String>,
    cause: Option<&'static str>,
    timed_out: bool,
    duration_ms: f64,
    boundary: Option<BoundaryReport>,
    verdict: VerdictReport,
    ended_by_force: MembersReport,
    leftovers: LeftoversReport,
    memory_limit_kills: u64,
    usage: UsageReport,
    members: u32,
    /// Why nothing ran.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct BoundaryReport {
    kind: Boundary,
    ends_escapees: bool,
    all_killed: &'static str,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct VerdictReport {
    kind: &'static str,
    evidence: String,
    survivors: Vec<Member>,
}

#[derive(Debug, Default, Serialize)]
struct MembersReport {
    count: u32,
    members: Vec<Member>,
}

#[derive(Debug, Default, Serialize)]
struct LeftoversReport {
    count: u32,
    fate: Option<&'static str>,
    members: Vec<Member>,
}

#[derive(Debug, Default, Serialize)]
struct UsageReport {
    peak_memory_bytes: Option<u64>,
    peak_memory_source: Option<&'static str>,
    user_ms: f64,
    system_ms: f64,
}

impl From<Members> for MembersReport {
    fn from(m: Members) -> Self {
        Self { count: m.count, members: m.named }
    }
}

impl From<&Verdict> for VerdictReport {
    fn from(v: &Verdict) -> Self {
        let (kind, evidence, survivors) = match v {
            Verdict::Empty(e) => ("empty", e.describe().to_owned(), Vec::new()),
            Verdict::Unconfirmed(why) => ("unconfirmed", why.clone(), Vec::new()),
            Verdict::Survivors(m) => ("survivors", format!("{} left", m.count), m.named.clone()),
            Verdict::Refused => ("refused", "nothing was started".to_owned(), Vec::new()),
        };
        Self { kind, evidence, survivors }
    }
}

impl Report {
    /// About a job that ended.
    pub(crate) fn of_end(job: JobId, program: &str, exit_status: i32, end: End) -> Self {
        let (code, signal) = match end.status {
            Some(ExitStatus::Code(code)) => (Some(code), None),
            Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let leftovers = end.leftovers.map_or_else(LeftoversReport::default, |(m, fate)| LeftoversReport {
            count: m.count,
            fate: Some(fate.name()),
            members: m.named,
        });
        let source = if end.usage.peak_is_whole_job { "cgroup" } else { "largest-process" };
        Self {
            version: 1,
            job: job.to_string(),
            program: program.to_owned(),
            exit_status,
            status: code,
            signal,
            signal_name: signal.map(signals::name),
            cause: Some(end.cause.name()),
            timed_out: end.cause == Cause::Timeout,
            duration_ms: end.duration.as_secs_f64() * 1000.0,
            boundary: Some(BoundaryReport {
                kind: end.boundary,
                ends_escapees: end.boundary.ends_escapees(),
                all_killed: end.boundary.when_all_are_killed(),
                notes: end.notes,
            }),
            verdict: (&end.verdict).into(),
            ended_by_force: end.forced.into(),
            leftovers,
            memory_limit_kills: end.memory_kills,
            usage: UsageReport {
                peak_memory_bytes: end.usage.peak_memory,
                peak_memory_source: end.usage.peak_memory.map(|_| source),
                user_ms: end.usage.user.as_secs_f64() * 1000.0,
                system_ms: end.usage.system.as_secs_f64() * 1000.0,
            },
            members: end.members,
            error: None,
        }
    }

    /// About a job of which nothing ran.
    pub(crate) fn of_refusal(job: JobId, program: &str, exit_status: i32, error: &str) -> Self {
        Self {
            cause: None,
            boundary: None,
            error: Some(error.to_owned()),
            ..Self::of_end(job, program, exit_status, End::nothing_ran(Boundary::Group))
        }
    }
}

/// Where a report goes. The file is opened before anything runs, so that a path that cannot be written
/// is an error and not a surprise at the end.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Standard error.
    Stderr,
    /// An open file.
    File(std::fs::File),
}

impl Sink {
    /// Opens the place that `--report` names.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stderr);
        }
        Ok(Self::File(std::fs::File::create(path)?))
    }

    /// Writes the report as one line.
    pub(crate) fn write(self, report: &Report) -> std::io::Result<()> {
        let mut line = serde_json::to_string(report)?;
        line.push('\n');
        match self {
            Self::Stderr => std::io::stderr().write_all(line.as_bytes()),
            Self::File(mut file) => file.write_all(line.as_bytes()),
        }
    }
}
