//! What is run: between them the scenarios come to every point.

use crate::cell::Cell;
use killcord_testkit::claims::{dead, kill_all_guards, marker};
use killcord_testkit::{Nest, Scene, bin};
use std::os::unix::fs::symlink;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// The leader exits with 7 and leaves a member that ignores TERM.
    Ends,
    /// The time is up for a leader that ignores TERM and HUP.
    TimesOut,
    /// What the leader leaves is let go, and ends by itself.
    Released,
    /// What the leader leaves is kept until the owner gets INT.
    Kept,
    /// `killcord stop`.
    Stopped,
    /// The program waits for the line that says that it is contained.
    Acknowledged,
    NotFound,
    /// A requirement that the boundary does not meet.
    Refused,
    LosesKeeper,
    LosesWarden,
    LosesBoth,
    LosesOwner,
    /// `killcord sweep`, with all that a sweep may find.
    Sweeps,
    /// The sweep beside a start.
    SweepsBeside,
    /// `killcord sweep --adopt`.
    Adopts,
}

use Scenario::{
    Acknowledged, Adopts, Ends, Kept, LosesBoth, LosesKeeper, LosesOwner, LosesWarden, NotFound, Refused,
    Released, Stopped, Sweeps, SweepsBeside, TimesOut,
};

/// Two members: one in a session of its own, and one that only KILL ends and that holds the output.
const TREE: &str = "echo ran >\"$D/ran\"; setsid ./leaf.sh apart 50 >/dev/null 2>&1 </dev/null & \
                    ./ignore.sh 50 </dev/null & ";
/// The leader's end, when it is told to.
const EXIT: &str = "read line; echo over >\"$D/over\"; exit 7";
/// One that says that it came to its own end.
const LET_GO: &str = "echo ran >\"$D/ran\"; \
                      setsid sh -c './leaf.sh left 1.2; echo whole >\"$D/whole\"' >/dev/null 2>&1 </dev/null & ";

pub(crate) const ADOPTED: &str = "other_tool-";

impl Scenario {
    pub(crate) const ALL: [Self; 15] = [
        Ends,
        TimesOut,
        Released,
        Kept,
        Stopped,
        Acknowledged,
        NotFound,
        Refused,
        LosesKeeper,
        LosesWarden,
        LosesBoth,
        LosesOwner,
        Sweeps,
        SweepsBeside,
        Adopts,
    ];

    /// What it exits with when nobody kills anybody.
    pub(crate) fn codes(self) -> &'static [i32] {
        match self {
            Ends | Released | Acknowledged => &[7],
            // INT may come before the leader's exit is seen.
            Kept => &[7, 130],
            TimesOut => &[124],
            Stopped => &[143],
            NotFound => &[127],
            Refused => &[125],
            LosesKeeper | LosesBoth | LosesOwner => &[137],
            // The init of a namespace goes with the warden; else the program is asked first.
            LosesWarden => &[137, 143],
            SweepsBeside => &[3],
            Sweeps | Adopts => &[0],
        }
    }

    /// Whether it is a `killcord run`.
    pub(crate) fn runs_a_job(self) -> bool {
        !matches!(self, Sweeps | Adopts)
    }

    /// Who has to be there before anything is done about it.
    pub(crate) fn members(self) -> &'static [&'static str] {
        match self {
            Released => &["left"],
            SweepsBeside | NotFound | Refused | Sweeps | Adopts => &[],
            _ => &["apart", "ignore"],
        }
    }

    /// The command, all that it needs being in the scene and in the state directory.
    pub(crate) fn command(self, cell: &Cell<'_>, scene: &Scene) -> Command {
        let (options, script): (&[&str], String) = match self {
            Ends | Stopped => (&["--grace", "0.3"], format!("{TREE}{EXIT}")),
            TimesOut => (&["--timeout", "0.4", "--grace", "0.7"], format!("trap '' TERM HUP; {TREE}{EXIT}")),
            Released => (&["--leftovers", "release"], format!("{LET_GO}{EXIT}")),
            Kept => (&["--leftovers", "keep", "--grace", "0.3"], format!("{TREE}{EXIT}")),
            Acknowledged => (&["--ack", "--grace", "0.3"], format!("{TREE}{EXIT}")),
            LosesKeeper | LosesWarden | LosesBoth | LosesOwner => (&[], format!("{TREE}{EXIT}")),
            SweepsBeside => (&[], "echo ran >\"$D/ran\"; exit 3".to_owned()),
            NotFound => (&[], String::new()),
            Refused => (&[], "echo ran >\"$D/ran\"".to_owned()),
            Sweeps => return within(scene, cell.state.killcord(&["sweep"])),
            Adopts => {
                let args = ["sweep", "--adopt", ADOPTED, "--older-than", "0", "--yes"];
                return within(scene, cell.state.killcord(&args));
            }
        };
        // Each cell has its own attempt of a refusal, which says nothing of the cell's boundary.
        let boundary: &[&str] =
            if self == Refused { &["tree", "--require", "cgroup"] } else { &[cell.boundary] };
        let mut command = cell.state.killcord(&["run", "--boundary"]);
        command.args(boundary).arg("--report");
        command.arg(scene.path("report")).args(options).arg("--");
        match self {
            NotFound => command.arg("/nonexistent/program"),
            // By its name the leader is known from others that are shells.
            _ => command.args(["./leader", "-c", &script]),
        };
        within(scene, command)
    }

    /// What must be there before it begins; a job whose guards were killed, in a nest of its own.
    pub(crate) fn prepare(self, cell: &Cell<'_>, scene: &Scene) -> Option<Nest> {
        for (name, program) in
            [("leaf.sh", bin("kc-leaf")), ("ignore.sh", bin("kc-ignore")), ("leader", "/bin/sh".into())]
        {
            symlink(program, scene.path(name)).unwrap();
        }
        let plant = |name| {
            let left = cell.state.plant(name, &marker(dead())).join("tmp/0123456789ab");
            cell.state.directory(&left);
            cell.state.file(&left.join("file"), "");
        };
        match self {
            Sweeps => {
                let left = Nest::start(&Ends.command(cell, scene));
                scene.wait_names(Ends.members(), killcord_testkit::claims::TEN);
                kill_all_guards(&left);
                plant("c00000001");
                cell.state.directory(&cell.state.path.join("c00000002"));
                let trash = cell.state.path.join(".trash-00000003");
                cell.state.directory(&trash);
                cell.state.file(&trash.join("file"), "");
                Some(left)
            }
            SweepsBeside => {
                plant("c00000001");
                None
            }
            Adopts => {
                let directory = scene.path("tmp").join(format!("{ADOPTED}a"));
                cell.state.directory(&directory);
                cell.state.file(&directory.join("file"), "");
                None
            }
            _ => None,
        }
    }
}

/// The command in the scene of this round; the state directory is the cell's.
fn within(scene: &Scene, mut command: Command) -> Command {
    command.env("D", scene.dir()).env("TMPDIR", scene.path("tmp")).env("HOME", scene.path("home"));
    command.current_dir(scene.dir());
    command
}
