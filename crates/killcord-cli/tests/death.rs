//! The death table: `killcord run` (the owner), its warden and its keeper, killed one by one, in pairs and all at
//! once, on every boundary.
//!
//! Promised (G1, G2, G4): whoever is killed, the others end the job, all of it, within two seconds; on `group` its
//! group. Whoever lives then says what happened and leaves no guard and no cgroup behind. With all three killed
//! at the same instant the kernel ends a namespace, and elsewhere the leader; the rest waits for a sweep, which
//! is not here yet: that it is left is asserted, so that nobody promises more.
//!
//! A keeper that is stopped is continued by its warden half a second later, so that much later come an order, a timeout,
//! and the owner's death. Who stops it again and again holds its job's end up until the warden's patience is over, 3 s after
//! the owner's death; a stopped warden holds up nothing. Not promised: an end while both guards are stopped.
//!
//! Several victims are stopped first, so that none acts upon the end of another: as good as the same instant.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic is how a test fails, in its helper functions too"
)]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use killcord_testkit::claims::until;
use killcord_testkit::{
    Corner, Emptied, Guards, Host, Killcord, Need, Nest, Pinned, PinnedProcess, Scene, Signal, Who, bin,
    in_every_cell, report, skip,
};

const SOON: Duration = Duration::from_secs(10);
const TWO: Duration = Duration::from_secs(2);
/// After so long a warden continues a stopped keeper.
const CONTINUED: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Owner,
    Warden,
    Keeper,
}

use Victim::{Keeper, Owner, Warden};

/// Everybody of the payload but the hopper, which no pidfd can hold: the end of the nest proves it gone.
const MEMBERS: [&str; 5] = ["bare", "daemon", "leader", "plain", "setsid"];
/// Those that stay in the leader's process group.
const GROUP: [&str; 2] = ["leader", "plain"];
/// Those that have left it.
const ESCAPED: [&str; 3] = ["bare", "daemon", "setsid"];

/// A `killcord run` with its guards, and a payload that is up.
struct Stage {
    corner: Corner,
    nest: Nest,
    warden: PinnedProcess,
    keeper: PinnedProcess,
    members: Pinned,
    scene: Scene,
}

impl Stage {
    fn set(who: Who, boundary: &str) -> Self {
        let scene = Scene::new();
        let corner = if boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
        let mut command = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, who, boundary);
        command.arg("--").arg(bin("kc-payload"));
        let mut nest = Nest::start_in(&corner, &command);
        nest.running().stdout.expect("ready\n", SOON).unwrap();
        let guards = Guards::find(nest.program.pid, SOON);
        let (Some(warden), Some(keeper)) = (guards.warden, guards.keeper) else { panic!("no guards") };
        let members = scene.pin();
        for name in MEMBERS {
            assert!(members.get(name).is_some(), "{name} is not there: {:?}", members.names());
        }
        Self { corner, nest, warden, keeper, members, scene }
    }

    fn kill(&self, victims: &[Victim]) {
        let process = |victim: &Victim| match victim {
            Owner => &self.nest.program,
            Warden => &self.warden,
            Keeper => &self.keeper,
        };
        if victims.len() > 1 {
            for victim in victims {
                process(victim).kill(Signal::STOP).unwrap();
            }
        }
        // The init of a namespace may be gone with the warden.
        for victim in victims {
            let _ = process(victim).kill(Signal::KILL);
        }
    }

    fn wait_gone(&self, names: &[&str], limit: Duration) {
        let begun = Instant::now();
        for name in names {
            let member = self.members.get(name).unwrap();
            assert!(
                member.wait_gone(limit.saturating_sub(begun.elapsed())),
                "{name} lives; {:?}",
                self.nest.left()
            );
        }
    }

    fn alive(&self) -> Vec<String> {
        let mut names: Vec<_> = self.members.alive().into_iter().map(|alive| alive.name).collect();
        names.retain(|name| name != "hopper");
        names.sort();
        names
    }

    /// Ends what the table says is left, the hopper with the scene, and sees all of it gone.
    fn clear(self) -> Emptied {
        let Self { corner, mut nest, members, scene, .. } = self;
        members.kill(Signal::KILL);
        drop(scene);
        let all = nest.wait_empty(SOON).unwrap();
        drop(corner);
        all
    }
}

/// What `killcord run` says when it lives and a guard was killed.
fn says_what_happened(stage: &Stage, all: &Emptied, boundary: &str, victims: &[Victim]) {
    let report = report(&stage.scene);
    // The init of a namespace dies with the warden, as the kernel has it: nobody is left to ask the program.
    let by_warden = victims == [Warden] || (victims.contains(&Warden) && boundary == "namespace");
    let asked_first = victims == [Warden] && boundary != "namespace";
    let (guard, cause) =
        if by_warden { ("the warden", "warden-gone") } else { ("its keeper", "keeper-gone") };
    // That all of it was ended is said where it was seen.
    let so = if report["verdict"]["kind"] == "unconfirmed" { "" } else { ", so the job was ended" };
    let message = format!("killcord: {}: {guard} was killed{so}", bin("kc-payload").display());
    let lines: Vec<&str> = all.stderr.lines().collect();
    assert_eq!(lines.first(), Some(&message.as_str()), "{report}");
    assert_eq!(report["cause"], cause, "{report}");
    assert_eq!(report["boundary"]["kind"], boundary, "{report}");
    // The warden's end is no reason not to ask the program first.
    assert_eq!(all.code, if asked_first { 143 } else { 137 }, "{report}");
    assert_eq!(report["exit_status"], all.code, "{report}");
    if boundary == "group" {
        // Whoever left the group, or whose group's leader is gone, cannot be counted; that is said.
        assert!(lines.len() <= 3 && lines.iter().all(|line| line.starts_with("killcord: ")), "{lines:?}");
        assert!(lines.last().unwrap().contains("whoever left the process group was not ended"), "{lines:?}");
    } else {
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(report["verdict"]["kind"], "empty", "{report}");
    }
}

/// One row of the table, but for the last: everything ends.
fn row(victims: &[Victim]) {
    for (who, boundary) in Host::cells() {
        let mut stage = Stage::set(who, boundary);
        stage.kill(victims);
        let killed = Instant::now();
        stage.wait_gone(&MEMBERS, TWO);
        let all = stage.nest.wait_empty(TWO.saturating_sub(killed.elapsed()));
        let all = all.unwrap_or_else(|e| panic!("{victims:?} {who:?} {boundary}: {e}"));
        assert_eq!(stage.corner.leaves(), Vec::<PathBuf>::new(), "{victims:?} {who:?}");
        if !victims.contains(&Owner) {
            says_what_happened(&stage, &all, boundary, victims);
        }
    }
}

/// The same row on `group`, which promises the leader's group; where the keeper lives it does no more than that.
fn row_of_group(victims: &[Victim]) {
    for who in Who::here() {
        let mut stage = Stage::set(*who, "group");
        stage.kill(victims);
        stage.wait_gone(&GROUP, TWO);
        for guard in [&stage.warden, &stage.keeper, &stage.nest.program] {
            assert!(guard.wait_gone(TWO + TWO), "{victims:?}: {:?}", stage.nest.left());
        }
        if !victims.contains(&Keeper) {
            assert_eq!(stage.alive(), ESCAPED, "{victims:?}");
        }
        // The hopper holds the output, so that the messages are read when it is gone.
        if victims.contains(&Owner) {
            stage.clear();
        } else {
            stage.members.kill(Signal::KILL);
            fs::rename(stage.scene.path("ids"), stage.scene.path("ids.over")).unwrap();
            let all = stage.nest.wait_empty(SOON).unwrap();
            says_what_happened(&stage, &all, "group", victims);
        }
    }
}

macro_rules! rows {
    ($($name:ident, $on_group:ident: $victims:expr;)*) => {$(
        #[test]
        fn $name() {
            row(&$victims);
        }

        #[test]
        fn $on_group() {
            row_of_group(&$victims);
        }
    )*};
}

rows! {
    the_owner_is_killed, the_owner_is_killed_on_group: [Owner];
    the_warden_is_killed, the_warden_is_killed_on_group: [Warden];
    the_keeper_is_killed, the_keeper_is_killed_on_group: [Keeper];
    owner_and_warden_are_killed, owner_and_warden_are_killed_on_group: [Owner, Warden];
    owner_and_keeper_are_killed, owner_and_keeper_are_killed_on_group: [Owner, Keeper];
    warden_and_keeper_are_killed, warden_and_keeper_are_killed_on_group: [Warden, Keeper];
}

#[test]
fn all_three_are_killed_at_once() {
    let on_group = Who::here().iter().map(|who| (*who, "group"));
    for (who, boundary) in Host::cells().into_iter().chain(on_group) {
        let mut stage = Stage::set(who, boundary);
        stage.kill(&[Owner, Warden, Keeper]);
        if boundary == "namespace" {
            stage.wait_gone(&MEMBERS, TWO);
            stage.nest.wait_empty(TWO).unwrap();
            continue;
        }
        // At once: the kernel's doing, and not a ladder's.
        stage.wait_gone(&["leader"], Duration::from_millis(200));
        for guard in [&stage.nest.program, &stage.warden, &stage.keeper] {
            assert!(guard.wait_gone(SOON));
        }
        assert_eq!(stage.alive(), ["bare", "daemon", "plain", "setsid"], "{who:?} {boundary}");
        assert_eq!(stage.corner.leaves().len(), usize::from(boundary == "cgroup"));
        stage.clear();
    }
}

#[test]
fn a_stopped_keeper_goes_on_and_ends_its_job_when_the_owner_is_killed() {
    in_every_cell(|who, boundary| {
        let mut stage = Stage::set(who, boundary);
        stage.keeper.kill(Signal::STOP).unwrap();
        stage.kill(&[Owner]);
        let killed = Instant::now();
        stage.wait_gone(&MEMBERS, CONTINUED + TWO);
        stage.nest.wait_empty((CONTINUED + TWO).saturating_sub(killed.elapsed())).unwrap();
        assert_eq!(stage.corner.leaves(), Vec::<PathBuf>::new());
    });
}

/// A cgroup in which nothing runs.
struct Freezer(PathBuf);

impl Freezer {
    /// `None` where the kernel has no such thing.
    fn new(scene: &Scene, boundary: &str) -> Option<Self> {
        let name = format!("freezer-{boundary}-{}", scene.dir().file_name()?.to_string_lossy());
        let dir = Host::get().cgroup_dir()?.join(name);
        fs::create_dir(&dir).ok()?;
        let freezer = Self(dir);
        fs::write(freezer.0.join("cgroup.freeze"), "1").ok()?;
        Some(freezer)
    }

    /// Freezes a process; returns when the kernel says that it is.
    fn take(&self, process: &PinnedProcess) {
        fs::write(self.0.join("cgroup.procs"), process.pid.to_string()).unwrap();
        until(SOON, "frozen", || {
            let events = fs::read_to_string(self.0.join("cgroup.events")).unwrap();
            events.contains("populated 1") && events.contains("frozen 1")
        });
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let deadline = Instant::now() + TWO;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Frozen, and not stopped: no signal has it go on.
#[test]
fn a_keeper_that_cannot_run_is_killed_by_the_warden_when_the_owner_is() {
    let need = Need::Cgroup(Who::Root);
    if !Host::get().has(need) {
        skip!(need);
    }
    in_every_cell(|who, boundary| {
        let mut stage = Stage::set(who, boundary);
        let Some(freezer) = Freezer::new(&stage.scene, boundary) else {
            skip!(Need::Other("cgroup.freeze"));
        };
        freezer.take(&stage.keeper);
        stage.kill(&[Owner]);
        let killed = Instant::now();
        stage.wait_gone(&MEMBERS, Duration::from_millis(3500));
        stage.nest.wait_empty(Duration::from_millis(3500).saturating_sub(killed.elapsed())).unwrap();
        assert_eq!(stage.corner.leaves(), Vec::<PathBuf>::new());
    });
}

/// Each time it is continued it may run a little before it is stopped again, or not at all: it ends its job late, or is
/// ended by the warden.
#[test]
fn heavy_a_job_ends_though_its_keeper_is_stopped_again_and_again_when_the_owner_is_killed() {
    for (who, boundary) in Host::cells().into_iter().filter(|(who, _)| *who == Who::here()[0]) {
        let mut stage = Stage::set(who, boundary);
        let (keeper, over) = (&stage.keeper, AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let until = Instant::now() + SOON;
                while !over.load(Ordering::Relaxed)
                    && Instant::now() < until
                    && keeper.kill(Signal::STOP).is_ok()
                {
                    std::hint::spin_loop();
                }
            });
            until(SOON, "stopped", || keeper.stat().is_some_and(|stat| stat.state == 'T'));
            stage.kill(&[Owner]);
            stage.members.wait_gone(Duration::from_millis(3500)).unwrap_or_else(|left| {
                over.store(true, Ordering::Relaxed);
                panic!("{boundary}: {left:?} live")
            });
            over.store(true, Ordering::Relaxed);
        });
        stage.nest.wait_empty(TWO).unwrap();
        assert_eq!(stage.corner.leaves(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_stopped_warden_holds_up_nothing_when_the_owner_is_killed() {
    for (who, boundary) in Host::cells() {
        let mut stage = Stage::set(who, boundary);
        stage.warden.kill(Signal::STOP).unwrap();
        stage.kill(&[Owner]);
        stage.wait_gone(&MEMBERS, TWO);
        assert!(stage.keeper.wait_gone(TWO));
        // It is all that is left, and ends as soon as it can.
        stage.warden.kill(Signal::CONT).unwrap();
        stage.nest.wait_empty(TWO).unwrap();
        assert_eq!(stage.corner.leaves(), Vec::<PathBuf>::new());
    }
}

#[test]
fn an_order_reaches_a_stopped_keeper_whose_owner_lives() {
    for (who, boundary) in Host::cells() {
        let mut stage = Stage::set(who, boundary);
        // The second time as well: each stop is answered.
        for _ in 0..2 {
            stage.keeper.kill(Signal::STOP).unwrap();
            let goes_on = || stage.keeper.stat().is_some_and(|stat| stat.state != 'T');
            until(SOON, "stopped", || !goes_on());
            until(CONTINUED + TWO, "the keeper goes on", goes_on);
        }
        stage.keeper.kill(Signal::STOP).unwrap();
        stage.nest.program.kill(Signal::TERM).unwrap();
        // All of them end on TERM at once.
        stage.wait_gone(&MEMBERS, CONTINUED + TWO);
        assert_eq!(stage.nest.wait_empty(TWO).unwrap().code, 143, "{who:?} {boundary}");
    }
}

/// The shortest way to get rid of one's timeout. In a namespace the keeper is the init, whom nobody inside can stop.
#[test]
fn a_job_that_stops_its_keeper_has_its_timeout_all_the_same() {
    in_every_cell(|who, boundary| {
        let scene = Scene::new();
        let corner = if boundary == "cgroup" { Corner::new(&scene) } else { Corner::nowhere() };
        let mut command = Killcord::new(env!("CARGO_BIN_EXE_killcord")).run(&scene, who, boundary);
        // It says so when it has seen it; whoever looks too late tries again.
        let stop = match boundary {
            "namespace" => "kill -STOP $PPID",
            _ => "until kill -STOP $PPID; grep -q '^State:.T' /proc/$PPID/status; do :; done",
        };
        let script = format!("{stop}; echo stopped; exec \"$0\" leaf 60");
        command.args(["--timeout", "1", "--", "sh", "-c", &script]).arg(bin("kc-leaf"));
        let begun = Instant::now();
        let mut nest = Nest::start_in(&corner, &command);
        nest.running().stdout.expect("stopped\n", SOON).unwrap();
        if boundary == "namespace" {
            let keeper = Guards::find(nest.program.pid, SOON).keeper.unwrap();
            assert_ne!(keeper.stat().unwrap().state, 'T', "an init is stopped from inside");
        }
        let bound = Duration::from_secs(1) + CONTINUED + TWO;
        let all = nest.wait_empty(bound.saturating_sub(begun.elapsed()));
        let all = all.unwrap_or_else(|e| panic!("{who:?} {boundary}: {e}"));
        assert_eq!(all.code, 124, "{who:?} {boundary}: {all:?}");
        scene.wait_gone(Duration::ZERO).unwrap();
    });
}

/// Nobody ends the job of a dead owner while warden and keeper are both stopped. That it is so is asserted, so that nobody
/// promises more.
#[test]
fn nobody_acts_while_keeper_and_warden_are_stopped() {
    for (who, boundary) in Host::cells().into_iter().filter(|(who, _)| *who == Who::here()[0]) {
        let mut stage = Stage::set(who, boundary);
        // The warden first: it hears nothing of the keeper then.
        for guard in [&stage.warden, &stage.keeper] {
            guard.kill(Signal::STOP).unwrap();
        }
        stage.kill(&[Owner]);
        // Longer than the warden's patience with a keeper.
        let left = stage.members.wait_gone(Duration::from_millis(3600)).unwrap_err();
        assert_eq!(left.len(), MEMBERS.len(), "{boundary}: {left:?}");
        stage.keeper.kill(Signal::CONT).unwrap();
        stage.wait_gone(&MEMBERS, TWO);
        stage.warden.kill(Signal::CONT).unwrap();
        stage.nest.wait_empty(TWO).unwrap();
    }
}
