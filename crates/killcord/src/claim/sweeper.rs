//! Reclaiming what dead owners left, by proof.

use super::make::discard;
use super::read::{Reading, claims};
use super::{Root, TRASH, make, traces};
use crate::error::Error;
use crate::numbers;
use crate::service;
use killcord_model::id::{JOB_VARIABLE, JobId};
use killcord_model::record::{Job, Place};
use killcord_model::sweep::{self, JobsProof, LeaseProof, OwnerProof, Reason, Verdict};
use killcord_sys::os::{AsFd, OsStrExt};
use killcord_sys::process::{self, Fork};
use killcord_sys::{clock, descriptors, files, remove, signals};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a sweep at the start of an owner may take.
const IN_BACKGROUND: Duration = Duration::from_secs(20);
/// And after how many seconds it is ended if it has not.
const AT_MOST: u32 = 30;
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
}

/// What is to be done with a claim.
enum Finding {
    Decided(Verdict),
    /// It can go when what is left of these jobs is ended.
    Leftovers(Vec<Standing>),
}

struct Sweep<'a, F: FnMut(&Swept)> {
    root: &'a Root,
    here: Place,
    options: Options,
    until: Option<Duration>,
    swept: Swept,
    /// The jobs of owners and guards that live: whatever another claim says of them, they are not touched.
    living: BTreeSet<JobId>,
    progress: F,
}

/// Sweeps this user's state directory, or the named one: ends what is left of jobs whose owner, warden and keeper are
/// all proven dead, and removes the claims of dead owners without running jobs. It goes on after each error. After
/// each claim `progress` is told how far it is.
///
/// # Errors
/// [`Error::State`] when the state directory is not this user's alone; nothing was touched then.
pub fn sweep(state: Option<&Path>, options: Options, progress: impl FnMut(&Swept)) -> crate::Result<Swept> {
    crate::error::supported()?;
    match Root::existing(state)? {
        Some(root) => Sweep::new(&root, options, progress).run(),
        None => Ok(Swept { complete: true, ..Swept::default() }),
    }
}

impl<'a, F: FnMut(&Swept)> Sweep<'a, F> {
    fn new(root: &'a Root, options: Options, progress: F) -> Self {
        let until = options.within.map(|within| clock::now() + within);
        let (swept, living) = (Swept::default(), BTreeSet::new());
        Self { root, here: numbers::place(), options, until, swept, living, progress }
    }

    fn run(mut self) -> crate::Result<Swept> {
        let names = claims(self.root).map_err(Error::io("read the state directory"))?;
        let mut later = Vec::new();
        let mut complete = true;
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
        self.finish_removals();
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
            Err(e) => {
                self.complain(name, &e.to_string());
                return self.keep(name, Reason::Unreadable);
            }
        };
        if reading.is_bare() {
            return self.remove_bare(name);
        }
        match self.look(name, &reading) {
            Finding::Decided(Verdict::Remove) => self.remove(name, &reading),
            Finding::Decided(Verdict::Keep(reason)) => self.keep(name, reason),
            Finding::Leftovers(_) => later.push(name.to_owned()),
        }
    }

    /// Decides about a claim.
    fn look(&mut self, name: &OsStr, reading: &Reading) -> Finding {
        let (owner, lease) = (reading.owner, reading.lease());
        let mut standings = Vec::new();
        let mut all = JobsProof::Over;
        let answered_for = owner == OwnerProof::Alive || lease == LeaseProof::Held;
        let listed = reading.jobs().unwrap_or_else(|e| {
            all = JobsProof::Unknown;
            if !answered_for {
                self.complain(name, &format!("jobs: {e}"));
            }
            Vec::new()
        });
        for (file, read) in listed {
            match read {
                Ok((id, _)) if answered_for => {
                    self.living.insert(id);
                }
                Ok((id, record)) => {
                    let proof = self.standing(id, &record);
                    all = sweep::both(all, proof);
                    standings.push(Standing { id, record, proof });
                }
                // Struck out while we were reading.
                Err(_) if answered_for => {}
                Err(why) => {
                    all = sweep::both(all, JobsProof::Unknown);
                    self.complain(name, &format!("jobs/{}: {why}", file.display()));
                }
            }
        }
        self.decide(name, reading, all, standings)
    }

    fn decide(
        &mut self,
        name: &OsStr,
        reading: &Reading,
        all: JobsProof,
        standings: Vec<Standing>,
    ) -> Finding {
        let (owner, lease) = (reading.owner, reading.lease());
        let to_end = |s: &Standing| s.proof == JobsProof::Running && sweep::may_end(&s.record, owner, lease);
        let verdict = sweep::verdict(owner, lease, all);
        if verdict == Verdict::Keep(Reason::JobRunning) && standings.iter().any(to_end) {
            return Finding::Leftovers(standings.into_iter().filter(to_end).collect());
        }
        if verdict == Verdict::Remove && !self.options.dry_run {
            for standing in &standings {
                traces::remove_cgroups(standing.id, &standing.record);
            }
        }
        match (verdict, reading.unreadable()) {
            (Verdict::Keep(Reason::Unknown), Some(why)) => {
                self.note(format!("{}: {why}", self.root.path.join(name).display()));
                Finding::Decided(Verdict::Keep(Reason::Unreadable))
            }
            (verdict, _) => Finding::Decided(verdict),
        }
    }

    fn standing(&self, id: JobId, record: &Job) -> JobsProof {
        traces::look(id, record).map_or(JobsProof::Unknown, |seen| sweep::job(record, &self.here, seen))
    }

    /// Ends what is left of a claim's jobs, and removes it if that was all.
    fn end_leftovers(&mut self, name: &OsStr) {
        // It was let go meanwhile: what was true of it may be so no more.
        let Ok(reading) = Reading::of(self.root, name, &self.here) else { return };
        match self.look(name, &reading) {
            Finding::Leftovers(standings) => {
                for standing in &standings {
                    if !self.living.contains(&standing.id) {
                        self.end(name, standing);
                    }
                }
            }
            Finding::Decided(_) => {}
        }
        match self.look(name, &reading) {
            Finding::Decided(Verdict::Remove) => self.remove(name, &reading),
            Finding::Decided(Verdict::Keep(reason)) => self.keep(name, reason),
            Finding::Leftovers(_) => self.keep(name, Reason::JobRunning),
        }
    }

    fn end(&mut self, name: &OsStr, standing: &Standing) {
        if self.options.dry_run {
            self.swept.ended += traces::look(standing.id, &standing.record).map_or(0, |t| t.found as u64);
            return;
        }
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
        match files::remove_directory_at(self.root.as_fd(), name) {
            Ok(()) => self.went(name),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            // There is something in it that is neither a lease nor a marker.
            Err(_) => self.keep(name, Reason::Unknown),
        }
    }

    fn remove(&mut self, name: &OsStr, reading: &Reading) {
        let found = files::about_at(self.root.as_fd(), name).map(|about| about.identity);
        let same = found.ok() == files::about(reading.dir.as_fd()).ok().map(|about| about.identity);
        if !same {
            // Somebody has exchanged it while we were reading.
            return self.keep(name, Reason::Unknown);
        }
        if self.options.dry_run {
            return self.went(name);
        }
        match discard(self.root.as_fd(), name, self.until) {
            Ok(_) => self.went(name),
            Err(e) => self.complain(name, &format!("failed to remove it: {e}")),
        }
    }

    /// Goes on with the removals that somebody was killed in.
    fn finish_removals(&mut self) {
        let Ok((names, _)) = files::names(self.root.as_fd(), usize::MAX) else { return };
        for name in names.iter().filter(|name| name.as_bytes().starts_with(TRASH.as_bytes())) {
            if self.is_late() || self.options.dry_run {
                return;
            }
            match remove::tree(self.root.as_fd(), name, self.until) {
                Ok(removed) => self.swept.removed += u64::from(removed.complete),
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

/// Whether there is anything to sweep: something else than the claim of this name.
fn has_others(root: &Root, own: Option<&OsStr>) -> bool {
    let other = |name: &[u8]| {
        let claim = name.starts_with(super::CLAIM.as_bytes()) || name.starts_with(TRASH.as_bytes());
        claim && own.is_none_or(|own| own.as_bytes() != name)
    };
    files::has_name(root.as_fd(), other).unwrap_or(false)
}

/// Whether it is for this process to sweep. In a job it is for the job's owner: what sweeps on behind our own end
/// would be a leftover there.
pub(crate) fn is_ours() -> bool {
    std::env::var_os(JOB_VARIABLE).is_none()
}

/// Forks a process that sweeps, if there is anything but our own claim: bounded, with nothing of ours open, and only
/// when nobody else wants a processor. For a process with one thread. Returns its number: an unreaped child.
pub(crate) fn in_background(claim: &super::Claim) -> Option<u32> {
    let (root, own) = (claim.path.parent()?, claim.path.file_name()?);
    let root = Root::existing(Some(root)).ok()??;
    if !has_others(&root, Some(own)) {
        return None;
    }
    match process::fork_alone().ok()? {
        Fork::Parent(pid) => Some(pid),
        Fork::Child => {
            let swept = become_sweeper(&root);
            process::exit_now(i32::from(swept.is_err()));
        }
    }
}

fn become_sweeper(root: &Root) -> crate::Result<()> {
    let failed = Error::io("prepare a sweep");
    // A warden has all signals blocked, that of the alarm among them.
    signals::Set::of(&[]).block_exactly().map_err(&failed)?;
    process::alarm(AT_MOST);
    descriptors::close_all_but(&mut [descriptors::number(root)]).map_err(&failed)?;
    descriptors::detach_standard_streams().map_err(&failed)?;
    process::new_session().map_err(&failed)?;
    process::set_name(c"killcord-sweep").map_err(&failed)?;
    std::env::set_current_dir("/").map_err(&failed)?;
    process::yield_to_all();
    let options = Options { dry_run: false, within: Some(IN_BACKGROUND) };
    Sweep::new(root, options, |_: &Swept| {}).run().map(|_| ())
}
