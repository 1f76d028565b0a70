//! What to start, and how: named after `std::process::Command` where it means the same.

use crate::error::{Error, Result};
use crate::job::{Ends, Job};
use crate::link::Streams;
use crate::numbers::new_job;
use crate::owner::Shared;
use crate::terminal::Terminal;
use crate::uncontained::Child;
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::spec::{
    Bytes, Leftovers, Limits, OOM_SCORE_ADJ, Policy, Request, ResourceLimit, Session, Spec,
};
use killcord_model::wire::Stage;
use killcord_sys::os::OsStrExt;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::{descriptors, pty, socket};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where one of a job's standard streams comes from or goes to.
#[derive(Debug)]
pub struct Stdio(Source);

#[derive(Debug)]
enum Source {
    Null,
    Inherit,
    Piped,
    Fd(OwnedFd),
}

impl Stdio {
    /// `/dev/null`: the default.
    pub fn null() -> Self {
        Self(Source::Null)
    }

    /// This process's own.
    pub fn inherit() -> Self {
        Self(Source::Inherit)
    }

    /// A pipe, whose other end the [`Job`] has.
    pub fn piped() -> Self {
        Self(Source::Piped)
    }
}

impl From<OwnedFd> for Stdio {
    fn from(fd: OwnedFd) -> Self {
        Self(Source::Fd(fd))
    }
}

impl From<std::fs::File> for Stdio {
    fn from(file: std::fs::File) -> Self {
        Self(Source::Fd(file.into()))
    }
}

/// A command to be started as a job.
#[derive(Debug)]
pub struct Command {
    shared: Arc<Shared>,
    program: OsString,
    args: Vec<OsString>,
    clear: bool,
    env: BTreeMap<OsString, Option<OsString>>,
    directory: Option<PathBuf>,
    standard: [Stdio; 3],
    extra: Vec<(u32, OwnedFd)>,
    terminal: Option<(u16, u16)>,
    inherit_temporary: bool,
    policy: Policy,
    limits: Limits,
    boundary: Choice,
    require: Option<Boundary>,
    umask: Option<u32>,
    nice: Option<i32>,
    oom_score_adj: i32,
    rlimits: Vec<ResourceLimit>,
}

impl Command {
    pub(crate) fn new(shared: Arc<Shared>, program: &OsStr) -> Self {
        let settings = &shared.settings;
        let policy = Policy { grace: settings.grace, ..Policy::default() };
        let (boundary, require) = (settings.boundary, settings.require);
        Self {
            program: program.to_owned(),
            args: Vec::new(),
            clear: false,
            env: BTreeMap::new(),
            directory: None,
            standard: [Stdio::null(), Stdio::null(), Stdio::null()],
            extra: Vec::new(),
            terminal: None,
            inherit_temporary: false,
            policy,
            limits: Limits::default(),
            boundary,
            require,
            umask: None,
            nice: None,
            oom_score_adj: OOM_SCORE_ADJ,
            rlimits: Vec::new(),
            shared,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of the job.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    /// Sets environment variables of the job.
    pub fn envs(
        &mut self,
        all: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Self {
        for (name, value) in all {
            self.env(name, value);
        }
        self
    }

    /// Removes an environment variable that the job would inherit.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(name.as_ref().to_owned(), None);
        self
    }

    /// Starts with an empty environment; what [`Command::env`] sets is added to it.
    pub fn env_clear(&mut self) -> &mut Self {
        self.clear = true;
        self.env.clear();
        self
    }

    /// The working directory; this process's own by default.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Standard input; null by default.
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.standard[0] = stdin.into();
        self
    }

    /// Standard output; null by default.
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.standard[1] = stdout.into();
        self
    }

    /// Standard error; null by default.
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.standard[2] = stderr.into();
        self
    }

    /// Gives the job this descriptor as number `number` (3 or more), beside its standard streams. Nothing
    /// else of this process is inherited.
    pub fn descriptor(&mut self, number: u32, fd: impl Into<OwnedFd>) -> &mut Self {
        self.extra.push((number, fd.into()));
        self
    }

    /// Runs the job on a pseudo-terminal of its own, of this size in characters: it is the job's
    /// controlling terminal and its three standard streams. The master is in [`Job::terminal`].
    pub fn on_terminal(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.terminal = Some((columns, rows));
        self
    }

    /// Leaves `TMPDIR` as it is. Otherwise the job has a temporary directory of its own, which goes with it, unless
    /// [`Command::env`] sets `TMPDIR`.
    pub fn inherit_temporary_directory(&mut self) -> &mut Self {
        self.inherit_temporary = true;
        self
    }

    /// Ends the job after this time. The keeper holds the clock: a wedged owner does not stop it.
    pub fn timeout(&mut self, timeout: Duration) -> &mut Self {
        self.policy.timeout = Some(timeout);
        self
    }

    /// The time between TERM and KILL when the job is ended.
    pub fn grace(&mut self, grace: Duration) -> &mut Self {
        self.policy.grace = grace;
        self
    }

    /// What happens to processes that are still there when the leader has exited.
    pub fn leftovers(&mut self, leftovers: Leftovers) -> &mut Self {
        self.policy.leftovers = leftovers;
        self
    }

    /// Limits on the whole job. One that cannot be enforced here is an error of the start.
    pub fn limits(&mut self, limits: Limits) -> &mut Self {
        self.limits = limits;
        self
    }

    /// What holds this job; the owner's choice by default.
    pub fn boundary(&mut self, choice: Choice) -> &mut Self {
        self.boundary = choice;
        self
    }

    /// Refuses a boundary weaker than this.
    pub fn require(&mut self, weakest: Boundary) -> &mut Self {
        self.require = Some(weakest);
        self
    }

    /// The file mode creation mask (`umask(2)`).
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        self.umask = Some(mask);
        self
    }

    /// The nice value (`setpriority(2)`).
    pub fn nice(&mut self, nice: i32) -> &mut Self {
        self.nice = Some(nice);
        self
    }

    /// What is added to the owner's `oom_score_adj`; 100 by default, so that the OOM killer prefers the
    /// job to its guards.
    pub fn oom_score_adj(&mut self, adj: i32) -> &mut Self {
        self.oom_score_adj = adj;
        self
    }

    /// A resource limit of the leader, inherited by its descendants (`setrlimit(2)`).
    pub fn resource_limit(&mut self, limit: ResourceLimit) -> &mut Self {
        self.rlimits.push(limit);
        self
    }

    /// Starts the job and waits until the program is executed.
    ///
    /// # Errors
    /// Every refusal says that nothing ran; [`Error::Unclear`] says that it may have.
    pub fn spawn(&mut self) -> Result<Job> {
        let (streams, ends) = self.streams()?;
        let request = self.request()?;
        match self.shared.start(&request, &streams)? {
            Some(cord) => {
                // Only the job holds its ends of the pipes now.
                drop(streams);
                Job::begin(cord, Arc::clone(&self.shared), ends, &request.spec.program)
            }
            None => Ok(Job::uncontained(Child::start(&request, streams)?, ends)),
        }
    }

    fn request(&self) -> Result<Request> {
        let job = new_job().map_err(Error::io("get random bytes for the job's name"))?;
        let argv = std::iter::once(&self.program).chain(&self.args);
        let argv: Vec<Bytes> = argv.map(|a| Bytes(a.as_bytes().to_vec())).collect();
        let env = self.environment();
        if argv.iter().chain(&env).any(|text| text.0.contains(&0)) {
            let why = "there is a zero byte in the program's name, an argument or the environment";
            return Err(Error::NotStarted {
                stage: Stage::Exec,
                path: self.program.clone().into(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidInput, why),
            });
        }
        Ok(Request {
            job,
            spec: Spec {
                umask: self.umask,
                rlimits: self.rlimits.clone(),
                nice: self.nice,
                oom_score_adj: self.oom_score_adj,
                session: if self.terminal.is_some() { Session::OwnTerminal } else { Session::Own },
                own_temporary_directory: !self.inherit_temporary && !self.sets("TMPDIR"),
                extra_fds: self.extra.iter().map(|(n, _)| *n).collect(),
                ..Spec::new(self.program.as_bytes().to_vec(), argv, env)
            },
            policy: self.policy,
            limits: self.limits,
            boundary: self.boundary,
            require: self.require,
            wait_for_go: false,
        })
    }

    fn sets(&self, variable: &str) -> bool {
        matches!(self.env.get(OsStr::new(variable)), Some(Some(_)))
    }

    /// What is inherited, as it stands there, but for what is set or taken away.
    fn environment(&self) -> Vec<Bytes> {
        let assignment = |n: &OsStr, v: &OsStr| Bytes([n.as_bytes(), b"=", v.as_bytes()].concat());
        let inherited = (!self.clear).then(std::env::vars_os).into_iter().flatten();
        let inherited = inherited.filter(|(name, _)| !self.env.contains_key(name));
        let set = self.env.iter().filter_map(|(name, value)| Some(assignment(name, value.as_ref()?)));
        inherited.map(|(name, value)| assignment(&name, &value)).chain(set).collect()
    }

    /// The descriptors for the job, and the ends that stay here.
    fn streams(&self) -> Result<(Streams, Ends)> {
        let directory = self.directory.clone().unwrap_or_else(|| PathBuf::from("."));
        let directory = open_directory(&directory)?;
        let mut ends = Ends::default();
        let standard = if let Some((columns, rows)) = self.terminal {
            let (master, slave) = pty::open(columns, rows).map_err(Error::io("open a pseudo-terminal"))?;
            ends.terminal = Some(Terminal::new(master));
            let copy = || slave.try_clone().map_err(Error::io("copy a descriptor"));
            [copy()?, copy()?, slave.try_clone().map_err(Error::io("copy a descriptor"))?]
        } else {
            let failed = Error::io("open the job's standard streams");
            let [a, b, c] = &self.standard;
            let (stdin, writer) = a.for_reading(std::io::stdin().as_fd()).map_err(&failed)?;
            let (stdout, out) = b.for_writing(std::io::stdout().as_fd()).map_err(&failed)?;
            let (stderr, err) = c.for_writing(std::io::stderr().as_fd()).map_err(&failed)?;
            ends.stdin = writer.map(Into::into);
            ends.stdout = out.map(Into::into);
            ends.stderr = err.map(Into::into);
            [stdin, stdout, stderr]
        };
        let copies = self.extra.iter().map(|(_, fd)| fd.try_clone()).collect::<std::io::Result<_>>();
        Ok((Streams { directory, standard, extra: copies.map_err(Error::io("copy a descriptor"))? }, ends))
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    let failed = |source| Error::NotStarted { stage: Stage::Directory, path: path.to_owned(), source };
    let text = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| failed(std::io::ErrorKind::InvalidInput.into()))?;
    descriptors::directory(&text).map_err(failed)
}

impl Stdio {
    /// The job's end of an input, and ours.
    fn for_reading(&self, own: BorrowedFd<'_>) -> std::io::Result<(OwnedFd, Option<OwnedFd>)> {
        match &self.0 {
            Source::Piped => socket::pipe().map(|(read, write)| (read, Some(write))),
            other => other.copy(own).map(|fd| (fd, None)),
        }
    }

    /// The job's end of an output, and ours.
    fn for_writing(&self, own: BorrowedFd<'_>) -> std::io::Result<(OwnedFd, Option<OwnedFd>)> {
        match &self.0 {
            Source::Piped => socket::pipe().map(|(read, write)| (write, Some(read))),
            other => other.copy(own).map(|fd| (fd, None)),
        }
    }
}

impl Source {
    fn copy(&self, own: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
        match self {
            Self::Null | Self::Piped => descriptors::null(),
            Self::Inherit => own.try_clone_to_owned(),
            Self::Fd(fd) => fd.try_clone(),
        }
    }
}
