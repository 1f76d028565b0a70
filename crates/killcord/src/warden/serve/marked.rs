//! Orphans of a killed keeper that cannot be told by parentage: the caretaker of a released job was killed before, and
//! what was let go came to the warden as well.

use super::Warden;
use killcord_model::id::{JOB_VARIABLE, JobId};
use killcord_model::job::Sight;
use killcord_sys::mark::{self, Sign};

impl Warden {
    /// Looks for what carries the mark of this job and of no other: its audit session, which nothing can drop, or its
    /// name in the environment, which a program can. With `kill` it is ended first.
    pub(super) fn by_mark(&self, job: JobId, kill: bool) -> Sight {
        let Some(record) = self.claim.as_ref().and_then(|claim| claim.recorded(job)) else {
            return Sight::Unknown;
        };
        let assignment = format!("{JOB_VARIABLE}={job}");
        let not_before = record.keeper.map_or(0, |keeper| keeper.start);
        let sign = Sign { assignment: &assignment, tag: record.tag, not_before };
        match mark::find(&sign, kill) {
            Ok(found) if found.count > 0 => Sight::Members,
            Ok(found) if record.tag.is_some() && found.tags_read && !found.not_the_jobs_tag => Sight::Empty,
            Ok(_) | Err(_) => Sight::Unknown,
        }
    }
}
