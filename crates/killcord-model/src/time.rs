//! Time as a parameter: only the event loops read the clock.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point on the monotonic clock, as the distance from an arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time(pub Duration);

impl Time {
    /// This point moved later by `by`; it saturates at the far end of time.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// How long it is from `earlier` to this point; zero when it is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_to_its_far_end_and_not_back() {
        let (second, last) = (Duration::from_secs(1), Time(Duration::MAX));
        let later = Time(second).after(second);
        assert_eq!((later.0, later.since(Time(second))), (Duration::from_secs(2), second));
        assert_eq!((last.after(second), Time(second).since(later)), (last, Duration::ZERO));
    }
}
