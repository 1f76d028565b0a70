//! The tree as a person sees it.

use super::half::{Half, Member, parent_of};
use crate::paint::{Look, Paint};
use killcord_sys::proc::Proc;
use std::time::Duration;

/// A short time as text that is not broken before its unit.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.1}\u{a0}ms", time.as_secs_f64() * 1000.0)
}

/// What a role is, in words.
fn words(role: &str) -> &'static str {
    match role {
        "owner" => "the owner",
        "killcord run" => "the owner: killcord run",
        "warden" => "its warden",
        "keeper" => "the keeper of the job",
        "shell" => "a shell",
        "plain" => "a child",
        "setsid" => "a child in its own session",
        "daemon" => "a daemon",
        "bare" => "a daemon, environment emptied",
        _ => "",
    }
}

/// One line of a drawn tree: what stands before the number, and whose line it is.
struct Line<'a> {
    front: String,
    member: &'a Member,
    /// The parent outside the tree, of what has left its own.
    adopted_by: Option<u32>,
}

/// Draws the tree by the parents that `/proc` has.
fn tree(half: &Half) -> Vec<Line<'_>> {
    let mut proc = Proc::open().ok();
    let members = half.members();
    let parents: Vec<Option<u32>> = members.iter().map(|m| parent_of(proc.as_mut(), m.pid)).collect();
    let inside = |parent: &Option<u32>| members.iter().any(|m| Some(m.pid) == *parent);
    let mut lines = Vec::new();
    for (member, parent) in members.iter().zip(&parents) {
        if !inside(parent) {
            let adopted_by = parent.filter(|_| !lines.is_empty());
            lines.push(Line { front: String::new(), member, adopted_by });
            branch(members, &parents, member.pid, "", &mut lines);
        }
    }
    lines
}

fn branch<'a>(
    members: &'a [Member],
    parents: &[Option<u32>],
    of: u32,
    indent: &str,
    lines: &mut Vec<Line<'a>>,
) {
    let children: Vec<&Member> =
        members.iter().zip(parents).filter(|(_, p)| **p == Some(of)).map(|(m, _)| m).collect();
    for (i, member) in children.iter().enumerate() {
        let last = i + 1 == children.len();
        let (here, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(Line { front: format!("{indent}{here}"), member, adopted_by: None });
        branch(members, parents, member.pid, &format!("{indent}{below}"), lines);
    }
}

/// The tree before the kill.
pub(super) fn before(half: &Half, paint: Paint) -> String {
    let rows: Vec<Vec<_>> = tree(half)
        .into_iter()
        .map(|line| {
            let adopted = line.adopted_by.map_or(String::new(), |parent| format!(", parent now {parent}"));
            let what = format!("{}{adopted}", words(&line.member.role));
            vec![
                (Look::Plain, format!(" {}{}", line.front, line.member.pid)),
                (Look::Bold, line.member.name.clone()),
                (Look::Dim, what),
            ]
        })
        .collect();
    paint.table(&rows)
}

/// Everybody after it.
pub(super) fn after(half: &Half, paint: Paint) -> String {
    let rows: Vec<Vec<_>> = half
        .members()
        .iter()
        .map(|m| {
            let (look, state) = match m.ended {
                Some(after) => (Look::Good, format!("✓ ended after {}", milliseconds(after))),
                None => (Look::Bad, "● still runs".to_owned()),
            };
            vec![
                (Look::Plain, format!(" {}", m.pid)),
                (Look::Bold, m.name.clone()),
                (look, state),
                (Look::Dim, words(&m.role).to_owned()),
            ]
        })
        .collect();
    paint.table(&rows)
}
