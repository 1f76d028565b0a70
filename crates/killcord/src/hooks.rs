//! Named instants at which a test can have this process killed or paused, and what a benchmark measures by itself. Nothing without
//! the feature `test-hooks`.

/// The environment variables that mean something to [`point`].
#[cfg(feature = "test-hooks")]
const VARIABLES: [&str; 5] = [
    "KILLCORD_TEST_KILL",
    "KILLCORD_TEST_KILLED",
    "KILLCORD_TEST_PAUSE",
    "KILLCORD_TEST_PAUSE_AT",
    "KILLCORD_TEST_POINTS",
];

/// How long a process stays at a point whose test does not let it go on: less than the life of a fixture.
#[cfg(feature = "test-hooks")]
const PAUSED_AT_MOST: std::time::Duration = std::time::Duration::from_secs(40);

/// An instant with a name. A test asks for one of three things, each by environment variables:
///
/// - `KILLCORD_TEST_KILL=NAME` kills the process that comes here. The file `KILLCORD_TEST_KILLED` then has a line more,
///   so that the test knows that somebody came.
/// - `KILLCORD_TEST_PAUSE=NAME` has it connect to the socket `KILLCORD_TEST_PAUSE_AT`, say the name, and stay here until
///   that connection ends. Once nobody listens there, whoever comes goes on.
/// - `KILLCORD_TEST_POINTS=FILE` appends the name to the file.
#[cfg(feature = "test-hooks")]
pub(crate) fn point(name: &str) {
    let is_wanted = |variable| std::env::var_os(variable).is_some_and(|wanted| wanted == name);
    append("KILLCORD_TEST_POINTS", name);
    if is_wanted("KILLCORD_TEST_PAUSE")
        && let Some(socket) = std::env::var_os("KILLCORD_TEST_PAUSE_AT")
    {
        // Without a listener there is nothing to wait for.
        let _ = killcord_sys::pause::pause(socket.as_ref(), name, PAUSED_AT_MOST);
    }
    if is_wanted("KILLCORD_TEST_KILL") {
        append("KILLCORD_TEST_KILLED", "killed");
        killcord_sys::process::kill_self();
        // The init of a namespace does not die of a signal from inside (`pid_namespaces(7)`); its exit is as sudden.
        killcord_sys::process::exit_now(137);
    }
}

/// Appends a line to the file that the variable names.
#[cfg(feature = "test-hooks")]
fn append(variable: &str, line: &str) {
    let Some(file) = std::env::var_os(variable) else { return };
    let file = std::fs::OpenOptions::new().append(true).open(file);
    // The test misses the line.
    let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()));
}

/// What an executed warden, whose environment is otherwise empty, must have of ours to come to its points as well.
#[cfg(feature = "test-hooks")]
pub(crate) fn environment() -> Vec<std::ffi::CString> {
    let given = VARIABLES.iter().filter_map(|name| {
        let value = std::env::var(name).ok()?;
        std::ffi::CString::new(format!("{name}={value}")).ok()
    });
    given.collect()
}

/// Nothing.
#[cfg(not(feature = "test-hooks"))]
pub(crate) fn environment() -> [std::ffi::CString; 0] {
    []
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
        self.0.make_temporary(job, None)?;
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
