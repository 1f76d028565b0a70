//! `killcord run`: one command, and its whole tree ends with it.

use crate::args::Run;
use crate::message::say;
use crate::report::{Report as EndReport, Sink};
use killcord::owner::{Heard, Job, Owner, Streams};
use killcord::recover;
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::id::JobId;
use killcord_model::ladder::{Ladder, Signal};
use killcord_model::spec::{Bytes, Limits, OOM_SCORE_ADJ, Policy, Request, Session, Spec};
use killcord_model::status::{self, ExitStatus};
use killcord_model::verdict::{Cause, End, Fate, Members, Usage, Verdict};
use killcord_model::wire::{FromWarden, Order, Refusal, Report, Stage};
use killcord_sys::pidfd::Pidfd;
use killcord_sys::poll::{self, Interest};
use killcord_sys::signals::{self, Arrived, SignalFd};
use killcord_sys::{clock, descriptors, process, terminal};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How long the warden has to finish when its job is over. It has nothing left to do then.
const WARDEN_HAS: Duration = Duration::from_secs(1);
/// How long the warden has to end what a killed keeper left: the look, and room to say so.
const WARDEN_ENDS: Duration = Duration::from_millis(2500);

/// The signals that are passed on or acted upon.
const TAKEN: [(i32, Option<Signal>); 9] = [
    (signals::SIGINT, Some(Signal::Int)),
    (signals::SIGTERM, Some(Signal::Term)),
    (signals::SIGHUP, Some(Signal::Hup)),
    (signals::SIGQUIT, Some(Signal::Quit)),
    (signals::SIGUSR1, Some(Signal::Usr1)),
    (signals::SIGUSR2, Some(Signal::Usr2)),
    (signals::SIGWINCH, Some(Signal::Winch)),
    (signals::SIGCONT, None),
    (signals::SIGCHLD, None),
];

/// The terminal's signals to stop. On a terminal we take them as well, and stop when the program has: a
/// shell that saw us stopped would take the terminal from a program that is still tidying it up.
const STOPPING: [i32; 3] = [signals::SIGTSTP, signals::SIGTTIN, signals::SIGTTOU];

/// Runs the command and returns what to exit with.
pub(crate) fn run(args: &Run) -> i32 {
    let program = args.command[0].to_string_lossy().into_owned();
    match Runner::start(args) {
        Ok(runner) => runner.follow(&program),
        Err(why) => {
            say(&why);
            status::FAILED
        }
    }
}

/// What to do about a signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Nothing,
    /// Give the leader this signal.
    Pass(Signal),
    /// End the job, beginning with this signal.
    End(Signal),
    /// End it at once.
    EndNow,
    /// The terminal is gone, and with it the owner.
    HungUp,
    /// Stop, as anybody would.
    Stop,
    /// We were stopped and go on.
    Continued,
    /// A child has ended.
    Child,
}

/// Decides about a signal. In a terminal the job shares our process group, so that the terminal's own
/// signals have reached it already.
fn action(arrived: Arrived, shared: bool, ending: bool, terminal_gone: bool) -> Action {
    let known = TAKEN.iter().find(|(number, _)| *number == arrived.signal);
    match known {
        None if STOPPING.contains(&arrived.signal) && !arrived.by_kernel => Action::Stop,
        Some((signals::SIGCHLD, _)) => Action::Child,
        Some((signals::SIGCONT, _)) => Action::Continued,
        Some((_, Some(Signal::Hup))) if terminal_gone => Action::HungUp,
        Some((_, Some(_))) if shared && arrived.by_kernel => Action::Nothing,
        Some((_, Some(Signal::Int | Signal::Term))) if ending => Action::EndNow,
        Some((_, Some(signal @ (Signal::Int | Signal::Term)))) => Action::End(*signal),
        Some((_, Some(signal))) => Action::Pass(*signal),
        Some((_, None)) | None => Action::Nothing,
    }
}

/// The variables that `--env-clean` keeps.
fn is_clean(name: &[u8]) -> bool {
    const KEPT: [&[u8]; 9] =
        [b"HOME", b"PATH", b"USER", b"LOGNAME", b"SHELL", b"TERM", b"TZ", b"LANG", b"LANGUAGE"];
    KEPT.contains(&name) || name.starts_with(b"LC_")
}

fn environment(clean: bool) -> Vec<Bytes> {
    std::env::vars_os()
        .filter(|(name, _)| !clean || is_clean(name.as_bytes()))
        .map(|(name, value)| Bytes([name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect()
}

/// `killcord run` while its job lives.
struct Runner {
    owner: Option<Owner>,
    job: Job,
    signals: SignalFd,
    parent: Option<Pidfd>,
    /// The group that we share with the job on a terminal.
    shared: Option<u32>,
    had_terminal: bool,
    grace: Duration,
    ending: bool,
    /// Our children from before the job: an exec keeps them.
    spare: Vec<u32>,
    sink: Option<Sink>,
    refusal: Option<Refusal>,
    exited: Option<ExitStatus>,
    started: Duration,
    timeout: Option<Duration>,
}

/// How the loop ended.
enum Outcome {
    Ended(Box<End>),
    /// The cord ended without a last report.
    KeeperLost,
}

impl Runner {
    fn start(args: &Run) -> Result<Self, String> {
        let sink = args
            .report
            .as_ref()
            .map(|path| {
                Sink::open(path).map_err(|e| format!("failed to open the report {}: {e}", path.display()))
            })
            .transpose()?;
        let directory = open_directory()?;
        let extra = args
            .pass_fd
            .iter()
            .map(|n| descriptors::borrow_number(*n as i32).map_err(|e| format!("--pass-fd {n}: {e}")))
            .collect::<Result<Vec<_>, _>>()?;
        let exactly_group = args.boundary.choice() == Choice::Exactly(Boundary::Group);
        let on_terminal = on_our_terminal() && !exactly_group;
        let standard = standard_streams(on_terminal).map_err(|e| format!("failed to open /dev/null: {e}"))?;
        let shared = on_terminal
            .then(group_on_terminal)
            .transpose()
            .map_err(|e| format!("failed to lead a process group on the terminal: {e}"))?;
        let parent = watched_parent(args, on_terminal)?;
        // Whatever came before the job stays as it is; the subreaper is the net under warden and keeper.
        let spare = recover::children();
        process::become_subreaper().map_err(|e| format!("failed to become a subreaper: {e}"))?;
        // Ignored, as it may have been inherited, the kernel would reap our children before we look.
        signals::reset(signals::SIGCHLD);
        let taken: Vec<i32> = TAKEN.iter().map(|(n, _)| *n).filter(|n| !signals::is_ignored(*n)).collect();
        // SIGTTOU being blocked, we can hand the terminal on from the background.
        let stopping = STOPPING.into_iter().filter(|_| shared.is_some());
        let set = signals::Set::of(&taken.into_iter().chain(stopping).collect::<Vec<_>>());
        let prepared = set.block_exactly().and_then(|()| SignalFd::new(&set));
        let signals = prepared.map_err(|e| format!("failed to prepare for signals: {e}"))?;
        let request = request(args, shared)?;
        let owner = Owner::fork(on_terminal).map_err(|e| e.to_string())?;
        let streams = Streams { directory, standard, extra };
        let job = owner.start(request, &streams).map_err(|e| e.to_string())?;
        Ok(Self {
            owner: Some(owner),
            job,
            signals,
            parent,
            shared,
            had_terminal: terminal::controlling().is_ok(),
            grace: args.grace,
            ending: false,
            spare,
            sink,
            refusal: None,
            exited: None,
            started: clock::now(),
            timeout: args.timeout,
        })
    }

    fn follow(mut self, program: &str) -> i32 {
        let end = match self.watch() {
            Ok(Outcome::Ended(end)) => *end,
            Ok(Outcome::KeeperLost) => self.recover(),
            Err(e) => {
                say(&format!("failed to wait for the job: {e}"));
                self.recover()
            }
        };
        self.take_terminal_back();
        if let Some(owner) = self.owner.take()
            && let Err(e) = owner.close(WARDEN_HAS)
        {
            say(&format!("failed to wait for the warden: {e}"));
        }
        self.conclude(program, end)
    }

    /// Waits for the last report.
    fn watch(&mut self) -> io::Result<Outcome> {
        loop {
            let [cord, control, signal, parent] = poll::wait(
                [
                    (Some(self.job.as_fd()), Interest::Read),
                    (self.owner.as_ref().map(AsFd::as_fd), Interest::Read),
                    (Some(self.signals.as_fd()), Interest::Read),
                    (self.parent.as_ref().map(AsFd::as_fd), Interest::Read),
                ],
                None,
            )?;
            if cord && let Some(outcome) = self.hear_keeper() {
                return Ok(outcome);
            }
            if control && let Some(outcome) = self.hear_warden() {
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
        }
    }

    fn hear_keeper(&mut self) -> Option<Outcome> {
        match self.job.hear() {
            Heard::Message(Report::Ended(end)) => return Some(Outcome::Ended(end)),
            Heard::Message(Report::NotStarted(refusal)) => self.refusal = Some(refusal),
            Heard::Message(Report::Exited(status)) => self.exited = Some(status),
            Heard::Message(Report::Stopped { .. }) => self.mirror_stop(),
            Heard::Message(Report::Armed { .. } | Report::Started { .. } | Report::Continued)
            | Heard::Nothing => {}
            Heard::Closed => return Some(Outcome::KeeperLost),
        }
        None
    }

    /// What the warden says before the keeper does: that there is none.
    fn hear_warden(&mut self) -> Option<Outcome> {
        match self.owner.as_ref().map(Owner::hear) {
            Some(Heard::Message(FromWarden::NotStarted { refusal, .. })) => {
                self.refusal = Some(refusal);
                let mut end = nothing_ran();
                end.boundary = self.job.boundary().unwrap_or(Boundary::Group);
                Some(Outcome::Ended(Box::new(end)))
            }
            Some(Heard::Message(FromWarden::KeeperLost { .. })) => Some(Outcome::KeeperLost),
            // The keeper sees that as well, ends the job, and says so on the cord.
            Some(Heard::Closed) => {
                self.owner = None;
                None
            }
            Some(Heard::Nothing) | None => None,
        }
    }

    fn order(&mut self, order: &Order) {
        self.ending |= matches!(order, Order::End(_));
        // A keeper that is gone is heard of on the cord.
        let _ = self.job.order(order);
    }

    fn act(&mut self, arrived: Arrived) {
        let terminal_gone = self.had_terminal && terminal::controlling().is_err();
        match action(arrived, self.shared.is_some(), self.ending, terminal_gone) {
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
        let warden = self.owner.as_ref().map(Owner::warden);
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
        let Some(pid) = self.job.leader() else { return true };
        let stat = killcord_sys::proc::Proc::open().and_then(|mut p| p.stat(pid));
        stat.is_ok_and(|s| s.state == b'T')
    }

    /// We go on: so does a leader that is still stopped, and in the foreground if we are.
    fn continue_job(&mut self) {
        if self.shared.is_some() && self.leader_is_stopped() {
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
    /// everything has come to us.
    fn recover(&mut self) -> End {
        // Whether it worked is what follows.
        let _ = self.job.kill_cgroup();
        let verdict = self
            .wait_for_warden()
            .unwrap_or_else(|| recover::end_what_came_to_us(&self.job, &self.spare, &self.signals));
        End {
            status: self.exited.or(Some(ExitStatus::Signal(signals::SIGKILL))),
            cause: Cause::KeeperGone,
            boundary: self.job.boundary().unwrap_or(Boundary::Group),
            verdict,
            duration: clock::now().saturating_sub(self.started),
            forced: Members::default(),
            leftovers: None,
            usage: Usage::default(),
            memory_kills: 0,
            members: 0,
            notes: self.job.notes().to_vec(),
        }
    }

    /// The warden's verdict about a lost keeper; `None` when the warden is gone too.
    fn wait_for_warden(&mut self) -> Option<Verdict> {
        let until = clock::now() + WARDEN_ENDS;
        loop {
            match self.owner.as_ref()?.hear() {
                Heard::Message(FromWarden::KeeperLost { verdict, .. }) => return Some(verdict),
                Heard::Message(FromWarden::NotStarted { refusal, .. }) => {
                    self.refusal = Some(refusal);
                    return Some(Verdict::Refused);
                }
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

    /// Says what there is to say, writes the report, and gives the exit status.
    fn conclude(self, program: &str, end: End) -> i32 {
        let job = self.job.id();
        let (code, report) = if let Some(refusal) = &self.refusal {
            let (code, text) = explain(refusal, program);
            say(&text);
            (code, EndReport::of_refusal(job, program, code, &text))
        } else {
            let code = exit_status(&end);
            for line in remarks(&end, program, self.timeout) {
                say(&line);
            }
            (code, EndReport::of_end(job, program, code, end))
        };
        if let Some(sink) = self.sink
            && let Err(e) = sink.write(&report)
        {
            say(&format!("failed to write the report: {e}"));
        }
        code
    }
}

fn nothing_ran() -> End {
    End {
        status: None,
        cause: Cause::LeaderExited,
        boundary: Boundary::Group,
        verdict: Verdict::Refused,
        duration: Duration::ZERO,
        forced: Members::default(),
        leftovers: None,
        usage: Usage::default(),
        memory_kills: 0,
        members: 0,
        notes: Vec::new(),
    }
}

/// Our working directory, for the job. It need not be readable to be somebody's place of work.
fn open_directory() -> Result<OwnedFd, String> {
    descriptors::directory(c".").map_err(|e| {
        let path = std::env::current_dir().map_or_else(|_| ".".to_owned(), |p| p.display().to_string());
        format!("failed to open the working directory {path}: {e}")
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
    let foreign = terminal::is_terminal(io::stdin()) && !on_terminal;
    let stdin = if foreign { descriptors::null()? } else { copy(io::stdin())? };
    Ok([stdin, copy(io::stdout())?, copy(io::stderr())?])
}

fn copy(stream: impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// The parent, if its end is ours. An init is not watched: it never goes.
fn watched_parent(args: &Run, on_terminal: bool) -> Result<Option<Pidfd>, String> {
    let by_default = !(on_terminal && terminal::started_by_job_control());
    let watch = args.watch_parent.unwrap_or(by_default);
    let Some(parent) = process::parent_pid().filter(|pid| watch && *pid > 1) else { return Ok(None) };
    match Pidfd::open(parent) {
        // If it had ended before the call, we have another parent now.
        Ok(handle) if process::parent_pid() == Some(parent) => Ok(Some(handle)),
        Ok(_) => Err("the parent is gone already".to_owned()),
        Err(e) if args.watch_parent == Some(true) => Err(format!("--watch-parent cannot be had here: {e}")),
        Err(_) => Ok(None),
    }
}

fn request(args: &Run, shared: Option<u32>) -> Result<Request, String> {
    let mut bytes = [0u8; 16];
    killcord_sys::random::fill(&mut bytes).map_err(|e| format!("no random bytes for the job's name: {e}"))?;
    let arguments = args.command.iter().map(|a| Bytes(OsStr::as_bytes(a).to_vec())).collect();
    // On a terminal the job is as it would be without us: what nohup or a script had ignored, it ignores.
    let keep =
        [(signals::SIGHUP, Signal::Hup), (signals::SIGINT, Signal::Int), (signals::SIGQUIT, Signal::Quit)];
    let ignored =
        keep.into_iter().filter(|(n, _)| shared.is_some() && signals::is_ignored(*n)).map(|(_, s)| s);
    Ok(Request {
        job: JobId::from_random(bytes),
        spec: Spec {
            program: args.command[0].as_bytes().to_vec(),
            argv: arguments,
            env: environment(args.env_clean),
            umask: None,
            rlimits: Vec::new(),
            nice: None,
            oom_score_adj: OOM_SCORE_ADJ,
            session: shared.map_or(Session::Own, |group| Session::Shared { group }),
            extra_fds: args.pass_fd.clone(),
            ignored: ignored.collect(),
        },
        policy: Policy { timeout: args.timeout, grace: args.grace, leftovers: args.leftovers.policy() },
        limits: Limits { memory: args.memory, pids: args.pids, cpu: args.cpu },
        boundary: args.boundary.choice(),
        require: args.require,
    })
}

fn exit_status(end: &End) -> i32 {
    match (end.cause, end.status) {
        (Cause::Timeout, _) => status::TIMED_OUT,
        (_, Some(status)) => status.as_shell(),
        (_, None) => status::GUARD_LOST,
    }
}

/// Why nothing ran, and with which status that is said.
fn explain(refusal: &Refusal, program: &str) -> (i32, String) {
    match refusal {
        Refusal::Failed { stage: Stage::Exec, errno, what } => {
            let path = String::from_utf8_lossy(what);
            let why = io::Error::from_raw_os_error(*errno);
            match why.kind() {
                io::ErrorKind::NotFound if program.is_empty() => {
                    (status::NOT_FOUND, "the program's name is empty: not found".to_owned())
                }
                io::ErrorKind::NotFound => (status::NOT_FOUND, format!("{program}: not found")),
                io::ErrorKind::ArgumentListTooLong => {
                    (status::FAILED, format!("{path}: arguments and environment are too large ({why})"))
                }
                _ => (status::NOT_EXECUTABLE, format!("failed to execute {path}: {why}")),
            }
        }
        Refusal::Failed { stage, errno, .. } => {
            let why = io::Error::from_raw_os_error(*errno);
            (status::FAILED, format!("failed to {} for {program}: {why}; nothing was started", stage.doing()))
        }
        Refusal::Boundary { wanted, tried } => {
            let tried: Vec<String> = tried.iter().map(|(b, why)| format!("{b}: {why}")).collect();
            let tried = if tried.is_empty() {
                "--boundary and --require contradict each other".to_owned()
            } else {
                tried.join("; ")
            };
            let text = format!(
                "no boundary as strong as {wanted} can be had here ({tried}); `killcord doctor` says what would help"
            );
            (status::FAILED, text)
        }
        Refusal::Limit { which, why } => {
            (status::FAILED, format!("--{which} cannot be enforced here: {why}; nothing was started"))
        }
    }
}

fn names(members: &Members) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> =
        members.named.iter().take(SHOWN).map(|m| format!("{} ({})", m.command, m.pid)).collect();
    let more = (members.count as usize).saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// One line for each thing that its user would want to know.
fn remarks(end: &End, program: &str, timeout: Option<Duration>) -> Vec<String> {
    let mut lines = Vec::new();
    if end.cause == Cause::Timeout {
        let after = timeout.map(|t| format!(" after {}s", t.as_secs_f64())).unwrap_or_default();
        lines.push(format!("{program}: its time was up{after}"));
    }
    match end.cause {
        Cause::WardenGone => lines.push(format!("{program}: the warden was killed, so the job was ended")),
        Cause::KeeperGone => lines.push(format!("{program}: its keeper was killed, so the job was ended")),
        Cause::LeaderExited | Cause::Timeout | Cause::Asked | Cause::OwnerGone => {}
    }
    if end.memory_kills > 0 {
        lines.push(format!("{program}: {} processes were killed by the memory limit", end.memory_kills));
    }
    if let Some((members, fate)) = &end.leftovers {
        match fate {
            Fate::Ended => lines.push(format!("{program}: left behind and ended: {}", names(members))),
            Fate::Released => lines.push(format!("{program}: left behind and let go: {}", names(members))),
            Fate::EndedByThemselves | Fate::Kept => {}
        }
    }
    match &end.verdict {
        Verdict::Survivors(members) if !matches!(end.leftovers, Some((_, Fate::Released))) => {
            lines.push(format!("{program}: could not be ended: {}", names(members)));
        }
        Verdict::Unconfirmed(why) => lines.push(format!("{program}: not known whether all is gone: {why}")),
        Verdict::Survivors(_) | Verdict::Empty(_) | Verdict::Refused => {}
    }
    if end.boundary == Boundary::Group {
        lines.push(format!("{program}: on boundary group, whoever left the process group was not ended"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(signal: i32, by_kernel: bool) -> Arrived {
        Arrived { signal, by_kernel, sender: 0 }
    }

    #[test]
    fn a_terminals_own_signals_are_not_passed_twice() {
        for signal in [signals::SIGINT, signals::SIGQUIT, signals::SIGWINCH] {
            assert_eq!(action(arrived(signal, true), true, false, false), Action::Nothing);
        }
        assert_eq!(action(arrived(signals::SIGINT, true), false, false, false), Action::End(Signal::Int));
        assert_eq!(
            action(arrived(signals::SIGWINCH, true), false, false, false),
            Action::Pass(Signal::Winch)
        );
    }

    #[test]
    fn a_second_int_or_term_shortens_the_ladder() {
        for signal in [signals::SIGINT, signals::SIGTERM] {
            assert_eq!(action(arrived(signal, false), true, true, false), Action::EndNow);
        }
        assert_eq!(action(arrived(signals::SIGHUP, false), true, true, false), Action::Pass(Signal::Hup));
    }

    #[test]
    fn a_hang_up_is_an_end_only_when_the_terminal_is_gone() {
        assert_eq!(action(arrived(signals::SIGHUP, false), false, false, false), Action::Pass(Signal::Hup));
        assert_eq!(action(arrived(signals::SIGHUP, true), true, false, true), Action::HungUp);
        assert_eq!(action(arrived(signals::SIGHUP, false), true, false, true), Action::HungUp);
    }

    #[test]
    fn only_the_listed_variables_are_clean() {
        assert!(is_clean(b"LC_ALL") && is_clean(b"PATH"));
        assert!(!is_clean(b"AWS_SECRET_ACCESS_KEY") && !is_clean(b"LD_PRELOAD") && !is_clean(b"PATHX"));
    }
}
