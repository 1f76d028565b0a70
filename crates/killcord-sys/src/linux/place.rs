//! Within which a process number means one process: this start of the machine, this pid namespace, this time
//! namespace.

use std::io;

/// `/proc/sys/kernel/random/boot_id` (`random(4)`): new with each start of the machine.
pub fn boot_id() -> io::Result<String> {
    let text = super::proc::read_file("/proc/sys/kernel/random/boot_id")?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// The inode of our pid namespace (`namespaces(7)`).
pub fn pid_namespace() -> io::Result<u64> {
    inode("/proc/self/ns/pid")
}

/// The inode of our time namespace, which shifts the start times in `/proc`; `None` where the kernel has none.
pub fn time_namespace() -> Option<u64> {
    inode("/proc/self/ns/time").ok()
}

fn inode(path: &str) -> io::Result<u64> {
    Ok(rustix::fs::stat(path)?.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_when_asked_again() {
        assert_eq!(boot_id().ok(), boot_id().ok());
        assert!(boot_id().is_ok_and(|id| id.len() == 36));
        assert!(pid_namespace().is_ok_and(|inode| inode > 0));
    }
}
