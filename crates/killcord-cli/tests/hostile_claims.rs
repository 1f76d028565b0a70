//! What lies in a claim is hostile input: it can delay nothing, redirect nothing and reach nothing outside.
//!
//! Promised (G11): whatever stands where the marker, the lease, a record, the places of jobs or the jobs' own files
//! should be, a sweep is back within ten seconds, has touched nothing outside of the claim, has swept the good claims
//! beside it, and says why this one stays. `run` and `list` are not delayed by it either.
//!
//! The witness is a directory outside, with files in it, of which nothing may change: no byte, no name, no time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helper functions too")]

use killcord_testkit::claims::{JOB, State, TEN, after, assert_swept, dead, marker, own, record, with};
use killcord_testkit::{Need, Scene, USER, Who, is_root, procs, run, skip};
use rustix::fs::{CWD, Dev, FileType, Mode, RenameFlags, makedev, mknodat, renameat_with};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The names of good claims, before and after the bad one in any order of names.
const GOOD: [&str; 2] = ["c00000001", "cfffffff1"];
const BAD: &str = "c77777777";

/// A state with the witness beside it.
struct Place<'a> {
    state: State<'a>,
    witness: PathBuf,
}

impl<'a> Place<'a> {
    fn new(scene: &'a Scene, who: Who) -> Self {
        let state = State::new(env!("CARGO_BIN_EXE_killcord"), scene, who);
        let witness = scene.path("witness");
        for dir in ["", "void", "inner"] {
            state.directory(&witness.join(dir));
        }
        for dir in ["", "inner"] {
            state.file(&witness.join(dir).join("file"), "mine");
        }
        fifo(&witness.join("fifo"));
        Self { state, witness }
    }

    /// Plants the good ones and the bad one, which the test spoils, and sweeps. `None`: it goes.
    fn sweep(&self, what: &str, stays: Option<&str>, spoil: impl FnOnce(&Path)) {
        for good in GOOD {
            self.state.plant(good, &marker(dead()));
        }
        let bad = self.state.plant_job(BAD, JOB, &record("started", "namespace", dead()));
        spoil(&bad);
        let before = look(&self.witness);
        let swept = self.state.sweep(&[]);
        println!("{what}: {}", swept["errors"]);
        assert_eq!(swept["failed"], 0, "{what}: {swept:#}");
        match stays {
            Some(reason) => assert_swept(&swept, 2, &[(reason, 1)]),
            None => assert_swept(&swept, 3, &[]),
        }
        let unreadable = stays == Some("unreadable");
        assert_eq!(swept["errors"].as_array().unwrap().len(), usize::from(unreadable), "{what}: {swept:#}");
        self.state.start();
        let listed = run(&mut self.state.killcord(&["list"]), TEN);
        assert_eq!(listed.code(), 0, "{what}: {listed:?}");
        assert_eq!(look(&self.witness), before, "{what}");
        assert_eq!(bad.exists(), stays.is_some(), "{what}");
        if stays.is_some() {
            fs::remove_dir_all(bad).unwrap();
        }
    }
}

fn everywhere(test: impl Fn(&Place<'_>)) {
    for who in Who::here() {
        let scene = Scene::new();
        test(&Place::new(&scene, *who));
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

/// Everything below a directory, with all that changes when it is touched. Reading is no touch.
fn look(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut paths = vec![dir.to_owned()];
    while let Some(path) = paths.pop() {
        let m = fs::symlink_metadata(&path).unwrap();
        let times = (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        all.push(format!("{} {} {:o} {} {} {times:?}", path.display(), m.ino(), m.mode(), m.uid(), m.len()));
        if m.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all.sort();
    all
}

/// What can stand at a name instead of what should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Fifo,
    Device,
    LinkToFile,
    LinkToDirectory,
    LinkToEmptyDirectory,
    LinkToFifo,
    LinkToNothing,
    HardLink,
    Directory,
    Sparse,
    Empty,
    Half,
    Newer,
    OtherUsers,
}

const THINGS: [Thing; 14] = [
    Thing::Fifo,
    Thing::Device,
    Thing::LinkToFile,
    Thing::LinkToDirectory,
    Thing::LinkToEmptyDirectory,
    Thing::LinkToFifo,
    Thing::LinkToNothing,
    Thing::HardLink,
    Thing::Directory,
    Thing::Sparse,
    Thing::Empty,
    Thing::Half,
    Thing::Newer,
    Thing::OtherUsers,
];

impl Thing {
    fn is_regular(self) -> bool {
        matches!(self, Self::Sparse | Self::Empty | Self::Half | Self::Newer)
    }

    /// Puts it there; some need root.
    fn put(self, place: &Place<'_>, path: &Path) {
        let text = fs::read(path).unwrap_or_else(|_| b"{}".to_vec());
        match fs::symlink_metadata(path).unwrap() {
            m if self == Self::OtherUsers && m.is_dir() => {}
            m if m.is_dir() => fs::remove_dir_all(path).unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
        let state = &place.state;
        match self {
            Self::Fifo => fifo(path),
            Self::Device => {
                // Whoever reads it gets as much as he takes.
                let zero: Dev = makedev(1, 5);
                mknodat(CWD, path, FileType::CharacterDevice, Mode::RWXU, zero).unwrap();
            }
            Self::LinkToFile | Self::HardLink => {
                // What was there, which would do if it stood there itself.
                let good = state.scene.path("tmp").join("good");
                state.file(&good, &text);
                match self {
                    Self::HardLink => fs::hard_link(good, path).unwrap(),
                    _ => symlink(good, path).unwrap(),
                }
            }
            Self::LinkToEmptyDirectory => symlink(place.witness.join("void"), path).unwrap(),
            Self::LinkToDirectory => symlink(&place.witness, path).unwrap(),
            Self::LinkToFifo => symlink(place.witness.join("fifo"), path).unwrap(),
            Self::LinkToNothing => symlink(place.witness.join("none"), path).unwrap(),
            Self::Directory => state.directory(path),
            Self::Sparse => {
                state.file(path, &text);
                fs::File::options().write(true).open(path).unwrap().set_len(1 << 30).unwrap();
            }
            Self::Empty => state.file(path, ""),
            Self::Half => state.file(path, &text[..text.len() / 2]),
            Self::Newer => state.file(path, "{\"v\":2,\"place\":0}\n"),
            Self::OtherUsers => {
                if !path.exists() {
                    fs::write(path, text).unwrap();
                }
                let other = if state.uid() == 0 { USER } else { 0 };
                chown(path, Some(other), Some(other)).unwrap();
            }
        }
        if !matches!(self, Self::HardLink | Self::OtherUsers) {
            state.give(path);
        }
    }
}

/// Each thing in the place of this part of a claim.
fn in_place_of(part: &str, stays: impl Fn(&Place<'_>, Thing) -> Option<&'static str>) {
    everywhere(|place| {
        for thing in THINGS {
            if !can(thing) {
                skip!(Need::Root, continue);
            }
            let what = format!("{thing:?} for {part}");
            place.sweep(&what, stays(place, thing), |claim| thing.put(place, &claim.join(part)));
        }
    });
}

/// Whether the tests' own user can make it.
fn can(thing: Thing) -> bool {
    is_root() || !matches!(thing, Thing::Device | Thing::OtherUsers)
}

#[test]
fn a_marker_is_a_file_of_ours_or_says_nothing() {
    in_place_of("owner", |_, _| Some("unreadable"));
}

#[test]
fn a_record_is_a_file_of_ours_or_says_nothing() {
    in_place_of(&format!("jobs/{JOB}"), |_, _| Some("unreadable"));
}

#[test]
fn a_lease_is_a_file_of_ours_whatever_is_in_it() {
    in_place_of("lease", |_, thing| (!thing.is_regular()).then_some("unreadable"));
}

#[test]
fn the_place_of_records_is_a_directory() {
    in_place_of("jobs", |place, thing| match thing {
        // An empty one.
        Thing::Directory => None,
        // Root reads the records in it, which are its own.
        Thing::OtherUsers if place.state.who == Who::Root => None,
        _ => Some("unreadable"),
    });
}

#[test]
fn what_stands_for_the_jobs_directories_goes_and_is_not_followed() {
    // Another user's empty directory among it, which may be removed from ours.
    in_place_of("tmp", |_, _| None);
}

#[test]
fn what_stands_for_a_claim_is_kept_and_not_followed() {
    everywhere(|place| {
        for thing in THINGS.into_iter().filter(|thing| can(*thing) && *thing != Thing::OtherUsers) {
            // Nothing was ever written into an empty directory, and that is what a killed maker leaves.
            let stays = (thing != Thing::Directory).then_some("unreadable");
            let before = look(&place.witness);
            for good in GOOD {
                place.state.plant(good, &marker(dead()));
            }
            let bad = place.state.plant(BAD, &marker(dead()));
            thing.put(place, &bad);
            let swept = place.state.sweep(&[]);
            assert_swept(
                &swept,
                2 + u64::from(stays.is_none()),
                &[("unreadable", u64::from(stays.is_some()))],
            );
            assert_eq!(look(&place.witness), before, "{thing:?}");
            place.state.start();
            if stays.is_some() {
                fs::remove_file(&bad).unwrap();
            }
        }
    });
}

#[test]
fn numbers_that_are_no_owners() {
    everywhere(|place| {
        let init = procs::start_time(1).unwrap();
        let cases: [(Value, u64, Option<&str>); 8] = [
            (json!(0), 1, Some("unknown")),
            (json!(1), init, Some("owner alive")),
            (json!(1), init + 1, None),
            (json!(u32::MAX), 1, None),
            (json!(u64::from(u32::MAX) + 1), 1, Some("unreadable")),
            (json!(-1), 1, Some("unreadable")),
            (json!("1"), 1, Some("unreadable")),
            // The parent of the sweep.
            (json!(own().0), own().1, Some("owner alive")),
        ];
        for (pid, start, stays) in cases {
            let process = json!({"pid": pid, "start": start});
            place.sweep(&process.to_string(), stays, |claim| {
                let text = with(marker(dead()), &json!({"process": process})).to_string();
                place.state.file(&claim.join("owner"), text);
            });
            // As a keeper's it decides nothing: no number of a record is ever signalled.
            let stays = stays.filter(|reason| *reason == "unreadable");
            place.sweep(&format!("keeper {process}"), stays, |claim| {
                let text = with(record("started", "namespace", dead()), &json!({"keeper": process}));
                place.state.file(&claim.join("jobs").join(JOB), text.to_string());
            });
        }
    });
}

#[test]
fn a_marker_that_names_the_sweeper_itself_is_of_somebody_alive() {
    everywhere(|place| {
        let claim = place
            .state
            .plant(BAD, &with(marker(dead()), &json!({"process": {"pid": "@PID", "start": "@START"}})));
        let owner = claim.join("owner");
        let script = format!(
            "read -r stat </proc/$$/stat; for n in ${{stat##*) }}; do i=$((i+1)); [ $i = 20 ] && start=$n; done; \
             text=$(sed \"s/\\\"@PID\\\"/$$/; s/\\\"@START\\\"/$start/\" {0}); echo \"$text\" >{0}",
            owner.display()
        );
        let swept = run(&mut after(&script, &place.state.killcord(&["sweep", "--json"])), TEN);
        let swept: Value = serde_json::from_str(&swept.stdout).unwrap();
        assert!(!fs::read_to_string(&owner).unwrap().contains('@'));
        assert_swept(&swept, 0, &[("owner alive", 1)]);
        assert_swept(&place.state.sweep(&[]), 1, &[]);
    });
}

#[test]
fn a_record_that_names_no_cgroup_of_the_job() {
    everywhere(|place| {
        let inner = place.witness.join("inner");
        let leaves = ["", "/", "..", "relative", "/sys/fs/cgroup", inner.to_str().unwrap(), "/none/none"];
        for leaf in leaves {
            place.sweep(&format!("leaf {leaf:?}"), Some("unknown"), |claim| {
                let named = json!({"leaf": leaf, "limits": [leaf]});
                let text = with(record("started", "cgroup", dead()), &named);
                place.state.file(&claim.join("jobs").join(JOB), text.to_string());
            });
        }
    });
}

/// A job's own directory, made by this, goes whole.
fn goes(what: &str, make: impl Fn(&Place<'_>, &Path)) {
    everywhere(|place| {
        place.sweep(what, None, |claim| {
            let own = claim.join("tmp").join(&JOB[..12]);
            place.state.directory(&own);
            make(place, &own);
        });
        assert_eq!(place.state.names(), [""; 0], "{what}");
    });
}

#[test]
fn what_a_job_left_in_its_directory_goes_and_reaches_nothing_outside() {
    goes("a link out of it", |place, own| {
        fs::remove_dir(own).unwrap();
        symlink(&place.witness, own).unwrap();
    });
    goes("links in it", |place, own| {
        for (n, to) in ["", "file", "inner", "fifo", "none"].into_iter().enumerate() {
            symlink(place.witness.join(to), own.join(n.to_string())).unwrap();
        }
        symlink("../../../../witness", own.join("relative")).unwrap();
        fs::hard_link(place.state.scene.path("ids"), own.join("hard")).unwrap();
    });
    goes("FIFOs", |_, own| (0..10).for_each(|n| fifo(&own.join(n.to_string()))));
    goes("closed directories", |place, own| {
        let mut dir = own.to_owned();
        for _ in 0..5 {
            dir.push("closed");
            place.state.directory(&dir);
            place.state.file(&dir.join("file"), "");
        }
        while dir != own {
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o000)).unwrap();
            dir.pop();
        }
        fs::set_permissions(own, fs::Permissions::from_mode(0o000)).unwrap();
    });
    goes("names that are no text", |place, own| {
        for name in [&b"\xff\xfe"[..], b"new\nline", b"\x1b[2J", b"-rf", &[b'x'; 255]] {
            place.state.file(&own.join(OsStr::from_bytes(name)), "");
        }
    });
    goes("two hundred levels", |place, own| {
        let mut dir = own.to_owned();
        for _ in 0..200 {
            dir.push("d");
            place.state.directory(&dir);
        }
    });
}

#[test]
fn heavy_a_hundred_thousand_files_go_in_ten_seconds() {
    goes("100,000 files", |place, own| {
        for n in 0..100_000 {
            fs::File::create(own.join(n.to_string())).unwrap();
        }
        place.state.give(own);
    });
}

#[test]
fn a_mount_in_a_jobs_directory_is_left_alone() {
    if !is_root() {
        skip!(Need::Root);
    }
    let in_it = std::thread::spawn(|| {
        // What this thread starts is where its mounts are.
        killcord_sys::fixture::own_mounts().unwrap();
        let scene = Scene::new();
        let place = Place::new(&scene, Who::Root);
        for good in GOOD {
            place.state.plant(good, &marker(dead()));
        }
        let mount = place.state.plant(BAD, &marker(dead())).join("tmp/mount");
        place.state.directory(&mount);
        let before = look(&place.witness);
        rustix::mount::mount_bind(&place.witness, &mount).unwrap();
        let swept = place.state.sweep(&[]);
        println!("{swept:#}");
        assert_swept(&swept, 2, &[]);
        assert!(swept["failed"].as_u64().unwrap() > 0);
        assert!(swept["errors"][0].as_str().unwrap().ends_with("a mount point, which is left alone"));
        assert_eq!(look(&place.witness), before);
        let left = place.state.names();
        assert!(left.len() == 1 && left[0].starts_with(".trash-"), "{left:?}");
        // The owner is told where it is, and the rest goes when it is unmounted.
        place.state.start();
        rustix::mount::unmount(
            place.state.path.join(&left[0]).join("tmp/mount"),
            rustix::mount::UnmountFlags::empty(),
        )
        .unwrap();
        assert_swept(&place.state.sweep(&[]), 1, &[]);
        assert_eq!(look(&place.witness), before);
    });
    in_it.join().unwrap();
}

#[test]
fn heavy_what_is_exchanged_for_a_link_while_it_is_swept_leads_nowhere() {
    everywhere(|place| {
        // The claim itself, the place of its jobs' directories, and a directory far down in it.
        let inner = format!("tmp/{}/inner", &JOB[..12]);
        for part in ["", "jobs", "tmp", &inner] {
            let before = look(&place.witness);
            let mut exchanged = 0;
            for _ in 0..40 {
                let claim = place.state.plant(BAD, &marker(dead()));
                for dir in [&format!("tmp/{}", &JOB[..12]), &inner] {
                    place.state.directory(&claim.join(dir));
                    for n in 0..50 {
                        place.state.file(&claim.join(dir).join(n.to_string()), "");
                    }
                }
                let link = place.state.path.join("link");
                symlink(&place.witness, &link).unwrap();
                let over = AtomicBool::new(false);
                let target = claim.join(part);
                std::thread::scope(|scope| {
                    let busy = scope.spawn(|| {
                        let mut times = 0;
                        while !over.load(Ordering::Relaxed) {
                            // It is gone when it has been swept.
                            times += u32::from(
                                renameat_with(CWD, &target, CWD, &link, RenameFlags::EXCHANGE).is_ok(),
                            );
                        }
                        times
                    });
                    let swept = run(&mut place.state.killcord(&["sweep", "--json"]), TEN);
                    over.store(true, Ordering::Relaxed);
                    exchanged += busy.join().unwrap();
                    assert!(!swept.stdout.is_empty(), "{swept:?}");
                });
                for name in place.state.names() {
                    let path = place.state.path.join(name);
                    let is_dir = fs::symlink_metadata(&path).unwrap().is_dir();
                    if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
                }
            }
            assert_eq!(look(&place.witness), before, "{part:?}");
            println!("{part:?}: exchanged {exchanged} times");
            assert!(exchanged > 0, "{part:?}");
        }
    });
}
