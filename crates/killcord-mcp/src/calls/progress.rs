//! Progress of a call that waits, for a client that asks for it. A client may give up a call of which it hears nothing.

use super::amount;
use crate::session::Session;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// It is told no more often than this.
const EVERY: Duration = Duration::from_secs(1);

/// Whom to tell, and when that was done last.
#[derive(Debug)]
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    begun: Instant,
    told: Mutex<Instant>,
}

impl Progress {
    /// If the request has a token for it.
    pub(crate) fn asked_for(context: &RequestContext<RoleServer>) -> Option<Self> {
        let (token, begun) = (context.meta.get_progress_token()?, Instant::now());
        Some(Self { peer: context.peer.clone(), token, begun, told: Mutex::new(begun) })
    }

    /// Waits until there is something to tell again.
    pub(super) async fn due(&self) {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep_until((told + EVERY).into()).await;
    }

    /// Tells for how long the call has been worked on, in seconds, and how much output there is. It is on the wire when
    /// this returns: what is written later, such as the answer, comes after it.
    pub(super) async fn tell(&self, session: &Session) {
        let now = Instant::now();
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let seconds = now.duration_since(self.begun).as_secs_f64();
        let message = {
            let state = session.state();
            format!("session {}, {seconds:.0} s, {}", session.id, amount(state.bytes, state.lines))
        };
        let told = ProgressNotificationParam::new(self.token.clone(), seconds).with_message(message);
        // A client that is gone does not hear the answer either.
        let _ = self.peer.notify_progress(told).await;
    }
}
