//! Orphans of killed keepers: they come to the warden, and it ends them.

use crate::keeper::members_of;
use killcord_model::job::Sight;
use killcord_model::verdict::{Members, NAMED};
use killcord_sys::tree::Tree;

/// The walker over what came to us. It opens `/proc` at its first use and keeps it.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    tree: Option<Tree>,
    rounds: u32,
}

impl Orphans {
    fn tree(&mut self) -> Option<&mut Tree> {
        if self.tree.is_none() {
            self.tree = Tree::new().ok();
        }
        self.tree.as_mut()
    }

    /// One pass of KILL over everything below us but the keepers and their jobs.
    pub(super) fn kill(&mut self, keepers: &[u32]) {
        self.rounds += 1;
        let stop_first = self.rounds > 2;
        if let Some(tree) = self.tree() {
            // Whether it worked is what the look says.
            let _ = tree.kill(stop_first, keepers);
        }
    }

    /// Whether an orphan is left.
    pub(super) fn look(&mut self, keepers: &[u32]) -> Sight {
        match self.tree().map(|t| t.walk(keepers, 1).map(<[_]>::len)) {
            Some(Ok(0)) => Sight::Empty,
            Some(Ok(_)) => Sight::Members,
            Some(Err(_)) | None => Sight::Unknown,
        }
    }

    /// Who is left.
    pub(super) fn name(&mut self, keepers: &[u32]) -> Members {
        match self.tree().map(|t| t.walk(keepers, usize::MAX).map(|m| members_of(m, NAMED))) {
            Some(Ok(members)) => members,
            Some(Err(_)) | None => Members::default(),
        }
    }
}
