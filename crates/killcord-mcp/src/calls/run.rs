//! `shell_run`: one command and its output.

use super::{Desk, Turn, amount, check_environment, directory, meta, time, title, waited};
use crate::answer::Answer;
use crate::arguments::{Leftovers, Run};
use crate::environment;
use crate::session::{Order, Place, Session, Start, Watch};
use crate::text;
use killcord::Ladder;

/// Runs it. A cancel ends the job by its ladder, whatever becomes of this.
pub(super) async fn run(desk: &Desk, arguments: Run, turn: &Turn) -> Result<Option<Answer>, String> {
    desk.may_run(&arguments.command)?;
    check_environment(&arguments.env)?;
    let settings = &desk.settings;
    let yields = time("yield_s", arguments.yield_s, settings.yields)?;
    let max_chars = arguments.max_chars.unwrap_or(settings.max_chars).clamp(200, 200_000);
    let leftovers = match arguments.leftovers {
        Some(Leftovers::Keep) => killcord::Leftovers::Keep,
        Some(Leftovers::End) => killcord::Leftovers::End,
        None => settings.leftovers,
    };
    let start = Start {
        program: settings.shell.clone().into(),
        arguments: vec!["-c".into(), arguments.command.clone().into()],
        directory: directory(arguments.cwd.as_deref())?,
        environment: environment::of_command(false, &settings.pass, &settings.set, &arguments.env),
        place: Place::Pipe(arguments.stdin.map(String::into_bytes)),
        timeout: Some(time("timeout_s", arguments.timeout_s, settings.timeout)?),
        grace: settings.grace,
        leftovers,
        limits: settings.limits,
        title: title(arguments.label.as_deref(), &arguments.command),
        call: turn.call.clone(),
        capacity: settings.capacity,
    };
    let Some(session) = desk.start(start, turn).await? else { return Ok(None) };
    if waited(&Watch::for_exit(yields), &session, 0, turn).await.is_none() {
        session.order(Order::End(Ladder::with_grace(settings.grace)));
        return Ok(None);
    }
    let answer = answer(&session, max_chars);
    if session.state().is_over() && !answer.1 {
        // All of it has been read.
        desk.registry.forget(&session.id);
    }
    Ok(Some(answer.0))
}

/// What there is, and whether something of it was left out.
fn answer(session: &Session, max_chars: usize) -> (Answer, bool) {
    let mut state = session.state();
    let cut = text::cut(&state.head, &state.ring, max_chars);
    let mut parts = text::standing(session, &state);
    parts.push(amount(state.bytes, state.lines));
    if cut.left_out > 0 {
        parts.push(format!("{} shown", text::size(cut.shown())));
    }
    if state.end().is_none() {
        parts.push(format!("session {}", session.id));
        state.read_to = state.ring.produced();
    }
    let body = cut.body(&session.id) + &state.unfinished();
    drop(state);
    (Answer::text(text::framed(&parts, &body)).with(meta(session)), cut.left_out > 0)
}
