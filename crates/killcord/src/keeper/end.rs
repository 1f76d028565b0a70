//! What a keeper does on the ladder, and what it says at the end.

use super::{CLEAR_WITHIN, Keeper, Status, members_of};
use crate::arm::Held;
use crate::hooks;
use crate::message;
use crate::numbers::{now, of_signal};
use killcord_model::job::{Effect, Event, Sight, To};
use killcord_model::ladder::Signal;
use killcord_model::record::State;
use killcord_model::status::ExitStatus;
use killcord_model::time::Time;
use killcord_model::verdict::{Cause, End, Evidence, Fate, Members, NAMED, Usage, Verdict};
use killcord_model::wire::Report;
use killcord_sys::cgroup::Leaf;
use killcord_sys::errno::ESRCH;
use killcord_sys::os::AsFd;
use killcord_sys::pidfd::Pidfd;
use killcord_sys::poll::{self, Interest};
use killcord_sys::{child, clock, namespace, process, signals, socket};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// How long the last report waits for room on the cord: an owner that does not read does not keep its
/// keeper for ever.
const REPORT_WITHIN: Duration = Duration::from_secs(2);

/// How long a keeper goes on with the removal of a large temporary directory.
const CLEAR_ALL_WITHIN: Duration = Duration::from_secs(30);

/// What a keeper has seen of its job.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) started_at: Option<Time>,
    pub(super) executed: bool,
    pub(super) status: Option<ExitStatus>,
    /// How many processes were reaped.
    pub(super) reaped: u32,
    pub(super) notes: Vec<String>,
    leftovers: Option<Members>,
    forced: Members,
    kills: u32,
}

impl Seen {
    /// Nothing yet, but what is known about the boundary.
    pub(super) fn with_notes(notes: Vec<String>) -> Self {
        Self { notes, ..Self::default() }
    }

    /// Adds a note once, of a bounded number.
    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < 16 && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl Keeper<'_> {
    /// Carries out one effect.
    pub(super) fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<Event>) -> io::Result<()> {
        match effect {
            Effect::StartLeader => self.start_leader(events),
            // Held back until the keeper waits: if nothing is left of the job, the last report says it.
            Effect::Report(Report::Exited(status)) => self.exited = Some(status),
            Effect::Report(report) => self.report(&report, Duration::ZERO),
            Effect::Signal(to, signal) => {
                self.bury(to, events)?;
                hooks::point(match signal {
                    Signal::Term => "keeper.terms",
                    Signal::Cont => "keeper.continues",
                    Signal::Hup => "keeper.hangs_up",
                    Signal::Int
                    | Signal::Quit
                    | Signal::Usr1
                    | Signal::Usr2
                    | Signal::Winch
                    | Signal::Kill => "keeper.signals",
                });
                self.signal(to, signal);
            }
            Effect::Kill => {
                self.bury(To::Members, events)?;
                hooks::point("keeper.kills");
                self.kill();
                hooks::point("keeper.killed");
            }
            Effect::Look => {
                let sight = self.look(events)?;
                hooks::point(if sight == Sight::Empty {
                    "keeper.saw_it_empty"
                } else {
                    "keeper.saw_members"
                });
                events.push_back(Event::Seen(sight));
            }
            Effect::NoteLeftovers => {
                if self.seen.leftovers.is_none() {
                    self.seen.leftovers = Some(self.members());
                }
            }
            Effect::NoteForced => self.seen.forced = self.members(),
            Effect::LetGo => {
                hooks::point("keeper.lets_go");
                self.let_go()?;
                hooks::point("keeper.has_let_go");
            }
            Effect::End { cause, sight, fate } => self.end(cause, sight, fate),
            Effect::Leave => self.leave(),
        }
        Ok(())
    }

    /// Says that the leader has exited, when there is more to come.
    pub(super) fn report_exited(&mut self) {
        if let Some(status) = self.exited.take() {
            self.report(&Report::Exited(status), Duration::ZERO);
        }
    }

    /// Reaps before everybody is looked at. A bomb that changes its numbers leaves thousands of dead in a
    /// second, each of whom costs a walk as much as somebody alive.
    fn bury(&mut self, to: To, events: &mut VecDeque<Event>) -> io::Result<()> {
        if to == To::Members {
            self.reap(events)?;
        }
        Ok(())
    }

    fn report(&self, report: &Report, within: Duration) {
        let Some(cord) = &self.cord else { return };
        let end = now().after(within);
        loop {
            match message::send(cord.as_fd(), report, &[]) {
                // The owner does not read. Only the last report is worth waiting for.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && now() < end => {
                    let _ =
                        poll::wait([(Some(cord.as_fd()), Interest::Gone)], Some(Duration::from_millis(5)));
                }
                // An owner that is gone is seen by the next wait.
                _ => return,
            }
        }
    }

    fn signal(&mut self, to: To, signal: Signal) {
        let number = of_signal(signal);
        if to == To::Leader {
            if let Some(leader) = self.leader {
                // Our unreaped child; if it is a zombie already, nothing happens.
                let _ = child::signal(leader, number);
            }
            return;
        }
        let sent = match &self.held {
            Held::Namespace => namespace::signal_all_but_init(number),
            Held::Group => match self.pinned_group() {
                Some(group) => child::signal_group(group, number),
                None => Ok(()),
            },
            Held::Tree | Held::Cgroup { .. } => self.signal_tree(number),
        };
        if let Err(e) = sent
            && e.kind() != io::ErrorKind::NotFound
            && e.raw_os_error() != Some(ESRCH)
        {
            self.seen.note(format!("{} did not reach every member: {e}", signals::name(number)));
        }
    }

    fn signal_tree(&mut self, number: i32) -> io::Result<()> {
        match self.prepare_for_the_end() {
            Some(tree) => {
                let sent = tree.signal(number, &[])?;
                if sent.denied > 0 {
                    let name = signals::name(number);
                    self.seen.note(format!("{} members may not be signalled ({name})", sent.denied));
                }
                Ok(())
            }
            // Without /proc only the leader is known by number.
            None => self.leader.map_or(Ok(()), |leader| child::signal(leader, number)),
        }
    }

    /// One pass of KILL by the boundary's own means. Whether it worked is what the look says.
    fn kill(&mut self) {
        self.seen.kills += 1;
        let first = self.seen.kills == 1;
        let killed = match &self.held {
            Held::Namespace => namespace::signal_all_but_init(signals::SIGKILL),
            Held::Group => match self.pinned_group() {
                Some(group) => child::signal_group(group, signals::SIGKILL),
                None => Ok(()),
            },
            Held::Tree => self.kill_tree(),
            Held::Cgroup { leaf, .. } => match leaf.kill() {
                // The descendants that moved themselves to another cgroup come after the cgroup.
                Ok(()) if first => Ok(()),
                Ok(()) => self.kill_tree(),
                Err(e) => {
                    self.seen.notes.push(format!("cgroup.kill: {e}"));
                    self.kill_tree()
                }
            },
        };
        if let Err(e) = killed
            && e.raw_os_error() != Some(ESRCH)
        {
            self.seen.note(format!("KILL: {e}"));
        }
    }

    fn kill_tree(&mut self) -> io::Result<()> {
        let stop_first = self.seen.kills > 2;
        match self.prepare_for_the_end() {
            Some(tree) => {
                let sent = tree.kill(stop_first, &[])?;
                if self.seen.kills == 1 {
                    self.seen.forced.count = self.seen.forced.count.max(sent.reached);
                }
                Ok(())
            }
            None => self.leader.map_or(Ok(()), |leader| child::signal(leader, signals::SIGKILL)),
        }
    }

    /// Looks whether the boundary is empty, by what the kernel says.
    fn look(&mut self, events: &mut VecDeque<Event>) -> io::Result<Sight> {
        let no_child = self.reap(events)?;
        let sight = |empty: bool| if empty { Sight::Empty } else { Sight::Members };
        Ok(match &self.held {
            Held::Tree | Held::Namespace => sight(no_child),
            Held::Cgroup { leaf, .. } => match leaf.populated() {
                Ok(populated) => sight(!populated && no_child),
                Err(_) => Sight::Unknown,
            },
            Held::Group => self.look_at_group(),
        })
    }

    /// The pinned group is read twice: a member that forks while the table is being read is in one of
    /// the two, since its group cannot be left without a system call of its own.
    fn look_at_group(&mut self) -> Sight {
        let (group, no_leader) = (self.pinned_group(), self.leader.is_none());
        let (Some(group), Some(tree)) = (group, self.prepare_for_the_end()) else {
            return if no_leader { Sight::Empty } else { Sight::Unknown };
        };
        for _ in 0..2 {
            match tree.group(group).map(|members| members.first().copied()) {
                Ok(None) => {}
                Ok(Some(member)) => {
                    // The number may be another's by now, whose end would tell nothing.
                    let same =
                        |_: &Pidfd| tree.proc().stat(member.pid).is_ok_and(|s| s.start == member.start);
                    self.member = Pidfd::open(member.pid).ok().filter(same);
                    return Sight::Members;
                }
                Err(_) => return Sight::Unknown,
            }
        }
        Sight::Empty
    }

    /// Who is in the boundary now.
    fn members(&mut self) -> Members {
        let in_leaf = self.held.leaf().and_then(|l| l.members().ok()).map(|m| m.len() as u32);
        let limit = if in_leaf.is_some() { NAMED } else { usize::MAX };
        let group = self.pinned_group();
        let Some(tree) = self.prepare_for_the_end() else { return Members::default() };
        let walked = match group {
            Some(group) => tree.group(group),
            None => tree.walk(&[], limit),
        };
        let mut members = walked.map(|m| members_of(m, NAMED)).unwrap_or_default();
        members.count = members.count.max(in_leaf.unwrap_or(0));
        members
    }

    /// The job lives on: the warden is told, and our own death is no longer the leader's reason to end
    /// except through the signal that only the leader itself could disarm.
    fn let_go(&mut self) -> io::Result<()> {
        // First of all: a warden that hears of this has nothing left to do, and would take the init of a namespace along.
        process::set_parent_death_signal(0)?;
        self.write_down_release();
        // A warden that is gone needs no telling, and its end is no reason to end this job any more.
        let _ = socket::write(self.status.as_fd(), &Status::Released(self.request.job).to_bytes());
        hooks::point("keeper.told_of_release");
        self.owner = None;
        self.alive = None;
        Ok(())
    }

    /// From now on no sweep ends what is left of it. A record that cannot be changed is struck out.
    fn write_down_release(&mut self) {
        let (Some(claim), Some(record)) = (self.claim, &mut self.record) else { return };
        record.state = State::Released;
        let job = self.request.job;
        if let Err(e) = claim.record(job, record) {
            let struck = claim.forget(job).map_or_else(|e| e.to_string(), |()| "struck out".to_owned());
            self.seen.note(format!("the release could not be written down: {e}; {struck}"));
        }
    }

    /// Removes the temporary directory that was made ahead, if the job has none of its own.
    pub(super) fn give_back_ready(&mut self) {
        if let (Some(claim), Some(ready)) = (self.claim, self.ready.take()) {
            claim.give_back(&ready);
        }
    }

    /// Strikes out the job, of which nothing is left, and removes its temporary directory, for so long at most.
    /// Returns whether that is done.
    fn clear(&mut self, within: Duration) -> bool {
        self.give_back_ready();
        let Some(claim) = self.claim else { return true };
        match claim.clear(self.request.job, Some(clock::now() + within)) {
            Ok(removed) => removed.complete,
            Err(e) => {
                self.seen.note(format!("something of its temporary directory stays: {e}"));
                true
            }
        }
    }

    fn end(&mut self, cause: Cause, sight: Option<Sight>, fate: Option<Fate>) {
        let kept = fate == Some(Fate::Kept) && sight == Some(Sight::Members);
        let stays = kept || fate == Some(Fate::Released);
        let verdict = match sight {
            None => Verdict::Refused,
            Some(Sight::Empty) if !self.seen.executed => Verdict::Refused,
            Some(Sight::Empty) => Verdict::Empty(match &self.held {
                Held::Group => Evidence::GroupSeenEmptyTwice,
                Held::Tree => Evidence::NoChildLeft,
                Held::Cgroup { .. } => Evidence::Unpopulated,
                Held::Namespace => Evidence::NamespaceEmpty,
            }),
            Some(Sight::Members) => Verdict::Survivors(self.members()),
            Some(Sight::Unknown) => Verdict::Unconfirmed("the boundary could not be read".to_owned()),
        };
        let usage = self.usage();
        let leaf = self.held.leaf().map(Leaf::dir);
        let memory_kills = self.limits.memory_kills(leaf);
        hooks::point("keeper.ends");
        if !stays {
            self.remove_boundary();
        }
        hooks::point("keeper.removed_boundary");
        let over = !stays && matches!(verdict, Verdict::Empty(_) | Verdict::Refused);
        let cleared = !over || self.clear(CLEAR_WITHIN);
        if !cleared {
            self.seen.note("its temporary directory is still being removed".to_owned());
        }
        let survivors = if let Verdict::Survivors(m) = &verdict { m.count } else { 0 };
        let end = End {
            status: self.seen.status.filter(|_| self.seen.executed),
            cause,
            boundary: self.held.boundary(),
            verdict,
            duration: self.seen.started_at.map_or(Duration::ZERO, |t| now().since(t)),
            forced: self.seen.forced.clone(),
            leftovers: self.seen.leftovers.clone().filter(|m| m.count > 0).zip(fate),
            usage,
            memory_kills,
            members: self.seen.reaped + survivors,
            notes: self.seen.notes.clone(),
        };
        let empty = matches!(end.verdict, Verdict::Empty(_) | Verdict::Refused);
        hooks::point("keeper.tells_the_end");
        self.report(&Report::Ended(Box::new(end)), REPORT_WITHIN);
        hooks::point("keeper.told_the_end");
        // Now that nobody waits for it; and before the warden hears that we are done, since whoever removes a directory
        // spins in the kernel as long as the last hold on one that was in it is being given up (`shrink_dcache_parent`).
        if let Some((_, hold)) = &mut self.temporary {
            *hold = None;
        }
        if kept {
            return;
        }
        self.cord = None;
        if empty {
            // So that the warden need not wait for our exit. If it is gone, or its pipe is full, it sees
            // the exit itself.
            let _ = socket::write(self.status.as_fd(), &Status::Done(self.request.job).to_bytes());
        }
        if !cleared {
            // Nobody waits for us any more; what is left then goes with the claim.
            self.clear(CLEAR_ALL_WITHIN);
        }
    }

    fn remove_boundary(&mut self) {
        if let Err(e) = self.limits.remove() {
            self.seen.note(format!("a limiting cgroup stays: {e}"));
        }
        if let Err(e) = self.held.remove() {
            self.seen.note(format!("the job's cgroup stays: {e}"));
        }
    }

    fn usage(&self) -> Usage {
        let leaf = self.held.leaf();
        let waited = child::used();
        let time = leaf.and_then(Leaf::processor_time);
        let peak = self.limits.peak_memory(leaf.map(Leaf::dir));
        let (user, system) = match time {
            Some((user, system)) => (Duration::from_micros(user), Duration::from_micros(system)),
            None => (waited.user, waited.system),
        };
        Usage {
            peak_memory: peak.or((waited.largest > 0).then_some(waited.largest)),
            peak_is_whole_job: peak.is_some(),
            user,
            system,
        }
    }

    /// On boundary `group` the leader is reaped now; a let-go job's boundary is empty now.
    fn leave(&mut self) {
        if let (Held::Group, Some(leader)) = (&self.held, self.leader.take())
            && self.seen.status.is_some()
        {
            // It has ended; only its number was kept.
            let _ = child::wait_for(leader);
        }
        hooks::point("keeper.leaves");
        if self.job.is_over() {
            self.remove_boundary();
            // Of any other job the end has done that, or has seen that somebody is left.
            if self.record.as_ref().is_some_and(|record| record.state == State::Released) {
                self.clear(CLEAR_ALL_WITHIN);
            }
        }
    }
}
