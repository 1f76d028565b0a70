//! A cgroup that can be made and not entered: below one that has a threaded child, every new cgroup is of type
//! `domain invalid`, and whoever tries to enter it gets `EOPNOTSUPP`; and a user whose directory it is, but not the
//! `cgroup.procs` in it, gets `EACCES`.
//!
//! Promised (G13): the choice that is left to us falls back to `tree`, and the report says why. What asks for
//! `cgroup` is refused before anything ran. A session says which boundary it is, or nothing. No cgroup is left.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use killcord_testkit::{
    Corner, Finished, Host, Killcord, Need, Nest, Scene, Signal, USER, Who, bin, report, run, skip,
};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// More than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A cgroup of the test's own that is `domain threaded`.
struct Weak {
    scene: Scene,
    corner: Corner,
    threaded: PathBuf,
}

impl Weak {
    fn new() -> Option<Self> {
        let own = Host::get().cgroup_dir().filter(|_| Host::get().has(Need::Cgroup(Who::Root)))?;
        let scene = Scene::new();
        let corner = Corner::new(&scene);
        let threaded = own.join(scene.dir().file_name()?).join("threaded");
        std::fs::create_dir(&threaded).unwrap();
        std::fs::write(threaded.join("cgroup.type"), "threaded").unwrap();
        Some(Self { scene, corner, threaded })
    }

    /// `killcord run`, begun inside, without a boundary of its own choice; a job in the file `mark` says that it ran.
    fn killcord(&self, options: &[&str]) -> Command {
        let mut command = self.scene.command(Who::Root, Killcord::new(env!("CARGO_BIN_EXE_killcord")).path());
        command.args(["run", "--report"]).arg(self.scene.path("report")).args(options).arg("--");
        command
    }

    fn run(&self, options: &[&str]) -> Finished {
        let mut command = self.killcord(options);
        let done = run(&mut self.corner.wrap(command.args(["sh", "-c", "echo run >mark; exit 3"])), SOON);
        assert_eq!(self.corner.leaves(), std::slice::from_ref(&self.threaded), "{options:?}: {done:?}");
        done
    }

    fn has_run(&self) -> bool {
        std::fs::remove_file(self.scene.path("mark")).is_ok()
    }
}

#[test]
fn auto_falls_back_to_tree_and_says_why() {
    let Some(weak) = Weak::new() else { skip!(Need::Cgroup(Who::Root)) };
    for options in [&[][..], &["--require", "tree"]] {
        let done = weak.run(options);
        assert_eq!((done.code(), done.stderr.as_str(), weak.has_run()), (3, "", true), "{options:?}");
        let said = report(&weak.scene);
        assert_eq!((&said["boundary"]["kind"], &said["verdict"]["kind"]), (&"tree".into(), &"empty".into()));
        let notes: Vec<&str> =
            said["boundary"]["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(notes.iter().any(|note| note.contains("cgroup") && note.contains("enter")), "{said}");
    }
}

#[test]
fn what_asks_for_a_cgroup_is_refused_before_anything_ran() {
    let Some(weak) = Weak::new() else { skip!(Need::Cgroup(Who::Root)) };
    let refused: [&[&str]; 4] = [
        &["--boundary", "cgroup"],
        &["--require", "cgroup"],
        &["--boundary", "cgroup", "--require", "cgroup"],
        &["--boundary", "cgroup", "--ack"],
    ];
    for options in refused {
        let done = weak.run(options);
        let nothing = done.stdout.is_empty() && !weak.has_run();
        assert!(done.code() == 125 && nothing && done.stderr.lines().count() == 1, "{options:?}: {done:?}");
        assert!(done.stderr.contains("cgroup"), "{options:?}: {done:?}");
        assert_eq!(report(&weak.scene)["verdict"]["kind"], "refused", "{options:?}");
    }
}

#[test]
fn a_session_says_what_it_has_got() {
    let Some(weak) = Weak::new() else { skip!(Need::Cgroup(Who::Root)) };
    let done = weak.run(&["--ack"]);
    let said: Value = serde_json::from_str(done.stdout.lines().next().unwrap_or("null")).unwrap();
    assert_eq!((&said["contained"], &said["boundary"]), (&true.into(), &"tree".into()), "{done:?}");
    assert_eq!((done.code(), weak.has_run()), (3, true), "{done:?}");
}

#[test]
fn a_user_who_may_make_it_and_not_enter_it_gets_tree() {
    let Some(weak) = Weak::new() else { skip!(Need::Cgroup(Who::Root)) };
    // Ours only as far as the directory goes, and of an ordinary kind.
    std::fs::remove_dir(&weak.threaded).unwrap();
    let dir = weak.threaded.parent().unwrap();
    std::os::unix::fs::chown(dir, Some(USER), Some(USER)).unwrap();
    for (ack, lines) in [(&[][..], 0), (&["--ack"], 1)] {
        let mut command = weak.scene.command(Who::User, Killcord::new(env!("CARGO_BIN_EXE_killcord")).path());
        command.args(["run", "--report"]).arg(weak.scene.path("report")).args(ack);
        let done =
            run(&mut weak.corner.wrap(command.args(["--", "sh", "-c", "echo run >mark; exit 3"])), SOON);
        assert_eq!((done.code(), weak.has_run(), done.stdout.lines().count()), (3, true, lines), "{done:?}");
        assert!(done.stdout.is_empty() || done.stdout.contains("\"boundary\":\"tree\""), "{done:?}");
        let said = report(&weak.scene);
        assert_eq!(said["boundary"]["kind"], "tree", "{said}");
        assert!(said["boundary"]["notes"][0].as_str().is_some_and(|note| note.contains("entered")), "{said}");
        assert_eq!(weak.corner.leaves(), Vec::<PathBuf>::new(), "{ack:?}");
    }
}

#[test]
fn escapees_end_with_a_killed_owner_all_the_same() {
    let Some(weak) = Weak::new() else { skip!(Need::Cgroup(Who::Root)) };
    let mut command = weak.killcord(&[]);
    let mut nest = Nest::start_in(&weak.corner, command.arg(bin("kc-payload")));
    nest.running().stdout.expect("ready\n", SOON).unwrap();
    nest.program.kill(Signal::KILL).unwrap();
    nest.wait_empty(Duration::from_secs(2)).unwrap();
    assert_eq!(weak.scene.alive(), []);
    assert_eq!(weak.corner.leaves(), std::slice::from_ref(&weak.threaded));
}
