//! From SIGKILL of an owner until everything that it started is dead.

use crate::measure::{Case, Found, Variant};
use crate::roles::Held;
use crate::{Result, Setup};
use std::process::Command;
use std::time::{Duration, Instant};

const BARE: &str = "bare: pipe and cgroup.kill";

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    for count in [100, 1000] {
        let case = Case {
            section: "Owner killed: SIGKILL to all dead",
            name: format!("{count} processes"),
            yardstick: Some(BARE.to_owned()),
            goals: ["killcord tree", "killcord cgroup"]
                .into_iter()
                .filter(|_| count == 1000)
                .map(|name| (name.to_owned(), BARE.to_owned(), 1.3))
                .collect(),
            ..Case::default()
        };
        let owners = [
            (BARE, "bare"),
            ("bwrap --die-with-parent --unshare-pid", "bwrap"),
            ("killcord tree", "tree"),
            ("killcord cgroup", "cgroup"),
            ("killcord namespace", "namespace"),
        ];
        let variants = owners.map(|(name, kind)| Variant::new(name, move || once(setup, kind, count)));
        found.interleave(&case, setup.rounds(20, 4), variants.into());
    }
    Ok(())
}

fn once(setup: &Setup, kind: &str, count: usize) -> Result<f64> {
    let mut command = Command::new(&setup.own);
    command.args(["role:owner", kind, &count.to_string()]).arg(&setup.killcord);
    let (mut held, mut owner) = Held::up(command, count)?;
    let begun = Instant::now();
    owner.kill().map_err(|e| e.to_string())?;
    let over = held.is_over_within(Duration::from_secs(10));
    let took = begun.elapsed();
    held.let_go()?;
    owner.wait().map_err(|e| e.to_string())?;
    if over { Ok(took.as_secs_f64() * 1e6) } else { Err("somebody outlived the owner by 10 s".to_owned()) }
}
