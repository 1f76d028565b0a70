//! `killcord run`: one command, and its whole tree ends with it.

use crate::args::{Run, TmpdirArg};
use crate::message::say;
use crate::report::{Report as EndReport, Sink};
use killcord::STATE_VARIABLE;
use killcord::session::{self, Finished, Options};
use killcord_model::boundary::Boundary;
use killcord_model::spec::{Limits, Policy};
use killcord_model::status;
use killcord_model::verdict::{Cause, End, Fate, Members, Verdict};
use killcord_model::wire::{Refusal, Stage};
use killcord_sys::os::OsStrExt;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// Runs the command and returns what to exit with.
pub(crate) fn run(args: &Run) -> i32 {
    let program = args.command[0].to_string_lossy().into_owned();
    let sink = match args.report.as_deref().map(Sink::open).transpose() {
        Ok(sink) => sink,
        Err(e) => {
            let path = args.report.as_deref().unwrap_or_else(|| std::path::Path::new("-"));
            say(&format!("failed to open the report {}: {e}", path.display()));
            return status::FAILED;
        }
    };
    if let Some(name) = args.name.as_deref().filter(|_| args.detach) {
        return super::service::start(&options(args), name).unwrap_or_else(|e| {
            say(&e.to_string());
            status_of(&e)
        });
    }
    match session::run(&options(args)) {
        Ok(finished) => conclude(finished, &program, args.timeout, sink),
        Err(e) => {
            say(&explain_error(&e, args.control_fd));
            status::FAILED
        }
    }
}

fn options(args: &Run) -> Options {
    Options {
        program: args.command[0].clone(),
        argv: args.command.clone(),
        env: environment(args.env_clean),
        policy: Policy {
            timeout: args.timeout.into_iter().chain(args.ttl).min(),
            grace: args.grace,
            leftovers: args.leftovers.policy(),
        },
        limits: Limits { memory: args.memory, pids: args.pids, cpu: args.cpu },
        boundary: args.boundary.choice(),
        require: args.require,
        watch_parent: args.watch_parent,
        pass_fd: args.pass_fd.clone(),
        control_fd: args.control_fd,
        own_temporary_directory: args.tmpdir == TmpdirArg::Own,
        ack: args.ack,
    }
}

/// What to exit with when a service was not started.
fn status_of(e: &killcord::Error) -> i32 {
    match e {
        killcord::Error::NotStarted { stage: Stage::Exec, source, .. } => match source.kind() {
            io::ErrorKind::NotFound => status::NOT_FOUND,
            io::ErrorKind::ArgumentListTooLong => status::FAILED,
            _ => status::NOT_EXECUTABLE,
        },
        killcord::Error::Unclear { .. } => status::GUARD_LOST,
        _ => status::FAILED,
    }
}

fn explain_error(e: &killcord::Error, control_fd: Option<u32>) -> String {
    match e {
        killcord::Error::Descriptor { number, source } => {
            let option = if control_fd == Some(*number) { "--control-fd" } else { "--pass-fd" };
            format!("{option} {number}: {source}")
        }
        killcord::Error::NotStarted { stage: Stage::Directory, path, source } => {
            format!("failed to open the working directory {}: {source}", path.display())
        }
        other => other.to_string(),
    }
}

/// The variables that `--env-clean` keeps.
fn is_clean(name: &[u8]) -> bool {
    const KEPT: [&[u8]; 9] =
        [b"HOME", b"PATH", b"USER", b"LOGNAME", b"SHELL", b"TERM", b"TZ", b"LANG", b"LANGUAGE"];
    KEPT.contains(&name) || name.starts_with(b"LC_")
}

fn environment(clean: bool) -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !clean || is_clean(name.as_bytes())).collect()
}

/// Says what there is to say, writes the report, and gives the exit status.
fn conclude(finished: Finished, program: &str, timeout: Option<Duration>, sink: Option<Sink>) -> i32 {
    let code = finished.exit_status();
    for line in &finished.trouble {
        say(line);
    }
    let report = if let Some(refusal) = &finished.refusal {
        let text = explain(refusal, program);
        say(&text);
        EndReport::of_refusal(finished.job, program, code, &text)
    } else {
        for line in remarks(&finished.end, program, timeout) {
            say(&line);
        }
        EndReport::of_end(finished.job, program, code, finished.end)
    };
    if let Some(sink) = sink
        && let Err(e) = sink.write(&report)
    {
        say(&format!("failed to write the report: {e}"));
    }
    code
}

/// Why nothing ran.
fn explain(refusal: &Refusal, program: &str) -> String {
    match refusal {
        Refusal::Failed { stage: Stage::Exec, errno, what } => {
            let path = String::from_utf8_lossy(what);
            let why = io::Error::from_raw_os_error(*errno);
            match why.kind() {
                io::ErrorKind::NotFound if program.is_empty() => {
                    "the program's name is empty: not found".to_owned()
                }
                io::ErrorKind::NotFound => format!("{program}: not found"),
                io::ErrorKind::ArgumentListTooLong => {
                    format!("{path}: arguments and environment are too large ({why})")
                }
                _ => format!("failed to execute {path}: {why}"),
            }
        }
        Refusal::Failed { stage: stage @ (Stage::Record | Stage::TemporaryDirectory), errno, what } => {
            let why = io::Error::from_raw_os_error(*errno);
            let claim = String::from_utf8_lossy(what);
            format!(
                "failed to {} ({claim}): {why}; nothing was started; {STATE_VARIABLE} names another",
                stage.doing()
            )
        }
        Refusal::Failed { stage, errno, .. } => {
            let why = io::Error::from_raw_os_error(*errno);
            format!("failed to {} for {program}: {why}; nothing was started", stage.doing())
        }
        Refusal::Boundary { wanted, tried } => {
            let tried: Vec<String> = tried.iter().map(|(b, why)| format!("{b}: {why}")).collect();
            let tried = if tried.is_empty() {
                "--boundary and --require contradict each other".to_owned()
            } else {
                tried.join("; ")
            };
            format!(
                "no boundary as strong as {wanted} can be had here ({tried}); `killcord doctor` says what would help"
            )
        }
        Refusal::Limit { which, why } => {
            format!("--{which} cannot be enforced here: {why}; nothing was started")
        }
    }
}

fn names(members: &Members) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> =
        members.named.iter().take(SHOWN).map(|m| format!("{} ({})", m.command, m.pid)).collect();
    let more = (members.count as usize).saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// One line for each thing that its user would want to know.
fn remarks(end: &End, program: &str, timeout: Option<Duration>) -> Vec<String> {
    let mut lines = Vec::new();
    if end.cause == Cause::Timeout {
        let after = timeout.map(|t| format!(" after {}s", t.as_secs_f64())).unwrap_or_default();
        lines.push(format!("{program}: its time was up{after}"));
    }
    match end.cause {
        Cause::WardenGone => lines.push(format!("{program}: the warden was killed, so the job was ended")),
        Cause::KeeperGone if end.was_let_go_unsaid() => {
            lines.push(format!(
                "{program}: its keeper was killed when it had let the job go, which was not ended"
            ));
        }
        Cause::KeeperGone if matches!(end.verdict, Verdict::Unconfirmed(_)) => {
            lines.push(format!("{program}: its keeper was killed"));
        }
        Cause::KeeperGone => lines.push(format!("{program}: its keeper was killed, so the job was ended")),
        Cause::LeaderExited | Cause::Timeout | Cause::Asked | Cause::OwnerGone => {}
    }
    if end.memory_kills > 0 {
        let killed = match end.memory_kills {
            1 => "a process was".to_owned(),
            n => format!("{n} processes were"),
        };
        lines.push(format!("{program}: {killed} killed by the memory limit"));
    }
    if let Some((members, fate)) = &end.leftovers {
        match fate {
            Fate::Ended => lines.push(format!("{program}: left behind and ended: {}", names(members))),
            Fate::Released if members.count > 0 => {
                lines.push(format!("{program}: left behind and let go: {}", names(members)));
            }
            Fate::Released | Fate::EndedByThemselves | Fate::Kept => {}
        }
    }
    match &end.verdict {
        Verdict::Survivors(members) if !matches!(end.leftovers, Some((_, Fate::Released))) => {
            lines.push(format!("{program}: could not be ended: {}", names(members)));
        }
        Verdict::Unconfirmed(_) if end.was_let_go_unsaid() => {}
        Verdict::Unconfirmed(why) => lines.push(format!("{program}: not known whether all is gone: {why}")),
        Verdict::Survivors(_) | Verdict::Empty(_) | Verdict::Refused => {}
    }
    if end.boundary == Boundary::Group {
        lines.push(format!("{program}: on boundary group, whoever left the process group was not ended"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_variables_are_clean() {
        assert!(is_clean(b"LC_ALL") && is_clean(b"PATH"));
        assert!(!is_clean(b"AWS_SECRET_ACCESS_KEY") && !is_clean(b"LD_PRELOAD") && !is_clean(b"PATHX"));
    }
}
