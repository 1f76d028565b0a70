//! What is the same before and after: this process's descriptors, its children, the terminals that somebody holds.

use rustix::process::{WaitOptions, wait};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long what is on its way may take to be gone: a sweep in the background runs for 20 s at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// How it was.
pub(crate) struct Before {
    descriptors: usize,
    children: usize,
    terminals: BTreeSet<PathBuf>,
    cgroups: BTreeSet<PathBuf>,
}

impl Before {
    pub(crate) fn look() -> Self {
        Self {
            descriptors: descriptors(),
            children: children().len(),
            terminals: terminals(),
            cgroups: cgroups(),
        }
    }

    /// What is there now and was not, when it has had time to go.
    pub(crate) fn what_is_left(&self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.look_again();
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// How many cgroups have come. Those of owners in a corner are looked for there; these are of inner owners that their
    /// outer job has ended, whose claims no sweep can prove dead before the next boot.
    pub(crate) fn cgroups_more(&self) -> u32 {
        cgroups().difference(&self.cgroups).count() as u32
    }

    fn look_again(&self) -> Vec<String> {
        // Everything that was started here was reaped by who started it. What is reaped now is nobody's: the sweeps of
        // owners outside a nest.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let mut left = Vec::new();
        if descriptors() != self.descriptors {
            let open: Vec<_> = fs::read_dir("/proc/self/fd")
                .unwrap()
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok())
                .collect();
            left.push(format!("{} descriptors, not {}: {open:?}", descriptors(), self.descriptors));
        }
        if children().len() != self.children {
            left.push(format!("these are children of the harness: {:?}", children()));
        }
        for terminal in terminals().difference(&self.terminals).filter(|name| !held_by_a_stranger(name)) {
            left.push(format!("the terminal {} is left", terminal.display()));
        }
        left
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> Vec<killcord_testkit::procs::Stat> {
    crate::den::below(std::process::id())
}

fn cgroups() -> BTreeSet<PathBuf> {
    let entries = killcord_testkit::Host::get().cgroup_dir().and_then(|dir| fs::read_dir(dir).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"killcord-")))
        .collect()
}

fn terminals() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir("/dev/pts").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// On a machine that others use too, terminals come. All of ours are descendants or this process itself, and these
/// have been looked at: who else holds one is a stranger.
fn held_by_a_stranger(terminal: &std::path::Path) -> bool {
    let me = std::process::id();
    let number = terminal.file_name().unwrap_or_default().to_string_lossy().into_owned();
    killcord_testkit::procs::all().into_iter().filter(|pid| *pid != me).any(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.map(|entry| entry.path())
            .any(|path| fs::read_link(&path).is_ok_and(|to| to == terminal) || is_master(&path, &number))
    })
}

/// The other side says in `fdinfo` whose it is.
fn is_master(descriptor: &std::path::Path, number: &str) -> bool {
    let info = descriptor.to_string_lossy().replace("/fd/", "/fdinfo/");
    let text = fs::read_to_string(info).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("tty-index:")).any(|index| index.trim() == number)
}
