//! Whether a job costs more when there are many: at once, and one after another.

use super::{Live, by_killcord, checked, ours, owner, silent};
use crate::measure::{Case, Found, Variant};
use crate::{Result, Setup};
use killcord::Boundary;
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
    let mut live = Live::none()?;
    let mut medians = Vec::new();
    for count in [1usize, 10, 100, 1000] {
        // The one that is measured is the last of so many.
        live.up_to(count - 1, &owner, setup)?;
        let case = Case {
            section: "Many jobs: start to exit of a tiny static program",
            name: format!("{}, {count} live at once", ours(boundary)),
            yardstick: Some(STD.to_owned()),
            ..Case::default()
        };
        let variants = vec![
            Variant::timed(STD, || checked(silent(&setup.tiny).status())),
            Variant::timed(ours(boundary), || by_killcord(&owner, &setup.tiny)),
        ];
        found.interleave(&case, setup.rounds(200, 20), variants);
        medians.extend(found.rows.last().map(|row| (count, row.median)));
    }
    live.end()?;
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

fn in_sequence(setup: &Setup, found: &mut Found, boundary: Boundary) -> Result<()> {
    let count = if setup.quick { 1000 } else { 10_000 };
    let owner = owner(setup, boundary)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        by_killcord(&owner, &setup.tiny)?;
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
