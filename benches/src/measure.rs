//! Variants of one thing, measured in turn, so that what else the machine does meets all of them alike.

use crate::Result;
use serde::Serialize;

/// One way to do the thing: `run` does it once and gives what it cost, in the case's unit.
pub(crate) struct Variant<'a> {
    pub(crate) name: String,
    run: Box<dyn FnMut() -> Result<f64> + 'a>,
}

impl<'a> Variant<'a> {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() -> Result<f64> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }

    /// One whose cost is the time that it takes, in microseconds.
    pub(crate) fn timed(name: impl Into<String>, mut run: impl FnMut() -> Result<()> + 'a) -> Self {
        Self::new(name, move || {
            let begun = std::time::Instant::now();
            run()?;
            Ok(begun.elapsed().as_secs_f64() * 1e6)
        })
    }
}

/// What is measured and what it is held against.
#[derive(Debug, Clone, Default)]
pub(crate) struct Case {
    /// The heading of the table.
    pub(crate) section: &'static str,
    /// What was done.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    /// The variant that the others are divided by.
    pub(crate) yardstick: Option<String>,
    /// Variant, the variant that it is held against, and how many times that it may cost.
    pub(crate) goals: Vec<(String, String, f64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Unit {
    /// Microseconds.
    #[default]
    #[serde(rename = "us")]
    Micros,
    /// KiB.
    #[serde(rename = "KiB")]
    Kib,
    /// MB in a second: more is better.
    #[serde(rename = "MB/s")]
    Rate,
}

/// What became of one variant of a case.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) section: &'static str,
    pub(crate) case: String,
    pub(crate) variant: String,
    pub(crate) unit: Unit,
    pub(crate) rounds: usize,
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    /// Its median divided by the yardstick's.
    pub(crate) ratio: Option<f64>,
    /// The same of each round: 10th and 90th percentile.
    pub(crate) ratio_p10: Option<f64>,
    pub(crate) ratio_p90: Option<f64>,
    pub(crate) yardstick: Option<String>,
    pub(crate) goal: Option<Goal>,
    /// What a reader has to know to read the figure.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Goal {
    pub(crate) against: String,
    pub(crate) at_most: f64,
    pub(crate) is: f64,
    pub(crate) met: bool,
}

/// A variant that could not be measured here.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Missing {
    pub(crate) section: &'static str,
    pub(crate) case: String,
    pub(crate) variant: String,
    pub(crate) why: String,
}

/// Everything that was found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    pub(crate) missing: Vec<Missing>,
}

impl Found {
    /// Runs each variant once to see whether it works, then all of them so many rounds, each round in an order of its
    /// own. What fails is named with its reason, and the others go on.
    pub(crate) fn interleave(&mut self, case: &Case, rounds: usize, variants: Vec<Variant<'_>>) {
        let mut there: Vec<(Variant<'_>, Vec<f64>)> = Vec::new();
        for mut variant in variants {
            match (variant.run)() {
                Ok(_) => there.push((variant, Vec::new())),
                Err(why) => self.not_here(case, &variant.name, why),
            }
        }
        for round in 0..rounds + warm_up(rounds) {
            let mut order: Vec<usize> = (0..there.len()).collect();
            fastrand::shuffle(&mut order);
            for index in order {
                let (variant, costs) = &mut there[index];
                match (variant.run)() {
                    Ok(cost) if round >= warm_up(rounds) => costs.push(cost),
                    Ok(_) => {}
                    Err(why) => {
                        let name = variant.name.clone();
                        self.not_here(case, &name, format!("round {round}: {why}"));
                        there.remove(index);
                        break;
                    }
                }
            }
            crate::report::progress(case, round + 1, rounds + warm_up(rounds));
        }
        let samples: Vec<(String, Vec<f64>)> = there.into_iter().map(|(v, costs)| (v.name, costs)).collect();
        self.add(case, &samples);
    }

    pub(crate) fn not_here(&mut self, case: &Case, variant: &str, why: impl Into<String>) {
        self.missing.push(Missing {
            section: case.section,
            case: case.name.clone(),
            variant: variant.to_owned(),
            why: why.into(),
        });
    }

    /// Takes what was measured, one list of costs for each variant.
    pub(crate) fn add(&mut self, case: &Case, samples: &[(String, Vec<f64>)]) {
        let of = |name: &str| samples.iter().find(|(n, _)| n == name).map(|(_, costs)| costs);
        let yardstick = case.yardstick.as_deref().and_then(of);
        for (name, costs) in samples.iter().filter(|(_, costs)| !costs.is_empty()) {
            let paired = yardstick.filter(|y| y.len() == costs.len());
            let ratios = paired.map(|y| costs.iter().zip(y).map(|(a, b)| a / b).collect::<Vec<_>>());
            let goal =
                case.goals.iter().find(|(variant, ..)| variant == name).and_then(|(_, against, at_most)| {
                    let is = quantile(costs, 0.5) / quantile(of(against)?, 0.5);
                    Some(Goal { against: against.clone(), at_most: *at_most, is, met: is <= *at_most })
                });
            self.rows.push(Row {
                section: case.section,
                case: case.name.clone(),
                variant: name.clone(),
                unit: case.unit,
                rounds: costs.len(),
                median: quantile(costs, 0.5),
                p10: quantile(costs, 0.1),
                p90: quantile(costs, 0.9),
                ratio: yardstick.map(|y| quantile(costs, 0.5) / quantile(y, 0.5)),
                ratio_p10: ratios.as_deref().map(|r| quantile(r, 0.1)),
                ratio_p90: ratios.as_deref().map(|r| quantile(r, 0.9)),
                yardstick: case.yardstick.clone().filter(|_| yardstick.is_some()),
                goal,
                note: None,
            });
        }
    }

    /// Says what has to be known about a figure, behind that.
    pub(crate) fn note(&mut self, case: &Case, variant: &str, note: impl Into<String>) {
        let note = note.into();
        let row = self
            .rows
            .iter_mut()
            .find(|r| r.section == case.section && r.case == case.name && r.variant == variant);
        if let Some(row) = row {
            row.note = Some(note);
        }
    }
}

/// Rounds that are thrown away: they warm the caches.
fn warm_up(rounds: usize) -> usize {
    (rounds / 10).min(10)
}

/// Linear between the two nearest values.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    let position = part * last as f64;
    let (low, high) = (values[position.floor() as usize], values[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_two_nearest_values() {
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), 2.5);
        assert_eq!(quantile(&[5.0], 0.9), 5.0);
        assert_eq!(quantile(&[0.0, 10.0], 0.1), 1.0);
    }

    #[test]
    fn a_ratio_is_of_medians_and_a_goal_that_is_missed_is_said() {
        let case = Case {
            section: "s",
            name: "c".to_owned(),
            yardstick: Some("theirs".to_owned()),
            goals: vec![("ours".to_owned(), "theirs".to_owned(), 1.5)],
            ..Case::default()
        };
        let mut found = Found::default();
        found.add(
            &case,
            &[("ours".to_owned(), vec![2.0, 4.0, 6.0]), ("theirs".to_owned(), vec![1.0, 2.0, 3.0])],
        );
        let ours = &found.rows[0];
        assert_eq!((ours.ratio, ours.ratio_p10, ours.median), (Some(2.0), Some(2.0), 4.0));
        assert!(!ours.goal.as_ref().unwrap().met);
    }

    #[test]
    fn what_fails_is_named_and_the_others_go_on() {
        let case = Case { section: "s", name: "c".to_owned(), ..Case::default() };
        let mut found = Found::default();
        let variants =
            vec![Variant::new("works", || Ok(1.0)), Variant::new("fails", || Err("not installed".into()))];
        found.interleave(&case, 3, variants);
        assert_eq!((found.rows.len(), found.missing.len()), (1, 1));
        assert_eq!(found.missing[0].why, "not installed");
    }
}
