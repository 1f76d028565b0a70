//! `killcord doctor`: what holds on this machine, by trying it.

use crate::args::Doctor;
use crate::message::say;
use crate::paint::{Look, Paint, show};
use killcord::probe::{self, CgroupKill, Findings, Found, Mechanisms, Witness};
use killcord_model::boundary::Aftermath;
use killcord_model::status;
use killcord_sys::os::{OsStrExt, OsStringExt};
use killcord_sys::signals;
use std::fmt::Write;

/// Below this many columns the table becomes paragraphs.
const NARROW: usize = 76;

/// Probes, prints, and returns 0 when at least `tree` holds.
pub(crate) fn doctor(args: &Doctor) -> i32 {
    if args.witness {
        return i32::from(probe::witness().is_err());
    }
    // A caller may ignore it, and then the kernel reaps behind our back.
    signals::reset(signals::SIGCHLD);
    let witness = Witness { program: own_program(), args: vec![b"doctor".into(), b"--witness".into()] };
    let found = match probe::probe(&witness) {
        Ok(found) => found,
        // That nothing is held here is the finding.
        Err(e @ killcord::Error::Unsupported) => {
            say(&e.to_string());
            return 1;
        }
        Err(e) => {
            say(&e.to_string());
            return status::FAILED;
        }
    };
    if args.json {
        match serde_json::to_string(&found) {
            Ok(json) => show(&format!("{json}\n")),
            Err(e) => {
                say(&format!("failed to write the findings: {e}"));
                return status::FAILED;
            }
        }
    } else {
        show(&page(&found, Paint::of_stdout()));
    }
    i32::from(!found.holds())
}

/// Where this program is: by `/proc`, else as it was called.
pub(crate) fn own_program() -> Vec<u8> {
    let as_called = || std::env::args_os().next().unwrap_or_else(|| "killcord".into());
    std::env::current_exe()
        .map_or_else(|_| as_called().into_vec(), |path| path.as_os_str().as_bytes().to_vec())
}

fn page(found: &Findings, paint: Paint) -> String {
    let mut page = headline(found, paint);
    page.push('\n');
    page.push_str(&if paint.columns < NARROW { paragraphs(found, paint) } else { death_table(found, paint) });
    page.push('\n');
    page.push_str(&limits(found, paint));
    page.push('\n');
    page.push_str(&reasons(found, paint));
    page.push_str(&mechanisms(&found.mechanisms, paint));
    page.push_str(&advice(found, paint));
    page
}

fn headline(found: &Findings, paint: Paint) -> String {
    let in_force = found.boundary.and_then(|kind| found.of(kind));
    let (name, look, what) = match in_force {
        Some(Found { kind, why_not: Some(why), .. }) => (kind.name(), Look::Bad, why.as_str()),
        Some(b) if b.ends_escapees => {
            (b.kind.name(), Look::Good, "ends everything it started, daemons and escapees too")
        }
        Some(b) => (b.kind.name(), Look::Odd, "ends the process group only; whoever leaves it is not ended"),
        None => ("none", Look::Bad, "no job can be started here"),
    };
    format!("{}{} — {what}\n", paint.text(Look::Bold, "boundary: "), paint.text(look, name))
}

fn title(found: &Findings, b: &Found, paint: Paint) -> (Look, String) {
    let in_force = found.boundary == Some(b.kind);
    let mark = match (in_force, paint.terminal) {
        (true, true) => "▸ ",
        (true, false) => "* ",
        (false, _) => "  ",
    };
    let look = if in_force { Look::Bold } else { Look::Plain };
    (look, format!("{mark}{}", b.kind))
}

fn available(b: &Found) -> (Look, String) {
    if b.available { (Look::Good, "yes".to_owned()) } else { (Look::Bad, "no".to_owned()) }
}

fn escapees(b: &Found) -> (Look, String) {
    let (look, text) = if b.ends_escapees { (Look::Good, "ended") } else { (Look::Bad, "not ended") };
    (shade(b, look), text.to_owned())
}

/// What is not to be had here is shown, since it may be elsewhere, but not praised.
fn shade(b: &Found, look: Look) -> Look {
    if b.available { look } else { Look::Dim }
}

fn aftermath(b: &Found, what: Aftermath) -> (Look, String) {
    let (look, text) = match what {
        Aftermath::AllEnded => (Look::Good, "all"),
        Aftermath::GroupEnded => (Look::Odd, "its group"),
        Aftermath::LeaderEndedRestNamed => (Look::Odd, "leader (1)"),
        Aftermath::NothingEnded => (Look::Bad, "nothing"),
        Aftermath::LeaderEnded => (Look::Odd, "leader (2)"),
    };
    (shade(b, look), text.to_owned())
}

fn death_table(found: &Findings, paint: Paint) -> String {
    let head = |text: &str| (Look::Dim, text.to_owned());
    let titles = ["  boundary", "here", "escapees", "owner", "warden", "keeper", "all three"];
    let mut rows: Vec<Vec<_>> = vec![titles.map(head).into()];
    for b in &found.boundaries {
        let w = b.when_killed;
        let deaths = [w.owner, w.warden, w.keeper, w.all].map(|what| aftermath(b, what));
        rows.push([title(found, b, paint), available(b), escapees(b)].into_iter().chain(deaths).collect());
    }
    let over = paint.text(Look::Dim, &upper_head(&rows));
    format!("{over}\n{}{}", paint.table(&rows), footnotes(paint))
}

/// The upper line of the head, placed by the widths of the columns below it.
fn upper_head(rows: &[Vec<(Look, String)>]) -> String {
    let width = |c: usize| rows.iter().map(|r| r[c].1.chars().count()).max().unwrap_or(0) + 2;
    let before = 2 + width(0) + width(1) + width(2);
    format!("{}what is ended after kill -9 of", " ".repeat(before))
}

fn footnotes(paint: Paint) -> String {
    let one = "at once; the rest stays in the cgroup killcord-JOB, which names the job";
    let (one, two) = (
        paint.wrapped("  (1) ", Look::Dim, one),
        paint.wrapped("  (2) ", Look::Dim, "at once; the rest runs on"),
    );
    format!("\n{one}{two}")
}

/// The same facts for a narrow window.
fn paragraphs(found: &Findings, paint: Paint) -> String {
    let mut out = String::new();
    for b in &found.boundaries {
        let (look, name) = title(found, b, paint);
        let (shown, here) = available(b);
        let _ = writeln!(out, "{}  available here: {}", paint.text(look, &name), paint.text(shown, &here));
        let w = b.when_killed;
        let lines = [
            ("escapees", escapees(b)),
            ("owner killed", aftermath(b, w.owner)),
            ("warden killed", aftermath(b, w.warden)),
            ("keeper killed", aftermath(b, w.keeper)),
            ("all three", aftermath(b, w.all)),
        ];
        for (what, (look, text)) in lines {
            let _ = writeln!(out, "    {what:14}{}", paint.text(look, &text));
        }
    }
    out.push_str(&footnotes(paint));
    out
}

fn limits(found: &Findings, paint: Paint) -> String {
    let head = |text: &str| (Look::Dim, text.to_owned());
    let mut rows = vec![vec![head("  limit")]];
    rows[0].extend(found.boundaries.iter().map(|b| head(b.kind.name())));
    for (i, limit) in probe::Limit::ALL.into_iter().enumerate() {
        let mut row = vec![(Look::Plain, format!("  --{}", limit.name()))];
        row.extend(found.boundaries.iter().map(|b| match b.limits.get(i) {
            _ if !b.available => (Look::Dim, "-".to_owned()),
            Some(l) if l.enforced => (Look::Good, "enforced".to_owned()),
            Some(_) | None => (Look::Odd, "refused".to_owned()),
        }));
        rows.push(row);
    }
    paint.table(&rows)
}

/// Why something is not to be had.
fn reasons(found: &Findings, paint: Paint) -> String {
    let mut out = String::new();
    for b in &found.boundaries {
        if let Some(why) = b.why_not.as_ref().filter(|_| !b.available) {
            out.push_str(&paint.wrapped(&format!("  {:11}", b.kind.name()), Look::Odd, why));
        }
        for note in b.notes.iter().filter(|_| b.available) {
            out.push_str(&paint.wrapped(&format!("  {:11}", b.kind.name()), Look::Dim, note));
        }
    }
    // The boundary in force speaks for the others: a limit is refused on all of them for one reason.
    let in_force = found.boundary.and_then(|kind| found.of(kind));
    let mut refused: Vec<(&str, String)> = Vec::new();
    for limit in in_force.into_iter().flat_map(|b| &b.limits) {
        let Some(why) = &limit.why_not else { continue };
        let name = format!("--{}", limit.limit.name());
        match refused.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => *names = format!("{names}, {name}"),
            None => refused.push((why, name)),
        }
    }
    for (why, names) in refused {
        out.push_str(&paint.wrapped("  limits     ", Look::Odd, &format!("{names}: {why}")));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn mechanisms(m: &Mechanisms, paint: Paint) -> String {
    let cgroup = match (&m.cgroup, m.cgroup_kill, m.clone_into_cgroup) {
        (Some(path), Some(kill), born) => {
            let kill = match kill {
                CgroupKill::Kill => "killed by cgroup.kill",
                CgroupKill::Freeze => "frozen, then killed one by one",
            };
            let born = if born == Some(true) { "born inside" } else { "entered before exec" };
            format!("{path}: {kill}, {born}")
        }
        (Some(path), None, _) => format!("{path}: not ours to write"),
        (None, ..) => "v2 is not mounted here".to_owned(),
    };
    let namespaces = match (m.namespace_by_privilege, m.namespace_by_user_namespace) {
        (true, true) => "by privilege; through a user namespace as well",
        (true, false) => "by privilege; user namespaces are not allowed",
        (false, true) => "through a user namespace",
        (false, false) => "not allowed",
    };
    let yes_no = |b: bool| if b { "yes" } else { "no" };
    let landlock = m.landlock.map_or("no".to_owned(), |v| format!("version {v}"));
    let facts = [
        ("cgroup v2", cgroup),
        ("pid namespaces", namespaces.to_owned()),
        ("pidfd", yes_no(m.pidfd).to_owned()),
        (
            "/proc",
            match (m.proc, m.proc_children) {
                (true, true) => "yes, with lists of children",
                (true, false) => "yes, without lists of children",
                (false, _) => "no",
            }
            .to_owned(),
        ),
        ("audit session", yes_no(m.audit_session).to_owned()),
        ("Landlock", landlock),
        ("call filter", yes_no(m.system_call_filter).to_owned()),
        ("user manager", yes_no(m.systemd_user_manager).to_owned()),
    ];
    facts.iter().map(|(name, text)| paint.wrapped(&format!("  {name:16}"), Look::Plain, text)).collect()
}

fn advice(found: &Findings, paint: Paint) -> String {
    if found.advice.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", paint.text(Look::Bold, "for a stronger boundary:"));
    for a in &found.advice {
        out.push_str(&paint.wrapped(&format!("  {:11}", a.gives.name()), Look::Plain, &a.how));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use killcord_model::boundary::Boundary;

    /// A machine that is not this one: an ordinary user in a container.
    fn container() -> Findings {
        let found = |kind: Boundary, why_not: Option<&str>| Found {
            kind,
            starts: why_not.is_none(),
            available: why_not.is_none(),
            why_not: why_not.map(str::to_owned),
            through: None,
            ends_escapees: kind.ends_escapees(),
            evidence: None,
            end_ms: None,
            notes: Vec::new(),
            limits: probe::Limit::ALL
                .map(|limit| probe::LimitFound {
                    limit,
                    enforced: false,
                    why_not: why_not.is_none().then(|| "no cgroup controller".to_owned()),
                })
                .into(),
            when_killed: kind.into(),
        };
        Findings {
            version: probe::VERSION,
            boundary: Some(Boundary::Tree),
            boundaries: vec![
                found(Boundary::Namespace, Some("pid namespaces: Operation not permitted (os error 1)")),
                found(Boundary::Cgroup, Some("/sys/fs/cgroup: Read-only file system (os error 30)")),
                found(Boundary::Tree, None),
                found(Boundary::Group, None),
            ],
            mechanisms: Mechanisms {
                root: false,
                cgroup: Some("/sys/fs/cgroup".to_owned()),
                cgroup_kill: None,
                clone_into_cgroup: None,
                namespace_by_privilege: false,
                namespace_by_user_namespace: false,
                pidfd: true,
                proc: true,
                proc_children: true,
                audit_session: true,
                landlock: Some(6),
                system_call_filter: true,
                systemd_user_manager: false,
            },
            advice: vec![probe::Advice {
                gives: Boundary::Cgroup,
                how: "have it mounted writable".to_owned(),
            }],
            duration_ms: 1.0,
        }
    }

    #[test]
    fn the_page_fits_every_window() {
        for columns in [40, 60, 76, 80, 100] {
            let page = page(&container(), Paint::plain(columns));
            // What cannot be broken is a word or a column of names.
            let longest = page.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(longest <= columns.max(80), "{columns}: {longest}\n{page}");
        }
    }

    #[test]
    fn a_page_in_words() {
        insta::assert_snapshot!(page(&container(), Paint::plain(80)));
    }
}
