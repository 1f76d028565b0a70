//! From the armed boundary to the running program.

use super::{Keeper, enter_session};
use crate::arm::Held;
use crate::claim::{Claim, seconds};
use crate::hooks;
use crate::link::Streams;
use crate::message;
use crate::numbers::{STAGES, of_signal};
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JOB_VARIABLE;
use killcord_model::job::Event;
use killcord_model::record::{self, State};
use killcord_model::spec::{Request, ResourceLimit, Session};
use killcord_model::wire::{Refusal, Report, Stage};
use killcord_sys::errno::EINVAL;
use killcord_sys::leader::{self, Failure, Leader, Plan};
use killcord_sys::os::{AsFd, BorrowedFd, OsStrExt, OwnedFd};
use killcord_sys::pidfd::Pidfd;
use killcord_sys::process;
use killcord_sys::socket;
use killcord_sys::tree::Tree;
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;

/// Why a job was not started that could not be written down.
pub(crate) fn not_recorded(claim: &Claim, stage: Stage, e: &io::Error) -> Refusal {
    let errno = e.raw_os_error().unwrap_or(EINVAL);
    Refusal::Failed { stage, errno, what: claim.path.as_os_str().as_bytes().to_vec() }
}

/// The descriptors that came with a request.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) cord: OwnedFd,
    pub(crate) streams: Streams,
}

impl Handed {
    /// Takes them apart; `None` when they are not as many as the request says.
    pub(crate) fn from_descriptors<L>(fds: Vec<OwnedFd>, request: &Request<L>) -> Option<Self> {
        let mut fds = fds.into_iter();
        let (cord, directory) = (fds.next()?, fds.next()?);
        let standard = [fds.next()?, fds.next()?, fds.next()?];
        let extra: Vec<OwnedFd> = fds.collect();
        let complete = extra.len() == request.spec.extra_fds.len();
        complete.then_some(Self { cord, streams: Streams { directory, standard, extra } })
    }

    /// All of them.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.cord.as_fd()].into_iter().chain(self.streams.descriptors())
    }
}

/// How far the start is.
#[derive(Debug)]
pub(super) enum Start {
    /// Nothing was started.
    Waiting(Streams),
    /// The leader is on its way to exec.
    Executing { leader: Leader, paths: Vec<CString>, given: Streams },
    /// It was executed, or not; either way that is known.
    Known,
}

impl Start {
    /// Copies what the job gets, to be given up when it has it: who reads its output must see when the job
    /// closes it.
    pub(super) fn new(handed: &Handed) -> io::Result<Self> {
        Ok(Self::Waiting(handed.streams.copy()?))
    }

    /// What the job gets, as long as it does not have it.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let given = match self {
            Self::Waiting(given) | Self::Executing { given, .. } => Some(given),
            Self::Known => None,
        };
        given.into_iter().flat_map(Streams::descriptors)
    }

    /// The pipe on which the leader reports a failure, while it may.
    pub(super) fn failure(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Executing { leader, .. } => Some(leader.failure.as_fd()),
            Self::Waiting(_) | Self::Known => None,
        }
    }
}

/// The paths to try for a program, as `execvp(3)` looks for it in the job's own `PATH`.
fn paths(program: &[u8], env: &[killcord_model::spec::Bytes]) -> Result<Vec<CString>, std::ffi::NulError> {
    if program.contains(&b'/') || program.is_empty() {
        return Ok(vec![CString::new(program)?]);
    }
    let path = env.iter().find_map(|v| v.0.strip_prefix(b"PATH="));
    let path = path.unwrap_or(b"/bin:/usr/bin");
    let join = |dir: &[u8]| {
        let dir = if dir.is_empty() { b"." } else { dir };
        CString::new([dir, b"/", program].concat())
    };
    path.split(|b| *b == b':').map(join).collect()
}

fn strings<'b>(all: impl Iterator<Item = &'b [u8]>) -> Result<Vec<CString>, std::ffi::NulError> {
    all.map(CString::new).collect()
}

impl Keeper<'_> {
    /// Tells the owner what holds the job, before anything runs. An owner that was not told would take the job for one
    /// that never began, and might ask for it once more.
    fn report_armed(&mut self) -> Result<(), Refusal> {
        let armed = Report::Armed { boundary: self.held.boundary(), notes: self.seen.notes.clone() };
        let kill = self.held.leaf().and_then(killcord_sys::cgroup::Leaf::kill_file);
        // Where there are no pidfds, the owner cannot see the end of a namespace for itself.
        let init =
            matches!(self.held, Held::Namespace).then(|| Pidfd::open(process::own_pid()).ok()).flatten();
        let fds: Vec<BorrowedFd<'_>> = kill.into_iter().chain(init.as_ref().map(AsFd::as_fd)).collect();
        let Some(cord) = &self.cord else { return Ok(()) };
        match message::send(cord.as_fd(), &armed, &fds) {
            // An owner that is gone is seen by the wait that follows.
            Err(e) if !message::says_gone(&e) => {
                Err(self.refusal(Stage::Descriptors, e.raw_os_error().unwrap_or(EINVAL), Vec::new()))
            }
            _ => Ok(()),
        }
    }

    /// Clones the leader into the boundary. What became of that is the next event, before those that wait already: the
    /// end of an owner that is heard of together with its word to go must find a job that runs, and not one that will.
    pub(super) fn start_leader(&mut self, events: &mut VecDeque<Event>) {
        let given = match std::mem::replace(&mut self.start, Start::Known) {
            Start::Waiting(given) => given,
            // It is on its way, or was.
            started => {
                self.start = started;
                return;
            }
        };
        hooks::point("keeper.writes_down");
        if let Err(refusal) = self.write_down() {
            return events.push_front(Event::NotStarted(refusal));
        }
        hooks::point("keeper.clones");
        match self.clone_leader(&given) {
            Ok((leader, paths)) => {
                self.leader = Some(leader.pid);
                hooks::point("keeper.cloned");
                self.seen.started_at = Some(crate::numbers::now());
                self.start = Start::Executing { leader, paths, given };
                events.push_front(Event::Cloned);
                self.prepare_for_the_end();
                self.give_back_ready();
                if let Held::Cgroup { leaf, .. } = &mut self.held {
                    leaf.open_times();
                }
            }
            Err(e) if self.weaken(&e) => {
                self.start = Start::Waiting(given);
                self.start_leader(events);
            }
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(EINVAL);
                events.push_front(Event::NotStarted(self.refusal(Stage::Leader, errno, Vec::new())));
            }
        }
    }

    /// Writes down the job before its program can run, with what a sweep would find it by, and makes its temporary
    /// directory.
    fn write_down(&mut self) -> Result<(), Refusal> {
        let Some(claim) = self.claim else { return Ok(()) };
        // A second attempt, on a weaker boundary, is in the same session. The init of a namespace needs none: what it
        // leaves, the kernel ends.
        if self.record.is_none() && !matches!(self.held, Held::Namespace) {
            self.tag = self.tag.or_else(enter_session);
        }
        let text = |path: std::path::PathBuf| path.into_os_string().into_string().ok();
        let record = record::Job {
            place: claim.place.clone(),
            state: State::Started,
            boundary: self.held.boundary(),
            leaf: self.held.leaf_path().and_then(text),
            limits: self.limits.paths().filter_map(text).collect(),
            tag: self.tag,
            keeper: self.identity,
            program: record::program_name(&self.request.spec.program),
            since: seconds(),
        };
        let job = self.request.job;
        claim.record(job, &record).map_err(|e| not_recorded(claim, Stage::Record, &e))?;
        self.record = Some(record);
        if self.request.spec.own_temporary_directory && self.temporary.is_none() {
            let made = claim.make_temporary(job, self.ready.take());
            let made = made.map_err(|e| not_recorded(claim, Stage::TemporaryDirectory, &e))?;
            self.temporary = Some(made);
        }
        Ok(())
    }

    /// Where the kernel does not let a process be born in a cgroup (before 5.7, or under a filter that hides
    /// `clone3`), the child enters it by itself before exec.
    fn clone_leader(&self, given: &Streams) -> io::Result<(Leader, Vec<CString>)> {
        let mut plan = self.plan(given)?;
        let started = plan.start();
        let (Err(_), Some(leaf)) = (&started, self.held.leaf()) else {
            return started.map(|leader| (leader, plan.paths));
        };
        plan.born_in = None;
        let procs = leaf.procs()?;
        plan.enter.push(procs.as_fd());
        let leader = plan.start()?;
        Ok((leader, plan.paths))
    }

    fn plan<'a>(&'a self, given: &'a Streams) -> io::Result<Plan<'a>> {
        let spec = &self.request.spec;
        let assignment = self.request.job.assignment();
        // A job of a job has its own name there, and no other.
        let name = &assignment.as_bytes()[..=JOB_VARIABLE.len()];
        let own_directory = self.temporary.as_ref();
        let temporary = own_directory.map(|(path, _)| [b"TMPDIR=", path.as_os_str().as_bytes()].concat());
        let replaced = |v: &&[u8]| v.starts_with(name) || (temporary.is_some() && v.starts_with(b"TMPDIR="));
        let inherited = spec.env.iter().map(|v| v.0.as_slice()).filter(|v| !replaced(v));
        let ours = [assignment.as_bytes()].into_iter().chain(temporary.as_deref());
        let [a, b, c] = &given.standard;
        let numbers = spec.extra_fds.iter().map(|n| *n as i32);
        let limit = |r: &ResourceLimit| (r.resource, r.soft.unwrap_or(u64::MAX), r.hard.unwrap_or(u64::MAX));
        let under_init = matches!(self.held, Held::Namespace);
        Ok(Plan {
            paths: paths(&spec.program, &spec.env)?,
            argv: strings(spec.argv.iter().map(|a| a.0.as_slice()))?,
            env: strings(inherited.chain(ours))?,
            standard: [a.as_fd(), b.as_fd(), c.as_fd()],
            extra: given.extra.iter().map(AsFd::as_fd).zip(numbers).collect(),
            directory: given.directory.as_fd(),
            umask: spec.umask,
            rlimits: spec.rlimits.iter().map(limit).collect(),
            nice: spec.nice,
            oom_score_adj: spec.oom_score_adj,
            session: match spec.session {
                Session::Own => leader::Session::Own,
                Session::OwnTerminal => leader::Session::OwnTerminal,
                Session::Shared { .. } if under_init => leader::Session::Inherited,
                Session::Shared { group } => leader::Session::Group(group),
            },
            enter: self.limits.entries().collect(),
            born_in: self.held.leaf().map(killcord_sys::cgroup::Leaf::dir),
            ignored: spec.ignored.iter().map(|s| of_signal(*s)).collect(),
            under_init,
            stages: STAGES,
        })
    }

    /// Tells the owner what holds the job. An owner that is going to rely on that before anything runs is told
    /// only what was seen to work.
    pub(super) fn arm(&mut self) -> Result<(), Refusal> {
        if self.request.wait_for_go
            && let Some(leaf) = self.held.leaf()
            && let Err(e) = leaf.procs().and_then(|procs| leader::try_entering(leaf.dir(), procs.as_fd()))
            && !self.give_up_cgroup(&e)
        {
            return Err(self.refusal(Stage::Cgroup, e.raw_os_error().unwrap_or(EINVAL), Vec::new()));
        }
        self.report_armed()
    }

    /// A cgroup that could be made and not entered (a hierarchy below a threaded one, for example) is given
    /// up for `tree`, and the owner is told. Nothing has been executed so far.
    fn weaken(&mut self, why: &io::Error) -> bool {
        !self.request.wait_for_go && self.give_up_cgroup(why) && self.report_armed().is_ok()
    }

    /// Only where the job leaves the choice to us and has no limit that hangs on the cgroup.
    fn give_up_cgroup(&mut self, why: &io::Error) -> bool {
        let free = self.request.boundary == Choice::Auto
            && self.request.require.is_none_or(|r| r <= Boundary::Tree)
            && self.request.limits.is_empty();
        if !free || self.held.leaf().is_none() {
            return false;
        }
        if let Err(e) = self.held.remove() {
            self.seen.note(format!("the job's cgroup stays: {e}"));
        }
        self.held = Held::Tree;
        self.seen.note(format!("the cgroup could not be entered: {why}"));
        true
    }

    /// Opens and allocates what the end will need, while the leader is on its way to exec. What cannot be had at
    /// this moment, since the system has no descriptor or no memory to spare, is tried again when it is needed: a
    /// job that was started must be ended.
    pub(super) fn prepare_for_the_end(&mut self) -> Option<&mut Tree> {
        if self.tree.is_none() {
            match Tree::new() {
                Ok(tree) => self.tree = Some(tree),
                Err(e) => self.seen.note(format!("members could not be listed: /proc: {e}")),
            }
        }
        self.tree.as_mut()
    }

    /// Reads whether the program was executed: the pipe's end says so, a word on it says why not.
    pub(super) fn hear_leader(&mut self, events: &mut VecDeque<Event>) {
        let Start::Executing { leader, paths, .. } = &self.start else { return };
        let mut buffer = [0u8; 16];
        let word = match socket::read_some(leader.failure.as_fd(), &mut buffer) {
            Ok(None) => return,
            Ok(Some(word)) => word,
            // A pipe that cannot be read says nothing against exec; the leader's end will be seen.
            Err(_) => &[],
        };
        let Some(failure) = Failure::from_bytes(word) else {
            self.seen.executed = true;
            hooks::point("keeper.saw_exec");
            self.report_started();
            hooks::point("keeper.told_of_exec");
            events.push_back(Event::Executed);
            if let Start::Executing { leader, .. } = std::mem::replace(&mut self.start, Start::Known) {
                self.executed = Some(leader);
            }
            return;
        };
        hooks::point("keeper.saw_no_exec");
        let stage = Stage::from_number(failure.stage).unwrap_or(Stage::Exec);
        let what = if stage == Stage::Exec { self.failed_path(paths, failure) } else { Vec::new() };
        let Start::Executing { given, .. } = std::mem::replace(&mut self.start, Start::Known) else { return };
        if stage == Stage::Cgroup && self.weaken(&io::Error::from_raw_os_error(failure.errno)) {
            // The child that could not enter is exiting by itself, and was never the program.
            self.leader = None;
            self.start = Start::Waiting(given);
            return self.start_leader(events);
        }
        events.push_back(Event::NotStarted(self.refusal(stage, failure.errno, what)));
    }

    /// The path that exec failed on; the name as it was typed when it was not found anywhere.
    fn failed_path(&self, paths: &[CString], failure: Failure) -> Vec<u8> {
        let not_found = io::Error::from_raw_os_error(failure.errno).kind() == io::ErrorKind::NotFound;
        match paths.get(failure.path) {
            Some(path) if !not_found => path.as_bytes().to_vec(),
            _ => self.request.spec.program.clone(),
        }
    }

    /// A cgroup that could not be entered is a boundary that cannot be had here.
    fn refusal(&self, stage: Stage, errno: i32, what: Vec<u8>) -> Refusal {
        let boundary = self.held.boundary();
        if stage == Stage::Cgroup && self.limits.entries().next().is_none() {
            let why = io::Error::from_raw_os_error(errno).to_string();
            let wanted = match self.request.boundary {
                Choice::Exactly(b) => b,
                Choice::Auto => self.request.require.unwrap_or(boundary),
            };
            return Refusal::Boundary { wanted, tried: vec![(boundary, why)] };
        }
        Refusal::Failed { stage, errno, what }
    }

    fn report_started(&mut self) {
        let Start::Executing { leader, .. } = &self.start else { return };
        let fds: Vec<BorrowedFd<'_>> = leader.pidfd.iter().map(AsFd::as_fd).collect();
        if let Some(cord) = &self.cord {
            let started = Report::Started { pid: leader.pid };
            let sent = message::send(cord.as_fd(), &started, &fds);
            if sent.is_err_and(|e| !message::says_gone(&e)) {
                // Too many descriptors are under way (`ETOOMANYREFS`, `unix(7)`), and the owner waits for this word. That it
                // is gone, the next wait sees.
                let _ = message::send(cord.as_fd(), &started, &[]);
            }
        }
    }

    /// Whether the job's process group may be signalled as a group: on boundary `group`.
    pub(super) fn pinned_group(&self) -> Option<u32> {
        let leads = self.leader_leads_its_group() && matches!(self.held, Held::Group);
        self.leader.filter(|pid| leads && *pid > 1 && *pid != process::own_pid())
    }
}
