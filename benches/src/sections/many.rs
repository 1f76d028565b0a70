//! Whether a job costs more when there are many: at once, and one after another.

use super::{ours, owner, well};
use crate::measure::{Case, Found, Variant};
use crate::roles::{Held, Shape, tree_args};
use crate::{Result, Setup};
use killcord::{Boundary, Job, Owner};
use std::process::{Command, Stdio};
use std::time::Instant;

const STD: &str = "std::process";

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    for boundary in [Boundary::Tree, Boundary::Cgroup] {
        at_once(setup, found, boundary)?;
        in_sequence(setup, found, boundary)?;
    }
    Ok(())
}

fn at_once(setup: &Setup, found: &mut Found, boundary: Boundary) -> Result<()> {
    let owner = owner(setup, boundary)?;
    let (mut held, streams) = Held::new()?;
    let mut jobs: Vec<Job> = Vec::new();
    let mut medians = Vec::new();
    for count in [1usize, 10, 100, 1000] {
        // The one that is measured is the last of so many.
        while jobs.len() + 1 < count {
            let mut command = owner.command(&setup.own);
            command.args(tree_args(1, Shape::Wide, "many"));
            let copy = |fd: &std::os::fd::OwnedFd| fd.try_clone().map_err(|e| e.to_string());
            command.stdin(copy(&streams.life)?).stdout(copy(&streams.ready)?).stderr(copy(&streams.done)?);
            jobs.push(command.spawn().map_err(|e| format!("job {}: {e}", jobs.len()))?);
            held.wait_ready(1)?;
        }
        let case = Case {
            section: "Many jobs: start to exit of a tiny static program",
            name: format!("{}, {count} live at once", ours(boundary)),
            yardstick: Some(STD.to_owned()),
            ..Case::default()
        };
        let variants = vec![
            Variant::timed(STD, || {
                let mut command = Command::new(&setup.tiny);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().map(|_| ()).map_err(|e| e.to_string())
            }),
            Variant::timed(ours(boundary), || one(&owner, setup)),
        ];
        found.interleave(&case, setup.rounds(200, 20), variants);
        medians.extend(found.rows.last().map(|row| (count, row.median)));
    }
    drop(streams);
    for job in &jobs {
        job.end_now().map_err(|e| e.to_string())?;
    }
    for job in &mut jobs {
        job.wait().map_err(|e| e.to_string())?;
    }
    held.let_go()?;
    let at = |count| medians.iter().find(|(c, _)| *c == count).map(|(_, m)| *m);
    if let (Some(few), Some(many)) = (at(1), at(1000)) {
        growth(found, boundary, ("1 live job", few), ("1,000 live jobs", many));
    }
    Ok(())
}

fn growth(found: &mut Found, boundary: Boundary, (few, at_few): (&str, f64), (many, at_many): (&str, f64)) {
    let case = Case {
        section: "Many jobs: growth",
        name: format!("{}, {many} beside {few}", ours(boundary)),
        yardstick: Some(few.to_owned()),
        goals: vec![(format!("killcord with {many}"), few.to_owned(), 1.5)],
        ..Case::default()
    };
    found.add(&case, &[(few.to_owned(), vec![at_few]), (format!("killcord with {many}"), vec![at_many])]);
}

fn one(owner: &Owner, setup: &Setup) -> Result<()> {
    let end = owner.command(&setup.tiny).spawn().and_then(|mut job| job.wait());
    well(&end.map_err(|e| e.to_string())?)
}

fn in_sequence(setup: &Setup, found: &mut Found, boundary: Boundary) -> Result<()> {
    let count = if setup.quick { 1000 } else { 10_000 };
    let owner = owner(setup, boundary)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        one(&owner, setup)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let part = count / 10;
    let (first, last) = (format!("the first {part}"), format!("killcord, the last {part}"));
    let case = Case {
        section: "Many jobs: growth",
        name: format!("{}, {count} one after another", ours(boundary)),
        yardstick: Some(first.clone()),
        ..Case::default()
    };
    found.add(&case, &[(first, times[..part].to_vec()), (last, times[count - part..].to_vec())]);
    Ok(())
}
