//! The task of one session: it alone owns the job.

use super::state::{Kind, Life, Order, Session, UNREAD_INPUT};
use crate::recorder::Recorder;
use killcord::{Job, Ladder, Terminal};
use killcord_model::job::DRAIN;
use killcord_sys::os::asynchronous::{Receiver, Sender};
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout_at;

/// How long it takes at most to read what has been written already.
const AT_HAND: Duration = Duration::from_millis(20);

/// The ends of a job's streams that stay here.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) output: Option<Receiver>,
    pub(super) input: Option<Sender>,
    /// For its size alone.
    pub(super) terminal: Option<Terminal>,
    /// What is still to be written.
    pub(super) unread: Vec<u8>,
}

/// What happened.
enum Event {
    Ordered(Option<Order>),
    Ended(killcord::Result<killcord::End>),
    Readable,
    Writable,
}

/// Follows a job to its end, whatever happens on the way.
pub(super) async fn follow(
    session: Arc<Session>,
    recorder: Arc<Recorder>,
    mut job: Job,
    ends: Ends,
    orders: UnboundedReceiver<Order>,
) {
    let followed = {
        let mut attended = pin!(attend(&session, &recorder, &mut job, ends, orders));
        // What a panic leaves of the state is output alone, and is not read any more.
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| attended.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(())),
        })
        .await
    };
    if followed.is_err() {
        give_up(&session, &recorder, &mut job).await;
    }
}

/// Ends a job that cannot be followed any more. Nobody reads what it still prints.
async fn give_up(session: &Session, recorder: &Recorder, job: &mut Job) {
    tracing::error!("session {}: killcord failed while it followed it, and ends it", session.id);
    // A keeper that is gone is heard of by the wait.
    drop(job.end(Ladder::short()));
    let end = loop {
        match job.wait_async().await {
            Ok(end) if end.goes_on() => {}
            end => break end.unwrap_or_else(|e| unknown(&e)),
        }
    };
    let output = session.state().digest();
    // It may be the recorder that has failed.
    if catch_unwind(AssertUnwindSafe(|| recorder.end(session, &end, output))).is_err() {
        tracing::error!("session {}: its end was not recorded", session.id);
    }
    let mut state = session.state();
    state.life = Life::Over(Box::new(end), Instant::now());
    state.give_up();
    drop(state);
    session.tell();
}

async fn attend(
    session: &Session,
    recorder: &Recorder,
    job: &mut Job,
    mut ends: Ends,
    mut orders: UnboundedReceiver<Order>,
) {
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        let event = next(job, &ends, &mut orders).await;
        match event {
            Event::Ordered(Some(order)) => obey(session, job, &mut ends, order),
            // Nobody has the session any more: the job goes with its task.
            Event::Ordered(None) => return,
            Event::Readable => {
                read_some(session, &mut ends, &mut buffer);
                // A flood must not keep the others from their turn.
                tokio::task::yield_now().await;
            }
            Event::Writable => write_some(session, &mut ends),
            Event::Ended(Ok(end)) if end.goes_on() => {
                // What the program itself wrote is there by now.
                read_for(AT_HAND, session, &mut ends, &mut buffer).await;
                session.state().life = Life::LeftBehind(Box::new(end));
                session.tell();
            }
            Event::Ended(end) => {
                read_for(DRAIN, session, &mut ends, &mut buffer).await;
                let end = end.unwrap_or_else(|e| unknown(&e));
                // Before anybody hears of it.
                let output = session.state().digest();
                recorder.end(session, &end, output);
                let mut state = session.state();
                state.life = Life::Over(Box::new(end), Instant::now());
                state.finish();
                drop(state);
                session.tell();
                return;
            }
        }
    }
}

/// This process cannot wait for it any more.
fn unknown(e: &killcord::Error) -> killcord::End {
    let verdict = killcord::Verdict::Unconfirmed(e.to_string());
    killcord::End::unguarded(killcord::Cause::KeeperGone, killcord::Boundary::Group, verdict)
}

async fn next(job: &mut Job, ends: &Ends, orders: &mut UnboundedReceiver<Order>) -> Event {
    let readable = async {
        match &ends.output {
            // What an error means is seen when it is read.
            Some(output) => drop(output.readable().await),
            None => std::future::pending().await,
        }
    };
    let writable = async {
        match &ends.input {
            Some(input) if !ends.unread.is_empty() => drop(input.writable().await),
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        order = orders.recv() => Event::Ordered(order),
        end = job.wait_async() => Event::Ended(end),
        () = writable => Event::Writable,
        () = readable => Event::Readable,
    }
}

fn obey(session: &Session, job: &Job, ends: &mut Ends, order: Order) {
    match order {
        // A keeper that is gone is heard of by the wait.
        Order::End(ladder) => drop(job.end(ladder)),
        Order::Signal(signal) => drop(job.signal(signal)),
        Order::Type(bytes) => {
            // There was room for it. Nobody reads what is typed behind the end.
            if ends.input.is_some() {
                ends.unread.extend(bytes);
            }
        }
        Order::Resize(columns, rows) => {
            // A terminal that has hung up has no size.
            let _ = ends.terminal.as_ref().map(|terminal| terminal.resize(columns, rows));
            if let Some(screen) = &mut session.state().screen {
                screen.resize(columns, rows);
            }
        }
        #[cfg(test)]
        Order::Panic => {
            let _locked = session.state();
            panic!("as the test has ordered")
        }
    }
}

/// Reads what is there. Returns whether more may come.
fn read_some(session: &Session, ends: &mut Ends, buffer: &mut [u8]) -> bool {
    let Some(output) = &ends.output else { return false };
    match output.try_read(buffer) {
        Ok(n) if n > 0 => {
            let mut state = session.state();
            let answers = state.take(&buffer[..n]);
            if session.kind == Kind::Terminal && state.unread + answers.len() <= UNREAD_INPUT {
                state.unread += answers.len();
                ends.unread.extend(answers);
            }
            drop(state);
            session.tell();
            true
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => true,
        // The end; a terminal says it by an error.
        Ok(_) | Err(_) => {
            ends.output = None;
            false
        }
    }
}

/// Reads for so long at most, however much comes: who still holds a stream is not waited for.
async fn read_for(time: Duration, session: &Session, ends: &mut Ends, buffer: &mut [u8]) {
    let deadline = Instant::now() + time;
    while let Some(output) = &ends.output {
        let readable = timeout_at(deadline.into(), output.readable()).await;
        let more = matches!(readable, Ok(Ok(()))) && read_some(session, ends, buffer);
        if !more || Instant::now() >= deadline {
            return;
        }
    }
}

fn write_some(session: &Session, ends: &mut Ends) {
    let Some(input) = &ends.input else { return };
    match input.try_write(&ends.unread) {
        Ok(n) => {
            ends.unread.drain(..n);
            let mut state = session.state();
            // The input that a command was given counts for nothing.
            state.unread = state.unread.saturating_sub(n);
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => {
            // Nobody reads it.
            ends.input = None;
            ends.unread.clear();
        }
    }
    // A command without a terminal has an end of its input.
    if ends.terminal.is_none() && ends.unread.is_empty() {
        ends.input = None;
    }
}

#[cfg(test)]
mod tests;
