//! The figures as a table, as JSON and as a plot.

use crate::measure::{Case, Found, Row, Unit};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

/// What everything was measured on.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) processors: usize,
    pub(crate) kernel: String,
    pub(crate) model: String,
    pub(crate) load: String,
    pub(crate) quick: bool,
}

/// One line that is written over, on a terminal only.
pub(crate) fn progress(case: &Case, done: usize, of: usize) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let end = if done == of { "\r\x1b[K" } else { "" };
        let _ = write!(stderr, "\r\x1b[K{}: {}: {done}/{of}{end}", case.section, case.name);
        let _ = stderr.flush();
    }
}

/// A value in a unit that is read easily.
fn value(unit: Unit, v: f64) -> String {
    match unit {
        Unit::Micros if v >= 1e6 => format!("{:.2} s", v / 1e6),
        Unit::Micros if v >= 1e3 => format!("{:.2} ms", v / 1e3),
        Unit::Micros => format!("{v:.1} µs"),
        Unit::Kib if v >= 10_240.0 => format!("{:.1} MiB", v / 1024.0),
        Unit::Kib => format!("{v:.0} KiB"),
        Unit::Rate => format!("{v:.0} MB/s"),
    }
}

fn ratio(v: f64) -> String {
    if v >= 0.1 { format!("{v:.2}") } else { format!("{v:.3}") }
}

fn goal(row: &Row) -> String {
    row.goal.as_ref().map_or_else(String::new, |goal| {
        let said = if goal.met { "met" } else { "MISSED" };
        format!("{} <= {} x {}: {said}", ratio(goal.is), goal.at_most, goal.against)
    })
}

/// The rows of one case.
fn cases(found: &Found) -> Vec<Vec<&Row>> {
    let mut all: Vec<Vec<&Row>> = Vec::new();
    for row in &found.rows {
        match all.iter_mut().find(|c| c[0].section == row.section && c[0].case == row.case) {
            Some(case) => case.push(row),
            None => all.push(vec![row]),
        }
    }
    all
}

/// Cells of a row: variant, median, p10, p90, ratio with its spread, goal, note.
fn cells(row: &Row) -> [String; 7] {
    let spread = match (row.ratio, row.ratio_p10, row.ratio_p90) {
        (Some(r), Some(low), Some(high)) => format!("{} ({}-{})", ratio(r), ratio(low), ratio(high)),
        (Some(r), ..) => ratio(r),
        _ => "-".to_owned(),
    };
    [
        row.variant.clone(),
        value(row.unit, row.median),
        value(row.unit, row.p10),
        value(row.unit, row.p90),
        spread,
        goal(row),
        row.note.clone().unwrap_or_default(),
    ]
}

const HEADS: [&str; 7] = ["", "median", "p10", "p90", "ratio (p10-p90)", "goal", ""];

/// The table for a terminal or a file.
pub(crate) fn table(machine: &Machine, found: &Found) -> String {
    let mut text = String::new();
    for case in cases(found) {
        let rows: Vec<[String; 7]> = case.iter().map(|row| cells(row)).collect();
        let widths: Vec<usize> = (0..7)
            .map(|i| rows.iter().map(|r| r[i].chars().count()).chain([HEADS[i].len()]).max().unwrap_or(0))
            .collect();
        let by = case[0].yardstick.as_ref().map_or_else(String::new, |y| format!(", divided by `{y}`"));
        let _ = writeln!(text, "\n{}: {}{by}, {} rounds", case[0].section, case[0].case, case[0].rounds);
        for row in [HEADS.map(ToOwned::to_owned)].iter().chain(&rows) {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = width - cell.chars().count();
                let left = matches!(i, 0 | 5 | 6);
                let _ = match left {
                    true => write!(line, "{cell}{}  ", " ".repeat(gap)),
                    false => write!(line, "{}{cell}  ", " ".repeat(gap)),
                };
            }
            let _ = writeln!(text, "  {}", line.trim_end());
        }
    }
    if !found.missing.is_empty() {
        text.push_str("\nnot measured:\n");
        for m in &found.missing {
            let _ = writeln!(text, "  {}: {}: {}: {}", m.section, m.case, m.variant, m.why);
        }
    }
    let missed = found.rows.iter().filter(|r| r.goal.as_ref().is_some_and(|g| !g.met)).count();
    let met = found.rows.iter().filter(|r| r.goal.as_ref().is_some_and(|g| g.met)).count();
    let _ = writeln!(text, "\ngoals: {met} met, {missed} missed");
    let _ = writeln!(
        text,
        "{} processors ({}), Linux {}, load {} at the start; commit {}, {}",
        machine.processors, machine.model, machine.kernel, machine.load, machine.commit, machine.date
    );
    text
}

/// The same for a document.
pub(crate) fn markdown(machine: &Machine, found: &Found) -> String {
    let mut text = format!(
        "Measured on {}: {} processors ({}), Linux {}, load {} at the start, commit {}.\n",
        machine.date, machine.processors, machine.model, machine.kernel, machine.load, machine.commit
    );
    let mut section = "";
    for case in cases(found) {
        if case[0].section != section {
            section = case[0].section;
            let _ = writeln!(text, "\n### {section}");
        }
        let by = case[0].yardstick.as_ref().map_or_else(String::new, |y| format!(", divided by `{y}`"));
        let _ = writeln!(text, "\n{}{by}, {} rounds:\n", case[0].case, case[0].rounds);
        text.push_str(
            "| variant | median | p10 | p90 | ratio (p10-p90) | goal | |\n|---|--:|--:|--:|--:|---|---|\n",
        );
        for row in case {
            let _ = writeln!(text, "| {} |", cells(row).join(" | "));
        }
    }
    if !found.missing.is_empty() {
        text.push_str("\nNot measured there:\n\n");
        for m in &found.missing {
            let _ = writeln!(text, "- {}, {}: {} ({})", m.section, m.case, m.variant, m.why);
        }
    }
    text
}

/// Bars of every case that has a yardstick: the ratio on a logarithmic scale, with a line from its 10th to its 90th
/// percentile.
pub(crate) fn plot(machine: &Machine, found: &Found) -> String {
    const LABEL: f64 = 330.0;
    const WIDTH: f64 = 520.0;
    const LINE: f64 = 17.0;
    let cases: Vec<_> = cases(found).into_iter().filter(|c| c.iter().any(|r| r.ratio.is_some())).collect();
    let rows: usize = cases.iter().map(|c| c.len() + 2).sum();
    let height = rows as f64 * LINE + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" font-weight=\"bold\">killcord beside its peers: ratio of medians, \
         each divided by the variant at 1</text>\n<text x=\"10\" y=\"38\" fill=\"#555\">{}</text>\n",
        LABEL + WIDTH + 90.0,
        escaped(&format!(
            "{}, {} processors ({}), Linux {}, commit {}; thin line: 10th to 90th percentile of single rounds",
            machine.date, machine.processors, machine.model, machine.kernel, machine.commit
        ))
    );
    let mut y = 60.0;
    for case in cases {
        let all = case.iter().flat_map(|r| [r.ratio, r.ratio_p10, r.ratio_p90]).flatten();
        let (low, high) = all.fold((1.0f64, 1.0f64), |(a, b), r| (a.min(r), b.max(r)));
        let (low, high) = (low.max(1e-4).ln() - 0.1, high.ln() + 0.1);
        let x = |r: f64| LABEL + (r.max(1e-4).ln() - low) / (high - low) * WIDTH;
        let title = escaped(&format!("{}: {}", case[0].section, case[0].case));
        let _ = writeln!(svg, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{title}</text>", y + 4.0);
        y += LINE;
        let one = x(1.0);
        let bottom = y + case.len() as f64 * LINE - 6.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{one}\" x2=\"{one}\" y1=\"{}\" y2=\"{bottom}\" stroke=\"#999\"/>",
            y - 8.0
        );
        for row in case {
            let name = escaped(&row.variant);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
                LABEL - 8.0,
                y + 4.0
            );
            if let Some(r) = row.ratio {
                let colour = if row.variant.contains("killcord") { "#1f6f54" } else { "#b9c4cf" };
                let (from, to) = (one.min(x(r)), one.max(x(r)));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"11\" fill=\"{colour}\"/>",
                    y - 6.0,
                    (to - from).max(1.5)
                );
                let mut end = to;
                if let (Some(a), Some(b)) = (row.ratio_p10, row.ratio_p90) {
                    let (a, b) = (x(a), x(b));
                    end = end.max(b);
                    let _ = writeln!(
                        svg,
                        "<line x1=\"{a:.1}\" x2=\"{b:.1}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#333\"/>",
                        y - 0.5
                    );
                }
                let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{}\">{}</text>", end + 6.0, y + 4.0, ratio(r));
            }
            y += LINE;
        }
        y += LINE;
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Machine, Found) {
        let machine = Machine {
            date: "2026-01-01".to_owned(),
            commit: "abc".to_owned(),
            processors: 2,
            kernel: "6.1".to_owned(),
            model: "some & other".to_owned(),
            load: "0.10".to_owned(),
            quick: true,
        };
        let case = Case {
            section: "start",
            name: "a <tiny> program".to_owned(),
            yardstick: Some("std".to_owned()),
            goals: vec![("killcord".to_owned(), "std".to_owned(), 1.8)],
            ..Case::default()
        };
        let mut found = Found::default();
        found.add(
            &case,
            &[("std".to_owned(), vec![100.0, 200.0]), ("killcord".to_owned(), vec![150.0, 450.0])],
        );
        found.not_here(&case, "systemd-run", "not installed");
        (machine, found)
    }

    #[test]
    fn the_table_has_ratios_goals_and_what_is_missing() {
        let (machine, found) = sample();
        let text = table(&machine, &found);
        assert!(text.contains("2.00 (1.57-2.17)"), "{text}");
        assert!(text.contains("2.00 <= 1.8 x std: MISSED"), "{text}");
        assert!(text.contains("systemd-run: not installed"), "{text}");
        assert!(text.contains("goals: 0 met, 1 missed"), "{text}");
    }

    #[test]
    fn the_plot_is_well_formed_and_escapes_names() {
        let (machine, found) = sample();
        let svg = plot(&machine, &found);
        assert!(svg.contains("a &lt;tiny&gt; program") && svg.contains("some &amp; other"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
