use crate::input::{Input, scratch};
use killcord::fuzzing::{Record, read_claim};
use killcord_model::id::JobId;
use killcord_model::record::{self, LARGEST, Owner, Place, Process};
use killcord_model::sweep::{LeaseProof, OwnerProof};
use killcord_sys::files;
use killcord_sys::os::{AsFd, OsStrExt};
use rustix::fs::{CWD, FileType, Mode};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::Path;

const NAME: &str = "c00000000";
/// More jobs show nothing more.
const JOBS: u8 = 3;

/// What stands where a file should be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    File,
    Missing,
    Directory,
    Fifo,
    Link,
    TwoNames,
    TooLarge,
    /// The real thing: a lease that is held, a marker of this process.
    Ours,
}

impl Stands {
    fn of(byte: u8) -> Self {
        let all = [
            Self::File,
            Self::Ours,
            Self::Missing,
            Self::Directory,
            Self::Fifo,
            Self::Link,
            Self::TwoNames,
            Self::TooLarge,
        ];
        all[usize::from(byte) % all.len()]
    }

    /// Puts it there.
    fn put(self, path: &Path, outside: &Path, text: &[u8]) {
        match self {
            Self::Missing => {}
            Self::Directory => fs::create_dir(path).unwrap(),
            Self::Fifo => rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            Self::Link => rustix::fs::symlink(outside, path).unwrap(),
            Self::TwoNames => {
                fs::write(path, text).unwrap();
                fs::hard_link(path, path.with_extension("again")).unwrap();
            }
            Self::TooLarge => {
                let mut long = text.to_vec();
                long.resize(LARGEST + 1, b' ');
                fs::write(path, long).unwrap();
            }
            Self::File | Self::Ours => fs::write(path, text).unwrap(),
        }
    }
}

/// A claim that somebody else has made, of files, links, FIFOs and directories with anything in them: it is read at once,
/// nothing in it is changed, and it proves the death of an owner only where the marker that killcord writes says so.
pub fn claim(data: &[u8]) {
    let mut input = Input(data);
    let here = Place { boot: "boot".to_owned(), pid_namespace: 1, time_namespace: 0 };
    let within = scratch();
    let state = within.path().join("state");
    files::make_directory(&state).unwrap();
    let (dir, outside) = (state.join(NAME), state.join("outside"));
    fs::create_dir(&dir).unwrap();
    fs::write(&outside, record::encode(&ours(&here)).unwrap()).unwrap();

    let (lease, marker) = (Stands::of(input.byte()), Stands::of(input.byte()));
    lease.put(&dir.join("lease"), &outside, b"");
    let text = match marker {
        Stands::Ours => record::encode(&ours(&here)).unwrap(),
        _ => input.until(0).to_vec(),
    };
    marker.put(&dir.join("owner"), &outside, &text);
    let listed = jobs(&mut input, &dir, &outside);
    let held = (lease == Stands::Ours).then(|| File::open(dir.join("lease")).unwrap());
    assert!(held.as_ref().is_none_or(|file| files::hold(file.as_fd()).unwrap()));

    let read = read_claim(&state, OsStr::new(NAME), &here).unwrap();

    let whole = matches!(marker, Stands::File | Stands::Ours) && text.len() <= LARGEST;
    let said = record::decode::<Owner>(&text).ok().filter(|_| whole);
    assert_eq!(read.marker, said);
    let proof = match lease {
        Stands::File | Stands::TooLarge => LeaseProof::Free,
        Stands::Ours => LeaseProof::Held,
        _ => LeaseProof::Unknown,
    };
    assert_eq!(read.lease, proof);
    match (&said, marker) {
        (_, Stands::Ours) => assert_eq!(read.owner, OwnerProof::Alive),
        (Some(owner), _) => {
            let dead = owner.place.boot != here.boot || owner.place == here;
            assert!(dead || read.owner == OwnerProof::Unknown, "{owner:?}: {:?}", read.owner);
        }
        (None, Stands::Missing) => assert_eq!(read.owner == OwnerProof::Dead, proof == LeaseProof::Free),
        (None, _) => {
            assert_eq!(read.owner, OwnerProof::Unknown);
            assert!(read.unreadable.is_some());
        }
    }
    assert_eq!(read.is_bare, (marker, lease) == (Stands::Missing, Stands::Missing));
    drop(held);
    same_jobs(read.jobs.unwrap(), listed);
    assert!(!whole || fs::read(dir.join("owner")).unwrap() == text);
}

/// A marker of this process, which lives.
fn ours(here: &Place) -> Owner {
    let (pid, start) = killcord_sys::process::own_start().unwrap();
    let process = Process { pid, start };
    Owner { place: here.clone(), process, program: "fuzzed".to_owned(), since: 0, service: None }
}

/// What is to be read of a job's record.
type Expected = (OsString, Option<(JobId, record::Job)>);

fn jobs(input: &mut Input<'_>, dir: &Path, outside: &Path) -> Vec<Expected> {
    let list = dir.join("jobs");
    fs::create_dir(&list).unwrap();
    let mut expected = Vec::new();
    for number in 0..input.byte() % (JOBS + 1) {
        let kind = Stands::of(input.byte());
        let name = match input.until(0) {
            // A name cannot be empty, or lead elsewhere; for these it is a job's.
            name if name.is_empty() || name.len() > 100 || name.contains(&b'/') || name.starts_with(b".") => {
                OsString::from(format!("{number:032x}"))
            }
            name => OsStr::from_bytes(name).to_owned(),
        };
        let text = input.until(0);
        let path = list.join(&name);
        if kind == Stands::Missing || path.symlink_metadata().is_ok() {
            continue;
        }
        kind.put(&path, outside, text);
        if kind == Stands::TwoNames {
            // The second name of it is in the list, too.
            let _ = fs::rename(path.with_extension("again"), dir.join(format!("again-{number}")));
        }
        let whole = matches!(kind, Stands::File | Stands::Ours) && text.len() <= LARGEST;
        let id = name.to_str().and_then(|name| name.parse().ok());
        expected.push((name, id.zip(record::decode(text).ok()).filter(|_| whole)));
    }
    expected
}

fn same_jobs(read: Vec<Record>, mut expected: Vec<Expected>) {
    let mut read: Vec<Expected> = read.into_iter().map(|(name, job)| (name, job.ok())).collect();
    read.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(read, expected);
}
