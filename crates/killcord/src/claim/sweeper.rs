//! Reclaiming what dead owners left, by proof.

mod background;

pub(crate) use background::{in_background, is_ours};

use super::make::discard;
use super::read::{Reading, claims, keeper};
use super::{JOBS, Root, TRASH, is_made, make, traces};
use crate::error::Error;
use crate::hooks;
use crate::numbers;
use crate::service;
use killcord_model::id::JobId;
use killcord_model::record::{Job, Place, State};
use killcord_model::sweep::{self, JobsProof, KeeperProof, LeaseProof, OwnerProof, Reason, Traces, Verdict};
use killcord_sys::os::{AsFd, OsStrExt};
use killcord_sys::{clock, files, remove};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So many claims and errors are described; all are counted.
const DESCRIBED: usize = 1000;

/// What a sweep is to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Changes nothing and ends nothing: says what would be done.
    pub dry_run: bool,
    /// How long it may take; what is left then is left to the next one.
    pub within: Option<Duration>,
}

/// What a sweep did, or would have done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many claims were removed, and how many removals that others had begun were finished.
    pub removed: u64,
    /// How many processes were ended that dead owners had left.
    pub ended: u64,
    /// How many claims were kept, and why.
    pub kept: BTreeMap<Reason, u64>,
    /// How many services' outputs and exits were removed that nobody had asked for in a day.
    pub services: u64,
    /// How many steps failed.
    pub failed: u64,
    /// The first of these, and what was unreadable, with the path of each.
    pub errors: Vec<String>,
    /// The first claims that went.
    pub gone: Vec<PathBuf>,
    /// The first claims that stay, and why.
    pub stays: Vec<(PathBuf, Reason)>,
    /// Whether it came to the end of the list.
    pub complete: bool,
}

/// How a job stands.
struct Standing {
    id: JobId,
    record: Job,
    proof: JobsProof,
    /// Whether nobody answers for it any more, and it was not let go.
    left: bool,
}

/// What is to be done with a claim.
enum Finding {
    Decided(Verdict),
    /// It stays, since something that must be read says nothing.
    Unreadable(String),
    /// It can go when what is left of these jobs is ended, as far as the others let it.
    Leftovers(Vec<Standing>, JobsProof),
}

struct Sweep<'a, F: FnMut(&Swept)> {
    root: &'a Root,
    /// The claim that this sweep is a guard of, if it is one: what its dead keepers left is for it to end.
    own: Option<&'a OsStr>,
    here: Place,
    options: Options,
    until: Option<Duration>,
    swept: Swept,
    /// The jobs of owners and guards that live but for what dead keepers left, and those that were let go and run:
    /// whatever another claim says of them, they are not touched.
    living: BTreeSet<JobId>,
    /// And what they are tagged with.
    living_tags: BTreeSet<u32>,
    progress: F,
}

/// Sweeps this user's state directory, or the named one: ends what is left of jobs whose owner and keeper are proven
/// dead and that were not let go, and removes the claims of dead owners without guards and running jobs. It goes on
/// after each error. After each claim `progress` is told how far it is.
///
/// # Errors
/// [`Error::State`] when the state directory is not this user's alone; nothing was touched then.
pub fn sweep(state: Option<&Path>, options: Options, progress: impl FnMut(&Swept)) -> crate::Result<Swept> {
    crate::error::supported()?;
    match Root::existing(state)? {
        Some(root) => Sweep::new(&root, None, options, progress).run(),
        None => Ok(Swept { complete: true, ..Swept::default() }),
    }
}

impl<'a, F: FnMut(&Swept)> Sweep<'a, F> {
    fn new(root: &'a Root, own: Option<&'a OsStr>, options: Options, progress: F) -> Self {
        let until = options.within.map(|within| clock::now() + within);
        let (living, living_tags) = (BTreeSet::new(), BTreeSet::new());
        let (here, swept) = (numbers::place(), Swept::default());
        Self { root, own, here, options, until, swept, living, living_tags, progress }
    }

    fn run(mut self) -> crate::Result<Swept> {
        let names = claims(self.root).map_err(Error::io("read the state directory"))?;
        let mut later = Vec::new();
        let mut complete = true;
        hooks::point("sweep.begins");
        for name in &names {
            if self.is_late() {
                complete = false;
                break;
            }
            self.claim(name, &mut later);
            (self.progress)(&self.swept);
        }
        // Only when all claims have been seen is it known which jobs are answered for.
        for name in later.iter().filter(|_| complete) {
            self.end_leftovers(name);
            (self.progress)(&self.swept);
        }
        hooks::point("sweep.finishes_removals");
        self.finish_removals();
        hooks::point("sweep.ends");
        if !self.options.dry_run {
            self.swept.services += service::expire(self.root, make::seconds());
        }
        self.swept.complete = complete && !self.is_late();
        Ok(self.swept)
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| clock::now() >= until)
    }

    fn claim(&mut self, name: &OsStr, later: &mut Vec<OsString>) {
        let reading = match Reading::of(self.root, name, &self.here) {
            Ok(reading) => reading,
            // Somebody else was faster.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return,
            Err(e) => return self.keep_unreadable(name, &e.to_string()),
        };
        if reading.is_bare() {
            return self.remove_bare(name);
        }
        match self.look(name, &reading) {
            Finding::Decided(Verdict::Remove) => self.remove(name, &reading),
            // What was read was just being removed by somebody else.
            _ if self.is_gone(name) => {}
            Finding::Decided(Verdict::Keep(reason)) => self.keep(name, reason),
            Finding::Unreadable(why) => self.keep_unreadable(name, &why),
            Finding::Leftovers(..) => later.push(name.to_owned()),
        }
    }

    fn is_gone(&self, name: &OsStr) -> bool {
        files::about_at(self.root.as_fd(), name).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    }

    /// Decides about a claim.
    fn look(&mut self, name: &OsStr, reading: &Reading) -> Finding {
        let (owner, lease) = (reading.owner, reading.lease());
        let mut standings = Vec::new();
        let mut all = JobsProof::Over;
        let mut unreadable = reading.unreadable();
        let answered_for = owner == OwnerProof::Alive || lease == LeaseProof::Held;
        let listed = reading.jobs().unwrap_or_else(|e| {
            all = JobsProof::Unknown;
            unreadable.get_or_insert(format!("{JOBS}: {e}"));
            Vec::new()
        });
        for (file, read) in listed {
            match read {
                Ok((id, record)) => {
                    let left = self.is_left(name, reading, &file, &record);
                    if answered_for && !left {
                        self.lives(id, &record);
                        continue;
                    }
                    let proof = self.standing(id, &record);
                    if record.state == State::Released && proof == JobsProof::Running {
                        self.lives(id, &record);
                    }
                    all = sweep::both(all, proof);
                    standings.push(Standing { id, record, proof, left });
                }
                // Struck out while we were reading.
                Err(_) if answered_for => {}
                Err(why) => {
                    all = sweep::both(all, JobsProof::Unknown);
                    unreadable.get_or_insert(format!("{JOBS}/{}: {why}", file.display()));
                }
            }
        }
        let to_end = |s: &Standing| s.proof == JobsProof::Running && s.left;
        let verdict = sweep::verdict(owner, lease, all);
        if standings.iter().any(to_end) {
            let (to_end, others): (Vec<_>, Vec<_>) = standings.into_iter().partition(to_end);
            let unread = if unreadable.is_some() { JobsProof::Unknown } else { JobsProof::Over };
            return Finding::Leftovers(to_end, others.iter().map(|s| s.proof).fold(unread, sweep::both));
        }
        if verdict == Verdict::Remove && !self.options.dry_run {
            for standing in &standings {
                traces::remove_cgroups(standing.id, &standing.record);
                hooks::point("sweep.removed_cgroups");
            }
        }
        match (verdict, unreadable) {
            (Verdict::Keep(Reason::Unknown), Some(why)) => Finding::Unreadable(why),
            (verdict, _) => Finding::Decided(verdict),
        }
    }

    /// Whether nobody answers for a job any more that was not let go.
    fn is_left(&self, name: &OsStr, reading: &Reading, file: &OsStr, record: &Job) -> bool {
        let (owner, lease) = (reading.owner, reading.lease());
        let ours = self.own == Some(name);
        let may = |record: &Job, keeper| {
            sweep::may_end(record, owner, lease, keeper)
                || (ours && sweep::has_lost_its_keeper(record, keeper))
        };
        // All guards are dead where the lease is free, and the record was read behind that.
        if may(record, KeeperProof::Unknown) {
            return true;
        }
        // The keeper may have let it go before it died, and behind what was read: what is read now is its last word.
        let proof = keeper(record, &self.here);
        may(record, proof)
            && reading.job_now(file).is_some_and(|now| now.keeper == record.keeper && may(&now, proof))
    }

    fn lives(&mut self, id: JobId, record: &Job) {
        self.living.insert(id);
        self.living_tags.extend(record.tag);
    }

    fn may_be_touched(&self, standing: &Standing) -> bool {
        let tagged = standing.record.tag.is_some_and(|tag| self.living_tags.contains(&tag));
        !tagged && !self.living.contains(&standing.id)
    }

    fn standing(&self, id: JobId, record: &Job) -> JobsProof {
        if let Some(known) = sweep::job_by_record(record, &self.here) {
            return known;
        }
        traces::look(id, record).map_or(JobsProof::Unknown, |seen| sweep::job(record, &self.here, seen))
    }

    /// What will be known of a job when nothing of it is found any more.
    fn once_ended(&self, record: &Job) -> JobsProof {
        let leaf_empty = record.leaf.is_some();
        sweep::job(record, &self.here, Traces { found: 0, leaf_empty, tags_read: true })
    }

    /// Ends what is left of a claim's jobs, and removes it if that was all.
    fn end_leftovers(&mut self, name: &OsStr) {
        // It was let go meanwhile: what was true of it may be so no more.
        let Ok(reading) = Reading::of(self.root, name, &self.here) else { return };
        match self.look(name, &reading) {
            Finding::Leftovers(standings, others) => {
                let (ended, stay): (Vec<_>, Vec<_>) =
                    standings.iter().partition(|standing| self.may_be_touched(standing));
                for standing in &ended {
                    self.end(name, standing);
                }
                if self.options.dry_run {
                    let others = if stay.is_empty() { others } else { JobsProof::Running };
                    let all = ended.iter().map(|s| self.once_ended(&s.record)).fold(others, sweep::both);
                    return match sweep::verdict(reading.owner, reading.lease(), all) {
                        Verdict::Remove => self.remove(name, &reading),
                        Verdict::Keep(reason) => self.keep(name, reason),
                    };
                }
            }
            Finding::Decided(_) | Finding::Unreadable(_) => {}
        }
        hooks::point("sweep.ended_jobs");
        match self.look(name, &reading) {
            Finding::Decided(Verdict::Remove) => self.remove(name, &reading),
            Finding::Decided(Verdict::Keep(reason)) => self.keep(name, reason),
            Finding::Unreadable(why) => self.keep_unreadable(name, &why),
            // Of a job that has left something, so that there is no proof of its end.
            Finding::Leftovers(..) => self.keep_running(name, &reading),
        }
    }

    fn end(&mut self, name: &OsStr, standing: &Standing) {
        if self.options.dry_run {
            self.swept.ended += traces::look(standing.id, &standing.record).map_or(0, |t| t.found as u64);
            return;
        }
        hooks::point("sweep.ends_job");
        match traces::end(standing.id, &standing.record) {
            Ok((left, were)) => self.swept.ended += were.saturating_sub(left.found) as u64,
            Err(e) => self.complain(name, &format!("job {}: {e}", standing.id)),
        }
    }

    /// What a maker left that was killed at once. If it was not, it finds its directory gone and makes another.
    fn remove_bare(&mut self, name: &OsStr) {
        if self.options.dry_run {
            return self.went(name);
        }
        hooks::point("sweep.removes_bare");
        match files::remove_directory_at(self.root.as_fd(), name) {
            Ok(()) => self.went(name),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            // There is something in it that is neither a lease nor a marker.
            Err(_) => self.keep(name, Reason::Unknown),
        }
    }

    fn remove(&mut self, name: &OsStr, reading: &Reading) {
        let found = match files::about_at(self.root.as_fd(), name) {
            // Another sweep was faster, and has let go of the lease by now.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return,
            found => found.ok().map(|about| about.identity),
        };
        let same = found == files::about(reading.dir.as_fd()).ok().map(|about| about.identity);
        if !same {
            // Somebody has exchanged it while we were reading.
            return self.keep(name, Reason::Unknown);
        }
        if self.options.dry_run {
            return self.went(name);
        }
        hooks::point("sweep.has_proof");
        match discard(self.root.as_fd(), name, self.until) {
            Ok(_) => self.went(name),
            Err(e) => self.complain(name, &format!("failed to remove it: {e}")),
        }
    }

    /// Goes on with the removals that somebody was killed in.
    fn finish_removals(&mut self) {
        let Ok((names, _)) = files::names(self.root.as_fd(), usize::MAX) else { return };
        for name in names.iter().filter(|name| is_made(TRASH, name.as_bytes())) {
            if self.is_late() || self.options.dry_run {
                return;
            }
            hooks::point("sweep.goes_on_removing");
            match remove::tree(self.root.as_fd(), name, self.until) {
                // Without an entry it is another sweep that has removed it.
                Ok(removed) => self.swept.removed += u64::from(removed.complete && removed.entries > 0),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => self.complain(name, &format!("failed to remove it: {e}")),
            }
        }
    }

    fn went(&mut self, name: &OsStr) {
        self.swept.removed += 1;
        if self.swept.gone.len() < DESCRIBED {
            self.swept.gone.push(self.root.path.join(name));
        }
    }

    fn keep(&mut self, name: &OsStr, reason: Reason) {
        *self.swept.kept.entry(reason).or_default() += 1;
        if self.swept.stays.len() < DESCRIBED {
            self.swept.stays.push((self.root.path.join(name), reason));
        }
    }

    fn keep_running(&mut self, name: &OsStr, reading: &Reading) {
        let reason = match sweep::verdict(reading.owner, reading.lease(), JobsProof::Running) {
            Verdict::Keep(reason) => reason,
            Verdict::Remove => Reason::JobRunning,
        };
        self.keep(name, reason);
    }

    /// That it stays is no failure: nothing of it is proven dead.
    fn keep_unreadable(&mut self, name: &OsStr, why: &str) {
        self.note(format!("{}: {why}", self.root.path.join(name).display()));
        self.keep(name, Reason::Unreadable);
    }

    fn complain(&mut self, name: &OsStr, why: &str) {
        self.swept.failed += 1;
        self.note(format!("{}: {why}", self.root.path.join(name).display()));
    }

    fn note(&mut self, what: String) {
        if self.swept.errors.len() < DESCRIBED && !self.swept.errors.contains(&what) {
            self.swept.errors.push(what);
        }
    }
}
