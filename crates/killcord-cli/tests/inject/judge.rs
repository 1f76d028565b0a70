//! Whether what was seen is what is promised.

use super::cycle::{Aim, CODE, Ends, Outcome, Place};
use serde_json::Value;
use std::time::Duration;

/// How long everything may take after a kill: two seconds, as promised, and one for what a cycle takes anyway.
const AFTER_KILL: Duration = Duration::from_secs(3);
/// After a call that failed: a whole ladder with its grace of five seconds, since the signal that was not sent may have been the one to ask.
const AFTER_ERROR: Duration = Duration::from_secs(8);

/// What is wrong, if anything.
pub(crate) fn faults(place: Place, aim: &Aim, seen: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if !seen.left.is_empty() {
        faults.push(format!("left at the limit: {:?}", seen.left));
        return faults;
    }
    // Where the call was not reached, that is how long the whole cycle took, traced to its end.
    let bound = if aim.is_kill() && seen.hit.is_some() { AFTER_KILL } else { AFTER_ERROR };
    if seen.took > bound {
        faults.push(format!("all was gone only after {:?}", seen.took));
    }
    if let Some(said) = &seen.sweep {
        faults.push(format!("the sweep failed: {said}"));
    }
    if !seen.after_sweep.is_empty() {
        faults.push(format!("after the sweep there are {:?}", seen.after_sweep));
    }
    if seen.stderr.contains("panicked") {
        faults.push("a panic".to_owned());
    }
    let unsure = seen.report.contains("\"unconfirmed\"") || seen.stdout.contains("; Unconfirmed(");
    if aim.is_kill() && unsure && place.boundary != "group" {
        faults.push("one of them was killed, and the others do not know whether all is gone".to_owned());
    }
    if seen.stdout.matches("ready").count() > 1 {
        faults.push("the program was started twice".to_owned());
    }
    let killed_owner = aim.is_kill() && aim.hits_owner() && seen.hit.is_some();
    if !killed_owner && place.ends == Ends::InLibrary {
        faults.extend(untrue_in_library(seen));
    } else if !killed_owner {
        faults.extend(untrue(place, seen));
    } else if seen.code != 137 {
        faults.push(format!("the owner was killed, and exited with {}", seen.code));
    }
    faults
}

/// What killcord said that was not so, or did not say.
fn untrue(place: Place, seen: &Outcome) -> Option<String> {
    let says =
        |text: &str| seen.stderr.lines().any(|line| line.starts_with("killcord: ") && line.contains(text));
    if matches!(seen.code, 125..=127) {
        // Nothing ran: nobody was there, and it is said why.
        let ran = seen.recorded > 0 || seen.stdout.contains("ready");
        return match (ran, says("")) {
            (true, _) => Some(format!("status {} though something ran", seen.code)),
            (_, false) => Some(format!("status {} without a word", seen.code)),
            _ => None,
        };
    }
    let Ok(report) = serde_json::from_str::<Value>(&seen.report) else {
        let told = says("report");
        return (!told).then(|| format!("no report, status {}, and nothing is said about it", seen.code));
    };
    if report["exit_status"] != seen.code {
        return Some(format!("the status is {}, the report says {}", seen.code, report["exit_status"]));
    }
    if report["verdict"]["kind"] == "empty" && !seen.alive_at_end.is_empty() {
        return Some(format!("empty was said while {:?} lived", seen.alive_at_end));
    }
    let cause = report["cause"].as_str().unwrap_or("none");
    let asked = matches!(cause, "warden-gone" | "keeper-gone" | "asked" | "owner-gone");
    let lost = matches!(cause, "warden-gone" | "keeper-gone");
    if lost && !says("was killed") {
        return Some(format!("{cause}, and nothing is said about it"));
    }
    let is_so = match seen.code {
        CODE => seen.stdout.contains("ready") && (cause == "leader-exited" || asked),
        124 => place.ends == Ends::ByTimeout && cause == "timeout",
        // A member that was asked first, and the leader that missed it.
        1 => asked,
        137 => lost || report["signal"] == 9,
        143 => asked || report["signal"] == 15,
        _ => false,
    };
    (!is_so).then(|| format!("status {} with the cause {cause}", seen.code))
}

/// What a program said that links the library: the example says how its job ended, and `main` says an error.
fn untrue_in_library(seen: &Outcome) -> Option<String> {
    if seen.stdout.contains("; Empty(") && !seen.alive_at_end.is_empty() {
        return Some(format!("empty was said while {:?} lived", seen.alive_at_end));
    }
    let ended = |how: &str| seen.stdout.contains(&format!("[{how} in "));
    let is_so = match seen.code {
        0 if ended(&format!("exit status {CODE}")) => seen.stdout.contains("ready"),
        // Asked to end, or killed, with its guard; or slow.
        0 => ["exit status 143", "exit status 137", "exit status 1", "its guards were killed", "timed out"]
            .into_iter()
            .any(ended),
        1 => seen.stderr.starts_with("Error: "),
        _ => false,
    };
    (!is_so).then(|| format!("status {} and {:?}", seen.code, seen.stdout))
}
