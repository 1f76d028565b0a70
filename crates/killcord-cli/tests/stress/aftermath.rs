//! What a round must not leave, when its processes are gone.

use crate::den::Den;
use crate::events::SOON;
use crate::round::Round;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

impl Round<'_> {
    /// Looks at what must be gone with the processes, and at the exit status where it can only be one.
    pub(crate) fn look_behind(&self, den: &mut Den, status: Option<i32>) {
        let alive = self.scene.alive();
        if !alive.is_empty() {
            let names: Vec<String> = alive.iter().map(|alive| format!("{alive:?}")).collect();
            self.campaign.tally.survivors(&self.kind, self.number, &self.what, &names);
        }
        self.no_leaf();
        for place in ["tmp", "home"] {
            let found: Vec<_> = fs::read_dir(self.scene.path(place)).unwrap().flatten().collect();
            // What `killcord mcp` writes down of itself is meant to stay.
            let found: Vec<_> =
                found.iter().map(fs::DirEntry::file_name).filter(|name| name != "mcp").collect();
            if !found.is_empty() {
                self.fault(&format!("left in {place}: {found:?}"));
            }
        }
        let Some(status) = status else { return };
        let (code, errors) = (den.code(), den.errors());
        if code != status {
            self.fault(&format!("status {code}, not {status}; stderr {errors:?}"));
        } else if self.boundary != "group" && self.what.starts_with("Brief") && !errors.is_empty() {
            self.fault(&format!("it said {errors:?}"));
        }
    }

    /// Who lives removes the leaf, and a sweep where nobody did.
    fn no_leaf(&self) {
        let leaves = |corner: &killcord_testkit::Corner| -> Vec<PathBuf> { corner.leaves() };
        if leaves(&self.corner).is_empty() {
            return;
        }
        self.campaign.tally.note("cgroups that a sweep had to remove", 1);
        let until = Instant::now() + SOON;
        while !leaves(&self.corner).is_empty() && Instant::now() < until {
            self.campaign.sweep(self.number, self.who);
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = leaves(&self.corner);
        if !left.is_empty() {
            self.fault(&format!("cgroups are left: {left:?}"));
        }
    }

    pub(crate) fn fault(&self, what: &str) {
        self.campaign.tally.fault(self.number, &format!("{} ({}): {what}", self.kind, self.what));
    }
}
