//! From the order to end a tree of processes until the kernel says that the last of them is gone.

use super::{BOUNDARIES, ours, owner};
use crate::leaf::Leaf;
use crate::measure::{Case, Found, Variant};
use crate::roles::{Held, Shape, tree_args};
use crate::{Result, Setup, helper::Helper};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::{Duration, Instant};

const BARE: &str = "bare cgroup.kill";
/// How long a peer is waited for whose survivors are let go then.
const PATIENCE: Duration = Duration::from_secs(3);
/// A peer that asks for the children of each process one by one takes minutes for more.
const ONE_BY_ONE: usize = 100;

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    let counts: &[usize] = if setup.quick { &[10, 100, 1000] } else { &[10, 100, 1000, 5000] };
    for &count in counts {
        for shape in Shape::ALL {
            if setup.quick && shape != Shape::Wide && count != 100 {
                continue;
            }
            one(setup, found, count, shape)?;
        }
    }
    if !setup.quick {
        growth(found);
    }
    Ok(())
}

fn case(count: usize, shape: Shape) -> Case {
    Case {
        section: "Teardown: order to all dead",
        name: format!("{count} processes, {}", shape.name()),
        yardstick: Some(BARE.to_owned()),
        // The goals are for 1,000.
        goals: [(killcord::Boundary::Cgroup, 1.15), (killcord::Boundary::Tree, 1.5)]
            .into_iter()
            .filter(|_| count == 1000)
            .map(|(b, at_most)| (ours(b), BARE.to_owned(), at_most))
            .collect(),
        ..Case::default()
    }
}

/// What is left behind by each variant, at most, in any round.
type Left = Rc<RefCell<BTreeMap<String, usize>>>;

fn one(setup: &Setup, found: &mut Found, count: usize, shape: Shape) -> Result<()> {
    let case = case(count, shape);
    let left = Left::default();
    let rounds = match count {
        0..=10 => setup.rounds(60, 6),
        11..=100 => setup.rounds(40, 6),
        101..=1000 => setup.rounds(12, 3),
        _ => setup.rounds(5, 2),
    };
    let mut all = vec![
        bare(setup, count, shape, &left),
        init(setup, count, shape, &left),
        group(setup, count, shape, &left),
    ];
    all.push(by_table(setup, count, shape, &left));
    let python = setup.tools.join("python");
    let psutil =
        Helper::start("psutil", Command::new("python3").args(["-c", PSUTIL]).env("PYTHONPATH", python));
    all.push(by_helper(setup, "psutil", psutil, count, shape, &left));
    if count <= ONE_BY_ONE {
        all.push(recursive(setup, count, shape, &left));
        let modules = setup.tools.join("node_modules");
        let kill = Helper::start(
            "tree-kill",
            Command::new("node").args(["-e", TREE_KILL]).env("NODE_PATH", modules),
        );
        all.push(by_helper(setup, "tree-kill (npm)", kill, count, shape, &left));
    } else {
        for name in ["pgrep, recursively", "tree-kill (npm)"] {
            found.not_here(
                &case,
                name,
                format!("starts a program for each process; measured up to {ONE_BY_ONE}"),
            );
        }
    }
    for boundary in BOUNDARIES {
        match owner(setup, boundary) {
            Ok(owner) => all.push(killcord(setup, owner, boundary, count, shape)),
            Err(why) => found.not_here(&case, &ours(boundary), why),
        }
    }
    found.interleave(&case, rounds, all);
    for (name, left) in left.borrow().iter().filter(|(_, left)| **left > 0) {
        found.note(&case, name, format!("left {left} of {count} alive; the time is its own"));
    }
    Ok(())
}

const PSUTIL: &str = "
import psutil, sys
print('ready', flush=True)
for line in sys.stdin:
    root = psutil.Process(int(line))
    for process in root.children(recursive=True) + [root]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    print('done', flush=True)
";

const TREE_KILL: &str = "
const kill = require('tree-kill');
console.log('ready');
require('readline').createInterface({ input: process.stdin }).on('line', (line) =>
    kill(Number(line), 'SIGKILL', () => console.log('done')));
";

fn tree(setup: &Setup, count: usize, shape: Shape) -> Command {
    let mut command = Command::new(&setup.own);
    command.args(tree_args(count, shape, "teardown"));
    command
}

/// Ends a tree by `end`, and gives the time until all are dead; what is left then is counted and let go.
fn down(
    name: &str,
    left: &Left,
    (mut held, mut child): (Held, Child),
    end: impl FnOnce(&mut Child) -> Result<()>,
) -> Result<f64> {
    let begun = Instant::now();
    end(&mut child)?;
    let own = begun.elapsed();
    let over = held.is_over_within(PATIENCE);
    let took = if over { begun.elapsed() } else { own };
    let stay = if over { 0 } else { alive() };
    held.let_go()?;
    child.wait().map_err(|e| e.to_string())?;
    let mut left = left.borrow_mut();
    let most = left.entry(name.to_owned()).or_default();
    *most = stay.max(*most);
    Ok(took.as_secs_f64() * 1e6)
}

/// How many processes of a teardown live.
fn alive() -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    processes.flatten().filter(|process| is_of_a_tree(&process.path())).count()
}

/// The dead have no arguments any more.
fn is_of_a_tree(process: &Path) -> bool {
    let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|b| *b == 0).any(|arg| arg == b"role:tree")
}

fn bare<'a>(setup: &'a Setup, count: usize, shape: Shape, left: &Left) -> Variant<'a> {
    let left = left.clone();
    Variant::new(BARE, move || {
        let leaf = Leaf::new("teardown")?;
        let command = leaf.enter(&setup.own, &tree_args(count, shape, "teardown"));
        down(BARE, &left, Held::up(command, count)?, |_| leaf.kill())
    })
}

fn init<'a>(setup: &'a Setup, count: usize, shape: Shape, left: &Left) -> Variant<'a> {
    let (name, left) = ("unshare -pf --kill-child", left.clone());
    Variant::new(name, move || {
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--fork", "--kill-child"])
            .arg(&setup.own)
            .args(tree_args(count, shape, "teardown"));
        down(name, &left, Held::up(command, count)?, |child| child.kill().map_err(|e| e.to_string()))
    })
}

fn group<'a>(setup: &'a Setup, count: usize, shape: Shape, left: &Left) -> Variant<'a> {
    let left = left.clone();
    Variant::new("killpg", move || {
        let mut command = tree(setup, count, shape);
        command.process_group(0);
        down("killpg", &left, Held::up(command, count)?, |child| {
            // Its leader is our unreaped child: the number is this group's.
            let group = rustix::process::Pid::from_child(child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL)
                .map_err(|e| e.to_string())
        })
    })
}

/// Ends a process by its number from a table, if it is one of a tree of ours.
fn end(pid: u32) {
    let Some(number) = rustix::process::Pid::from_raw(pid as i32) else { return };
    let Ok(pidfd) = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) else { return };
    if is_of_a_tree(&Path::new("/proc").join(pid.to_string())) {
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
    }
}

/// Looks for everybody below a process, parents before children, and ends them then.
fn end_from(root: u32, mut children: impl FnMut(u32) -> Result<Vec<u32>>) -> Result<()> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children(pid)?);
        next += 1;
    }
    all.into_iter().for_each(end);
    Ok(())
}

fn by_table<'a>(setup: &'a Setup, count: usize, shape: Shape, left: &Left) -> Variant<'a> {
    let (name, left) = ("ps -A", left.clone());
    Variant::new(name, move || {
        down(name, &left, Held::up(tree(setup, count, shape), count)?, |child| {
            let table = Command::new("ps")
                .args(["-A", "-o", "pid=,ppid="])
                .output()
                .map_err(|e| format!("ps: {e}"))?;
            let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for line in String::from_utf8_lossy(&table.stdout).lines() {
                let mut numbers = line.split_whitespace().map_while(|n| n.parse().ok());
                if let (Some(pid), Some(parent)) = (numbers.next(), numbers.next()) {
                    children.entry(parent).or_default().push(pid);
                }
            }
            end_from(child.id(), |pid| Ok(children.remove(&pid).unwrap_or_default()))
        })
    })
}

fn recursive<'a>(setup: &'a Setup, count: usize, shape: Shape, left: &Left) -> Variant<'a> {
    let (name, left) = ("pgrep, recursively", left.clone());
    Variant::new(name, move || {
        down(name, &left, Held::up(tree(setup, count, shape), count)?, |child| {
            end_from(child.id(), |pid| {
                let found = Command::new("pgrep").args(["-P", &pid.to_string()]).output();
                let found = found.map_err(|e| format!("pgrep: {e}"))?;
                let numbers = String::from_utf8_lossy(&found.stdout).into_owned();
                Ok(numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect())
            })
        })
    })
}

fn by_helper<'a>(
    setup: &'a Setup,
    name: &'static str,
    helper: Result<Helper>,
    count: usize,
    shape: Shape,
    left: &Left,
) -> Variant<'a> {
    let left = left.clone();
    let mut helper = helper;
    Variant::new(name, move || {
        let helper = helper.as_mut().map_err(|why| why.clone())?;
        down(name, &left, Held::up(tree(setup, count, shape), count)?, |child| {
            helper.ask(&child.id().to_string())
        })
    })
}

fn killcord(
    setup: &Setup,
    owner: killcord::Owner,
    boundary: killcord::Boundary,
    count: usize,
    shape: Shape,
) -> Variant<'_> {
    Variant::new(ours(boundary), move || {
        let (mut held, streams) = Held::new()?;
        let mut command = owner.command(&setup.own);
        command.args(tree_args(count, shape, "teardown"));
        command.stdin(streams.life).stdout(streams.ready).stderr(streams.done);
        let mut job = command.spawn().map_err(|e| e.to_string())?;
        drop(command);
        held.wait_ready(count)?;
        let begun = Instant::now();
        job.end_now().map_err(|e| e.to_string())?;
        let over = held.is_over_within(PATIENCE);
        let took = begun.elapsed();
        let end = job.wait().map_err(|e| e.to_string())?;
        match end.verdict {
            killcord::Verdict::Empty(_) if over => Ok(took.as_secs_f64() * 1e6),
            other => Err(format!("over {over}: {other:?}")),
        }
    })
}

/// No step may be worse than linear: five times the processes, five times the time, with a tenth for noise.
fn growth(found: &mut Found) {
    let section = "Teardown: growth from 1,000 to 5,000";
    for shape in Shape::ALL {
        let of = |variant: &str, count: usize| {
            let name = case(count, shape).name;
            let row = found.rows.iter().find(|r| r.case == name && r.variant == variant)?;
            Some(row.median / count as f64)
        };
        let names = BOUNDARIES.map(ours);
        let each = names
            .iter()
            .map(String::as_str)
            .chain([BARE])
            .filter_map(|name| Some((name.to_owned(), of(name, 1000)?, of(name, 5000)?)));
        for (name, at_1000, at_5000) in each.collect::<Vec<_>>() {
            let (few, many) = ("a process of 1,000".to_owned(), format!("{name}: a process of 5,000"));
            let case = Case {
                section,
                name: format!("{name}, {}", shape.name()),
                yardstick: Some(few.clone()),
                goals: if name == BARE { Vec::new() } else { vec![(many.clone(), few.clone(), 1.1)] },
                ..Case::default()
            };
            found.add(&case, &[(few, vec![at_1000]), (many, vec![at_5000])]);
        }
    }
}
