//! An owner in a nest, on pipes or on a terminal, whose output is read and thrown away as it comes.

use killcord_testkit::procs::{self, PinnedProcess, Stat};
use killcord_testkit::{Corner, Signal, bin, like};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What is kept of an output: it has the words that are waited for.
const KEPT: usize = 64 * 1024;
/// Beyond it a flood is slowed down, so that reading it does not take all of a processor.
const FAST: u64 = 1024 * 1024;

/// What the owner has for its standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Io {
    Pipes,
    Terminal,
}

/// The owner and everything that comes from it. Dropping it ends what is left, by handles.
pub(crate) struct Den {
    nest: Child,
    /// Nothing when it was over before it could be held.
    held: Option<PinnedProcess>,
    /// The program in the nest; nothing when it was over before it could be held.
    pub(crate) program: Option<PinnedProcess>,
    /// Its standard output, or its terminal.
    pub(crate) output: Drain,
    errors: Option<Drain>,
    input: Option<Box<dyn Write + Send>>,
    /// When it was started.
    pub(crate) begun: Instant,
}

impl Den {
    pub(crate) fn start(corner: &Corner, command: &Command, io: Io) -> Self {
        let mut outer = Command::new(bin("kc-nest"));
        if io == Io::Terminal {
            outer.arg(bin("kc-ontty"));
        }
        outer.arg(command.get_program()).args(command.get_args());
        like(&mut outer, command);
        let mut outer = corner.wrap(&outer);
        let begun = Instant::now();
        let (nest, output, errors, input) = match io {
            Io::Pipes => on_pipes(&mut outer),
            Io::Terminal => on_terminal(&mut outer),
        };
        // Ours and unreaped, so the number is its own.
        let held = PinnedProcess::open(nest.id(), |_| true);
        let program = held.as_ref().and_then(|held| first_child(held, &nest));
        Self { nest, held, program, output, errors, input: Some(input), begun }
    }

    /// Writes to its standard input or types on its terminal; what is gone hears nothing.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(bytes);
        }
    }

    /// Closes its standard input.
    pub(crate) fn end_input(&mut self) {
        self.input = None;
    }

    /// The reader of its output goes: of a terminal, whoever holds its other side.
    pub(crate) fn vanish(&mut self) {
        self.input = None;
        self.output.quit();
    }

    /// Whether no process is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.as_ref().is_none_or(|held| !held.is_alive())
    }

    /// Waits until no process is left and nobody holds the output.
    pub(crate) fn wait_empty(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let left = || until.saturating_duration_since(Instant::now());
        self.held.as_ref().is_none_or(|held| held.wait_gone(left()))
            && [Some(&self.output), self.errors.as_ref()].into_iter().flatten().all(|d| d.wait_end(left()))
    }

    /// The exit status of the program, when nothing is left; 128 and n for signal n.
    pub(crate) fn code(&mut self) -> i32 {
        let status = self.nest.wait().unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }

    /// What killcord and its job wrote to standard error.
    pub(crate) fn errors(&self) -> String {
        self.errors.as_ref().map(Drain::text).unwrap_or_default()
    }

    /// Everything below the nest, but for zombies that it is about to reap.
    pub(crate) fn left(&self) -> Vec<Stat> {
        let nest = self.nest.id();
        if self.is_empty() {
            return Vec::new();
        }
        below(nest).into_iter().filter(|stat| !(stat.is_dead() && stat.parent == nest)).collect()
    }

    /// The children of the nest with this name: a library's warden is nobody's child, and a service's owner neither.
    pub(crate) fn children(&self, name: &str) -> Vec<PinnedProcess> {
        let nest = self.nest.id();
        let is_it = |stat: &Stat| stat.parent == nest && stat.comm == name;
        let children = procs::children(nest).into_iter();
        children.filter_map(|pid| PinnedProcess::open(pid, is_it)).collect()
    }

    /// Ends everything that is left, and says whether that worked.
    pub(crate) fn clear(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        while !self.is_empty() && Instant::now() < until {
            for stat in self.left() {
                let same = |found: &Stat| found.start == stat.start && found.parent == stat.parent;
                if let Some(process) = PinnedProcess::open(stat.pid, same) {
                    // It may have ended meanwhile, which is what is wanted.
                    let _ = process.kill(Signal::KILL);
                }
            }
            let _ = self.wait_empty(Duration::from_millis(20));
        }
        self.is_empty()
    }
}

impl Drop for Den {
    fn drop(&mut self) {
        self.clear();
        // Usually it has ended; a nest that cannot be emptied is not waited for.
        let _ = self.nest.kill();
        let _ = self.nest.wait();
    }
}

/// All descendants of a process.
pub(crate) fn below(pid: u32) -> Vec<Stat> {
    let (mut found, mut above) = (Vec::new(), vec![pid]);
    while let Some(parent) = above.pop() {
        for stat in procs::children(parent).into_iter().filter_map(procs::stat) {
            above.push(stat.pid);
            found.push(stat);
        }
    }
    found
}

/// The nest's own child. What else comes to a nest are guards, sweeps and owners of services, by those names, and then
/// its own child is over already.
fn first_child(nest: &PinnedProcess, own: &Child) -> Option<PinnedProcess> {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until && nest.is_alive() {
        let children = procs::children(own.id());
        let is_it = |stat: &Stat| stat.parent == own.id() && !stat.comm.starts_with("killcord-");
        if let Some(found) = children.iter().find_map(|pid| PinnedProcess::open(*pid, is_it)) {
            return Some(found);
        }
        if children.iter().filter_map(|pid| procs::comm(*pid)).any(|name| name.starts_with("killcord-")) {
            return None;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    None
}

type Started = (Child, Drain, Option<Drain>, Box<dyn Write + Send>);

fn on_pipes(command: &mut Command) -> Started {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut nest = command.spawn().unwrap();
    let (output, errors) = (nest.stdout.take().unwrap(), nest.stderr.take().unwrap());
    let input = Box::new(nest.stdin.take().unwrap());
    (nest, Drain::of(output.into()), Some(Drain::of(errors.into())), input)
}

fn on_terminal(command: &mut Command) -> Started {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    let flags = OpenptFlags::NOCTTY.bits() as i32;
    let slave = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name).unwrap();
    // Its user may be another one than ours.
    std::fs::set_permissions(name, Permissions::from_mode(0o666)).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    let nest = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    // The command keeps copies of the terminal's end, which would hide the end of the output.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let input = Box::new(File::from(master.try_clone().unwrap()));
    (nest, Drain::of(master), None, input)
}

#[derive(Default)]
struct Seen {
    text: Vec<u8>,
    total: u64,
    ended: bool,
}

/// Reads an output to its end in a thread of its own, or until it is told to go.
pub(crate) struct Drain {
    seen: Arc<(Mutex<Seen>, Condvar)>,
    quit: Option<PipeWriter>,
}

impl Drain {
    fn of(fd: OwnedFd) -> Self {
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let (told, quit) = std::io::pipe().unwrap();
        let theirs = seen.clone();
        std::thread::spawn(move || {
            read(&fd, &told.into(), &theirs);
            drop(fd);
            theirs.0.lock().unwrap().ended = true;
            theirs.1.notify_all();
        });
        Self { seen, quit: Some(quit) }
    }

    fn quit(&mut self) {
        self.quit = None;
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.0.lock().unwrap().text).into_owned()
    }

    /// Waits until the output has this word, or is at its end; false when neither came in time.
    pub(crate) fn wait_word(&self, word: &str, limit: Duration) -> bool {
        let has = |seen: &Seen| seen.text.windows(word.len()).any(|part| part == word.as_bytes());
        self.wait(limit, |seen| seen.ended || has(seen))
    }

    fn wait_end(&self, limit: Duration) -> bool {
        self.wait(limit, |seen| seen.ended)
    }

    fn wait(&self, limit: Duration, so: impl Fn(&Seen) -> bool) -> bool {
        let seen = self.seen.0.lock().unwrap();
        !self.seen.1.wait_timeout_while(seen, limit, |seen| !so(seen)).unwrap().1.timed_out()
    }
}

fn read(fd: &OwnedFd, quit: &OwnedFd, seen: &(Mutex<Seen>, Condvar)) {
    let mut buffer = vec![0; KEPT];
    loop {
        let mut both = [PollFd::new(fd, PollFlags::IN), PollFd::new(quit, PollFlags::IN)];
        if !matches!(poll(&mut both, None), Ok(_) | Err(Errno::INTR)) || !both[1].revents().is_empty() {
            return;
        }
        let fast = match rustix::io::read(fd, &mut buffer) {
            // A terminal says EIO when its last user is gone.
            Ok(0) | Err(Errno::IO) => return,
            Ok(n) => {
                let mut seen = seen.0.lock().unwrap();
                let room = KEPT.saturating_sub(seen.text.len()).min(n);
                seen.text.extend_from_slice(&buffer[..room]);
                seen.total += n as u64;
                seen.total < FAST
            }
            Err(_) => true,
        };
        seen.1.notify_all();
        if !fast {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
