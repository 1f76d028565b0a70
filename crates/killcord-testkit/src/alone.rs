//! Tests that must not meet each other, also not those of another run on the same machine.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{FlockOperation, flock};

/// Waits until no other holder is left on this machine and holds the place until it is dropped.
///
/// For tests that measure time or take all of a limit that is counted per user. Panics where the temp directory
/// is not usable.
pub fn alone() -> File {
    let make = || -> io::Result<File> {
        let path = std::env::temp_dir().join("killcord-testkit-alone");
        // Opened as it is, if it is there: where /tmp is sticky, nobody but its owner may open it to create it.
        let file = File::open(&path).or_else(|_| {
            let file = File::create(&path)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            Ok::<_, io::Error>(file)
        })?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    };
    make().unwrap_or_else(|e| panic!("cannot wait for the other tests: {e}"))
}
