//! Who asks the warden at the socket in the claim: `killcord stop`, from outside the owner.

use crate::claim::{CONTROL, Claim};
use crate::hooks;
use crate::message;
use killcord_model::id::JobId;
use killcord_model::warden::{Event, Holding, Warden};
use killcord_model::wire::{self, Answer, Call};
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::{files, process, socket};
use std::collections::VecDeque;

/// The largest call that is read.
const LARGEST: usize = 256;
/// So many calls are heard before anything else is looked at again.
const HEAR_AT_ONCE: u32 = 16;
/// So many callers are told of an end. Whoever comes later sees the warden's own.
const MOST_CALLERS: usize = 64;

/// The socket, and who waits for which job to be over.
#[derive(Debug)]
pub(super) struct Callers {
    /// `None` where there is no claim, or no socket to be had: then nobody can call.
    socket: Option<OwnedFd>,
    waiting: Vec<(JobId, OwnedFd)>,
}

impl Callers {
    /// Makes the socket in the claim. That of a warden before us is replaced.
    pub(super) fn listen(claim: Option<&Claim>) -> Self {
        let socket = claim.and_then(|claim| {
            // There is none, usually.
            let _ = files::unlink_at(claim.dir(), CONTROL.as_ref());
            socket::listen(claim.dir(), CONTROL).ok()
        });
        Self { socket, waiting: Vec::new() }
    }

    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Takes what was asked, of this user and of root alone.
    pub(super) fn hear(&mut self, decisions: &Warden, events: &mut VecDeque<Event>) {
        for _ in 0..HEAR_AT_ONCE {
            let Some(socket) = &self.socket else { return };
            let call = match socket::take_call(socket.as_fd(), LARGEST) {
                Ok(Some(call)) => call,
                Ok(None) => return,
                Err(_) => {
                    // A socket that cannot be read any more would be ready for ever.
                    self.socket = None;
                    return;
                }
            };
            let known = call.user.is_some_and(|user| user == 0 || user == process::own_uid());
            let asked = wire::decode::<Call>(&call.data).ok().filter(|_| known);
            if let (Some(Call::Stop { job, now }), Some(back)) = (asked, call.fds.into_iter().next()) {
                self.stop(job, now, &back, decisions, events);
            }
        }
    }

    fn stop(
        &mut self,
        job: Option<JobId>,
        now: bool,
        back: &OwnedFd,
        decisions: &Warden,
        events: &mut VecDeque<Event>,
    ) {
        let jobs: Vec<JobId> = job.map_or_else(|| decisions.jobs().collect(), |job| vec![job]);
        // A caller that is gone, or does not read, misses what it asked for.
        let answer = |answer: Answer| drop(message::send(back.as_fd(), &answer, &[]));
        if jobs.is_empty() {
            return answer(Answer::NotRunning);
        }
        for job in jobs {
            match decisions.holding(job) {
                None => answer(Answer::NotRunning),
                Some(Holding::LetGo) => answer(Answer::LetGo(job)),
                Some(Holding::Guarded) => {
                    hooks::point("warden.called");
                    answer(Answer::Ending(job));
                    events.push_back(Event::Stop { job, now });
                    if self.waiting.len() < MOST_CALLERS
                        && let Ok(back) = back.try_clone()
                    {
                        self.waiting.push((job, back));
                    }
                }
            }
        }
    }

    /// Tells who has asked for it that a job is over.
    pub(super) fn tell_over(&mut self, over: JobId) {
        self.waiting.retain(|(job, back)| {
            if *job == over {
                // As above.
                let _ = message::send(back.as_fd(), &Answer::Over(over), &[]);
            }
            *job != over
        });
    }
}
