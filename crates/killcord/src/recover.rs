//! When warden and keeper are both gone: the owner, if it is a subreaper, ends what came to it.

use crate::arm::GUARDS;
use crate::hooks;
use crate::keeper::members_of;
use crate::link::Grip;
use crate::marked;
use crate::numbers::now;
use killcord_model::boundary::Boundary;
use killcord_model::ladder::{KILL_AGAIN, LOOK};
use killcord_model::record;
use killcord_model::verdict::{Evidence, NAMED, Verdict};
use killcord_sys::cgroup::Own;
use killcord_sys::child::{self, Change, Wait};
use killcord_sys::os::AsFd;
use killcord_sys::poll::{self, Interest};
use killcord_sys::signals::SignalFd;
use killcord_sys::tree::Tree;
use std::time::Duration;

/// How long the last members of a killed job's cgroup may take to be gone from it.
const REMOVE_WITHIN: Duration = Duration::from_millis(500);

/// The children of this process, for telling those that were there before a job from those that come to
/// a subreaper later.
pub(crate) fn children() -> Vec<u32> {
    let mut all = Vec::new();
    if !child::any() {
        return all;
    }
    if let Ok(mut proc) = killcord_sys::proc::Proc::open() {
        // A list that cannot be read is empty: nothing will be ended on its account either, since the
        // same file says who is to be ended.
        let _ = proc.children(killcord_sys::process::own_pid(), 1, &mut all);
    }
    all
}

/// Ends the job's cgroup and every descendant of this process but the subtrees of `spare`, and looks
/// until none is left, for two seconds.
///
/// For a process that is a subreaper and whose only other children are in `spare`: whatever else is
/// below it came from the job. `signals` is where `SIGCHLD` arrives.
pub(crate) fn end_what_came_to_us(job: &Grip, spare: &[u32], signals: &SignalFd) -> Verdict {
    let mut tree = match Tree::new() {
        Ok(tree) => tree,
        Err(e) => return Verdict::Unconfirmed(format!("/proc: {e}")),
    };
    let end = now().after(LOOK);
    let mut round = 0;
    loop {
        hooks::point("owner.ends_what_came");
        // Whether it worked is what the walk says.
        let _ = job.kill_cgroup();
        round += 1;
        let _ = tree.kill(round > 2, spare);
        reap_all();
        match tree.walk(spare, usize::MAX) {
            Ok([]) => {
                hooks::point("owner.saw_it_empty");
                remove_cgroup(job);
                return Verdict::Empty(Evidence::NoChildLeft);
            }
            Ok(left) if now() >= end => return Verdict::Survivors(members_of(left, NAMED)),
            Ok(_) => {}
            Err(e) => return Verdict::Unconfirmed(format!("/proc: {e}")),
        }
        wait_for_child(signals, KILL_AGAIN);
    }
}

/// Reaps our children until none is left but those in `spare`, or the time is over. For the end of an
/// owner that is a subreaper: a keeper whose warden was faster is on its way out below us.
pub(crate) fn reap_until_alone(spare: &[u32], signals: &SignalFd, within: Duration) {
    let end = now().after(within);
    loop {
        match child::next() {
            Ok(Wait::Child(..)) => continue,
            Ok(Wait::NoChildren) | Err(_) => return,
            Ok(Wait::Nothing) => {}
        }
        let left = end.since(now());
        let alone = !spare.is_empty() && children().iter().all(|pid| spare.contains(pid));
        if alone || left.is_zero() {
            return;
        }
        wait_for_child(signals, left);
    }
}

/// Waits until a child may have changed, for as long as `within`. What is read here says no more than that.
fn wait_for_child(signals: &SignalFd, within: Duration) {
    let waited = poll::wait([(Some(signals.as_fd()), Interest::Read)], Some(within));
    if waited.is_ok_and(|[ready]| ready) {
        while matches!(signals.read(), Ok(Some(_))) {}
    }
}

/// Ends what can be told to be of this job by its tag or by the name in its environment, for an owner that is no
/// subreaper. Of a job without a tag, what has dropped its environment is not found: the verdict says so.
pub(crate) fn end_by_mark(job: &Grip, record: Option<&record::Job>) -> Verdict {
    // The cord ends before the init does: it is its pidfd that says that the kernel has ended the others.
    if job.boundary == Some(Boundary::Namespace) && job.init_ended(LOOK) == Some(true) {
        return Verdict::Empty(Evidence::NamespaceReaped);
    }
    let end = now().after(LOOK);
    let (mut clean, mut exact) = (0, true);
    while clean < 2 && now() < end {
        hooks::point("owner.ends_by_mark");
        // Whether it worked is what the next look says.
        let _ = job.kill_cgroup();
        // One that is just dying of its keeper's death has no environment any more.
        let leader_gone = job.kill_leader(KILL_AGAIN).unwrap_or(false);
        match marked::find(job.id, record, true) {
            Ok((found, is_proof)) => {
                exact &= is_proof;
                clean = if found.count == 0 && leader_gone { clean + 1 } else { 0 };
            }
            Err(e) => return Verdict::Unconfirmed(format!("/proc: {e}")),
        }
    }
    remove_cgroup(job);
    if exact && clean == 2 {
        return Verdict::Empty(Evidence::NobodyTagged);
    }
    Verdict::Unconfirmed("warden and keeper were killed; what carried the job's name was ended".to_owned())
}

/// Removes the job's cgroup, which its guards would have removed. They may not even have come to say that
/// there is one.
pub(crate) fn remove_cgroup(job: &Grip) {
    if job.boundary.is_some_and(|boundary| boundary != Boundary::Cgroup) {
        return;
    }
    let own = Own::find(None).and_then(|own| if own.path.ends_with(GUARDS) { own.parent() } else { Ok(own) });
    let Ok(own) = own else { return };
    let end = now().after(REMOVE_WITHIN);
    // The kernel removes no cgroup that has a member, and one that is just dying is one. What stays for that
    // reason in the end is what a sweep is for.
    while own.remove(&job.id.cgroup_name()).is_err() && now() < end {
        let _ = job.kill_cgroup();
        std::thread::sleep(KILL_AGAIN / 2);
    }
}

/// Reaps every child that has ended.
pub(crate) fn reap_all() -> Vec<(u32, Change)> {
    let mut ended = Vec::new();
    while let Ok(Wait::Child(pid, change)) = child::next() {
        if matches!(change, Change::Exited(_) | Change::Killed(_)) {
            ended.push((pid, change));
        }
    }
    ended
}
