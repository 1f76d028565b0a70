//! What a killed keeper has left: ended, looked for, and told.

use super::Warden;
use crate::hooks;
use crate::marked;
use killcord_model::boundary::Boundary;
use killcord_model::id::JobId;
use killcord_model::job::Sight;
use killcord_model::verdict::{Evidence, Verdict};
use killcord_model::warden::{Event, Orphans};
use std::collections::VecDeque;

impl Warden {
    /// One pass over what is left of a job: its leaf, and the orphans that have come to us.
    pub(super) fn end_what_is_left(&mut self, job: JobId, events: &mut VecDeque<Event>) {
        hooks::point("warden.ends_what_is_left");
        if let Some(leaf) = self.ward(job).and_then(|w| w.held.leaf()) {
            // Whether it worked is what the look says.
            let _ = leaf.kill();
        }
        // The dead cost the walks that follow as much as the living. A child that cannot be waited
        // for now is waited for later.
        let _ = self.reap(events);
        match self.decisions.orphans() {
            Orphans::OfTheLost => {
                let spared = self.spared();
                self.orphans.kill(&spared);
            }
            // Whether it worked is what the look says.
            Orphans::OfAnybody => _ = self.find_by_mark(job, true),
        }
    }

    /// What bears the name or the tag of a job, ended if that is wanted.
    fn find_by_mark(&self, job: JobId, kill: bool) -> Sight {
        let record = self.claim.as_ref().and_then(|claim| claim.recorded(job));
        match marked::find(job, record.as_ref(), kill) {
            Ok((found, _)) if found.count > 0 => Sight::Members,
            Ok((_, true)) => Sight::Empty,
            Ok(_) | Err(_) => Sight::Unknown,
        }
    }

    pub(super) fn look(&mut self, job: JobId) -> Sight {
        let Some(ward) = self.ward(job) else { return Sight::Empty };
        let in_leaf = ward.held.leaf().map(killcord_sys::cgroup::Leaf::populated);
        match (in_leaf, ward.held.boundary()) {
            (Some(Ok(true)), _) => Sight::Members,
            // The init was reaped, which the kernel allows only when its namespace is empty.
            (_, Boundary::Namespace) => Sight::Empty,
            // A cgroup that cannot be read; and whoever left a group is not found by it.
            (Some(Err(_)), _) | (_, Boundary::Group | Boundary::Uncontained) => Sight::Unknown,
            (_, Boundary::Tree | Boundary::Cgroup) => match self.decisions.orphans() {
                Orphans::OfTheLost => self.orphans.look(&self.spared()),
                Orphans::OfAnybody => self.find_by_mark(job, false),
            },
        }
    }

    pub(super) fn verdict(&mut self, job: JobId, sight: Sight) -> Verdict {
        let boundary = self.ward(job).map(|w| w.held.boundary());
        let by_mark = self.decisions.orphans() == Orphans::OfAnybody;
        match (sight, boundary) {
            // The keeper was the init, and is reaped.
            (_, Some(Boundary::Namespace)) => Verdict::Empty(Evidence::NamespaceReaped),
            (Sight::Empty, _) if by_mark => Verdict::Empty(Evidence::NobodyTagged),
            (Sight::Empty, Some(Boundary::Cgroup)) => Verdict::Empty(Evidence::Unpopulated),
            (Sight::Empty, _) => Verdict::Empty(Evidence::NoChildLeft),
            (Sight::Members, _) if by_mark => Verdict::Unconfirmed(
                "the keeper was killed; not everything that bears the job's name is gone".to_owned(),
            ),
            (Sight::Members, _) => Verdict::Survivors(self.orphans.name(&self.spared())),
            (Sight::Unknown, _) => Verdict::Unconfirmed("the keeper was killed".to_owned()),
        }
    }
}
