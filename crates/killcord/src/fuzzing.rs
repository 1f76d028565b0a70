//! What is read of a claim by itself, for the fuzz targets.

use crate::claim::{Marker, Reading, Root};
use killcord_model::id::JobId;
use killcord_model::record::{Job, Owner, Place};
use killcord_model::sweep::{LeaseProof, OwnerProof};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// The name of a record's file, and what it says or why it says nothing.
pub type Record = (OsString, Result<(JobId, Job), String>);

/// A claim as a sweep reads it, before it acts on anything.
#[derive(Debug)]
pub struct Claim {
    /// What is known of its owner.
    pub owner: OwnerProof,
    /// What is known of its lease.
    pub lease: LeaseProof,
    /// What its marker says; none where it says nothing.
    pub marker: Option<Owner>,
    /// Whether nothing was ever written into it.
    pub is_bare: bool,
    /// Why marker or lease say nothing, though they are there.
    pub unreadable: Option<String>,
    /// Its jobs' records by the names of their files, or why the list cannot be read.
    pub jobs: io::Result<Vec<Record>>,
}

/// Reads the claim of this name in a state directory.
///
/// # Errors
/// When the state directory or the claim is no directory of this user's alone.
pub fn read_claim(state: &Path, name: &OsStr, here: &Place) -> io::Result<Claim> {
    let root = Root::open(Some(state)).map_err(io::Error::other)?;
    let reading = Reading::of(&root, name, here)?;
    Ok(Claim {
        owner: reading.owner,
        lease: reading.lease(),
        is_bare: reading.is_bare(),
        unreadable: reading.unreadable(),
        jobs: reading.jobs(),
        marker: match reading.marker {
            Marker::Is(owner) => Some(owner),
            Marker::Missing | Marker::Unreadable(_) => None,
        },
    })
}
