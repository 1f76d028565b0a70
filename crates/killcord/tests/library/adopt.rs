//! Leftovers of other makers, when something happens between the look and the removal.
//!
//! Promised: what was found is judged again before it goes: a user that came, a change, and another directory under its
//! name keep it, where it was. What the command line promises is in the tests of the program.

use crate::kit::{SOON, trials};
use killcord::adopt::{self, How, Leftovers, Outcome, Prefix, Stays};
use killcord_testkit::{Running, bin};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

trials![
    a_user_that_came_after_the_look_keeps_the_directory,
    a_change_after_the_look_keeps_the_directory,
    another_directory_of_the_same_name_is_not_the_one_that_was_found,
    a_directory_that_is_gone_or_was_removed_twice_is_no_failure,
    of_two_at_once_one_removes_it,
    heavy_whoever_comes_by_its_name_while_it_goes_keeps_it,
];

/// A directory in the temp directory of this process, which has a name that no other test uses.
struct Left(PathBuf);

impl Left {
    fn make() -> Self {
        let dir = tempfile::Builder::new().prefix("kc-adopt-").tempdir().unwrap().keep();
        fs::create_dir(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/file"), "text").unwrap();
        Self(dir)
    }

    fn look(&self, older_than: Duration) -> Leftovers {
        let prefix: Prefix = self.0.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let left = adopt::look(&prefix, older_than).unwrap();
        assert_eq!((left.found.len(), left.found[0].path.as_path()), (1, self.0.as_path()));
        left
    }

    /// Whether it is there, and nothing else that begins so.
    fn is_as_it_was(&self) {
        self.look(Duration::ZERO);
        assert_eq!(fs::read_to_string(self.0.join("sub/file")).unwrap(), "text");
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // Most tests have removed it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn hold(path: &Path) -> Running {
    let mut holder = Running::start(Command::new(bin("kc-hold")).arg("cwd").arg(path));
    holder.stdout.expect("ok\n", SOON).unwrap();
    holder
}

fn a_user_that_came_after_the_look_keeps_the_directory() {
    let dir = Left::make();
    let left = dir.look(Duration::ZERO);
    assert_eq!(left.found[0].stays, None);
    let mut holder = hold(&dir.0.join("sub"));
    match left.remove(&left.found[0]) {
        Outcome::Stays(Stays::InUse(by)) => {
            assert_eq!((by.pid, by.how), (Some(holder.pid()), How::WorkingDirectory));
        }
        other => panic!("{other:?}"),
    }
    dir.is_as_it_was();
    holder.close_stdin();
    assert!(holder.wait(SOON).is_some());
    assert_eq!(left.remove(&left.found[0]), Outcome::Removed(3));
}

fn a_change_after_the_look_keeps_the_directory() {
    let dir = Left::make();
    let left = dir.look(Duration::ZERO);
    let older = dir.look(Duration::from_secs(3600));
    assert!(matches!(older.found[0].stays, Some(Stays::Young(_))));
    // As it would have been found an hour ago.
    let mut found = older.found[0].clone();
    found.stays = None;
    assert!(matches!(older.remove(&found), Outcome::Stays(Stays::Young(_))));
    dir.is_as_it_was();
    assert_eq!(left.remove(&left.found[0]), Outcome::Removed(3));
}

fn another_directory_of_the_same_name_is_not_the_one_that_was_found() {
    let (dir, other) = (Left::make(), Left::make());
    let left = dir.look(Duration::ZERO);
    let away = other.0.join("away");
    fs::rename(&dir.0, &away).unwrap();
    fs::create_dir(&dir.0).unwrap();
    fs::write(dir.0.join("precious"), "text").unwrap();
    assert_eq!(left.remove(&left.found[0]), Outcome::Stays(Stays::Exchanged));
    assert!(dir.0.join("precious").exists());
    fs::remove_dir_all(&dir.0).unwrap();
    std::os::unix::fs::symlink(&away, &dir.0).unwrap();
    assert_eq!(left.remove(&left.found[0]), Outcome::Stays(Stays::Exchanged));
    assert!(away.join("sub/file").exists());
    fs::remove_file(&dir.0).unwrap();
}

fn a_directory_that_is_gone_or_was_removed_twice_is_no_failure() {
    let dir = Left::make();
    let left = dir.look(Duration::ZERO);
    assert_eq!(left.remove(&left.found[0]), Outcome::Removed(3));
    assert_eq!(left.remove(&left.found[0]), Outcome::Stays(Stays::Exchanged));
}

fn of_two_at_once_one_removes_it() {
    for _ in 0..10 {
        let dir = Left::make();
        let looks = [dir.look(Duration::ZERO), dir.look(Duration::ZERO)];
        let outcomes = std::thread::scope(|scope| {
            let both = looks.each_ref().map(|left| scope.spawn(|| left.remove(&left.found[0])));
            both.map(|one| one.join().unwrap())
        });
        let removed = outcomes.iter().filter(|o| **o == Outcome::Removed(3)).count();
        // The other one found it gone, at its first look or when it was about to rename it.
        assert_eq!(removed, 1, "{outcomes:?}");
        assert!(!dir.0.exists());
    }
}

fn heavy_whoever_comes_by_its_name_while_it_goes_keeps_it() {
    const ROUNDS: u32 = 150;
    let (mut kept, mut went, mut longest) = (0, 0, Duration::from_millis(5));
    for round in 0..ROUNDS {
        let dir = Left::make();
        let left = dir.look(Duration::ZERO);
        let begun = Instant::now();
        let (outcome, opened) = std::thread::scope(|scope| {
            let comes = begun + longest * (round % 50) / 50;
            let file = dir.0.join("sub/file");
            let other = scope.spawn(move || {
                while Instant::now() < comes {
                    std::hint::spin_loop();
                }
                fs::File::open(file)
            });
            let outcome = left.remove(&left.found[0]);
            longest = begun.elapsed();
            (outcome, other.join().unwrap())
        });
        match (outcome, opened) {
            (Outcome::Removed(_), Err(_)) => went += 1,
            (Outcome::Stays(_), _) => kept += 1,
            other => panic!("{other:?} in round {round}"),
        }
    }
    assert!(kept > 0 && went > 0, "{kept} kept, {went} went");
}
