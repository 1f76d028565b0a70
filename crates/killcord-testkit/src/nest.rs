//! A program of which it is seen whether anything is left, whoever is in it and whatever it did to get away.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::binaries::bin;
use crate::killcord::{Corner, like};
use crate::procs::{self, PinnedProcess};
use crate::running::Running;

/// The program, started by a `kc-nest`, which ends when no descendant of it is left.
///
/// Dropping it ends the nest and, by its pidfd, the program.
#[derive(Debug)]
pub struct Nest {
    nest: Running,
    /// The program itself (`killcord run`, say), which the nest has started.
    pub program: PinnedProcess,
}

/// How all of a program ended.
#[derive(Debug, Clone)]
pub struct Emptied {
    /// The program's own status as a shell shows it.
    pub code: i32,
    /// All that was written to stdout, by whoever held it.
    pub stdout: String,
    /// The same of stderr.
    pub stderr: String,
}

impl Emptied {
    /// The lines that killcord itself wrote.
    pub fn messages(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.starts_with("killcord: ")).collect()
    }
}

impl Nest {
    /// Starts what the command describes inside a nest, and comes back as soon as the program's process is there.
    ///
    /// It may not have executed the program yet. Panics where it cannot be started.
    pub fn start(command: &Command) -> Self {
        Self::start_in(&Corner::nowhere(), command)
    }

    /// The same, with the nest and all that comes from it inside a cgroup of the test's own.
    pub fn start_in(corner: &Corner, command: &Command) -> Self {
        let mut outer = Command::new(bin("kc-nest"));
        outer.arg(command.get_program()).args(command.get_args());
        like(&mut outer, command);
        let mut nest = Running::start(&mut corner.wrap(&outer));
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let first = procs::children(nest.pid()).into_iter().next();
            if let Some(program) = first.and_then(|pid| PinnedProcess::open(pid, |s| s.parent == nest.pid()))
            {
                return Self { nest, program };
            }
            let may_come = nest.wait(Duration::ZERO).is_none() && Instant::now() < deadline;
            assert!(may_come, "{command:?} ended before it was seen, or did not start: {:?}", nest.stderr);
            std::thread::yield_now();
        }
    }

    /// The nest as a program that runs, with the output of all that is in it.
    pub fn running(&mut self) -> &mut Running {
        &mut self.nest
    }

    /// Whether nothing is left by now.
    pub fn is_empty(&mut self) -> bool {
        self.nest.wait(Duration::ZERO).is_some()
    }

    /// Everything that is below the nest now: number, name, state. The nest's own zombies, which it is about to
    /// reap, are left out; others are not.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut above = vec![self.nest.pid()];
        while let Some(parent) = above.pop() {
            for stat in procs::children(parent).into_iter().filter_map(procs::stat) {
                if stat.is_dead() && parent == self.nest.pid() {
                    continue;
                }
                left.push(format!("{} {} {} (child of {})", stat.pid, stat.comm, stat.state, stat.parent));
                above.push(stat.pid);
            }
        }
        left
    }

    /// Waits until the kernel has said that no descendant is left (the nest ends) and that nobody holds the
    /// output (its end is read), or says who is left at the limit.
    pub fn wait_empty(&mut self, limit: Duration) -> Result<Emptied, String> {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        let ends = [self.nest.stdout.read_to_end(left()), self.nest.stderr.read_to_end(left())];
        let texts: Vec<String> =
            ends.iter().map(|end| end.as_ref().map_or_else(|e| e.text.clone(), Clone::clone)).collect();
        let Some(status) = self.nest.wait(left()) else {
            return Err(format!("after {limit:?} there are {:?}; output {texts:?}", self.left()));
        };
        for end in ends {
            end.map_err(|e| format!("no process is left, but somebody holds the output: {e}"))?;
        }
        let [stdout, stderr] = [texts[0].clone(), texts[1].clone()];
        Ok(Emptied { code: status.code().unwrap_or(-1), stdout, stderr })
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        // Usually it is gone, which is what was tested.
        let _ = self.program.kill(crate::Signal::KILL);
    }
}
