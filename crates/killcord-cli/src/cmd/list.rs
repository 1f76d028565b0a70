//! `killcord list`: the owners, jobs and services of this user.

use crate::args::List as Args;
use crate::message::say;
use crate::paint::{Look, Paint, show};
use crate::short::{age, size};
use killcord::service::Service;
use killcord::{List, ListedJob, ListedOwner};
use killcord_model::status;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// So many digits of a job's id are shown.
const DIGITS: usize = 12;

/// Lists, and returns the exit status.
pub(crate) fn list(args: &Args) -> i32 {
    let list = match killcord::list(None) {
        Ok(list) => list,
        Err(e) => {
            say(&e.to_string());
            return status::FAILED;
        }
    };
    if args.json {
        json(&list);
    } else {
        let paint = Paint::of_stdout();
        show(&if args.tree { tree(&list, paint) } else { table(&list, paint) });
        for (path, why) in &list.unreadable {
            say(&format!("{}: {why}", path.display()));
        }
    }
    0
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The time since then.
pub(super) fn ago(since: u64) -> String {
    age(now().saturating_sub(since))
}

fn short(job: &ListedJob) -> String {
    job.id.to_string()[..DIGITS].to_owned()
}

/// What is said of one job, behind its id.
fn cells(owner: &ListedOwner, job: &ListedJob) -> Vec<(Look, String)> {
    let state = job.state(owner);
    let look = match state {
        "running" => Look::Good,
        "orphaned" => Look::Bad,
        _ => Look::Odd,
    };
    let (count, memory) = match job.processes {
        Some((count, memory)) => (count.to_string(), size(memory)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    vec![
        (Look::Plain, job.record.program.clone()),
        (look, state.to_owned()),
        (Look::Plain, job.record.boundary.name().to_owned()),
        (Look::Plain, ago(job.record.since)),
        (Look::Plain, count),
        (Look::Plain, memory),
    ]
}

fn heads(names: &[&str]) -> Vec<(Look, String)> {
    names.iter().map(|name| (Look::Dim, (*name).to_owned())).collect()
}

fn table(list: &List, paint: Paint) -> String {
    let mut rows = Vec::new();
    for owner in &list.owners {
        for job in &owner.jobs {
            let mut row = vec![(Look::Bold, short(job))];
            row.push((Look::Bold, owner.service.clone().unwrap_or_else(|| "-".to_owned())));
            row.extend(cells(owner, job));
            row.push((Look::Dim, format!("{} ({})", owner.program, owner.pid)));
            rows.push(row);
        }
    }
    let mut out = if rows.is_empty() {
        "no jobs\n".to_owned()
    } else {
        let head = ["JOB", "SERVICE", "PROGRAM", "STATE", "BOUNDARY", "AGE", "PROCESSES", "MEMORY", "OWNER"];
        rows.insert(0, heads(&head));
        paint.table(&rows)
    };
    out.push_str(&over(list, paint));
    out
}

/// Services that are over and whose exit nobody has read.
fn over(list: &List, paint: Paint) -> String {
    let over = list.services.iter().filter(|service| !service.running);
    let rows: Vec<_> = over.map(|s| vec![(Look::Bold, s.name.clone()), (Look::Plain, how(s))]).collect();
    paint.table(&rows)
}

fn how(service: &Service) -> String {
    let ended = service.exit.as_ref().map(|exit| format!("{}, {} ago", exit.how, ago(exit.at)));
    let ended = ended.unwrap_or_else(|| "its owner was killed".to_owned());
    format!("over: {ended}; killcord logs and killcord wait show the rest")
}

fn tree(list: &List, paint: Paint) -> String {
    let mut out = String::new();
    for owner in &list.owners {
        let lives = match owner.alive {
            Some(true) => String::new(),
            Some(false) => paint.text(Look::Bad, " gone"),
            None => paint.text(Look::Odd, " not to be seen from here"),
        };
        let service = owner.service.as_ref().map(|name| format!(" service {name}")).unwrap_or_default();
        let program = paint.text(Look::Bold, &owner.program);
        let (pid, since) = (owner.pid, ago(owner.since));
        let words = [program, format!(" ({pid})"), service, lives, format!(" for {since}\n")];
        out.extend(words);
        let rows = owner.jobs.iter().map(|job| {
            let mut row = vec![(Look::Bold, short(job))];
            row.extend(cells(owner, job));
            row
        });
        out.push_str(&paint.table(&rows.collect::<Vec<_>>()));
    }
    if out.is_empty() {
        out.push_str("no owners\n");
    }
    out.push_str(&over(list, paint));
    out
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    owners: Vec<OwnerReport<'a>>,
    services: Vec<ServiceReport<'a>>,
    unreadable: Vec<Unreadable<'a>>,
}

#[derive(Serialize)]
struct OwnerReport<'a> {
    claim: String,
    pid: u32,
    program: &'a str,
    service: Option<&'a str>,
    since: u64,
    alive: Option<bool>,
    jobs: Vec<JobReport<'a>>,
}

#[derive(Serialize)]
struct JobReport<'a> {
    id: String,
    program: &'a str,
    state: &'static str,
    boundary: &'static str,
    since: u64,
    processes: Option<usize>,
    memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ServiceReport<'a> {
    name: &'a str,
    running: bool,
    exit_status: Option<i32>,
    how: Option<&'a str>,
    ended: Option<u64>,
}

#[derive(Serialize)]
struct Unreadable<'a> {
    path: String,
    why: &'a str,
}

fn json(list: &List) {
    let owners = list.owners.iter().map(|owner| OwnerReport {
        claim: owner.claim.display().to_string(),
        pid: owner.pid,
        program: &owner.program,
        service: owner.service.as_deref(),
        since: owner.since,
        alive: owner.alive,
        jobs: owner
            .jobs
            .iter()
            .map(|job| JobReport {
                id: job.id.to_string(),
                program: &job.record.program,
                state: job.state(owner),
                boundary: job.record.boundary.name(),
                since: job.record.since,
                processes: job.processes.map(|(count, _)| count),
                memory_bytes: job.processes.map(|(_, memory)| memory),
            })
            .collect(),
    });
    let services = list.services.iter().map(|service| ServiceReport {
        name: &service.name,
        running: service.running,
        exit_status: service.exit.as_ref().map(|exit| exit.status),
        how: service.exit.as_ref().map(|exit| exit.how.as_str()),
        ended: service.exit.as_ref().map(|exit| exit.at),
    });
    let unreadable = list.unreadable.iter();
    let unreadable = unreadable.map(|(path, why)| Unreadable { path: path.display().to_string(), why });
    let report = Report {
        version: 1,
        owners: owners.collect(),
        services: services.collect(),
        unreadable: unreadable.collect(),
    };
    // Numbers and strings alone can always be written.
    show(&format!("{}\n", serde_json::to_string(&report).unwrap_or_default()));
}
