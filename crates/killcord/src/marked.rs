//! What bears the mark of a job: its audit session, which nothing can drop, or its name in the environment, which a
//! program can.

use killcord_model::id::JobId;
use killcord_model::record;
use killcord_sys::mark::{self, Found, Sign};
use std::io;

/// Looks for what bears the mark of a job, by its record where there is one; with `kill` it is ended. Says beside what
/// was found whether that nothing was is proof: there is a tag, and whoever has it was found.
///
/// # Errors
/// When `/proc` cannot be read.
pub(crate) fn find(job: JobId, record: Option<&record::Job>, kill: bool) -> io::Result<(Found, bool)> {
    let assignment = job.assignment();
    let tag = record.and_then(|record| record.tag);
    let not_before = record.and_then(|record| record.keeper).map_or(0, |keeper| keeper.start);
    let found = mark::find(&Sign { assignment: &assignment, tag, not_before }, kill)?;
    Ok((found, tag.is_some() && found.has_all_tagged()))
}
