//! One half of the demo: a tree of processes, each held by a pidfd.

use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::pidfd::{self, Pidfd};
use killcord_sys::poll::{self, Interest};
use killcord_sys::proc::Proc;
use killcord_sys::signals::{self, SignalFd};
use killcord_sys::socket::{self, Received};
use killcord_sys::{clock, process};
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a tree may take to grow. It takes some hundredths of a second.
const GROW: Duration = Duration::from_secs(5);
/// How long those that got KILL may take to end.
const CLEAR: Duration = Duration::from_secs(2);
/// More members than a half can have.
const MOST: usize = 14;

/// The roles as they are shown.
const ORDER: [&str; 9] =
    ["owner", "killcord run", "warden", "keeper", "shell", "plain", "setsid", "daemon", "bare"];

/// Those of them that killcord made.
const GUARDS: [&str; 2] = ["warden", "keeper"];

/// Why the demo ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// A signal told it to.
    Signal(i32),
    /// Something could not be had.
    Failed(String),
}

impl Stop {
    fn failed(what: &str) -> impl Fn(io::Error) -> Self + '_ {
        move |e| Self::Failed(format!("failed to {what}: {e}"))
    }
}

/// One process of the tree.
#[derive(Debug)]
pub(super) struct Member {
    /// What it is in the play.
    pub(super) role: String,
    /// The name that `/proc` shows of it.
    pub(super) name: String,
    /// Its number as we see it, for display.
    pub(super) pid: u32,
    handle: Pidfd,
    /// When its end was seen, after the kill.
    pub(super) ended: Option<Duration>,
}

impl Member {
    fn new(role: &str, pid: u32, handle: Pidfd) -> Self {
        Self { role: role.to_owned(), name: role.to_owned(), pid, handle, ended: None }
    }
}

/// A tree, and the means to end it. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Half {
    root: Child,
    /// Our end of the socket that every member holds. Its end is theirs.
    line: Option<OwnedFd>,
    members: Vec<Member>,
    killed: Option<Duration>,
}

impl Half {
    /// Starts a tree and waits until each of these roles has appeared.
    pub(super) fn start(mut root: Command, roles: &[&str], signals: &SignalFd) -> Result<Self, Stop> {
        let (line, theirs) = socket::pair().map_err(Stop::failed("make a socket"))?;
        let (said, stderr) = socket::pipe_nonblocking().map_err(Stop::failed("make a pipe"))?;
        root.stdin(Stdio::null()).stdout(theirs).stderr(stderr);
        let child = root.spawn().map_err(Stop::failed("execute killcord itself"))?;
        // It holds copies of the descriptors.
        drop(root);
        // From here on whatever goes wrong ends what has been started.
        let mut half = Self { root: child, line: Some(line), members: Vec::new(), killed: None };
        // Our own unreaped child.
        let handle =
            Pidfd::open(half.root.id()).map_err(Stop::failed("open a pidfd, which the demo goes by"))?;
        let until = clock::now() + GROW;
        while !roles.iter().all(|role| half.members.iter().any(|m| m.role == *role)) {
            let left = until.checked_sub(clock::now());
            let left = left.ok_or_else(|| Stop::Failed("the tree did not grow in time".to_owned()))?;
            let line = half.line.as_ref().map(AsFd::as_fd);
            let [heard, ended, signal] = poll::wait(
                [
                    (line, Interest::Read),
                    (Some(handle.as_fd()), Interest::Read),
                    (Some(signals.as_fd()), Interest::Read),
                ],
                Some(left),
            )
            .map_err(Stop::failed("wait"))?;
            if signal {
                stop_for(signals)?;
            }
            if heard {
                half.hear()?;
            } else if ended {
                return Err(Stop::Failed(last_words(said.as_fd())));
            }
        }
        if half.member("owner").is_none() {
            let pid = half.root.id();
            half.members.push(Member::new("killcord run", pid, handle));
            half.add_guards();
        }
        half.settle();
        Ok(half)
    }

    /// A program says who it is, with a pidfd of itself.
    fn hear(&mut self) -> Result<(), Stop> {
        let Some(line) = &self.line else { return Ok(()) };
        match socket::receive(line.as_fd(), 64).map_err(Stop::failed("hear the tree"))? {
            Received::Message(role, fds) => {
                if let Some(fd) = fds.into_iter().next() {
                    let pid = pidfd::number(fd.as_fd()).unwrap_or(0);
                    self.members.push(Member::new(&String::from_utf8_lossy(&role), pid, fd.into()));
                }
                Ok(())
            }
            Received::Nothing => Ok(()),
            // The root has ended, or is about to; its last words say why.
            Received::Closed => {
                self.line = None;
                Ok(())
            }
        }
    }

    /// Takes in the warden and the keeper, found by name below `killcord run`.
    fn add_guards(&mut self) {
        let Ok(mut proc) = Proc::open() else { return };
        let mut parent = self.root.id();
        for role in ["warden", "keeper"] {
            let mut children = Vec::new();
            // Without lists of children the picture lacks the guards, and nothing else.
            let _ = proc.children(parent, 1, &mut children);
            let found = children.into_iter().find_map(|pid| {
                let handle = Pidfd::open(pid).ok()?;
                // Read behind the open handle: as long as that has not ended, the number is its own.
                let stat = proc.stat(pid).ok()?;
                let is_it = stat.parent == parent && stat.command() == format!("killcord-{role}");
                (is_it && !handle.has_ended().ok()?).then_some((pid, handle))
            });
            let Some((pid, handle)) = found else { return };
            self.members.push(Member::new(role, pid, handle));
            parent = pid;
        }
    }

    /// Puts everybody into the order of the play, whoever was the first to appear, and reads the names.
    fn settle(&mut self) {
        let rank = |role: &str| ORDER.iter().position(|r| *r == role);
        self.members.sort_by_key(|m| rank(&m.role));
        let Ok(mut proc) = Proc::open() else { return };
        for member in &mut self.members {
            if let Ok(stat) = proc.stat(member.pid) {
                member.name = stat.command();
            }
        }
    }

    /// All of the tree.
    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    fn member(&self, role: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.role == role)
    }

    /// Kills one, and begins to count the time. Returns its number.
    pub(super) fn kill(&mut self, role: &str) -> Result<u32, Stop> {
        let Some(member) = self.member(role) else { return Err(Stop::Failed(format!("there is no {role}"))) };
        let pid = member.pid;
        let now = clock::now();
        member.handle.signal(signals::SIGKILL).map_err(Stop::failed("kill the owner"))?;
        self.killed = Some(now);
        Ok(pid)
    }

    /// Waits, and notes who ends when; until all have ended, if that is what is waited for.
    pub(super) fn watch(&mut self, limit: Duration, signals: &SignalFd, for_all: bool) -> Result<(), Stop> {
        let until = clock::now() + limit;
        loop {
            let left = until.saturating_sub(clock::now());
            let awaited: Vec<BorrowedFd<'_>> =
                self.members.iter().filter(|m| m.ended.is_none()).map(|m| m.handle.as_fd()).collect();
            if left.is_zero() || (for_all && awaited.is_empty()) {
                return Ok(());
            }
            let mut fds = [(None, Interest::Read); MOST + 1];
            fds[0].0 = Some(signals.as_fd());
            for (place, fd) in fds[1..].iter_mut().zip(awaited) {
                place.0 = Some(fd);
            }
            let ready = poll::wait(fds, Some(left)).map_err(Stop::failed("wait"))?;
            if ready[0] {
                stop_for(signals)?;
            }
            self.note_ends();
        }
    }

    fn note_ends(&mut self) {
        let since = clock::now().saturating_sub(self.killed.unwrap_or_else(clock::now));
        for member in self.members.iter_mut().filter(|m| m.ended.is_none()) {
            if member.handle.has_ended().unwrap_or(false) {
                member.ended = Some(since);
            }
        }
    }

    /// How many have not ended.
    pub(super) fn left(&self) -> usize {
        self.members.iter().filter(|m| m.ended.is_none()).count()
    }

    /// When the last one ended, after the kill.
    pub(super) fn last_end(&self) -> Duration {
        self.members.iter().filter_map(|m| m.ended).max().unwrap_or_default()
    }

    /// Ends what is left, and says how long that took; nothing when some are still there.
    pub(super) fn clear(&mut self) -> Option<Duration> {
        let begun = clock::now();
        // Guards end by themselves when their owner has: killed with it, they could not tidy up.
        let left = self.members.iter().filter(|m| m.ended.is_none() && !GUARDS.contains(&m.role.as_str()));
        for member in left {
            // The only failure is that it is gone.
            let _ = member.handle.signal(signals::SIGKILL);
        }
        // What is about to appear, if the tree has not grown yet, ends with the line.
        self.line = None;
        // Our own unreaped child; when it has ended, nothing happens.
        let _ = self.root.kill();
        let all_gone = self.members.iter().all(|m| {
            let left = (begun + CLEAR).saturating_sub(clock::now());
            m.handle.wait_ended(Some(left)).unwrap_or(false)
        });
        let took = clock::now().saturating_sub(begun);
        let _ = self.root.wait();
        all_gone.then_some(took)
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The parent of a process as `/proc` has it.
pub(super) fn parent_of(proc: Option<&mut Proc>, pid: u32) -> Option<u32> {
    proc.and_then(|p| p.stat(pid).ok()).map(|s| s.parent)
}

fn stop_for(signals: &SignalFd) -> Result<(), Stop> {
    match signals.read() {
        Ok(Some(arrived)) => Err(Stop::Signal(arrived.signal)),
        Ok(None) => Ok(()),
        Err(e) => Err(Stop::failed("read a signal")(e)),
    }
}

/// What a tree that ended before it had grown said on stderr.
fn last_words(said: BorrowedFd<'_>) -> String {
    let mut buffer = [0; 1024];
    let text = match socket::read_some(said, &mut buffer) {
        Ok(Some(bytes)) => String::from_utf8_lossy(bytes).trim().to_owned(),
        Ok(None) | Err(_) => String::new(),
    };
    match text.lines().next() {
        Some(line) => line.trim_start_matches("killcord: ").to_owned(),
        None => format!("the tree of {} ended before it had grown", process::own_pid()),
    }
}
