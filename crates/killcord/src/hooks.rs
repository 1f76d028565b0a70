//! Named instants at which a test can have this process killed. Nothing without the feature `test-hooks`.

/// Where a test kills the process that comes here: `KILLCORD_TEST_KILL=NAME`.
#[cfg(feature = "test-hooks")]
pub(crate) fn point(name: &str) {
    if std::env::var_os("KILLCORD_TEST_KILL").is_some_and(|wanted| wanted == name) {
        killcord_sys::process::kill_self();
    }
}

/// Nothing.
#[cfg(not(feature = "test-hooks"))]
pub(crate) fn point(_name: &str) {}
