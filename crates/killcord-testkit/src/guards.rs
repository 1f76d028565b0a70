//! The processes between a `killcord run` and its job, found from outside.

use std::time::{Duration, Instant};

use crate::procs::{self, PinnedProcess, Stat};

/// What was found below a `killcord run`, each held by a pidfd.
#[derive(Debug, Default)]
pub struct Guards {
    /// The direct child named `killcord-warden`.
    pub warden: Option<PinnedProcess>,
    /// Its child named `killcord-keeper`.
    pub keeper: Option<PinnedProcess>,
    /// The oldest child of the keeper (a keeper also adopts the job's orphans, which are younger).
    pub leader: Option<PinnedProcess>,
}

impl Guards {
    /// Looks until all three are found or the time is over, at least once, and returns what there is.
    ///
    /// In the middle of a start a guard may not have its name yet, and the leader may still be a copy of the
    /// keeper; a test of such moments takes what it gets.
    pub fn find(run_pid: u32, limit: Duration) -> Self {
        let deadline = Instant::now() + limit;
        loop {
            let found = Self::look(run_pid);
            if found.leader.is_some() || Instant::now() >= deadline {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn look(run_pid: u32) -> Self {
        let warden = child_where(run_pid, |child| child.comm == "killcord-warden");
        let keeper =
            warden.as_ref().and_then(|w| child_where(w.pid, |child| child.comm == "killcord-keeper"));
        let leader = keeper.as_ref().and_then(|k| child_where(k.pid, |_| true));
        Self { warden, keeper, leader }
    }
}

/// Pins the oldest child that answers the description.
fn child_where(parent: u32, is_it: impl Fn(&Stat) -> bool) -> Option<PinnedProcess> {
    let is_it = |child: &Stat| child.parent == parent && is_it(child);
    let mut found: Vec<Stat> =
        procs::children(parent).into_iter().filter_map(procs::stat).filter(|child| is_it(child)).collect();
    found.sort_by_key(|child| (child.start, child.pid));
    found.into_iter().find_map(|child| PinnedProcess::open(child.pid, is_it))
}
