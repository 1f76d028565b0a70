//! `session_list` and `server_info`.

use super::{Desk, meta};
use crate::answer::Answer;
use crate::session::{Session, State};
use crate::terminal::screen::Screen;
use crate::text;
use std::sync::atomic::Ordering;

/// `session_list`.
pub(super) fn list(desk: &Desk) -> Answer {
    let all = desk.registry.all();
    if all.is_empty() {
        return Answer::text("[no sessions]".to_owned());
    }
    let lines: Vec<String> = all.iter().map(|session| line(session, &session.state())).collect();
    let parts = [format!("{} sessions", all.len())];
    let meta = all.iter().map(|session| meta(session)).collect();
    Answer::text(text::framed(&parts, &lines.join("\n"))).with(meta)
}

fn line(session: &Session, state: &State) -> String {
    let boundary = session.boundary.map_or("unknown", killcord::Boundary::name);
    let mut parts = vec![session.id.clone(), session.kind.name().to_owned(), session.title.clone()];
    parts.extend(text::standing(session, state));
    parts.push(format!("idle {}s", state.idle().as_secs()));
    parts.push(format!("{} of output", text::size(state.bytes)));
    parts.push(format!("boundary {boundary}"));
    let title = state.screen.as_ref().map(Screen::title).filter(|title| !title.is_empty());
    parts.extend(title.map(|title| format!("titled {title:?}")));
    parts.join(" | ")
}

/// `server_info`.
pub(super) fn info(desk: &Desk) -> Answer {
    let settings = &desk.settings;
    let counters = &desk.counters;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let all = desk.registry.all();
    let boundary = all.iter().rev().find_map(|session| session.boundary);
    let holds = match boundary {
        Some(boundary) => {
            let escapees = if boundary.ends_escapees() {
                "daemons and whatever leaves its session end as well"
            } else {
                "what leaves its process group does not end"
            };
            format!(
                "boundary {boundary}: {escapees}; when all guards are killed at once: {}",
                boundary.when_all_are_killed()
            )
        }
        None => "boundary: seen with the first command".to_owned(),
    };
    let bounds = settings.bounds;
    let lines = [
        format!("killcord {}", env!("CARGO_PKG_VERSION")),
        holds,
        format!(
            "sessions: {} of {} at most, ended after {} s idle or {} s in all, kept for {} s",
            all.iter().filter(|session| !session.state().is_over()).count(),
            bounds.most,
            bounds.idle.as_secs(),
            bounds.absolute.as_secs(),
            bounds.kept.as_secs()
        ),
        format!(
            "shell_run: {} s timeout, answers after {} s, {} characters; {} calls at once",
            settings.timeout.as_secs(),
            settings.yields.as_secs(),
            settings.max_chars,
            settings.at_once
        ),
        format!(
            "counters: {} calls, {} jobs started, {} cancelled, {} refused, {} panicked",
            count(&counters.calls),
            count(&desk.registry.started),
            count(&counters.cancelled),
            count(&counters.refused),
            count(&counters.panicked)
        ),
        desk.recorder.counters().map_or_else(
            || "audit: off".to_owned(),
            |audit| format!("audit: {} records written, {} lost", audit.written, audit.failed),
        ),
        if settings.policy.read_only { "read-only".to_owned() } else { String::new() },
    ];
    let body: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    Answer::text(text::framed(&["server".to_owned()], &body.join("\n")))
}
