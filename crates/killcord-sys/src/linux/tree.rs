//! All descendants of this process, which is their subreaper: listing, signalling and ending them.
//!
//! A direct child that has not been reaped is safe to signal by number. Every other process is signalled
//! only through a pidfd, after its start time and parentage were read again behind the open descriptor
//! and agree with what was seen in the walk (`pidfd_open(2)`). Where there are no pidfds only direct
//! children are signalled; the rest become direct children as their parents end.

use super::proc::{Proc, Stat};
use super::{child, pidfd::Pidfd, process};
pub use crate::contract::tree::Sent;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// More descendants than this are handled in further passes.
const MOST: usize = 1 << 16;

/// So often a signal to all looks for those that it has missed: once more finds who lost his parent
/// meanwhile, and once more whom the signal itself has orphaned. A job that forks all the time is never
/// reached whole by a signal, and KILL, which its sender repeats, must not wait for that.
const PASSES: u32 = 3;
/// No further pass begins after this: on a machine that a bomb has all of, one takes long enough.
const PASSES_TAKE: Duration = Duration::from_millis(20);

/// Walks over our descendants.
#[derive(Debug)]
pub struct Tree {
    proc: Proc,
    me: u32,
    my_session: u32,
    members: Vec<Stat>,
    numbers: Vec<u32>,
    /// Whom the signal that is being sent has reached: number and start.
    reached: Vec<(u32, u64)>,
}

impl Tree {
    /// Opens `/proc` and takes the memory that the walks need.
    ///
    /// # Errors
    /// When `/proc` is not mounted, or is another namespace's.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            proc: Proc::open()?,
            me: process::own_pid(),
            my_session: process::own_session(),
            members: Vec::with_capacity(4096),
            numbers: Vec::with_capacity(4096),
            reached: Vec::with_capacity(4096),
        })
    }

    /// Lists the living descendants, at most `limit` of them, parents before children. Subtrees of the
    /// processes in `spare` are left out.
    pub fn walk(&mut self, spare: &[u32], limit: usize) -> io::Result<&[Stat]> {
        if self.list_children(spare, limit)? {
            self.walk_down(spare, limit.min(MOST));
        } else {
            self.walk_whole_table(spare, limit)?;
        }
        Ok(&self.members)
    }

    /// Lists our own living children alone, at most `limit` of them. Says whether the kernel lists children at all
    /// (`CONFIG_PROC_CHILDREN`).
    fn list_children(&mut self, spare: &[u32], limit: usize) -> io::Result<bool> {
        self.members.clear();
        self.numbers.clear();
        match self.proc.children(self.me, 2, &mut self.numbers) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            listed => listed?,
        }
        self.take_up(self.me, spare, limit.min(MOST));
        Ok(true)
    }

    fn walk_down(&mut self, spare: &[u32], limit: usize) {
        let mut next = 0;
        while next < self.members.len() && self.members.len() < limit {
            let parent = self.members[next];
            next += 1;
            self.numbers.clear();
            // A process that is gone by now has handed its children to us: the next pass finds them.
            if self.proc.children(parent.pid, parent.threads, &mut self.numbers).is_ok() {
                self.take_up(parent.pid, spare, limit);
            }
        }
    }

    /// Takes the processes in `numbers` that really are children of `parent` and alive.
    fn take_up(&mut self, parent: u32, spare: &[u32], limit: usize) {
        for pid in &self.numbers {
            if self.members.len() >= limit {
                return;
            }
            if let Ok(stat) = self.proc.stat(*pid)
                // Its parent may have ended just now, and then it is our own child.
                && (stat.parent == parent || stat.parent == self.me)
                && !stat.is_dead()
                && !spare.contains(pid)
            {
                self.members.push(stat);
            }
        }
    }

    /// The same by reading the whole process table, for kernels without `CONFIG_PROC_CHILDREN`.
    fn walk_whole_table(&mut self, spare: &[u32], limit: usize) -> io::Result<()> {
        self.numbers.clear();
        self.proc.all(&mut self.numbers)?;
        let mut table: Vec<Stat> = Vec::with_capacity(self.numbers.len());
        for pid in &self.numbers {
            if let Ok(stat) = self.proc.stat(*pid)
                && !spare.contains(pid)
            {
                table.push(stat);
            }
        }
        self.members.extend(table.iter().filter(|s| s.parent == self.me && !s.is_dead()));
        let mut next = 0;
        while next < self.members.len() && self.members.len() < limit {
            let parent = self.members[next].pid;
            next += 1;
            self.members.extend(table.iter().filter(|s| s.parent == parent && !s.is_dead()));
        }
        Ok(())
    }

    /// Sends a signal to every living descendant but the subtrees of those in `spare`, once.
    ///
    /// A process whose parent ends while the tree is being walked comes to us behind the walk's back, and
    /// the signal itself makes parents end: passes go on until one finds nobody new.
    pub fn signal(&mut self, signal: i32, spare: &[u32]) -> io::Result<Sent> {
        let mut sent = Sent::default();
        self.reached.clear();
        let until = super::clock::now() + PASSES_TAKE;
        for pass in 0..PASSES {
            if pass > 0 && super::clock::now() >= until {
                break;
            }
            self.walk(spare, MOST)?;
            let reached = &self.reached;
            self.members.retain(|m| reached.binary_search(&(m.pid, m.start)).is_err());
            if self.members.is_empty() && pass > 0 {
                break;
            }
            let more = self.signal_members(signal);
            sent = Sent { reached: sent.reached + more.reached, denied: sent.denied + more.denied };
            self.reached.extend(self.members.iter().map(|m| (m.pid, m.start)));
            self.reached.sort_unstable();
        }
        Ok(sent)
    }

    /// Sends a signal to the members of the last walk.
    fn signal_members(&mut self, signal: i32) -> Sent {
        let mut sent = Sent::default();
        for i in 0..self.members.len() {
            let member = self.members[i];
            let answer = if member.parent == self.me {
                child::signal(member.pid, signal)
            } else {
                signal_stranger(&mut self.proc, member, self.me, signal)
            };
            match answer {
                Ok(()) => sent.reached += 1,
                Err(e) if e.raw_os_error() == Some(libc::EPERM) => sent.denied += 1,
                // Gone, changed, or out of reach until it is our own child.
                Err(_) => {}
            }
        }
        sent
    }

    /// Ends the groups of direct children at once. A signal to a group is atomic against fork, so that a
    /// bomb in one group ends here.
    ///
    /// A group is signalled only if its session is not ours: every member of a session that began below
    /// us is a descendant, while a group of our own session may have others in it (`setpgid(2)` lets a
    /// process join any group of its session).
    fn kill_groups(&mut self) {
        let mut done: [u32; 64] = [0; 64];
        let mut used = 0;
        for member in self.members.iter().filter(|m| m.parent == self.me) {
            let foreign = member.session == self.my_session || member.session == 0;
            if foreign || member.group <= 1 || done[..used].contains(&member.group) {
                continue;
            }
            // The group's number is pinned by the member, our unreaped child.
            let _ = child::signal_group(member.group, libc::SIGKILL);
            if used < done.len() {
                done[used] = member.group;
                used += 1;
            }
        }
    }

    /// One pass of KILL over everything. When the pass before left newcomers (`stop_first`), all are
    /// stopped until a pass finds nobody new, and only then killed: stopped processes keep their slots,
    /// so that a bomb at a limit cannot refill.
    pub fn kill(&mut self, stop_first: bool, spare: &[u32]) -> io::Result<Sent> {
        // The groups of our children die while the rest is being looked for; those of whoever comes to us by that
        // are found by the walk.
        if self.list_children(spare, MOST)? {
            self.kill_groups();
        }
        self.walk(spare, MOST)?;
        self.kill_groups();
        if stop_first {
            let mut known = 0;
            for _ in 0..16 {
                self.signal_members(libc::SIGSTOP);
                self.walk(spare, MOST)?;
                let now = self.members.iter().filter(|m| m.state != b'T').count();
                if now == 0 || now == known {
                    break;
                }
                known = now;
            }
        }
        Ok(self.signal_members(libc::SIGKILL))
    }

    /// Lists the living members of a process group, from the whole process table.
    pub fn group(&mut self, group: u32) -> io::Result<&[Stat]> {
        self.members.clear();
        self.numbers.clear();
        self.proc.all(&mut self.numbers)?;
        for pid in &self.numbers {
            if let Ok(stat) = self.proc.stat(*pid)
                && stat.group == group
                && !stat.is_dead()
            {
                self.members.push(stat);
            }
        }
        Ok(&self.members)
    }

    /// Reads `/proc` by way of the tree's own descriptor.
    pub fn proc(&mut self) -> &mut Proc {
        &mut self.proc
    }
}

impl AsFd for Tree {
    /// `/proc`, opened.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }
}

/// Signals a process that is not our child: open it, read again who it is, then signal what was opened.
/// Since the walk it may have become our own child, if its parent has ended.
fn signal_stranger(proc: &mut Proc, member: Stat, me: u32, signal: i32) -> io::Result<()> {
    let handle = Pidfd::open(member.pid)?;
    let again = proc.stat(member.pid)?;
    let same = again.start == member.start && (again.parent == member.parent || again.parent == me);
    if !same {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    handle.signal(signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_number_that_is_somebody_elses_by_now_is_not_signalled() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let (me, mut proc) = (process::own_pid(), Proc::open().unwrap());
        let seen = proc.stat(child.id()).unwrap();
        let mut refused = |member: Stat, me: u32| {
            let answer = signal_stranger(&mut proc, member, me, libc::SIGKILL);
            answer.is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH))
        };
        let as_seen = |start: u64, parent: u32| {
            let mut member = seen;
            (member.start, member.parent) = (start, parent);
            member
        };
        // As it was seen, the number was that of somebody who had started earlier, or was somebody else's child.
        assert!(refused(as_seen(seen.start - 1, me), me));
        assert!(refused(as_seen(seen.start - 1, 1), me));
        assert!(refused(as_seen(seen.start, 1), me + 1));
        assert_eq!(child.try_wait().unwrap(), None);
        // Its own parent, or ours by now: it is the one that was seen.
        signal_stranger(&mut proc, as_seen(seen.start, 1), me, libc::SIGKILL).unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()),
            Some(libc::SIGKILL)
        );
    }
}
