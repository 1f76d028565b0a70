//! Named instants at which a test can have this process killed, and what a benchmark measures by itself. Nothing without
//! the feature `test-hooks`.

/// Where a test kills the process that comes here: `KILLCORD_TEST_KILL=NAME`. The file `KILLCORD_TEST_KILLED` then has a
/// line more, so that a test knows that somebody came.
#[cfg(feature = "test-hooks")]
pub(crate) fn point(name: &str) {
    if std::env::var_os("KILLCORD_TEST_KILL").is_some_and(|wanted| wanted == name) {
        if let Some(file) = std::env::var_os("KILLCORD_TEST_KILLED") {
            let file = std::fs::OpenOptions::new().append(true).open(file);
            // The test misses the line.
            let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, b"killed\n"));
        }
        killcord_sys::process::kill_self();
        // The init of a namespace does not die of a signal from inside (`pid_namespaces(7)`); its exit is as sudden.
        killcord_sys::process::exit_now(137);
    }
}

/// Nothing.
#[cfg(not(feature = "test-hooks"))]
pub(crate) fn point(_name: &str) {}

/// What one job costs on disk, for a benchmark.
#[cfg(feature = "test-hooks")]
#[derive(Debug)]
pub struct OnDisk(crate::claim::Claim);

#[cfg(feature = "test-hooks")]
impl OnDisk {
    /// A claim in this state directory.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn claim(state: &std::path::Path) -> std::io::Result<Self> {
        let claim = crate::claim::Claim::of_owner(Some(state), None).map_err(std::io::Error::other)?;
        claim.map(Self)
    }

    /// Everything that is written and removed for one job: twice its record, its directory, and all of that again.
    ///
    /// # Errors
    /// What the operating system said.
    pub fn one_job(&self) -> std::io::Result<()> {
        use killcord_model::record::{Job, State};
        let job = crate::numbers::new_job()?;
        let mut record = Job {
            place: self.0.place.clone(),
            state: State::Reserved,
            boundary: crate::Boundary::Cgroup,
            leaf: Some(format!("/sys/fs/cgroup/unified/{}", job.cgroup_name())),
            limits: Vec::new(),
            tag: Some(1),
            keeper: None,
            program: "true".to_owned(),
            since: 0,
        };
        self.0.record(job, &record)?;
        record.state = State::Started;
        self.0.record(job, &record)?;
        self.0.make_temporary(job)?;
        self.0.clear(job, None).map(|_| ())
    }
}

#[cfg(feature = "test-hooks")]
impl Drop for OnDisk {
    fn drop(&mut self) {
        // What stays is a sweep's.
        let _ = self.0.give_up();
    }
}
