//! All sessions of this server, and what becomes of them with time.

use super::start::{Start, start};
use super::state::{Life, Order, Session};
use crate::recorder::Recorder;
use killcord::{Ladder, Owner};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many sessions there may be, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) most: usize,
    pub(crate) idle: Duration,
    pub(crate) absolute: Duration,
    pub(crate) kept: Duration,
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum Refused {
    /// So many run already.
    Full(usize),
    Failed(killcord::Error),
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Registry {
    owner: Owner,
    recorder: Arc<Recorder>,
    bounds: Bounds,
    sessions: Mutex<BTreeMap<u64, Arc<Session>>>,
    next: AtomicU64,
    /// How many are being started.
    starting: AtomicUsize,
    /// How many were ever started.
    pub(crate) started: AtomicU64,
}

impl Registry {
    pub(crate) fn new(owner: Owner, recorder: Arc<Recorder>, bounds: Bounds) -> Self {
        Self {
            owner,
            recorder,
            bounds,
            sessions: Mutex::default(),
            next: AtomicU64::new(1),
            starting: AtomicUsize::new(0),
            started: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a session and keeps it.
    pub(crate) async fn start(&self, what: Start) -> Result<Arc<Session>, Refused> {
        let slot = Slot::take(self)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("s{number}");
        let session = start(&self.owner, &self.recorder, id, what).await.map_err(Refused::Failed)?;
        self.lock().insert(number, Arc::clone(&session));
        self.started.fetch_add(1, Ordering::Relaxed);
        drop(slot);
        Ok(session)
    }

    /// Those that run.
    fn live(&self) -> usize {
        let over = |session: &&Arc<Session>| !matches!(session.state().life, Life::Over(..));
        self.lock().values().filter(over).count()
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }

    /// The one with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Session>> {
        let number: u64 = id.strip_prefix('s')?.parse().ok()?;
        self.lock().get(&number).cloned()
    }

    /// Forgets one that is over. What it printed goes with it.
    pub(crate) fn forget(&self, id: &str) {
        if let Some(number) = id.strip_prefix('s').and_then(|number| number.parse().ok()) {
            self.lock().remove(&number);
        }
    }

    /// Ends those that nobody uses or that are too old, and forgets those that have been over for long.
    pub(crate) fn tidy(&self) {
        let bounds = self.bounds;
        self.lock().retain(|_, session| {
            let state = session.state();
            let too_old = state.idle() > bounds.idle || session.started.elapsed() > bounds.absolute;
            match &state.life {
                Life::Over(_, at) => return at.elapsed() <= bounds.kept || state.waiting > 0,
                Life::Runs | Life::LeftBehind(_) if too_old => {}
                Life::Runs | Life::LeftBehind(_) | Life::Ending => return true,
            }
            drop(state);
            session.order(Order::End(Ladder::short()));
            true
        });
    }
}

/// A place among the sessions, while one is being started: a refused start gives it back.
struct Slot<'a>(&'a Registry);

impl<'a> Slot<'a> {
    fn take(registry: &'a Registry) -> Result<Self, Refused> {
        let before = registry.starting.fetch_add(1, Ordering::Relaxed);
        let slot = Self(registry);
        let live = registry.live() + before;
        if live < registry.bounds.most { Ok(slot) } else { Err(Refused::Full(live)) }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.starting.fetch_sub(1, Ordering::Relaxed);
    }
}
