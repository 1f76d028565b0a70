//! The tools of sessions.

use super::{Desk, Turn, amount, check_environment, directory, meta, title, waited};
use crate::answer::Answer;
use crate::arguments::{Kill, Mode, Read, Resize, Signal, Spawn, Write};
use crate::audit::What;
use crate::environment;
use crate::session::{Kind, Life, Order, Place, Session, Start, State, Watch, Why};
use crate::settings::Settings;
use crate::terminal::keys::{keys, paste};
use crate::terminal::screen::{SIZES, Screen};
use crate::text;
use killcord::{Ladder, Signal as Number};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// So much input is taken in one call, in bytes.
const LONGEST_INPUT: usize = 128 * 1024;
/// How long a kill is waited for beyond the grace.
const LOOK: Duration = Duration::from_secs(3);

/// What a terminal runs that was given no command.
fn login_shell(settings: &Settings) -> PathBuf {
    let own = || std::env::var_os("SHELL").map(PathBuf::from).filter(|shell| shell.is_absolute());
    settings.login_shell.clone().or_else(own).unwrap_or_else(|| settings.shell.clone())
}

fn check_size((columns, rows): (u16, u16)) -> Result<(), String> {
    if SIZES.contains(&columns) && SIZES.contains(&rows) {
        return Ok(());
    }
    let (least, most) = (SIZES.start(), SIZES.end());
    Err(format!("{columns} columns and {rows} rows: {least} to {most} can be had of each"))
}

/// `shell_spawn`.
pub(super) async fn spawn(desk: &Desk, arguments: Spawn, turn: &Turn) -> Result<Option<Answer>, String> {
    desk.may_run(arguments.command.as_deref().unwrap_or_default())?;
    check_environment(&arguments.env)?;
    let watch = Watch::new(&arguments.wait.clone().unwrap_or_default())?;
    let settings = &desk.settings;
    let login = login_shell(settings);
    let command = arguments.command.clone().unwrap_or_else(|| login.display().to_string());
    let size = (arguments.cols.unwrap_or(settings.columns), arguments.rows.unwrap_or(settings.rows));
    check_size(size)?;
    let start = Start {
        program: arguments.command.as_ref().map_or(login, |_| settings.shell.clone()).into(),
        arguments: match arguments.command {
            Some(command) => vec!["-c".into(), command.into()],
            None => vec!["-l".into()],
        },
        directory: directory(arguments.cwd.as_deref())?,
        environment: environment::of_command(true, &settings.pass, &settings.set, &arguments.env),
        place: Place::Terminal(size.0, size.1),
        timeout: None,
        grace: settings.grace,
        leftovers: killcord::Leftovers::End,
        limits: settings.limits,
        title: title(arguments.name.as_deref(), &command),
        call: turn.call.clone(),
        capacity: settings.capacity,
    };
    let Some(session) = desk.start(start, turn).await? else { return Ok(None) };
    let Some(why) = waited(&watch, &session, 0, turn).await else {
        // Nobody has heard of it.
        session.order(Order::End(Ladder::short()));
        return Ok(None);
    };
    Ok(Some(screen(&session, &why)))
}

/// The screen of a terminal; the last lines of anything else.
fn screen(session: &Session, why: &Why) -> Answer {
    let mut state = session.state();
    state.read_to = state.ring.produced();
    let mut parts = vec![format!("session {}", session.id)];
    parts.extend(text::standing(session, &state));
    parts.extend(text::waited(why));
    let body = match &state.screen {
        Some(screen) => {
            let (columns, rows) = screen.size();
            let cursor = screen.cursor();
            let hidden = if cursor.hidden { " hidden" } else { "" };
            let (line, column) = (cursor.line, cursor.column);
            parts.push(format!("screen {columns}x{rows}, cursor{hidden} at line {line} column {column}"));
            if screen.lost() > 0 {
                parts.push("the screen was lost and begun anew".to_owned());
            }
            screen.text()
        }
        None => state.ring.tail_lines(30, 24_000).text + &state.unfinished(),
    };
    drop(state);
    Answer::text(text::framed(&parts, &body)).with(meta(session))
}

/// `session_write`.
pub(super) async fn write(desk: &Desk, arguments: Write, turn: &Turn) -> Result<Option<Answer>, String> {
    desk.may_act()?;
    let session = desk.session(&arguments.session)?;
    if session.kind != Kind::Terminal {
        return Err(format!("session {} has no terminal: it takes no input", session.id));
    }
    let watch = Watch::new(&arguments.wait.clone().unwrap_or_default())?;
    let typed = input(&session, &arguments)?;
    let from = {
        let state = session.state();
        if state.is_over() {
            return Err(format!(
                "session {} is over: {}",
                session.id,
                text::standing(&session, &state).join(", ")
            ));
        }
        state.ring.produced()
    };
    let call = session.call_of(turn);
    let echo_off = session.hides_input() || arguments.sensitive;
    desk.recorder.before(&call, What::Write { arguments: turn.raw(), echo_off })?;
    session.type_in(typed).map_err(|unread| {
        format!(
            "nothing was typed: session {} does not read its input, and {unread} bytes wait for it",
            session.id
        )
    })?;
    let Some(why) = waited(&watch, &session, from, turn).await else { return Ok(None) };
    Ok(Some(fresh(&session, from, desk.settings.max_chars, &why)))
}

/// What is to be typed.
fn input(session: &Session, arguments: &Write) -> Result<Vec<u8>, String> {
    let (application, bracketed) = {
        let state = session.state();
        let screen = state.screen.as_ref();
        (screen.is_some_and(Screen::application_cursor), screen.is_some_and(Screen::bracketed_paste))
    };
    let mut bytes = Vec::new();
    if let Some(text) = &arguments.text {
        if arguments.paste {
            bytes.extend(paste(text, bracketed));
        } else {
            bytes.extend(text.as_bytes());
        }
    }
    if let Some(names) = &arguments.keys {
        bytes.extend(keys(names, application).map_err(|e| e.to_string())?);
    }
    if arguments.enter {
        bytes.push(b'\r');
    }
    match bytes.len() {
        0 => Err("there is nothing to type: give text, keys or enter".to_owned()),
        n if n > LONGEST_INPUT => {
            Err(format!("{n} bytes at once are too many: {LONGEST_INPUT} can be typed"))
        }
        _ => Ok(bytes),
    }
}

/// What came from a cursor on.
fn fresh(session: &Session, from: u64, max_chars: usize, why: &Why) -> Answer {
    let mut state = session.state();
    let piece = state.text_from(from, max_chars);
    // What is read again does not become new again.
    state.read_to = state.read_to.max(piece.next);
    let rest = state.ring.produced() - piece.next;
    let mut parts = vec![format!("session {}", session.id)];
    parts.extend(text::standing(session, &state));
    parts.extend(text::waited(why));
    parts.push(format!("{} new", amount(piece.text.len() as u64, lines(&piece.text))));
    if piece.missed > 0 {
        parts.push(format!("{} bytes before it are gone", piece.missed));
    }
    parts.push(format!("cursor {}", piece.next));
    if rest > 0 {
        parts.push(format!("{rest} bytes more: read again"));
    }
    drop(state);
    Answer::text(text::framed(&parts, &piece.text)).with(meta(session))
}

fn lines(text: &str) -> u64 {
    text.lines().count() as u64
}

/// `session_read`.
pub(super) async fn look(desk: &Desk, arguments: Read, turn: &Turn) -> Result<Option<Answer>, String> {
    let session = desk.session(&arguments.session)?;
    let from = from(&session, &arguments)?;
    let why = match &arguments.wait {
        Some(wait) => {
            let Some(why) = waited(&Watch::new(wait)?, &session, from, turn).await else {
                return Ok(None);
            };
            why
        }
        None => Why::Asked,
    };
    session.state().last_used = Instant::now();
    let max_chars = arguments.max_chars.unwrap_or(desk.settings.max_chars).clamp(200, 200_000);
    Ok(Some(match arguments.mode {
        Mode::Screen => screen(&session, &why),
        Mode::Tail => tail(&session, arguments.lines.unwrap_or(50).clamp(1, 10_000), max_chars, &why),
        Mode::New | Mode::From => fresh(&session, from, max_chars, &why),
    }))
}

/// Where to begin to read.
fn from(session: &Session, arguments: &Read) -> Result<u64, String> {
    let state: &State = &session.state();
    match (arguments.mode, arguments.cursor) {
        (Mode::From, None) => Err("mode from needs a cursor".to_owned()),
        (Mode::From, Some(cursor)) if cursor > state.ring.produced() => {
            Err(format!("the cursor {cursor} is beyond the end, which is {}", state.ring.produced()))
        }
        (Mode::From, Some(cursor)) => Ok(cursor),
        (Mode::New, _) => Ok(state.read_to),
        (Mode::Tail | Mode::Screen, _) => Ok(state.ring.produced()),
    }
}

fn tail(session: &Session, lines: usize, max_chars: usize, why: &Why) -> Answer {
    let mut state = session.state();
    let body = state.ring.tail_lines(lines, max_chars).text + &state.unfinished();
    state.read_to = state.ring.produced();
    let mut parts = vec![format!("session {}", session.id)];
    parts.extend(text::standing(session, &state));
    parts.extend(text::waited(why));
    parts.push(format!("the last of {}", amount(state.bytes, state.lines)));
    drop(state);
    Answer::text(text::framed(&parts, &body)).with(meta(session))
}

/// `session_resize`.
pub(super) fn resize(desk: &Desk, arguments: &Resize) -> Result<Answer, String> {
    desk.may_act()?;
    let session = desk.session(&arguments.session)?;
    if session.kind != Kind::Terminal {
        return Err(format!("session {} has no terminal", session.id));
    }
    let (columns, rows) = (arguments.cols, arguments.rows);
    check_size((columns, rows))?;
    session.order(Order::Resize(columns, rows));
    Ok(Answer::text(format!("[session {} | {columns}x{rows}]", session.id)))
}

/// `session_signal`.
pub(super) fn signal(desk: &Desk, arguments: &Signal, turn: &Turn) -> Result<Answer, String> {
    desk.may_act()?;
    let session = desk.session(&arguments.session)?;
    let signal = match arguments.signal.trim_start_matches("SIG") {
        "INT" => Number::Int,
        "TERM" => Number::Term,
        "HUP" => Number::Hup,
        "QUIT" => Number::Quit,
        "USR1" => Number::Usr1,
        "USR2" => Number::Usr2,
        "CONT" => Number::Cont,
        "KILL" => Number::Kill,
        other => return Err(format!("{other} is no signal of INT, TERM, HUP, QUIT, USR1, USR2, CONT, KILL")),
    };
    if session.state().end().is_some() {
        return Err(format!("session {} is over", session.id));
    }
    desk.recorder.before(&session.call_of(turn), What::Kill { arguments: turn.raw() })?;
    session.order(Order::Signal(signal));
    Ok(Answer::text(format!("[session {} | {} sent to its program]", session.id, arguments.signal)))
}

/// `session_kill`: ends it, and says that it is gone.
pub(super) async fn kill(desk: &Desk, arguments: &Kill, turn: &Turn) -> Result<Option<Answer>, String> {
    let session = desk.session(&arguments.session)?;
    // To end something is never refused for want of a record.
    desk.recorder.after(&session.call_of(turn), What::Kill { arguments: turn.raw() });
    let grace = if arguments.now { Duration::ZERO } else { desk.settings.grace };
    let over = matches!(session.state().life, Life::Over(..));
    if !over {
        let ladder = if arguments.now { Ladder::now() } else { Ladder::with_grace(grace) };
        session.order(Order::End(ladder));
        // A cancel stops the waiting; the order has been given. What is not gone by then is said below.
        if gone(&session, grace + LOOK, turn).await.is_none() {
            return Ok(None);
        }
    }
    let state = session.state();
    let mut parts = vec![format!("session {}", session.id)];
    parts.extend(text::standing(&session, &state));
    if let Some(end) = state.end() {
        parts.push(match &end.verdict {
            killcord::Verdict::Empty(evidence) => format!("nothing of it is left: {}", evidence.describe()),
            _ => "not all of it is known to be gone".to_owned(),
        });
    }
    drop(state);
    Ok(Some(Answer::text(text::status(&parts)).with(meta(&session))))
}

/// Waits for so long at most until all of it is over, also what its program had left behind.
async fn gone(session: &Session, time: Duration, turn: &Turn) -> Option<()> {
    let begun = Instant::now();
    while !session.state().is_over() && begun.elapsed() < time {
        let left = Watch::for_exit(time.saturating_sub(begun.elapsed()));
        waited(&left, session, 0, turn).await?;
        if !session.state().is_over() {
            // Its program has ended; what it left is on its way.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    Some(())
}
