//! What it costs that other owners' claims lie about: a sweep of them, and a start among them.

use crate::measure::{Case, Found, Variant};
use crate::{Result, Setup};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    let template = Template::new(setup)?;
    let counts: &[usize] = if setup.quick { &[10, 100, 1000] } else { &[10, 100, 1000, 10_000] };
    for &count in counts {
        let case = Case {
            section: "Claims of dead owners",
            name: format!("killcord sweep, {count} claims with a job each"),
            ..Case::default()
        };
        let rounds = if count >= 1000 { setup.rounds(2, 1) } else { setup.rounds(10, 2) };
        let variant = Variant::new("killcord sweep", || {
            let state = template.state(count)?;
            let begun = std::time::Instant::now();
            let said = killcord(setup, state.path(), &["sweep"])?;
            let took = begun.elapsed();
            let left = claims(state.path());
            let kept = said.lines().filter(|line| !line.trim_start().starts_with("removed /"));
            let kept = || kept.collect::<Vec<_>>().join("; ");
            if left == 0 {
                Ok(took.as_secs_f64() * 1e6)
            } else {
                Err(format!("{left} of {count} claims stayed: {}", kept()))
            }
        });
        found.interleave(&case, rounds, vec![variant]);
    }
    let count = if setup.quick { 1000 } else { 10_000 };
    let empty = directory()?;
    let none = "no claim";
    let case = Case {
        section: "Claims of dead owners",
        name: "killcord run -- true, with claims about".to_owned(),
        yardstick: Some(none.to_owned()),
        ..Case::default()
    };
    // They are swept beside the start: each round has new ones.
    let states = std::cell::RefCell::new(Vec::new());
    let variants = vec![
        Variant::timed(none, || killcord(setup, empty.path(), &["run", "--", "true"]).map(|_| ())),
        Variant::new(format!("killcord, {count} claims"), || {
            let state = template.state(count)?;
            let begun = std::time::Instant::now();
            killcord(setup, state.path(), &["run", "--", "true"])?;
            let took = begun.elapsed().as_secs_f64() * 1e6;
            states.borrow_mut().push(state);
            Ok(took)
        }),
    ];
    found.interleave(&case, setup.rounds(10, 2), variants);
    for state in states.into_inner() {
        // Whoever still sweeps there has the files under its lock, and is done before this is.
        killcord(setup, state.path(), &["sweep"])?;
    }
    Ok(())
}

/// A state directory is its user's alone.
fn directory() -> Result<tempfile::TempDir> {
    let private = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().map_err(|e| e.to_string())
}

fn killcord(setup: &Setup, state: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(&setup.killcord);
    command.args(args).env("KILLCORD_STATE_DIR", state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(out)
    } else {
        Err(format!("killcord {args:?}: {}: {said}", output.status))
    }
}

fn claims(state: &Path) -> usize {
    fs::read_dir(state)
        .map_or(0, |entries| entries.flatten().filter(|e| e.path().join("owner").exists()).count())
}

/// A claim with one job, as it lay there while its owner lived: copied, it is the claim of an owner that was killed with
/// all its guards.
struct Template(tempfile::TempDir);

impl Template {
    fn new(setup: &Setup) -> Result<Self> {
        let (state, copy) = (directory()?, directory()?);
        // Of a program that is over by the time of the sweep: this one is alive.
        let mut run = Command::new(&setup.killcord);
        run.args(["run", "--boundary", "tree", "--", "sh", "-c", "echo ready; exec sleep 50"]);
        run.env("KILLCORD_STATE_DIR", state.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut living = run.spawn().map_err(|e| e.to_string())?;
        let mut said = [0; 6];
        living.stdout.take().ok_or("no stdout")?.read_exact(&mut said).map_err(|e| e.to_string())?;
        let entries = fs::read_dir(state.path()).map_err(|e| e.to_string())?;
        let claim = entries.flatten().map(|e| e.path()).find(|p| p.join("owner").exists());
        let copied = claim.ok_or_else(|| "the owner has no claim".to_owned());
        let copied = copied.and_then(|claim| copy_all(&claim, &copy.path().join("claim")));
        // Our unreaped child; its warden ends the job and removes the claim.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&living),
            rustix::process::Signal::TERM,
        );
        living.wait().map_err(|e| e.to_string())?;
        copied?;
        Ok(Self(copy))
    }

    /// A state directory with so many of them.
    fn state(&self, count: usize) -> Result<tempfile::TempDir> {
        let state = directory()?;
        for number in 0..count {
            copy_all(&self.0.path().join("claim"), &state.path().join(format!("c{number:08x}")))?;
        }
        Ok(state)
    }
}

/// Files and directories with their modes; a socket is nothing that could be copied.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let of = |e: std::io::Error| format!("{}: {e}", from.display());
    fs::create_dir(to).map_err(of)?;
    fs::set_permissions(to, fs::metadata(from).map_err(of)?.permissions()).map_err(of)?;
    for entry in fs::read_dir(from).map_err(of)?.flatten() {
        let kind = entry.file_type().map_err(of)?;
        if kind.is_dir() {
            copy_all(&entry.path(), &to.join(entry.file_name()))?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).map_err(of)?;
        }
    }
    Ok(())
}
