//! From the keeper's clone to the program's exec.
//!
//! Everything is prepared before the clone. What the child does between clone and exec is in `leader/child.rs`. A
//! step that fails is written to a pipe that exec closes, as (stage, errno, index of the path), and the child
//! exits: it has executed nothing.

mod child;

use super::clone::copy_process;
use super::lend::Lent;
use super::oom;
pub use super::oom::raise_ahead;
pub use crate::contract::leader::{Failure, Leader, Plan, Session, Stages};
use child::Orders;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// Whether a child of this process can be in a cgroup, seen by one that enters it and exits: born there, or
/// through the `cgroup.procs` that is given.
///
/// # Errors
/// What the kernel says to whoever enters.
pub fn try_entering(dir: BorrowedFd<'_>, procs: BorrowedFd<'_>) -> io::Result<()> {
    use super::child::{Change, Wait};
    let enters_by_itself = || {
        let child = copy_process(0, None)?;
        if child.0 == 0 {
            super::process::exit_now(
                super::socket::write(procs, b"0")
                    .map_or_else(|e| e.raw_os_error().unwrap_or(libc::EIO), |()| 0),
            );
        }
        Ok::<_, io::Error>(child)
    };
    let (pid, _handle) = match copy_process(0, Some(dir)) {
        Ok((0, _)) => super::process::exit_now(0),
        born => born.or_else(|_| enters_by_itself())?,
    };
    match super::child::wait_for(pid as u32)? {
        Wait::Child(_, Change::Exited(errno)) if errno != 0 => Err(io::Error::from_raw_os_error(errno)),
        // Killed by somebody: it had no error to tell of.
        Wait::Child(..) | Wait::Nothing | Wait::NoChildren => Ok(()),
    }
}

/// Strings with the null-terminated list of pointers to them that exec wants.
#[derive(Debug)]
struct Strings {
    /// All of them, one after the other. The pointers lead here, so that it is never changed.
    _bytes: Vec<u8>,
    pointers: Vec<*const libc::c_char>,
}

impl Strings {
    fn new(all: &[CString]) -> Self {
        let bytes = all.iter().flat_map(CString::as_bytes_with_nul).copied().collect::<Vec<u8>>();
        let mut at = bytes.as_ptr();
        let mut pointers = Vec::with_capacity(all.len() + 1);
        for string in all {
            pointers.push(at.cast());
            at = at.wrapping_add(string.as_bytes_with_nul().len());
        }
        pointers.push(ptr::null());
        Self { _bytes: bytes, pointers }
    }
}

/// What a child in our memory keeps us from giving up, until it has executed or ended.
#[derive(Debug)]
pub struct Lending(Lent<Orders>);

impl Drop for Lending {
    fn drop(&mut self) {
        // Before that it would be the child's value as well.
        if self.0.has_left() {
            oom::lower();
        }
    }
}

impl Plan<'_> {
    /// Makes the child.
    ///
    /// # Errors
    /// Whatever clone says, and `EMFILE` when there is no room for the copies of the descriptors. Nothing
    /// has been executed then.
    pub fn start(&self) -> io::Result<Leader> {
        let (read, write) = super::socket::pipe()?;
        // A leader that is stopped before exec must not hold up the keeper that asks how far it is.
        super::descriptors::never_wait(read.as_fd())?;
        let mut copies = Vec::new();
        let lending = Lending(Lent::new(self.orders(&write, &mut copies)?)?);
        oom::raise(self.oom_score_adj);
        let what = lending.0.what().cast();
        let (pid, pidfd) = match lending.0.to_child(child::enter, self.born_in) {
            // Whoever does not let us share memory, or is no architecture on which we know how to, may still let
            // us be copied. If not, that is the answer.
            Err(_) => copy_process(0, self.born_in)?,
            made => made?,
        };
        if pid == 0 {
            child::enter(what);
        }
        Ok(Leader { pid: pid as u32, pidfd, failure: read, lending })
    }

    /// The plan in the form in which the child can use it. The descriptors are copied above every number that
    /// the job wants to have; the child has its own table of them, so that the copies can be closed here as
    /// soon as it is made.
    fn orders(&self, failure: &OwnedFd, copies: &mut Vec<OwnedFd>) -> io::Result<Orders> {
        let base = self.extra.iter().map(|(_, n)| n + 1).max().unwrap_or(3).max(3);
        let mut copy = |fd: BorrowedFd<'_>| {
            let copy = super::descriptors::copy_above(fd, base)?;
            let number = copy.as_raw_fd();
            copies.push(copy);
            Ok::<_, io::Error>(number)
        };
        let [a, b, c] = self.standard;
        let argv = Strings::new(&self.argv);
        let shell = [c"/bin/sh".as_ptr(), ptr::null()];
        Ok(Orders {
            shell_argv: shell.into_iter().chain(argv.pointers.iter().skip(1).copied()).collect(),
            argv,
            paths: Strings::new(&self.paths),
            env: Strings::new(&self.env),
            standard: [copy(a)?, copy(b)?, copy(c)?],
            extra: self.extra.iter().map(|(fd, n)| Ok((copy(*fd)?, *n))).collect::<io::Result<_>>()?,
            directory: copy(self.directory)?,
            enter: self.enter.iter().map(|fd| copy(*fd)).collect::<io::Result<_>>()?,
            failure: copy(failure.as_fd())?,
            keeper: super::process::own_pid(),
            umask: self.umask,
            rlimits: self.rlimits.clone(),
            nice: self.nice,
            session: self.session,
            ignored: self.ignored.clone(),
            all_default: super::signals::are_all_default(),
            under_init: self.under_init,
            stages: self.stages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::child::{Change, Wait, wait_for};
    use super::super::{descriptors, socket};
    use super::*;

    const STAGES: Stages = Stages {
        cgroup: 1,
        session: 2,
        terminal: 3,
        descriptors: 4,
        directory: 5,
        rlimits: 6,
        nice: 7,
        signals: 8,
        exec: 9,
        leader: 10,
    };

    /// Starts a shell with this script; the child first writes a byte to each descriptor in `enter`.
    fn start(paths: &[&std::ffi::CStr], script: &str, enter: Vec<BorrowedFd<'_>>) -> Leader {
        let (null, directory) = (descriptors::null().unwrap(), descriptors::directory(c"/").unwrap());
        let null = null.as_fd();
        let plan = Plan {
            paths: paths.iter().map(|p| (*p).to_owned()).collect(),
            argv: [c"sh", c"-c"]
                .map(ToOwned::to_owned)
                .into_iter()
                .chain([CString::new(script).unwrap()])
                .collect(),
            env: vec![c"PATH=/bin".to_owned()],
            standard: [null; 3],
            extra: Vec::new(),
            directory: directory.as_fd(),
            umask: None,
            rlimits: Vec::new(),
            nice: None,
            oom_score_adj: 100,
            session: Session::Own,
            enter,
            born_in: None,
            ignored: Vec::new(),
            under_init: false,
            stages: STAGES,
        };
        plan.start().unwrap()
    }

    fn word(leader: &Leader) -> Vec<u8> {
        let mut buffer = [0u8; 16];
        loop {
            super::super::poll::wait([(Some(leader.failure.as_fd()), crate::poll::Interest::Read)], None)
                .unwrap();
            if let Some(word) = socket::read_some(leader.failure.as_fd(), &mut buffer).unwrap() {
                return word.to_vec();
            }
        }
    }

    /// A pipe without room: who writes to it waits until it is read.
    fn full_pipe() -> (OwnedFd, OwnedFd) {
        let (read, write) = socket::pipe().unwrap();
        let probe = write.try_clone().unwrap();
        descriptors::never_wait(probe.as_fd()).unwrap();
        while socket::write(probe.as_fd(), &[0; 4096]).is_ok() {}
        let flags = rustix::fs::fcntl_getfl(&write).unwrap();
        rustix::fs::fcntl_setfl(&write, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        (read, write)
    }

    #[test]
    fn what_a_child_before_exec_reads_is_not_taken_back() {
        let (read, write) = full_pipe();
        let leader = start(&[c"/bin/sh"], "exit 7", vec![write.as_fd()]);
        // We go on while it hangs, which a child that had to be waited for would not let us.
        assert!(!leader.lending.0.has_left());
        let (pid, failure) = (leader.pid, leader.failure.try_clone().unwrap());
        drop(leader);
        // Whoever gave the memory back would be given it again for these.
        let rubbish: Vec<Vec<u8>> = (0..2000).map(|i| vec![0xA5; 8 + i % 600]).collect();
        let mut sink = vec![0u8; 1 << 20];
        socket::read_some(read.as_fd(), &mut sink).unwrap();
        assert_eq!(wait_for(pid).unwrap(), Wait::Child(pid, Change::Exited(7)));
        assert_eq!(socket::read_some(failure.as_fd(), &mut sink).unwrap(), Some(&[][..]));
        drop(rubbish);
    }

    #[test]
    fn the_end_of_the_pipe_says_that_the_child_has_left() {
        let leader = start(&[c"/nowhere/sh", c"/bin/sh"], "sleep 5", Vec::new());
        assert!(word(&leader).is_empty());
        assert!(leader.lending.0.has_left());
        crate::child::signal(leader.pid, libc::SIGKILL).unwrap();
        wait_for(leader.pid).unwrap();
        let failed = start(&[c"/nowhere/sh"], "", Vec::new());
        let failure = Failure { stage: 9, errno: libc::ENOENT, path: 0 };
        assert_eq!(Failure::from_bytes(&word(&failed)), Some(failure));
        assert_eq!(wait_for(failed.pid).unwrap(), Wait::Child(failed.pid, Change::Exited(127)));
        assert!(failed.lending.0.has_left());
    }

    #[test]
    fn the_child_is_more_likely_to_be_ended_for_want_of_memory_and_we_are_not() {
        let score = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        let own: i32 = score("self").trim().parse().unwrap();
        let leader = start(&[c"/bin/sh"], "sleep 5", Vec::new());
        assert!(word(&leader).is_empty());
        let its: i32 = score(&leader.pid.to_string()).trim().parse().unwrap();
        assert_eq!(its, (own + 100).min(1000));
        let pid = leader.pid;
        drop(leader);
        assert_eq!(score("self").trim().parse::<i32>().unwrap(), own);
        crate::child::signal(pid, libc::SIGKILL).unwrap();
        wait_for(pid).unwrap();
    }
}
