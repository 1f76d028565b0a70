//! A started job, on its cord.

use crate::claim::Claim;
use crate::error::{Error, Result, supported};
use crate::hooks;
use crate::keeper::CLEAR_WITHIN;
use crate::link::{Cord, Grip, Heard};
use crate::numbers::now;
use crate::output::{self, Output};
use crate::owner::Shared;
use crate::recover;
use crate::terminal::Terminal;
use crate::uncontained::Child;
use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::ladder::{Ladder, Signal};
use killcord_model::record::State;
use killcord_model::status::ExitStatus;
use killcord_model::time::Time;
use killcord_model::verdict::{Cause, End, Verdict};
use killcord_model::wire::{Order, Refusal, Report};
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::{clock, pidfd, process};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

/// Our ends of a job's streams.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) terminal: Option<Terminal>,
}

/// A started job: the command with every process that comes from it.
///
/// Dropping it is the order to end the job, by the short ladder; so is the end of this process, whatever
/// the reason. Nothing has to run here for that: the kernel closes the cord.
#[derive(Debug)]
pub struct Job {
    line: Line,
    /// `None` for a job that was adopted: its warden answers to another owner.
    shared: Option<Arc<Shared>>,
    started: Time,
    pid: Option<u32>,
    exited: Option<ExitStatus>,
    /// The last end that was reported, and whether it is the last of all.
    end: Option<End>,
    /// Under way while [`Job::wait_async`] is called and dropped.
    #[cfg(feature = "tokio")]
    pub(crate) inquiry: Option<crate::asynchronous::Inquiry>,
    /// The pipe to the job's standard input, if it was asked for.
    pub stdin: Option<ChildStdin>,
    /// The pipe from the job's standard output, if it was asked for.
    pub stdout: Option<ChildStdout>,
    /// The pipe from the job's standard error, if it was asked for.
    pub stderr: Option<ChildStderr>,
    /// The job's terminal, if it was asked for.
    pub terminal: Option<Terminal>,
}

/// What ties a job to this process.
#[derive(Debug)]
enum Line {
    /// The cord to its keeper.
    Cord(Cord),
    /// Nothing but that it is our child.
    Child(Child),
}

/// What was heard on a cord.
pub(crate) enum News {
    /// An end was reported.
    End(End),
    /// The cord ended without a last report.
    Lost(Lost),
}

/// A job whose keeper was killed. The warden ends what it left; when that is gone as well, what can be
/// told apart is ended from here. A job that the keeper had let go is not ended.
#[derive(Debug)]
pub(crate) struct Lost {
    grip: Grip,
    shared: Option<Arc<Shared>>,
    started: Time,
    exited: Option<ExitStatus>,
}

impl Lost {
    fn of(cord: &Cord, shared: Option<Arc<Shared>>, started: Time, exited: Option<ExitStatus>) -> Self {
        hooks::point("owner.lost");
        let lost = Self { grip: cord.grip.copy(), shared, started, exited };
        // At once, whatever the warden does; whether it worked is what it says.
        if lost.is_known_as_ours() {
            let _ = cord.grip.kill_cgroup();
        }
        lost
    }

    fn claim(&self) -> Option<&Claim> {
        self.shared.as_ref()?.claim.as_ref()
    }

    /// Whether the job is known not to have been let go. Without a record the warden knows that; of a job that was
    /// adopted, the record is another owner's.
    fn is_known_as_ours(&self) -> bool {
        let recorded = || self.claim()?.recorded(self.grip.id);
        self.shared.is_none() || recorded().is_some_and(|record| record.state != State::Released)
    }

    /// Waits for the warden's verdict, or ends what carries the job's name. Bounded: 5 s at the most. A keeper that had let
    /// the job go has written that down before: nothing is ended then, and nobody has to be asked.
    pub(crate) fn end(self) -> End {
        let boundary = self.grip.boundary.unwrap_or(Boundary::Group);
        let let_go = self.claim().is_some_and(|claim| claim.was_let_go(self.grip.id));
        // An init takes all of the job along, let go or not.
        let end = if let_go && boundary != Boundary::Namespace {
            End::let_go_unsaid(boundary)
        } else {
            let said = self.shared.as_ref().and_then(|shared| shared.verdict_on_lost(self.grip.id));
            let verdict = said.unwrap_or_else(|| self.end_by_ourselves());
            End::unguarded(Cause::KeeperGone, boundary, verdict)
        };
        End { status: self.exited, duration: now().since(self.started), notes: self.grip.notes, ..end }
    }

    fn end_by_ourselves(&self) -> Verdict {
        let claim = self.claim();
        let record = claim.and_then(|claim| claim.recorded(self.grip.id));
        let verdict = recover::end_by_mark(&self.grip, record.as_ref());
        if let (Verdict::Empty(_), Some(claim)) = (&verdict, claim) {
            // What cannot be removed goes with the claim.
            let _ = claim.clear(self.grip.id, Some(clock::now() + CLEAR_WITHIN));
        }
        verdict
    }
}

/// Why there is no program. A cord that ended before anything was armed on it never had a keeper that
/// could have started one; after that, nobody can tell.
fn not_started(cord: &Cord, shared: Arc<Shared>, refusal: Option<Refusal>, program: &[u8]) -> Error {
    match refusal {
        Some(refusal) => Error::from_refusal(refusal, program),
        None if !cord.may_have_run() => {
            // It may have come as far as making it.
            recover::remove_cgroup(&cord.grip);
            Error::NoWarden {
                why: "the warden ended before it had started anything: killed, or init() came after a thread"
                    .to_owned(),
            }
        }
        None => {
            // What there was of it is ended before that is said.
            let _ = Lost::of(cord, Some(shared), now(), None).end();
            Error::Unclear { job: cord.grip.id }
        }
    }
}

fn wait_for(fd: BorrowedFd<'_>, left: Option<Duration>) -> Result<()> {
    let waited = poll::wait([(Some(fd), Interest::Read)], left);
    waited.map(|_| ()).map_err(Error::io("wait for the job"))
}

fn uncontained() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, "the job is uncontained: it has no keeper")
}

impl Job {
    /// Waits until the program is executed, or is known not to be.
    pub(crate) fn begin(mut cord: Cord, shared: Arc<Shared>, ends: Ends, program: &[u8]) -> Result<Self> {
        let started = now();
        let mut refusal = None;
        let pid = loop {
            match cord.hear() {
                Heard::Message(Report::Started { pid }) => break cord.grip.leader().unwrap_or(pid),
                Heard::Message(Report::NotStarted(why)) => refusal = Some(why),
                Heard::Message(Report::Ended(end))
                    if refusal.is_none() && end.verdict == Verdict::Refused =>
                {
                    // The keeper is there, and knows that it has executed nothing.
                    return Err(Error::NoWarden { why: "the warden was killed during the start".to_owned() });
                }
                Heard::Message(Report::Ended(_)) | Heard::Closed => {
                    return Err(not_started(&cord, shared, refusal, program));
                }
                Heard::Message(_) => {}
                Heard::Nothing => wait_for(cord.as_fd(), None)?,
            }
        };
        Ok(Self { started, ..Self::new(Line::Cord(cord), Some(shared), Some(pid), ends) })
    }

    /// A job that nothing holds.
    pub(crate) fn uncontained(child: Child, ends: Ends) -> Self {
        let pid = child.pid();
        Self::new(Line::Child(child), None, Some(pid), ends)
    }

    fn new(line: Line, shared: Option<Arc<Shared>>, pid: Option<u32>, ends: Ends) -> Self {
        let Ends { stdin, stdout, stderr, terminal } = ends;
        let started = now();
        Self {
            line,
            shared,
            started,
            pid,
            exited: None,
            end: None,
            #[cfg(feature = "tokio")]
            inquiry: None,
            stdin,
            stdout,
            stderr,
            terminal,
        }
    }

    /// The job's name.
    pub fn id(&self) -> JobId {
        match &self.line {
            Line::Cord(cord) => cord.grip.id,
            Line::Child(child) => child.id(),
        }
    }

    /// The leader's process number, for display only: what is to be signalled is signalled by
    /// [`Job::signal`].
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// What holds the job.
    pub fn boundary(&self) -> Option<Boundary> {
        match &self.line {
            Line::Cord(cord) => cord.grip.boundary,
            Line::Child(_) => Some(Boundary::Uncontained),
        }
    }

    /// Sends a signal to the leader, if it still runs.
    ///
    /// # Errors
    /// When the keeper is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.order(&Order::Signal(signal))
    }

    /// Orders the job to end by a ladder. The keeper climbs it; this returns at once, and [`Job::wait`]
    /// says how it went. For a job that is ending already this can only shorten the time.
    ///
    /// # Errors
    /// When the keeper is gone, and the job with it.
    pub fn end(&self, ladder: Ladder) -> Result<()> {
        self.order(&Order::End(ladder))
    }

    /// Orders the job to end at once, without asking.
    ///
    /// # Errors
    /// As [`Job::end`].
    pub fn end_now(&self) -> Result<()> {
        self.end(Ladder::now())
    }

    fn order(&self, order: &Order) -> Result<()> {
        if self.end.as_ref().is_some_and(|end| !end.goes_on()) {
            return Ok(());
        }
        let given = match (&self.line, order) {
            (Line::Cord(cord), order) => cord.order(order),
            (Line::Child(child), Order::Signal(signal)) => child.signal(*signal),
            (Line::Child(child), Order::End(ladder)) => child.end(*ladder, Cause::Asked),
            (Line::Child(_), Order::Go | Order::Release | Order::HandOver | Order::Adopt) => {
                Err(uncontained())
            }
        };
        given.map_err(Error::io("give an order to the keeper"))
    }

    /// Waits until the job is over and says how it ended. With leftovers kept, it returns when the leader
    /// has ended (after a drain of 0.2 s), and [`End::goes_on`] is true; waiting again waits for the rest.
    ///
    /// # Errors
    /// Only when this process cannot wait at all.
    pub fn wait(&mut self) -> Result<End> {
        loop {
            if let Some(end) = self.wait_until(None)? {
                return Ok(end);
            }
        }
    }

    /// Like [`Job::wait`], but not longer than this; `None` when the time is over first. The job goes on
    /// then.
    ///
    /// # Errors
    /// As [`Job::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<End>> {
        self.wait_until(Some(now().after(timeout)))
    }

    /// The end, if the job is over.
    ///
    /// # Errors
    /// As [`Job::wait`].
    pub fn try_wait(&mut self) -> Result<Option<End>> {
        self.wait_until(Some(now()))
    }

    fn wait_until(&mut self, until: Option<Time>) -> Result<Option<End>> {
        if let Some(end) = self.last_end() {
            return Ok(Some(end));
        }
        loop {
            if let Some(end) = self.hear() {
                return Ok(Some(end));
            }
            let left = until.map(|t| t.since(now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            wait_for(self.as_fd(), left.into_iter().chain(self.due_in()).min())?;
        }
    }

    /// How long nothing has to be done for a job without a keeper; `None` where there is nothing to do.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        match &self.line {
            Line::Child(child) => child.until().map(|t| t.since(now())),
            Line::Cord(_) => None,
        }
    }

    /// Takes what has come on the cord; an end, if one is there. When the keeper was killed, it waits for
    /// what the warden says of that.
    pub(crate) fn hear(&mut self) -> Option<End> {
        match self.news()? {
            News::End(end) => Some(end),
            News::Lost(lost) => {
                let end = lost.end();
                self.end = Some(end.clone());
                Some(end)
            }
        }
    }

    /// Takes what has come on the cord, without waiting for anything.
    pub(crate) fn news(&mut self) -> Option<News> {
        let cord = match &mut self.line {
            Line::Cord(cord) => cord,
            Line::Child(child) => {
                child.climb();
                let end = child.try_end()?;
                self.end = Some(end.clone());
                return Some(News::End(end));
            }
        };
        loop {
            match cord.hear() {
                Heard::Message(Report::Ended(end)) => {
                    self.end = Some(*end.clone());
                    return Some(News::End(*end));
                }
                Heard::Message(Report::Exited(status)) => self.exited = Some(status),
                Heard::Message(_) => {}
                Heard::Nothing => return None,
                Heard::Closed => {
                    let shared = self.shared.clone();
                    return Some(News::Lost(Lost::of(cord, shared, self.started, self.exited)));
                }
            }
        }
    }

    /// The end that was reported, unless another one follows.
    pub(crate) fn last_end(&self) -> Option<End> {
        self.end.clone().filter(|end| !end.goes_on())
    }

    /// Keeps an end that was found out elsewhere.
    #[cfg(feature = "tokio")]
    pub(crate) fn keep_end(&mut self, end: End) {
        self.end = Some(end);
    }

    /// How the leader ended, once that is known. The job may still be ending its leftovers.
    pub fn exited(&self) -> Option<ExitStatus> {
        self.exited.or(self.end.as_ref().and_then(|end| end.status))
    }

    /// Lets the job go: it lives on without an owner and is not ended any more.
    ///
    /// # Errors
    /// When that could not be handed over: the keeper is gone, or the job was over or ending already. The
    /// handle is lost either way; what an order to end was given for still ends.
    pub fn release(mut self) -> Result<()> {
        self.order(&Order::Release)?;
        let end = self.wait()?;
        let released = matches!(end.verdict, Verdict::Survivors(_)) && end.cause != Cause::KeeperGone;
        if released || end.was_let_go_unsaid() {
            return Ok(());
        }
        let source = std::io::Error::other("it was over, or ending, already");
        Err(Error::Io { doing: "release the job", source })
    }

    /// The cord as a plain descriptor, to be handed to another process or kept across `exec`. From now on
    /// the job lives as long as a copy of it is open, until a process makes itself the owner by
    /// [`Job::adopt`].
    ///
    /// The descriptor is closed by exec; clear that flag to keep it.
    ///
    /// # Errors
    /// When the keeper is gone, and the job with it.
    pub fn into_fd(self) -> Result<OwnedFd> {
        let failed = Error::io("hand the job over");
        match self.line {
            Line::Cord(cord) => {
                cord.order(&Order::HandOver).map_err(failed)?;
                Ok(cord.into_fd())
            }
            Line::Child(_) => Err(failed(uncontained())),
        }
    }

    /// Makes this process the owner of the job on this cord, which came from [`Job::into_fd`]. From now on
    /// this process's death is what ends it.
    ///
    /// # Errors
    /// When the descriptor is no cord, or its keeper is gone.
    pub fn adopt(fd: OwnedFd, id: JobId) -> Result<Self> {
        supported()?;
        let cord = Cord::adopted(id, fd);
        let me = pidfd::Pidfd::open(process::own_pid()).ok();
        cord.adopt(me.as_ref().map(AsFd::as_fd)).map_err(Error::io("adopt the job"))?;
        Ok(Self::new(Line::Cord(cord), None, None, Ends::default()))
    }

    /// Closes the job's input, waits for the job, and collects what it prints on its piped streams or its
    /// terminal meanwhile. Of each stream the first and the last `keep / 2` bytes are kept, and all are
    /// counted: memory does not grow with output.
    ///
    /// It returns when the job is over and its output read, at the latest 0.2 s after the end was
    /// reported: not when the last holder of a pipe closes it.
    ///
    /// # Errors
    /// As [`Job::wait`].
    pub fn into_output(mut self, keep: usize) -> Result<Output> {
        output::collect(&mut self, keep)
    }
}

/// The cord, to be waited for in any event loop: it is readable when [`Job::try_wait`] has something new.
impl AsFd for Job {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Cord(cord) => cord.as_fd(),
            Line::Child(child) => child.as_fd(),
        }
    }
}
