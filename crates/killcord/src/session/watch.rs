//! `killcord run` while its job lives: signals, terminal, parent and guards, as orders on the cord.

use super::decide::{Action, STOPPING, TAKEN, action};
use super::{Finished, Options, starter};
use crate::claim::{Claim, sweeper};
use crate::error::{Error, Result};
use crate::hooks;
use crate::link::{Cord, Heard, Link, Streams, WARDEN_ENDS};
use crate::numbers::new_job;
use crate::recover;
use crate::service::Attendant;
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::ladder::{Ladder, Signal};
use killcord_model::record::State;
use killcord_model::spec::{Bytes, Request, Session, Spec};
use killcord_model::status::ExitStatus;
use killcord_model::verdict::{Cause, End, Verdict};
use killcord_model::wire::{FromWarden, Order, Refusal, Report, Stage};
use killcord_sys::os::OsStrExt;
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::pidfd::Pidfd;
use killcord_sys::poll::{self, Interest};
use killcord_sys::proc::{Proc, Stat};
use killcord_sys::signals::{self, Arrived, SignalFd};
use killcord_sys::{clock, descriptors, process, terminal};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How long the warden has to finish when its job is over. It has nothing left to do then.
const WARDEN_HAS: Duration = Duration::from_secs(1);

/// `killcord run` while its job lives.
pub(super) struct Runner {
    owner: Option<Link>,
    /// What we have on disk; `None` where nothing can be written.
    claim: Option<Claim>,
    job: Cord,
    signals: SignalFd,
    parent: Option<Pidfd>,
    /// The group that we share with the job on a terminal.
    shared: Option<u32>,
    had_terminal: bool,
    grace: Duration,
    /// The first signal of the first order to end, once there was one.
    asked: Option<Signal>,
    /// Our children from before the job: an exec keeps them.
    spare: Vec<u32>,
    refusal: Option<Refusal>,
    exited: Option<ExitStatus>,
    started: Duration,
    /// Whose end is an order to end, beside our parent's.
    control: Option<OwnedFd>,
    /// The first line on stdout, which says that the session is contained.
    line: Line,
    /// What went wrong meanwhile.
    trouble: Vec<String>,
    /// For a service: its output, its exit, and its starter.
    service: Option<Attendant>,
    /// Whether there is more output of it to come.
    more_output: bool,
}

/// The line that says that the session is contained. Nothing is executed before it is written.
#[derive(Debug)]
enum Line {
    /// This is no session: nobody asked for the line.
    NotAsked,
    /// It is not true yet.
    Awaited,
    /// It is to be written as soon as there is room: who reads it may be slow, and we must not be deaf.
    Due(Boundary),
    Written,
    /// Whoever asked for it is gone. Nothing was started.
    Failed(io::Error),
}

/// How the loop ended.
enum Outcome {
    Ended(Box<End>),
    /// The keeper is gone without a last report; the warden's verdict, if it came before that was seen.
    KeeperLost(Option<Verdict>),
}

impl Runner {
    pub(super) fn start(options: &Options) -> Result<Self> {
        Self::start_as(options, None)
    }

    /// Starts the job of a service. Its starter has heard of a failure when this returns one.
    pub(super) fn start_service(options: &Options, attendant: Attendant) -> Result<Self> {
        let name = attendant.name.clone();
        match Self::start_as(options, Some(&name)) {
            Ok(mut runner) => {
                // From now on the job alone holds the writing end.
                let nothing = descriptors::detach_standard_streams();
                runner.trouble.extend(nothing.err().map(|e| e.to_string()));
                runner.service = Some(attendant);
                runner.more_output = true;
                Ok(runner)
            }
            Err(e) => {
                attendant.failed(&e);
                Err(e)
            }
        }
    }

    fn start_as(options: &Options, service: Option<&str>) -> Result<Self> {
        let directory = open_directory()?;
        let borrow = |number: &u32| {
            let number = *number;
            descriptors::borrow_number(number as i32).map_err(|source| Error::Descriptor { number, source })
        };
        let extra = options.pass_fd.iter().map(borrow).collect::<Result<Vec<_>>>()?;
        let control = options.control_fd.as_ref().map(borrow).transpose()?;
        let exactly_group = options.boundary == Choice::Exactly(Boundary::Group);
        let on_terminal = on_our_terminal() && !exactly_group;
        let standard = standard_streams(on_terminal).map_err(Error::io("open /dev/null"))?;
        let shared = on_terminal.then(group_on_terminal).transpose();
        let shared = shared.map_err(Error::io("lead a process group on the terminal"))?;
        let parent = watched_parent(options, on_terminal)?;
        // Whatever came before the job stays as it is; the subreaper is the net under warden and keeper.
        let mut spare = recover::children();
        process::become_subreaper().map_err(Error::io("become a subreaper"))?;
        // Ignored, as it may have been inherited, the kernel would reap our children before we look.
        signals::reset(signals::SIGCHLD);
        let taken: Vec<i32> = TAKEN.iter().map(|(n, _)| *n).filter(|n| !signals::is_ignored(*n)).collect();
        // SIGTTOU being blocked, we can hand the terminal on from the background.
        let stopping = STOPPING.into_iter().filter(|_| shared.is_some());
        let set = signals::Set::of(&taken.into_iter().chain(stopping).collect::<Vec<_>>());
        let prepared = set.block_exactly().and_then(|()| SignalFd::new(&set));
        let signals = prepared.map_err(Error::io("prepare for signals"))?;
        let request = request(options, shared)?;
        let streams = Streams { directory, standard, extra };
        hooks::point("owner.prepared");
        let (claim, trouble) = match Claim::of_owner(None, service)? {
            Ok(claim) => (Some(claim), None),
            Err(e) => (None, Some(format!("nothing is written down of the job, nor has it a TMPDIR: {e}"))),
        };
        hooks::point("owner.claimed");
        let forked = Link::fork_with(on_terminal, request, streams, claim.as_ref());
        let (owner, job) = forked.map_err(Error::io("fork the warden"))?;
        hooks::point("owner.forked");
        // The job is on its way: what follows delays nobody.
        spare.extend(claim.as_ref().filter(|_| sweeper::is_ours()).and_then(sweeper::in_background));
        Ok(Self {
            owner: Some(owner),
            claim,
            job,
            signals,
            parent,
            shared,
            had_terminal: terminal::controlling().is_ok(),
            grace: options.policy.grace,
            asked: None,
            spare,
            refusal: None,
            exited: None,
            started: clock::now(),
            control,
            line: if options.ack { Line::Awaited } else { Line::NotAsked },
            trouble: trouble.into_iter().collect(),
            service: None,
            more_output: false,
        })
    }

    /// Follows the job to its end.
    ///
    /// # Errors
    /// When nothing was started because the session could not be acknowledged.
    pub(super) fn follow(mut self) -> Result<Finished> {
        let end = match self.watch() {
            Ok(Outcome::Ended(end)) => *end,
            Ok(Outcome::KeeperLost(verdict)) => self.recover(verdict),
            Err(e) => {
                self.trouble.push(format!("failed to wait for the job: {e}"));
                self.recover(None)
            }
        };
        self.take_terminal_back();
        hooks::point("owner.knows_the_end");
        if let Some(owner) = self.owner.take()
            // A claim that is gone is only held: what is behind its names goes with the last hold.
            && let Err(e) = owner.close(WARDEN_HAS, || drop(self.claim.take_if(|claim| !claim.is_there())))
        {
            self.trouble.push(format!("failed to wait for the warden: {e}"));
        }
        if matches!(end.verdict, Verdict::Empty(_) | Verdict::Refused) {
            hooks::point("owner.clears");
            self.clear_claim();
            recover::reap_until_alone(&self.spare, &self.signals, WARDEN_HAS);
        }
        if let Line::Failed(e) = self.line {
            return Err(Error::io("acknowledge the session on stdout, so nothing was started")(e));
        }
        let finished = Finished {
            job: self.job.grip.id,
            end,
            refusal: self.refusal,
            asked: self.asked,
            acknowledged: matches!(self.line, Line::Written),
            trouble: self.trouble,
        };
        if let Some(service) = self.service {
            service.finish(&finished);
        }
        Ok(finished)
    }

    /// A warden that was killed has left our claim to us. What cannot be removed is a sweep's.
    fn clear_claim(&self) {
        let Some(claim) = self.claim.as_ref().filter(|claim| claim.is_there()) else { return };
        let _ = claim.clear(self.job.grip.id, Some(clock::now() + WARDEN_HAS));
        let _ = claim.give_up();
    }

    /// Waits for the last report.
    fn watch(&mut self) -> io::Result<Outcome> {
        let stdout = io::stdout();
        loop {
            let room_for_line = matches!(self.line, Line::Due(_)).then(|| stdout.as_fd());
            let output = self.service.as_ref().filter(|_| self.more_output).map(Attendant::output);
            let [cord, warden, signal, parent, control, room, output] = poll::wait(
                [
                    (Some(self.job.as_fd()), Interest::Read),
                    (self.owner.as_ref().map(AsFd::as_fd), Interest::Read),
                    (Some(self.signals.as_fd()), Interest::Read),
                    (self.parent.as_ref().map(AsFd::as_fd), Interest::Read),
                    (self.control.as_ref().map(AsFd::as_fd), Interest::Read),
                    (room_for_line, Interest::Write),
                    (output, Interest::Read),
                ],
                None,
            )?;
            if cord && let Some(outcome) = self.hear_keeper() {
                return Ok(outcome);
            }
            if warden && let Some(outcome) = self.hear_warden() {
                return Ok(outcome);
            }
            if signal {
                while let Some(arrived) = self.signals.read()? {
                    self.act(arrived);
                }
            }
            if parent {
                self.parent = None;
                self.order(&Order::End(Ladder::short()));
            }
            if control && self.control_has_ended() {
                self.control = None;
                self.order(&Order::End(Ladder::short()));
            }
            if room {
                self.acknowledge();
            }
            if output && let Some(service) = &mut self.service {
                self.more_output = service.drain();
            }
        }
    }

    fn hear_keeper(&mut self) -> Option<Outcome> {
        match self.job.hear() {
            // While leftovers are kept, we wait for them.
            Heard::Message(Report::Ended(end)) if end.goes_on() => {}
            Heard::Message(Report::Ended(end)) => return Some(Outcome::Ended(end)),
            Heard::Message(Report::NotStarted(refusal)) => self.refusal = Some(refusal),
            Heard::Message(Report::Exited(status)) => self.exited = Some(status),
            Heard::Message(Report::Stopped { .. }) => self.mirror_stop(),
            Heard::Message(Report::Armed { boundary, .. }) => {
                if matches!(self.line, Line::Awaited) {
                    self.line = Line::Due(boundary);
                }
            }
            Heard::Message(Report::Started { .. }) => {
                if let Some(service) = &mut self.service {
                    service.started(self.job.grip.id);
                }
            }
            Heard::Message(Report::Continued) | Heard::Nothing => {}
            Heard::Closed => return Some(Outcome::KeeperLost(None)),
        }
        None
    }

    /// Says that the session is contained, and lets the program run then. Where that cannot be said, and where
    /// the session is ending already, nothing runs.
    fn acknowledge(&mut self) {
        let Line::Due(boundary) = self.line else { return };
        if self.asked.is_some() {
            self.line = Line::Awaited;
            return;
        }
        hooks::point("owner.acknowledges");
        match starter::acknowledge(boundary, self.job.grip.id) {
            Ok(()) => {
                self.line = Line::Written;
                hooks::point("owner.acknowledged");
                self.order(&Order::Go);
            }
            Err(e) => {
                self.line = Line::Failed(e);
                self.order(&Order::End(Ladder::now()));
            }
        }
    }

    /// Whether the control descriptor is at its end. What is written to it has no meaning, and is read away.
    fn control_has_ended(&self) -> bool {
        let Some(control) = &self.control else { return false };
        let mut buffer = [0u8; 512];
        !matches!(killcord_sys::socket::read_some(control.as_fd(), &mut buffer), Ok(None | Some([_, ..])))
    }

    /// What the warden says: that the keeper was killed.
    fn hear_warden(&mut self) -> Option<Outcome> {
        match self.owner.as_ref().map(Link::hear) {
            Some(Heard::Message(FromWarden::KeeperLost { verdict, .. })) => {
                Some(self.last_word().unwrap_or(Outcome::KeeperLost(Some(verdict))))
            }
            // The keeper sees that as well, ends the job, and says so on the cord.
            Some(Heard::Closed) => {
                self.owner = None;
                None
            }
            Some(Heard::Nothing) | None => None,
        }
    }

    /// The end that a keeper had reported before it was killed. A dead one says no more, so that it is there.
    fn last_word(&mut self) -> Option<Outcome> {
        loop {
            let ready = poll::wait([(Some(self.job.as_fd()), Interest::Read)], Some(Duration::ZERO));
            if !ready.is_ok_and(|[ready]| ready) {
                return None;
            }
            match self.hear_keeper() {
                None => {}
                Some(Outcome::Ended(end)) => return Some(Outcome::Ended(end)),
                Some(Outcome::KeeperLost(_)) => return None,
            }
        }
    }

    fn order(&mut self, order: &Order) {
        if let Order::End(ladder) = order {
            self.asked.get_or_insert(ladder.ask);
        }
        // A keeper that is gone is heard of on the cord.
        let _ = self.job.order(order);
    }

    fn act(&mut self, arrived: Arrived) {
        // A session's HUP means the same as a terminal that is gone.
        let in_session = !matches!(self.line, Line::NotAsked);
        let hung_up = in_session || (self.had_terminal && terminal::controlling().is_err());
        match action(arrived, self.shared.is_some(), self.asked.is_some(), hung_up) {
            Action::Nothing => {}
            Action::Pass(signal) => self.order(&Order::Signal(signal)),
            Action::End(ask) => self.order(&Order::End(Ladder { ask, grace: self.grace })),
            Action::EndNow => self.order(&Order::End(Ladder::now())),
            Action::HungUp => self.order(&Order::End(Ladder::short())),
            Action::Stop => {
                // SIGSTOP cannot fail.
                let _ = process::stop_self();
            }
            Action::Continued => self.continue_job(),
            Action::Child => self.reap(),
        }
    }

    /// Reaps whatever came to us: as PID 1, as a subreaper. The warden is waited for at the end.
    fn reap(&mut self) {
        let warden = self.owner.as_ref().and_then(Link::warden);
        if process::own_pid() == 1 || self.owner.is_none() {
            for (pid, _) in recover::reap_all() {
                self.spare.retain(|p| *p != pid);
                if Some(pid) == warden {
                    self.owner = None;
                }
            }
        }
    }

    /// The leader was stopped, by the terminal's key or a signal of its own. The shell that waits for us
    /// would see nothing of it: stop like it.
    fn mirror_stop(&mut self) {
        let Some(group) = self.shared else { return };
        if !self.leader_is_stopped() {
            return;
        }
        if let Ok(tty) = terminal::controlling() {
            // The shell takes the terminal when it sees us stopped.
            let _ = terminal::set_foreground(&tty, group);
        }
        let _ = process::stop_self();
    }

    /// Before exec, and where there are no pidfds, what the keeper says is all that is known.
    fn leader_is_stopped(&self) -> bool {
        self.job.grip.leader().is_none() || self.leader_stat().is_some_and(|s| s.state == b'T')
    }

    fn leader_stat(&self) -> Option<Stat> {
        let pid = self.job.grip.leader()?;
        Proc::open().and_then(|mut p| p.stat(pid)).ok()
    }

    /// We go on: so does a leader that is still stopped in a group of its own. One in ours has been continued
    /// with us, and if it is stopped now, somebody has stopped it again.
    fn continue_job(&mut self) {
        let elsewhere = self.leader_stat().is_some_and(|s| s.state == b'T' && Some(s.group) != self.shared);
        if self.shared.is_some() && elsewhere {
            self.order(&Order::Signal(Signal::Cont));
        }
    }

    /// A program that died as the foreground group of the terminal leaves it to nobody: take it back for
    /// our own group, from where the shell expects it.
    fn take_terminal_back(&self) {
        let (Some(group), Ok(tty)) = (self.shared, terminal::controlling()) else { return };
        let left_behind = terminal::foreground(&tty).is_ok_and(|g| g != group && !process::group_exists(g));
        if left_behind {
            // A terminal that has gone meanwhile needs no foreground.
            let _ = terminal::set_foreground(&tty, group);
        }
    }

    /// The keeper is gone without a last word. The warden ends what it left; when that is gone as well,
    /// everything has come to us. What the keeper had let go, which it writes down first, nobody ends.
    fn recover(&mut self, known: Option<Verdict>) -> End {
        hooks::point("owner.lost_keeper");
        let boundary = self.job.grip.boundary.unwrap_or(Boundary::Group);
        let record = self.claim.as_ref().and_then(|claim| claim.recorded(self.job.grip.id));
        let let_go = record.as_ref().is_some_and(|record| record.state == State::Released);
        // An init takes all of the job along, let go or not.
        let end = if let_go && boundary != Boundary::Namespace {
            End::let_go_unsaid(boundary)
        } else {
            // Without a record only the warden knows that it was not let go. Whether it worked is what follows.
            let _ = record.map(|_| self.job.grip.kill_cgroup());
            let verdict = known
                .or_else(|| self.wait_for_warden())
                .unwrap_or_else(|| recover::end_what_came_to_us(&self.job.grip, &self.spare, &self.signals));
            // The init of a namespace dies with the warden, as the kernel has it.
            let with_warden = self.owner.is_none() && self.job.grip.boundary == Some(Boundary::Namespace);
            let cause = if with_warden { Cause::WardenGone } else { Cause::KeeperGone };
            End::unguarded(cause, boundary, verdict)
        };
        End {
            status: self.exited.or(Some(ExitStatus::Signal(signals::SIGKILL))),
            duration: clock::now().saturating_sub(self.started),
            notes: self.job.grip.notes.clone(),
            ..end
        }
    }

    /// The warden's verdict about a lost keeper; `None` when the warden is gone too.
    fn wait_for_warden(&mut self) -> Option<Verdict> {
        let until = clock::now() + WARDEN_ENDS;
        loop {
            match self.owner.as_ref()?.hear() {
                Heard::Message(FromWarden::KeeperLost { verdict, .. }) => return Some(verdict),
                Heard::Closed => {
                    self.owner = None;
                    return None;
                }
                Heard::Nothing => {}
            }
            let left = until.checked_sub(clock::now())?;
            let control = self.owner.as_ref().map(AsFd::as_fd);
            poll::wait([(control, Interest::Read)], Some(left)).ok()?;
        }
    }
}

/// Our working directory, for the job. It need not be readable to be somebody's place of work.
fn open_directory() -> Result<OwnedFd> {
    descriptors::directory(c".").map_err(|source| Error::NotStarted {
        stage: Stage::Directory,
        path: std::env::current_dir().unwrap_or_else(|_| ".".into()),
        source,
    })
}

/// Whether one of our standard streams is the terminal that controls us.
fn on_our_terminal() -> bool {
    terminal::is_ours(io::stdin()) || terminal::is_ours(io::stdout()) || terminal::is_ours(io::stderr())
}

/// The group that we share with the job. One that began outside our pid namespace has no number by which
/// the job could join it: then we lead one of our own, in the foreground.
fn group_on_terminal() -> io::Result<u32> {
    if process::own_group() == 0 {
        process::new_group()?;
        // From the background, where we are now, only who blocks SIGTTOU may.
        signals::Set::of(&[signals::SIGTTOU]).block_exactly()?;
        terminal::set_foreground(terminal::controlling()?, process::own_group())?;
    }
    Ok(process::own_group())
}

/// What the job gets as 0, 1 and 2: ours, but null for a stdin that is a terminal which is not ours to
/// read.
fn standard_streams(on_terminal: bool) -> io::Result<[OwnedFd; 3]> {
    let foreign = io::stdin().is_terminal() && !on_terminal;
    let stdin = if foreign { descriptors::null()? } else { copy(&io::stdin())? };
    Ok([stdin, copy(&io::stdout())?, copy(&io::stderr())?])
}

fn copy(stream: &impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// The parent, if its end is ours. An init is not watched: it never goes.
fn watched_parent(options: &Options, on_terminal: bool) -> Result<Option<Pidfd>> {
    let by_default = !(on_terminal && terminal::started_by_job_control());
    let watch = options.watch_parent.unwrap_or(by_default);
    let Some(parent) = process::parent_pid().filter(|pid| watch && *pid > 1) else { return Ok(None) };
    match Pidfd::open(parent) {
        // If it had ended before the call, we have another parent now.
        Ok(handle) if process::parent_pid() == Some(parent) => Ok(Some(handle)),
        Ok(_) => Err(Error::ParentGone),
        Err(source) if options.watch_parent == Some(true) => {
            Err(Error::Io { doing: "watch the parent", source })
        }
        Err(_) => Ok(None),
    }
}

fn request(options: &Options, shared: Option<u32>) -> Result<Request> {
    let job = new_job().map_err(Error::io("get random bytes for the job's name"))?;
    // On a terminal the job is as it would be without us: what nohup or a script had ignored, it ignores.
    let keep =
        [(signals::SIGHUP, Signal::Hup), (signals::SIGINT, Signal::Int), (signals::SIGQUIT, Signal::Quit)];
    let ignored =
        keep.into_iter().filter(|(n, _)| shared.is_some() && signals::is_ignored(*n)).map(|(_, s)| s);
    let bytes_of = |text: &std::ffi::OsString| Bytes(text.as_bytes().to_vec());
    let assignment = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| {
        Bytes([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    Ok(Request {
        job,
        spec: Spec {
            session: shared.map_or(Session::Own, |group| Session::Shared { group }),
            extra_fds: options.pass_fd.clone(),
            own_temporary_directory: options.own_temporary_directory,
            ignored: ignored.collect(),
            ..Spec::new(
                options.program.as_bytes().to_vec(),
                options.argv.iter().map(bytes_of).collect(),
                options.env.iter().map(assignment).collect(),
            )
        },
        policy: options.policy,
        limits: options.limits,
        boundary: options.boundary,
        // A group does not contain: what is said to be contained must be.
        require: if options.ack { options.require.max(Some(Boundary::Tree)) } else { options.require },
        wait_for_go: options.ack,
    })
}
