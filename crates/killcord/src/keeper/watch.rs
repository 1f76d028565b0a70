//! Everything that a keeper waits for, as events.

use super::{END, END_NOW, Keeper, Status};
use crate::arm::Held;
use crate::hooks;
use crate::message::{self, Incoming};
use crate::numbers::now;
use killcord_model::job::Event;
use killcord_model::ladder::{Ladder, Signal};
use killcord_model::status::ExitStatus;
use killcord_model::wire::Order;
use killcord_sys::cgroup::Leaf;
use killcord_sys::child::{self, Change, Wait};
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::{process, socket};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// So many children are reaped before the other descriptors are looked at again: a job that ends a
/// process every few microseconds must not keep an order waiting.
const REAP_AT_ONCE: u32 = 8192;

/// How often a group is looked at whose members cannot be waited for: no pidfd is to be had.
const LOOK_AT_GROUP: Duration = Duration::from_millis(250);

/// So many messages of a dead owner are read: more than the kernel lets it have unread. A forked copy of it may
/// go on sending.
const LAST_WORDS: u32 = 512;

/// What was read from the cord.
enum Word {
    /// The job has another owner now, or is on its way to one.
    HandedOver,
    /// Something else.
    Other,
    /// Nothing more.
    Nothing,
}

impl Keeper<'_> {
    /// Waits until something happens or a deadline comes, and says what.
    pub(super) fn wait(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        self.report_exited();
        self.executed = None;
        let mut timeout = self.job.deadline().map(|t| t.since(now()));
        let blind = matches!(self.held, Held::Group) && self.seen.status.is_some() && self.member.is_none();
        if blind {
            timeout = Some(timeout.map_or(LOOK_AT_GROUP, |t| t.min(LOOK_AT_GROUP)));
        }
        self.poll_once(timeout, events)?;
        if blind && events.is_empty() {
            events.push_back(Event::Changed);
        }
        if self.job.deadline().is_some_and(|t| now() >= t) {
            events.push_back(Event::Tick);
        }
        Ok(())
    }

    /// Looks whether owner and warden are there, without waiting.
    pub(super) fn look_for_the_living(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        self.poll_once(Some(Duration::ZERO), events)
    }

    fn poll_once(&mut self, timeout: Option<Duration>, events: &mut VecDeque<Event>) -> io::Result<()> {
        let unreaped = self.unreaped;
        let timeout = if unreaped { Some(Duration::ZERO) } else { timeout };
        let [cord, owner, warden, child, failure, populated, member] = poll::wait(
            [
                (self.cord.as_ref().map(AsFd::as_fd), Interest::Read),
                (self.owner.as_ref().map(AsFd::as_fd), Interest::Read),
                (self.alive.as_ref().map(AsFd::as_fd), Interest::Gone),
                (Some(self.signals.as_fd()), Interest::Read),
                (self.start.failure(), Interest::Read),
                (self.held.leaf().filter(|_| self.leader_is_gone()).map(Leaf::events), Interest::Exception),
                (self.member.as_ref().map(AsFd::as_fd), Interest::Read),
            ],
            timeout,
        )?;
        if warden {
            self.alive = None;
            hooks::point("keeper.lost_warden");
            events.push_back(Event::WardenGone);
        }
        if owner {
            self.owner_died(events);
        } else if cord {
            self.hear_owner(events);
        }
        // That exec has happened is said before that the program has ended.
        let child = child || unreaped;
        if failure || child {
            self.hear_leader(events);
        }
        if child {
            self.take_signals(events)?;
            self.reap(events)?;
        }
        if member {
            self.member = None;
        }
        if populated || member {
            events.push_back(Event::Changed);
        }
        Ok(())
    }

    /// What the warden has to say comes as a signal: it is our parent, and nobody else's is heeded. Inside a
    /// namespace who sends from outside has no number.
    fn take_signals(&mut self, events: &mut VecDeque<Event>) -> io::Result<()> {
        while let Some(arrived) = self.signals.read()? {
            let from_warden = process::parent_pid().unwrap_or(0) == arrived.sender;
            let ladder = match arrived.signal {
                END => Ladder { ask: Signal::Term, grace: self.request.policy.grace },
                END_NOW => Ladder::now(),
                _ => continue,
            };
            if from_warden && self.alive.is_some() {
                hooks::point("keeper.hears_warden");
                events.push_back(Event::Order(Order::End(ladder)));
            }
        }
        Ok(())
    }

    /// What the owner had said before it died comes first: it may have handed the job over, and then its death
    /// is nothing to us. A copy of it can say no more than this.
    fn owner_died(&mut self, events: &mut VecDeque<Event>) {
        for _ in 0..LAST_WORDS {
            match self.hear_owner(events) {
                Word::HandedOver => return,
                Word::Other => {}
                Word::Nothing => break,
            }
        }
        self.owner = None;
        hooks::point("keeper.lost_owner");
        if self.cord.take().is_some() {
            events.push_back(Event::OwnerGone);
        }
    }

    fn leader_is_gone(&self) -> bool {
        self.leader.is_none()
    }

    fn hear_owner(&mut self, events: &mut VecDeque<Event>) -> Word {
        let Some(cord) = &self.cord else { return Word::Nothing };
        match message::receive::<Order>(cord.as_fd()) {
            Ok(Incoming::Message(Order::HandOver, _)) => {
                self.belong_to(None);
                return Word::HandedOver;
            }
            Ok(Incoming::Message(Order::Adopt, fds)) => {
                self.belong_to(fds.into_iter().next());
                return Word::HandedOver;
            }
            Ok(Incoming::Message(Order::Go, _)) => {
                hooks::point("keeper.hears_go");
                events.push_back(Event::Armed);
            }
            Ok(Incoming::Message(order, _)) => {
                hooks::point("keeper.hears_order");
                events.push_back(Event::Order(order));
            }
            Ok(Incoming::Nothing) => return Word::Nothing,
            Ok(Incoming::Closed) => {
                self.cord = None;
                hooks::point("keeper.lost_cord");
                events.push_back(Event::OwnerGone);
                return Word::Nothing;
            }
            // An owner of another version, or a cord in wrong hands: what it wants is not known, and
            // that it holds the cord is what counts.
            Err(e) => self.seen.note(format!("an order could not be read: {e}")),
        }
        Word::Other
    }

    /// The cord is what owns the job; the owner's pidfd is beside it, so that a forked copy of a dead owner
    /// does not keep the cord alive.
    fn belong_to(&mut self, owner: Option<OwnedFd>) {
        self.owner = owner;
        // If the warden is gone, that is seen on its own pipe.
        let _ = socket::write(self.status.as_fd(), &Status::HandedOver(self.request.job).to_bytes());
    }

    /// Takes the changes of children and says whether no child is left at all.
    pub(super) fn reap(&mut self, events: &mut VecDeque<Event>) -> io::Result<bool> {
        if matches!(self.held, Held::Group) {
            return self.peek_at_leader(events);
        }
        let mut changed = false;
        let mut none_left = false;
        self.unreaped = true;
        for _ in 0..REAP_AT_ONCE {
            match child::next()? {
                Wait::Child(pid, change) if Some(pid) == self.leader => self.leader_changed(change, events),
                Wait::Child(_, Change::Exited(_) | Change::Killed(_)) => {
                    self.seen.reaped += 1;
                    changed = true;
                }
                Wait::Child(_, Change::Stopped(_) | Change::Continued) => {}
                Wait::Nothing => {
                    self.unreaped = false;
                    break;
                }
                Wait::NoChildren => {
                    self.unreaped = false;
                    none_left = true;
                    break;
                }
            }
        }
        if changed {
            events.push_back(Event::Changed);
        }
        Ok(none_left)
    }

    fn leader_changed(&mut self, change: Change, events: &mut VecDeque<Event>) {
        let status = match change {
            Change::Exited(code) => ExitStatus::Code(code),
            Change::Killed(signal) => ExitStatus::Signal(signal),
            Change::Stopped(signal) => return events.push_back(Event::LeaderStopped(signal)),
            Change::Continued => return events.push_back(Event::LeaderContinued),
        };
        self.hear_leader(events);
        self.leader = None;
        self.seen.reaped += 1;
        self.seen.status = Some(status);
        hooks::point("keeper.reaped_leader");
        events.push_back(Event::LeaderExited(status));
    }

    /// On boundary `group` the leader is not reaped before the end: as long as it is there, even as a
    /// zombie, the number of its group belongs to it.
    fn peek_at_leader(&mut self, events: &mut VecDeque<Event>) -> io::Result<bool> {
        if let Some(pid) = self.leader
            && self.seen.status.is_none()
            && let Some(change) = child::peek(pid)?
        {
            self.hear_leader(events);
            let status = match change {
                Change::Killed(signal) => ExitStatus::Signal(signal),
                Change::Exited(code) => ExitStatus::Code(code),
                Change::Stopped(_) | Change::Continued => return Ok(false),
            };
            self.seen.reaped += 1;
            self.seen.status = Some(status);
            events.push_back(Event::LeaderExited(status));
        }
        Ok(false)
    }
}
