//! A cgroup of our own, as a peer would use it.

use crate::Result;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A cgroup v2 below ours.
pub(crate) struct Leaf(PathBuf);

impl Leaf {
    pub(crate) fn new(what: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = own()?.join(format!("killcord-bench-{what}-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }

    /// A command that enters it and becomes that program.
    pub(crate) fn enter(&self, program: &Path, args: &[String]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo 0 >\"$0\" && exec \"$@\""])
            .arg(self.0.join("cgroup.procs"))
            .arg(program)
            .args(args);
        command
    }

    pub(crate) fn kill(&self) -> Result<()> {
        fs::write(self.0.join("cgroup.kill"), "1").map_err(|e| format!("cgroup.kill: {e}"))
    }

    pub(crate) fn populated(&self) -> Result<bool> {
        let events =
            fs::read_to_string(self.0.join("cgroup.events")).map_err(|e| format!("cgroup.events: {e}"))?;
        Ok(!events.lines().any(|line| line == "populated 0"))
    }
}

impl Drop for Leaf {
    /// Removes it. Whoever has closed its descriptors may still be in it for a moment, on its way out.
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            match fs::remove_dir(&self.0) {
                Err(e) if e.kind() == ErrorKind::ResourceBusy && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // In a forked copy it has been removed by the other one.
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return eprintln!("killcord-bench: {} stays: {e}", self.0.display());
                }
                _ => return,
            }
        }
    }
}

/// Our own v2 cgroup (`cgroups(7)`, `/proc/self/cgroup`).
fn own() -> Result<PathBuf> {
    let of = |e: std::io::Error| format!("cgroup v2: {e}");
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(of)?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then_some(at)
    });
    let cgroups = fs::read_to_string("/proc/self/cgroup").map_err(of)?;
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("no cgroup v2 here")?;
    Ok(Path::new(mount.ok_or("no cgroup v2 is mounted")?).join(path))
}
