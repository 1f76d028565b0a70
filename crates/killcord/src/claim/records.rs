//! The jobs of a claim, as their guards write them down: before their program can run, until they were seen empty.

use super::{Claim, TMP};
use crate::hooks;
use killcord_model::id::JobId;
use killcord_model::record::{self, Job};
use killcord_sys::files;
use killcord_sys::os::{AsFd, OwnedFd};
use killcord_sys::remove::{self, Removed};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

impl Claim {
    /// Writes down a job, or how it stands now. The first record is written beside its name and renamed; what follows
    /// is written over it, since nobody acts upon a record while one who could write it lives.
    pub(crate) fn record(&self, job: JobId, what: &Job) -> io::Result<()> {
        let text = record::encode(what).map_err(io::Error::other)?;
        let name = job.to_string();
        match what.state {
            record::State::Reserved => {
                files::write_whole_at(self.jobs.as_fd(), format!(".{name}").as_ref(), name.as_ref(), &text)?;
            }
            record::State::Started | record::State::Released => {
                files::overwrite_at(self.jobs.as_fd(), name.as_ref(), &text)?;
            }
        }
        hooks::point(match what.state {
            record::State::Reserved => "job.reserved",
            record::State::Started => "job.recorded",
            record::State::Released => "job.released",
        });
        Ok(())
    }

    /// What stands about a job, as this process's own claim has it.
    pub(crate) fn recorded(&self, job: JobId) -> Option<Job> {
        let text = files::read_own_at(self.jobs.as_fd(), job.to_string().as_ref(), record::LARGEST).ok()?;
        record::decode(&text).ok()
    }

    /// Whether a job was let go, by the last word of its keeper, which is dead or has nothing more to say.
    pub(crate) fn was_let_go(&self, job: JobId) -> bool {
        self.recorded(job).is_some_and(|record| record.state == record::State::Released)
    }

    /// Strikes out a job, which has been seen empty or never ran.
    pub(crate) fn forget(&self, job: JobId) -> io::Result<()> {
        files::unlink_at(self.jobs.as_fd(), job.to_string().as_ref())?;
        hooks::point("job.forgotten");
        Ok(())
    }

    /// Makes the job's own temporary directory: where it is, and a hold on it. As long as somebody has that, removing
    /// the directory takes away its names and what is in it; giving its block back, for which a file system may wait for
    /// its disk, comes with the end of the hold.
    pub(crate) fn make_temporary(&self, job: JobId) -> io::Result<(PathBuf, Option<OwnedFd>)> {
        let name = job.directory_name();
        files::make_directory_at(self.tmp.as_fd(), name.as_ref())?;
        hooks::point("job.directory");
        let hold = files::open_directory_at(self.tmp.as_fd(), name.as_ref()).ok();
        Ok((self.path.join(TMP).join(name), hold))
    }

    /// Strikes out a job and removes its temporary directory, as far as it comes before `until`. In this order: a
    /// directory without a record goes with the claim, a record without its directory would wait for proof.
    pub(crate) fn clear(&self, job: JobId, until: Option<Duration>) -> io::Result<Removed> {
        match self.forget(job) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            forgotten => forgotten?,
        }
        let removed = match remove::tree(self.tmp.as_fd(), job.directory_name().as_ref(), until) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Removed { entries: 0, complete: true },
            removed => removed?,
        };
        hooks::point("job.cleared");
        Ok(removed)
    }
}
