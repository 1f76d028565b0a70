//! One `killcord run -- true`, from before its start until it is reaped, beside the commands that do a part of that.

use crate::measure::{Case, Found, Variant};
use crate::{Result, Setup};
use std::process::{Command, Stdio};

const TIMEOUT: &str = "timeout 60 true";
const BWRAP: &str = "bwrap --die-with-parent --unshare-pid";
const KILLCORD: &str = "killcord run -- true";

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    let case = Case {
        section: "Command: killcord run -- true",
        name: "start to exit".to_owned(),
        yardstick: Some(TIMEOUT.to_owned()),
        goals: vec![
            (KILLCORD.to_owned(), TIMEOUT.to_owned(), 1.3),
            // The same figure, held against another peer.
            ("killcord run --boundary namespace".to_owned(), BWRAP.to_owned(), 1.0),
        ],
        ..Case::default()
    };
    let killcord = setup.killcord.to_string_lossy().into_owned();
    let processkit = setup.tools.join("bin/processkit-cli").to_string_lossy().into_owned();
    let with = |kind: &str| {
        vec![killcord.clone(), "run".into(), "--boundary".into(), kind.into(), "--".into(), "true".into()]
    };
    let words = |line: &str| line.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
    let candidates = vec![
        ("true", words("true")),
        (TIMEOUT, words(TIMEOUT)),
        (KILLCORD, [killcord.clone()].into_iter().chain(words("run -- true")).collect()),
        ("killcord run --boundary tree", with("tree")),
        ("killcord run --boundary namespace", with("namespace")),
        ("setsid -w true", words("setsid -w true")),
        ("tini -s true", words("tini -s -- true")),
        ("dumb-init true", words("dumb-init true")),
        ("catatonit true", words("catatonit -- true")),
        (BWRAP, words("bwrap --die-with-parent --unshare-pid --dev-bind / / true")),
        ("unshare -pf --kill-child true", words("unshare -pf --kill-child true")),
        ("systemd-run --user --scope true", words("systemd-run --user --scope --quiet true")),
        ("processkit-cli", [processkit].into_iter().chain(words("run --jsonl /dev/null -- true")).collect()),
    ];
    let variants =
        candidates.into_iter().map(|(name, argv)| Variant::timed(name, move || once(&argv))).collect();
    found.interleave(&case, setup.rounds(300, 40), variants);
    let against =
        Case { name: format!("start to exit, beside `{BWRAP}`"), yardstick: Some(BWRAP.to_owned()), ..case };
    also(found, &against, KILLCORD, BWRAP, 0.6);
    Ok(())
}

/// A figure that is there, held against a second peer.
fn also(found: &mut Found, case: &Case, ours: &str, theirs: &str, at_most: f64) {
    let of = |name: &str| found.rows.iter().find(|r| r.section == case.section && r.variant == name).cloned();
    let (Some(mut row), Some(peer)) = (of(ours), of(theirs)) else { return };
    let is = row.median / peer.median;
    row.case = case.name.clone();
    row.yardstick = case.yardstick.clone();
    (row.ratio, row.ratio_p10, row.ratio_p90) = (Some(is), None, None);
    row.goal = Some(crate::measure::Goal { against: theirs.to_owned(), at_most, is, met: is <= at_most });
    found.rows.push(row);
}

fn once(argv: &[String]) -> Result<()> {
    let [program, args @ ..] = argv else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|e| {
        if e.kind() == std::io::ErrorKind::NotFound { "not installed".to_owned() } else { e.to_string() }
    })?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().lines().next().unwrap_or_default().to_owned();
    Err(format!("{}: {said}", output.status))
}
