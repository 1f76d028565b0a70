//! What this program is when a benchmark starts it: a tree of processes, an owner to be killed, a guard, a server.
//!
//! Every process lives at most 60 s by itself.

use crate::Result;
use crate::leaf::Leaf;
use killcord::{Boundary, Choice, Owner};
use killcord_sys::fixture::{Forked, alarm, exit_now, fork};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIFE: u32 = 60;

/// How the processes of a tree hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All are children of one.
    Wide,
    /// Each is the child of the one before it.
    Deep,
    /// Wide, and every tenth leads a session of its own.
    Setsid,
}

impl Shape {
    pub(crate) const ALL: [Self; 3] = [Self::Wide, Self::Deep, Self::Setsid];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Deep => "deep",
            Self::Setsid => "10% setsid",
        }
    }
}

/// Plays a role, if the arguments name one. Does not come back from it.
pub(crate) fn play() {
    let args: Vec<String> = std::env::args().collect();
    let [_, role, rest @ ..] = args.as_slice() else { return };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let played = match (role.as_str(), rest.as_slice()) {
        ("role:tree", [count, shape, ..]) => tree(count, shape),
        ("role:owner", [kind, count, killcord]) => owner(kind, count, Path::new(killcord)),
        ("role:jobs", [count, killcord, program]) => jobs(count, Path::new(killcord), program),
        ("role:guard", [program]) => guard(program),
        ("role:write", [bytes]) => write(bytes),
        ("role:mcp", []) => crate::peer::serve(),
        (other, _) if other.starts_with("role:") => Err(format!("no such role: {other}")),
        _ => return,
    };
    if let Err(why) = played {
        eprintln!("killcord-bench: {role}: {why}");
        exit_now(1);
    }
    exit_now(0)
}

/// Arguments for a tree; `mark` tells its processes from others in `/proc`.
pub(crate) fn tree_args(count: usize, shape: Shape, mark: &str) -> Vec<String> {
    vec!["role:tree".to_owned(), count.to_string(), shape.name().to_owned(), mark.to_owned()]
}

/// So many processes. Each says a byte on stdout when it is there, holds stderr, and ends when stdin does.
fn tree(count: &str, shape: &str) -> Result<()> {
    alarm(LIFE);
    let count: usize = count.parse().map_err(|e| format!("{count}: {e}"))?;
    let shape = Shape::ALL.into_iter().find(|s| s.name() == shape).ok_or("no such shape")?;
    let forked = || fork().map_err(|e| format!("fork: {e}"));
    for number in 1..count {
        match (shape, forked()?) {
            (Shape::Deep, Forked::Parent(_)) | (Shape::Wide, Forked::Child) => {
                alarm(LIFE);
                break;
            }
            (Shape::Setsid, Forked::Child) => {
                alarm(LIFE);
                if number % 10 == 0 {
                    rustix::process::setsid().map_err(|e| e.to_string())?;
                }
                break;
            }
            (Shape::Deep, Forked::Child) => alarm(LIFE),
            (Shape::Wide | Shape::Setsid, Forked::Parent(_)) => {}
        }
    }
    rustix::io::write(rustix::stdio::stdout(), b"!").map_err(|e| e.to_string())?;
    let mut byte = [0];
    // Nothing is ever written; a signal that was not meant for us interrupts nothing either.
    let _ = rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut byte));
    Ok(())
}

/// Takes stdin, stdout and stderr away from itself, for a tree alone.
fn take_streams() -> Result<[OwnedFd; 3]> {
    let copy = |fd: std::os::fd::BorrowedFd<'_>| {
        rustix::io::fcntl_dupfd_cloexec(fd, 10).map_err(|e| format!("dup: {e}"))
    };
    let streams =
        [copy(rustix::stdio::stdin())?, copy(rustix::stdio::stdout())?, copy(rustix::stdio::stderr())?];
    let null = File::options().read(true).write(true).open("/dev/null").map_err(|e| e.to_string())?;
    rustix::stdio::dup2_stdin(&null).map_err(|e| e.to_string())?;
    rustix::stdio::dup2_stdout(&null).map_err(|e| e.to_string())?;
    rustix::stdio::dup2_stderr(&null).map_err(|e| e.to_string())?;
    Ok(streams)
}

/// Starts a tree in one of the ways and waits to be killed.
fn owner(kind: &str, count: &str, killcord: &Path) -> Result<()> {
    alarm(LIFE);
    let count: usize = count.parse().map_err(|e| format!("{count}: {e}"))?;
    let [life, ready, done] = take_streams()?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let args = tree_args(count, Shape::Wide, "owner");
    match kind {
        "tree" | "cgroup" | "namespace" => {
            let boundary = match kind {
                "tree" => Boundary::Tree,
                "cgroup" => Boundary::Cgroup,
                _ => Boundary::Namespace,
            };
            let owner = Owner::builder().boundary(Choice::Exactly(boundary)).warden(killcord).build();
            let owner = owner.map_err(|e| e.to_string())?;
            let mut command = owner.command(own);
            command.args(args).stdin(life).stdout(ready).stderr(done);
            let job = command.spawn().map_err(|e| e.to_string())?;
            drop(command);
            rest(job)
        }
        "bwrap" => {
            let mut command = Command::new("bwrap");
            command.args(["--die-with-parent", "--unshare-pid", "--dev-bind", "/", "/"]).arg(own).args(args);
            command.stdin(life).stdout(ready).stderr(done);
            let child = command.spawn().map_err(|e| format!("bwrap: {e}"))?;
            drop(command);
            rest(child)
        }
        "bare" => {
            let leaf = Leaf::new("bare")?;
            let (alive, held) =
                rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| e.to_string())?;
            match fork().map_err(|e| e.to_string())? {
                Forked::Child => {
                    alarm(LIFE);
                    drop((held, life, ready, done));
                    let mut byte = [0];
                    let _ = rustix::io::retry_on_intr(|| rustix::io::read(alive.as_fd(), &mut byte));
                    leaf.kill()?;
                    // Whoever is in it is being killed, which the kernel tells by its file alone.
                    while leaf.populated()? {
                        std::thread::yield_now();
                    }
                    drop(leaf);
                    exit_now(0)
                }
                Forked::Parent(_) => {
                    let mut command = leaf.enter(&own, &args);
                    command.stdin(life).stdout(ready).stderr(done);
                    let child = command.spawn().map_err(|e| e.to_string())?;
                    drop((command, alive));
                    rest((child, held))
                }
            }
        }
        other => Err(format!("no such owner: {other}")),
    }
}

/// So many jobs one after another, on `tree`; says the warden's number.
fn jobs(count: &str, killcord: &Path, program: &str) -> Result<()> {
    alarm(LIFE);
    let count: usize = count.parse().map_err(|e| format!("{count}: {e}"))?;
    let owner = Owner::builder().boundary(Choice::Exactly(Boundary::Tree)).warden(killcord).build();
    let owner = owner.map_err(|e| e.to_string())?;
    let mut sleeper = owner.command("sleep").arg("50").spawn().map_err(|e| e.to_string())?;
    let keeper = sleeper.pid().and_then(crate::sections::memory::parent).ok_or("no keeper")?;
    println!("{}", crate::sections::memory::parent(keeper).ok_or("no warden")?);
    sleeper.end_now().and_then(|()| sleeper.wait()).map_err(|e| e.to_string())?;
    for _ in 0..count {
        let end = owner.command(program).spawn().and_then(|mut job| job.wait()).map_err(|e| e.to_string())?;
        if !end.success() {
            return Err(format!("{end:?}"));
        }
    }
    // The warden is over before we are, and has written down what it counted.
    drop((sleeper, owner));
    Ok(())
}

/// Holds something until we are killed.
fn rest<T>(held: T) -> ! {
    loop {
        std::thread::park();
        std::hint::black_box(&held);
    }
}

/// A guard as many programs have one: it runs one command in a group of its own, and looks in the table of processes
/// afterwards whether anybody of the group is left.
fn guard(program: &str) -> Result<()> {
    alarm(LIFE);
    let mut command = Command::new(program);
    let mut child = command.process_group(0).spawn().map_err(|e| format!("{program}: {e}"))?;
    let status = child.wait().map_err(|e| e.to_string())?;
    let table = Command::new("ps").args(["-A", "-o", "pgid="]).output().map_err(|e| format!("ps: {e}"))?;
    let group = child.id().to_string();
    let left = String::from_utf8_lossy(&table.stdout).lines().filter(|l| l.trim() == group).count();
    exit_now(if status.success() && left == 0 { 0 } else { 1 })
}

/// So many bytes on stdout, in lines of 80 columns.
fn write(bytes: &str) -> Result<()> {
    alarm(LIFE);
    let mut left: usize = bytes.parse().map_err(|e| format!("{bytes}: {e}"))?;
    let block: Vec<u8> =
        b"The quick brown fox jumps over the lazy dog, and does so again for seventy-nine.\n"
            .iter()
            .copied()
            .cycle()
            .take(64 << 10)
            .collect();
    let mut stdout = File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(|e| e.to_string())?);
    while left > 0 {
        let part = left.min(block.len());
        stdout.write_all(&block[..part]).map_err(|e| e.to_string())?;
        left -= part;
    }
    Ok(())
}

/// What a benchmark holds of a tree.
pub(crate) struct Held {
    ready: File,
    done: File,
    life: Option<OwnedFd>,
}

/// The other ends of it, for whoever starts the tree: stdin, stdout and stderr.
pub(crate) struct Streams {
    pub(crate) life: OwnedFd,
    pub(crate) ready: OwnedFd,
    pub(crate) done: OwnedFd,
}

impl Streams {
    pub(crate) fn give(self, command: &mut Command) {
        command.stdin(Stdio::from(self.life)).stdout(Stdio::from(self.ready)).stderr(Stdio::from(self.done));
    }
}

impl Held {
    pub(crate) fn new() -> Result<(Self, Streams)> {
        let pipe =
            || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| format!("pipe: {e}"));
        let ((life_read, life), (ready, ready_write), (done, done_write)) = (pipe()?, pipe()?, pipe()?);
        let held = Self { ready: ready.into(), done: done.into(), life: Some(life) };
        Ok((held, Streams { life: life_read, ready: ready_write, done: done_write }))
    }

    /// Starts a tree by a command and waits until all are there. One that does not come up is ended.
    pub(crate) fn up(mut command: Command, count: usize) -> Result<(Self, Child)> {
        let (mut held, streams) = Self::new()?;
        streams.give(&mut command);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
        // Its copies of the other ends would keep us waiting.
        drop(command);
        if let Err(why) = held.wait_ready(count) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(why);
        }
        Ok((held, child))
    }

    /// Waits until so many are there, not longer than they live, or until nobody can come any more.
    pub(crate) fn wait_ready(&mut self, count: usize) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(LIFE.into());
        let (mut said, mut there) = ([0; 4096], 0);
        while there < count {
            let most = said.len().min(count - there);
            let came =
                if readable(&self.ready, until) { (&self.ready).read(&mut said[..most]) } else { Ok(0) };
            match came {
                Ok(0) | Err(_) => return Err(format!("of {count} only {there} came up")),
                Ok(n) => there += n,
            }
        }
        Ok(())
    }

    /// Whether the last of them has ended, waited for so long: the kernel closes what the dead held.
    pub(crate) fn is_over_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut said = [0; 4096];
        while readable(&self.done, until) {
            match (&self.done).read(&mut said) {
                Ok(0) | Err(_) => return true,
                // What a tree says there is a failure of its own, and no end.
                Ok(n) => eprint!("{}", String::from_utf8_lossy(&said[..n])),
            }
        }
        false
    }

    /// Lets whoever is left go, and waits for it.
    pub(crate) fn let_go(&mut self) -> Result<()> {
        self.life = None;
        if self.is_over_within(Duration::from_secs(20)) { Ok(()) } else { Err("a tree stayed".to_owned()) }
    }
}

/// Whether a pipe has something to be read, or is at its end, before then.
fn readable(pipe: &File, until: Instant) -> bool {
    let mut one = [rustix::event::PollFd::new(pipe, rustix::event::PollFlags::IN)];
    let left = until.saturating_duration_since(Instant::now());
    let timeout = rustix::event::Timespec::try_from(left).ok();
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut one, timeout.as_ref())).is_ok_and(|ready| ready > 0)
}
