use killcord_model::id::JobId;
use killcord_model::record::{Exit, Job, LARGEST, Owner, Unreadable, VERSION, decode, encode, program_name};
use killcord_model::sweep::{self, JobsProof, OwnerProof, Seen};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt::Debug;

/// The text of a marker, of a job's record or of an exit: it says nothing, or what it says is written and read again as
/// the same. No text proves the death of an owner that is seen to live, or that a job is over which runs here.
pub fn record(text: &[u8]) {
    if let Some(owner) = reads::<Owner>(text) {
        lives(&owner);
    }
    if let Some(job) = reads::<Job>(text) {
        let over = sweep::job_by_record(&job, &job.place);
        let reserved = job.state == killcord_model::record::State::Reserved;
        assert!(over != Some(JobsProof::Over) || reserved, "{job:?} is over, says itself");
    }
    reads::<Exit>(text);
    let name = program_name(text);
    assert!(name.chars().count() <= 64 && !name.contains(|c: char| c.is_control() || c == '/'), "{name:?}");
    if let Some(id) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<JobId>().ok()) {
        assert_eq!(id.to_string().as_bytes(), text.to_ascii_lowercase());
        assert_eq!(id.directory_name().len(), 12);
    }
}

fn reads<T: Serialize + DeserializeOwned + PartialEq + Debug>(text: &[u8]) -> Option<T> {
    let version = serde_json::from_slice::<Value>(text).ok().and_then(|value| value.get("v")?.as_u64());
    match decode::<T>(text) {
        Ok(what) => {
            assert_eq!(version, Some(u64::from(VERSION)), "another version was read: {what:?}");
            match encode(&what) {
                Ok(written) => assert_eq!(decode::<T>(&written).as_ref(), Ok(&what)),
                // What is escaped in JSON may be longer than it was.
                Err(e) => assert!(text.len() > LARGEST / 6, "{what:?}: {e}"),
            }
            Some(what)
        }
        Err(Unreadable::Newer(newer)) => {
            assert!(newer > VERSION, "{newer} is no newer version");
            None
        }
        Err(Unreadable::Malformed(why)) => {
            assert!(!why.is_empty());
            None
        }
    }
}

/// The owner of a marker, where a process with its number and its start time is seen.
fn lives(owner: &Owner) {
    let here = &owner.place;
    let seen = |start, dead| sweep::owner(owner, here, Seen::Process { start, dead });
    assert_ne!(seen(owner.process.start, false), OwnerProof::Dead, "{owner:?}");
    assert_ne!(seen(owner.process.start.wrapping_add(1), false), OwnerProof::Alive, "{owner:?}");
    assert_ne!(seen(owner.process.start, true), OwnerProof::Alive, "{owner:?}");
    assert_eq!(sweep::owner(owner, here, Seen::Unknown), OwnerProof::Unknown, "{owner:?}");
    let mut elsewhere = here.clone();
    elsewhere.pid_namespace = elsewhere.pid_namespace.wrapping_add(1);
    assert_eq!(sweep::owner(owner, &elsewhere, Seen::Gone), OwnerProof::Unknown, "{owner:?}");
}
