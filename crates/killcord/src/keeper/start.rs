//! From the armed boundary to the running program.

use super::Keeper;
use crate::arm::Held;
use crate::link::Streams;
use crate::message;
use crate::numbers::{STAGES, of_signal};
use killcord_model::boundary::Choice;
use killcord_model::id::JOB_VARIABLE;
use killcord_model::job::Event;
use killcord_model::spec::{Request, Session};
use killcord_model::wire::{Refusal, Report, Stage};
use killcord_sys::leader::{self, Failure, Leader, Plan};
use killcord_sys::pidfd::Pidfd;
use killcord_sys::process;
use killcord_sys::socket;
use killcord_sys::tree::Tree;
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The descriptors that came with a request, in their order.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) cord: OwnedFd,
    directory: OwnedFd,
    standard: [OwnedFd; 3],
    extra: Vec<OwnedFd>,
}

impl Handed {
    /// For a job of a forked copy of the owner.
    pub(crate) fn new(cord: OwnedFd, streams: Streams) -> Self {
        let Streams { directory, standard, extra } = streams;
        Self { cord, directory, standard, extra }
    }

    /// Takes them apart; `None` when they are not as many as the request says.
    pub(crate) fn from_descriptors(fds: Vec<OwnedFd>, request: &Request) -> Option<Self> {
        let mut fds = fds.into_iter();
        let (cord, directory) = (fds.next()?, fds.next()?);
        let standard = [fds.next()?, fds.next()?, fds.next()?];
        let extra: Vec<OwnedFd> = fds.collect();
        let complete = extra.len() == request.spec.extra_fds.len();
        complete.then_some(Self { cord, directory, standard, extra })
    }

    /// All of them.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = [self.cord.as_fd(), self.directory.as_fd()];
        let standard = self.standard.iter().map(AsFd::as_fd);
        own.into_iter().chain(standard).chain(self.extra.iter().map(AsFd::as_fd))
    }
}

/// How far the start is.
#[derive(Debug)]
pub(super) enum Start {
    /// Nothing was started; these are the descriptors that the job gets.
    Waiting { directory: OwnedFd, standard: [OwnedFd; 3], extra: Vec<OwnedFd> },
    /// The leader is on its way to exec.
    Executing { leader: Leader, paths: Vec<CString> },
    /// It was executed, or not; either way that is known.
    Known,
}

impl Start {
    pub(super) fn new(handed: &Handed) -> io::Result<Self> {
        let [a, b, c] = &handed.standard;
        let extra = handed.extra.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        let standard = [a.try_clone()?, b.try_clone()?, c.try_clone()?];
        Ok(Self::Waiting { directory: handed.directory.try_clone()?, standard, extra })
    }

    /// What the job gets, as long as it does not have it.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = match self {
            Self::Waiting { directory, standard, extra } => Some((directory, standard, extra)),
            Self::Executing { .. } | Self::Known => None,
        };
        own.into_iter().flat_map(|(directory, standard, extra)| {
            [directory].into_iter().chain(standard).chain(extra).map(AsFd::as_fd)
        })
    }

    /// The pipe on which the leader reports a failure, while it may.
    pub(super) fn failure(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Executing { leader, .. } => Some(leader.failure.as_fd()),
            Self::Waiting { .. } | Self::Known => None,
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

fn not_started(stage: Stage, errno: i32, what: Vec<u8>) -> Event {
    Event::NotStarted(Refusal::Failed { stage, errno, what })
}

fn strings(all: &[killcord_model::spec::Bytes]) -> Result<Vec<CString>, std::ffi::NulError> {
    all.iter().map(|b| CString::new(b.0.clone())).collect()
}

impl Keeper<'_> {
    /// Tells the owner what holds the job, before anything runs.
    pub(super) fn report_armed(&mut self) {
        let armed = Report::Armed { boundary: self.held.boundary(), notes: self.seen.notes.clone() };
        let kill = self.held.leaf().and_then(killcord_sys::cgroup::Leaf::kill_file);
        // Where there are no pidfds, the owner cannot see the end of a namespace for itself.
        let init =
            matches!(self.held, Held::Namespace).then(|| Pidfd::open(process::own_pid()).ok()).flatten();
        let fds: Vec<BorrowedFd<'_>> = kill.into_iter().chain(init.as_ref().map(AsFd::as_fd)).collect();
        if let Some(cord) = &self.cord {
            // An owner that is gone is seen by the wait that follows.
            let _ = message::send(cord.as_fd(), &armed, &fds);
        }
    }

    /// Clones the leader into the boundary. Where the kernel does not let a process be born in a cgroup,
    /// the child enters it by itself before exec.
    pub(super) fn start_leader(&mut self, events: &mut VecDeque<Event>) {
        let Start::Waiting { directory, standard, extra } = std::mem::replace(&mut self.start, Start::Known)
        else {
            return;
        };
        let spec = &self.request.spec;
        let assignment = format!("{JOB_VARIABLE}={}", self.request.job);
        let mut env = spec.env.clone();
        env.retain(|v| !v.0.starts_with(format!("{JOB_VARIABLE}=").as_bytes()));
        env.push(killcord_model::spec::Bytes(assignment.into_bytes()));
        let texts =
            paths(&spec.program, &env).and_then(|paths| Ok((paths, strings(&spec.argv)?, strings(&env)?)));
        let Ok((paths, argv, env)) = texts else {
            events.push_back(not_started(Stage::Exec, 22, b"a text with a zero byte in it".to_vec()));
            return;
        };
        let standard = [standard[0].as_fd(), standard[1].as_fd(), standard[2].as_fd()];
        let numbers = spec.extra_fds.iter().map(|n| *n as i32);
        let under_init = matches!(self.held, Held::Namespace);
        let mut plan = Plan {
            paths,
            argv,
            env,
            standard,
            extra: extra.iter().map(AsFd::as_fd).zip(numbers).collect(),
            directory: directory.as_fd(),
            umask: spec.umask,
            rlimits: spec
                .rlimits
                .iter()
                .map(|r| (r.resource, r.soft.unwrap_or(u64::MAX), r.hard.unwrap_or(u64::MAX)))
                .collect(),
            nice: spec.nice,
            oom_score_adj: CString::new((self.oom_score_adj + spec.oom_score_adj).min(1000).to_string()).ok(),
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
        };
        let procs;
        let mut started = plan.start();
        if let (Err(_), Some(leaf)) = (&started, self.held.leaf()) {
            // A kernel before 5.7, or a filter that hides clone3: the child enters by itself.
            plan.born_in = None;
            if let Ok(file) = leaf.procs() {
                procs = file;
                plan.enter.push(procs.as_fd());
                started = plan.start();
            }
        }
        match started {
            Ok(leader) => {
                self.leader = Some(leader.pid);
                self.seen.started_at = Some(crate::numbers::now());
                self.start = Start::Executing { leader, paths: plan.paths };
                events.push_back(Event::Cloned);
                self.prepare_for_the_end();
            }
            Err(e) => {
                events.push_back(not_started(Stage::Leader, e.raw_os_error().unwrap_or(0), Vec::new()));
            }
        }
    }

    /// Opens and allocates what the end will need, while the leader is on its way to exec.
    fn prepare_for_the_end(&mut self) {
        match Tree::new() {
            Ok(tree) => self.tree = Some(tree),
            Err(e) => self.seen.note(format!("members cannot be listed: /proc: {e}")),
        }
    }

    /// Reads whether the program was executed: the pipe's end says so, a word on it says why not.
    pub(super) fn hear_leader(&mut self, events: &mut VecDeque<Event>) {
        let Start::Executing { leader, paths } = &self.start else { return };
        let mut buffer = [0u8; 16];
        let word = match socket::read_some(leader.failure.as_fd(), &mut buffer) {
            Ok(None) => return,
            Ok(Some(word)) => word,
            // A pipe that cannot be read says nothing against exec; the leader's end will be seen.
            Err(_) => &[],
        };
        if let Some(failure) = Failure::from_bytes(word) {
            let stage = Stage::from_number(failure.stage).unwrap_or(Stage::Exec);
            let what = match stage {
                Stage::Exec => self.failed_path(paths, failure),
                _ => Vec::new(),
            };
            let refusal = self.refusal_or_weaker(stage, failure.errno, what);
            events.push_back(Event::NotStarted(refusal));
        } else {
            self.seen.executed = true;
            self.report_started();
            events.push_back(Event::Executed);
        }
        self.start = Start::Known;
    }

    /// The path that exec failed on; the name as it was typed when it was not found anywhere.
    fn failed_path(&self, paths: &[CString], failure: Failure) -> Vec<u8> {
        const ENOENT: i32 = 2;
        match paths.get(failure.path) {
            Some(path) if failure.errno != ENOENT => path.as_bytes().to_vec(),
            _ => self.request.spec.program.clone(),
        }
    }

    /// A cgroup that could not be entered is a boundary that cannot be had here.
    fn refusal_or_weaker(&self, stage: Stage, errno: i32, what: Vec<u8>) -> Refusal {
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
            // An owner that is gone is seen by the next wait.
            let _ = message::send(cord.as_fd(), &Report::Started { pid: leader.pid }, &fds);
        }
    }

    /// Whether the job's process group may be signalled as a group: on boundary `group`.
    pub(super) fn pinned_group(&self) -> Option<u32> {
        let leads = self.leader_leads_its_group() && matches!(self.held, Held::Group);
        self.leader.filter(|pid| leads && *pid > 1 && *pid != process::own_pid())
    }
}
