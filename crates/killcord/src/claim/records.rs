//! The jobs of a claim, as their guards write them down: before their program can run, until they were seen empty.

use super::{Claim, TMP};
use crate::hooks;
use killcord_model::id::JobId;
use killcord_model::record::{self, Job};
use killcord_sys::files;
use killcord_sys::os::{AsFd, BorrowedFd, OwnedFd};
use killcord_sys::process;
use killcord_sys::remove::{self, Removed};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An empty file for the first record of the next job. To make a file takes longer than to write it.
#[derive(Debug)]
pub(crate) struct Form {
    file: OwnedFd,
    name: OsString,
}

/// A temporary directory that was made ahead of its job.
#[derive(Debug)]
pub(crate) struct Ready {
    name: OsString,
    hold: Option<OwnedFd>,
}

impl Ready {
    /// The descriptor that must stay open.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.hold.as_ref().map(AsFd::as_fd)
    }
}

impl Claim {
    /// Makes a form. One that is left goes with the claim.
    pub(crate) fn make_form(&self) -> io::Result<Form> {
        let name = OsString::from(format!(".form-{}", process::own_pid()));
        Ok(Form { file: files::make_file_at(self.dir(), &name)?, name })
    }

    /// The first record of a job, on a form if there is one.
    pub(crate) fn reserve(&self, job: JobId, what: &Job, form: Option<Form>) -> io::Result<()> {
        let Some(form) = form else { return self.record(job, what) };
        let (text, name) = (record::encode(what).map_err(io::Error::other)?, job.to_string());
        let to = (self.jobs.as_fd(), name.as_ref());
        if files::write_and_move(&form.file, &text, (self.dir(), &form.name), to).is_err() {
            // Half of a record must not stay; what is wrong with the disk, the usual way says.
            let _ = files::unlink_at(self.dir(), &form.name);
            return self.record(job, what);
        }
        hooks::point("job.reserved");
        Ok(())
    }

    /// Makes a directory that the next job may have. One that is left goes with the claim.
    pub(crate) fn make_ready(&self) -> io::Result<Ready> {
        let name = OsString::from(format!(".spare-{}", process::own_pid()));
        files::make_directory_at(self.tmp.as_fd(), &name)?;
        let hold = files::open_directory_at(self.tmp.as_fd(), &name).ok();
        Ok(Ready { name, hold })
    }

    /// Removes one that no job will have.
    pub(crate) fn give_back(&self, ready: &Ready) {
        // Else it goes with the claim.
        let _ = files::remove_directory_at(self.tmp.as_fd(), &ready.name);
    }

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
    pub(crate) fn make_temporary(
        &self,
        job: JobId,
        ready: Option<Ready>,
    ) -> io::Result<(PathBuf, Option<OwnedFd>)> {
        let (tmp, name) = (self.tmp.as_fd(), job.directory_name());
        let renamed = |ready: &Ready| files::rename_at(tmp, &ready.name, name.as_ref()).is_ok();
        let hold = if let Some(ready) = ready.filter(renamed) {
            ready.hold
        } else {
            files::make_directory_at(tmp, name.as_ref())?;
            files::open_directory_at(tmp, name.as_ref()).ok()
        };
        hooks::point("job.directory");
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
