//! What is known of one session.

use crate::audit::{Call, Digest};
use crate::terminal::plain::Plain;
use crate::terminal::ring::{Piece, Ring};
use crate::terminal::screen::Screen;
use killcord::{Boundary, End, JobId, Ladder, Signal};
use killcord_sys::os::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// So much input that a program does not read is kept for it; more is refused.
pub(super) const UNREAD_INPUT: usize = 256 * 1024;
/// How many bytes of the beginning of an output are kept beside the last ones.
const HEAD: usize = 128 * 1024;

/// What a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command without a terminal.
    Run,
    /// A terminal.
    Terminal,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Terminal => "terminal",
        }
    }
}

/// What the task of a session is told.
#[derive(Debug)]
pub(crate) enum Order {
    End(Ladder),
    Signal(Signal),
    Type(Vec<u8>),
    Resize(u16, u16),
    /// To panic while the state is locked.
    #[cfg(test)]
    Panic,
}

/// How far a session is.
#[derive(Debug, Clone)]
pub(crate) enum Life {
    Runs,
    /// The order to end has been given.
    Ending,
    /// The program has ended, and what it left is kept.
    LeftBehind(Box<End>),
    /// All of it is over.
    Over(Box<End>, Instant),
}

/// What a session is called.
#[derive(Debug)]
pub(super) struct About {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) title: String,
    pub(super) call: Call,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) title: String,
    pub(crate) job: JobId,
    pub(crate) boundary: Option<Boundary>,
    pub(crate) started: Instant,
    /// Whose call it was.
    pub(crate) call: Call,
    /// The terminal, to be asked whether it shows what is typed.
    pub(super) terminal: Option<OwnedFd>,
    pub(super) orders: mpsc::UnboundedSender<Order>,
    pub(super) changed: Notify,
    state: Mutex<State>,
}

/// What changes of it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) life: Life,
    /// The output as plain text, line by line: the beginning, and the last of it.
    pub(crate) head: Vec<u8>,
    pub(crate) ring: Ring,
    /// `None` when all of it is read.
    plain: Option<Plain>,
    digest: Digest,
    pub(crate) screen: Option<Screen>,
    /// How many bytes the programs wrote, and how many lines they began.
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    in_line: bool,
    /// Where the next read of what is new begins.
    pub(crate) read_to: u64,
    pub(crate) last_output: Instant,
    pub(crate) last_used: Instant,
    /// How many calls wait for it.
    pub(crate) waiting: u32,
    /// Whether the task that followed it has failed, and has ended it.
    pub(crate) given_up: bool,
    /// How many bytes were typed that its program has not taken yet.
    pub(super) unread: usize,
}

impl Session {
    pub(super) fn new(
        job: &killcord::Job,
        about: About,
        terminal: Option<OwnedFd>,
        orders: mpsc::UnboundedSender<Order>,
        state: State,
    ) -> Self {
        let About { id, kind, title, mut call } = about;
        call.job = Some(job.id().to_string());
        Self {
            id,
            kind,
            title,
            call,
            terminal,
            job: job.id(),
            boundary: job.boundary(),
            started: Instant::now(),
            orders,
            changed: Notify::new(),
            state: Mutex::new(state),
        }
    }

    /// A call about it.
    pub(crate) fn call_of(&self, turn: &crate::calls::Turn) -> Call {
        Call { job: Some(self.job.to_string()), ..turn.call.clone() }
    }

    /// Whether its terminal hides what is typed, as at a prompt for a password.
    pub(crate) fn hides_input(&self) -> bool {
        self.terminal.as_ref().is_some_and(|fd| killcord_sys::terminal::hides_input(fd).unwrap_or(false))
    }

    /// The state. A task that panicked while it held the lock has left nothing half done that matters: each change
    /// is complete or of output alone.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order to the task. One that is over needs none.
    pub(crate) fn order(&self, order: Order) {
        if matches!(order, Order::End(_)) {
            let mut state = self.state();
            if matches!(state.life, Life::Runs) {
                state.life = Life::Ending;
            }
        }
        let _ = self.orders.send(order);
    }

    /// Types something, unless too much of what was typed before waits for the program.
    ///
    /// # Errors
    /// How much waits already.
    pub(crate) fn type_in(&self, bytes: Vec<u8>) -> Result<(), usize> {
        let mut state = self.state();
        if state.unread + bytes.len() > UNREAD_INPUT {
            return Err(state.unread);
        }
        state.unread += bytes.len();
        drop(state);
        self.order(Order::Type(bytes));
        Ok(())
    }

    /// Tells everybody who waits that something has changed.
    pub(super) fn tell(&self) {
        self.changed.notify_waiters();
    }
}

impl State {
    pub(super) fn new(capacity: usize, screen: Option<Screen>) -> Self {
        let now = Instant::now();
        Self {
            life: Life::Runs,
            head: Vec::new(),
            ring: Ring::new(capacity),
            plain: Some(Plain::new()),
            digest: Digest::new(),
            screen,
            bytes: 0,
            lines: 0,
            in_line: false,
            read_to: 0,
            last_output: now,
            last_used: now,
            waiting: 0,
            given_up: false,
            unread: 0,
        }
    }

    /// Takes some output. Returns what the terminal itself answers to it.
    pub(super) fn take(&mut self, data: &[u8]) -> Vec<u8> {
        self.bytes += data.len() as u64;
        if let Some(last) = data.last() {
            let ends = memchr::memchr_iter(b'\n', data).count() as u64;
            // A line counts from its first byte on.
            let open_before = u64::from(self.in_line);
            self.in_line = *last != b'\n';
            self.lines += ends + u64::from(self.in_line) - open_before;
        }
        self.last_output = Instant::now();
        self.digest.update(data);
        let text = self.plain.as_mut().map_or_else(String::new, |plain| plain.feed(data));
        self.keep(text.as_bytes());
        self.screen.as_mut().map_or_else(Vec::new, |screen| screen.feed(data))
    }

    fn keep(&mut self, text: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(text.len());
        self.head.extend_from_slice(&text[..room]);
        self.ring.push(text);
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        let rest = self.plain.take().map_or_else(String::new, Plain::finish);
        self.keep(rest.as_bytes());
        self.ring.end();
    }

    /// Nothing more is read. The line that has not ended may be what could not be read.
    pub(super) fn give_up(&mut self) {
        self.given_up = true;
        self.plain = None;
        self.ring.end();
    }

    /// What is recorded of the output.
    pub(super) fn digest(&self) -> crate::audit::Output {
        self.digest.output()
    }

    /// The line that has not ended, such as a prompt. It is no part of the ring yet.
    pub(crate) fn unfinished(&self) -> String {
        self.plain.as_ref().map_or_else(String::new, Plain::unfinished)
    }

    /// New output from a cursor on, with the line that has not ended.
    pub(crate) fn text_from(&self, cursor: u64, most: usize) -> Piece {
        let mut piece = self.ring.read_from(cursor, most);
        if piece.next == self.ring.produced() {
            piece.text.push_str(&self.unfinished());
        }
        piece
    }

    /// The end, once all is over or the program alone is.
    pub(crate) fn end(&self) -> Option<&End> {
        match &self.life {
            Life::LeftBehind(end) | Life::Over(end, _) => Some(end),
            Life::Runs | Life::Ending => None,
        }
    }

    /// Whether all of it is over and all output is read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.life, Life::Over(..)) && self.plain.is_none()
    }

    /// For how long nobody has used it.
    pub(crate) fn idle(&self) -> Duration {
        if self.waiting > 0 { Duration::ZERO } else { self.last_used.elapsed() }
    }
}
