//! How a process ended, and the exit statuses of `killcord run`.

use serde::{Deserialize, Serialize};

/// How the leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It exited by itself with this code (0 to 255).
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// The status that a shell would show: the code, or 128 and the signal's number.
    pub fn as_shell(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// `killcord run` ended the job because its time was up.
pub const TIMED_OUT: i32 = 124;
/// killcord failed, and nothing ran.
pub const FAILED: i32 = 125;
/// The program was found but could not be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// The program was not found.
pub const NOT_FOUND: i32 = 127;
/// A guard was killed and the leader's own end could not be seen: 128 and SIGKILL.
pub const GUARD_LOST: i32 = 137;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_shown_as_a_shell_shows_it() {
        assert_eq!([ExitStatus::Code(3), ExitStatus::Signal(9)].map(ExitStatus::as_shell), [3, GUARD_LOST]);
    }
}
