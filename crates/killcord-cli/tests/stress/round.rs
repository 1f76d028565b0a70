//! One round: an owner, its job, what happens to it, and whether all is gone in time.

use crate::campaign::Campaign;
use crate::den::Den;
use crate::dice::Dice;
use crate::events::Bound;
use crate::payload::has_left_its_group;
use killcord_testkit::procs::Stat;
use killcord_testkit::{Corner, Scene, Signal, Who, is_root};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// How much later than promised something may be gone and is late, not a survivor.
///
/// The machine is busy on purpose: a dozen owners, floods and bombs on two processors, and on a developer's machine
/// compilers beside them. A guard that is to act waits for its turn among fifty others, several times in a ladder.
/// What matters here is that nothing stays: what nobody ends lives for 45 s. How late what was late is printed.
pub(crate) const ALLOWANCE: Duration = Duration::from_secs(15);

/// Who may live on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excuse {
    Nobody,
    /// Those that left their group.
    LeftTheGroup,
    /// Those that were released.
    Released,
}

/// A round and everything that it uses.
pub(crate) struct Round<'a> {
    pub(crate) campaign: &'a Campaign,
    pub(crate) number: u32,
    pub(crate) dice: Dice,
    pub(crate) who: Who,
    pub(crate) boundary: &'static str,
    /// The row of the table.
    pub(crate) kind: String,
    /// What was done, for whoever looks for it.
    pub(crate) what: String,
    pub(crate) corner: Corner,
    pub(crate) scene: Scene,
}

impl<'a> Round<'a> {
    pub(crate) fn new(
        campaign: &'a Campaign,
        number: u32,
        kind: &str,
        who: Who,
        boundary: &'static str,
    ) -> Self {
        let scene = Scene::new();
        let has_leaf = is_root() && who == Who::Root && ["auto", "cgroup"].contains(&boundary);
        let corner = if has_leaf { Corner::new(&scene) } else { Corner::nowhere() };
        let user = if who == Who::Root { "root" } else { "user" };
        let kind = format!("{kind} {boundary} {user}");
        campaign.tally.round(&kind);
        // Other numbers than those that chose what kind of round it is.
        let dice = Dice::new(!campaign.seed, number);
        Self { campaign, number, dice, who, boundary, kind, what: String::new(), corner, scene }
    }

    /// A program as this round's user.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.campaign.program(&self.scene, self.who, program)
    }

    /// `killcord ARGS` as this round's user.
    pub(crate) fn killcord(&self, args: &[&str]) -> Command {
        let mut command = self.program(self.campaign.killcord.path());
        command.args(args);
        command
    }

    /// Waits until nothing is left that must not be; what is left behind the allowance is a survivor, and is ended.
    /// Says whether all was gone.
    pub(crate) fn settle(&self, den: &Den, bound: Bound, excuse: Excuse) -> bool {
        let gone = match excuse {
            Excuse::Nobody => den.wait_empty(self.left(bound)),
            _ => self.wait_for_the_others(den, bound, excuse),
        };
        if gone {
            let late = bound.since.elapsed().saturating_sub(bound.lasts);
            if excuse == Excuse::Nobody && !late.is_zero() {
                self.campaign.tally.late(&self.kind, late);
            }
        } else {
            self.survivors(den, excuse);
        }
        self.end_the_excused(den, excuse);
        gone
    }

    /// The same where nobody is left who could end it, but for a sweep.
    pub(crate) fn settle_by_sweeps(&self, den: &Den) -> bool {
        let bound = Bound::now(Duration::from_secs(2));
        while !den.is_empty() && !self.left(bound).is_zero() {
            self.campaign.sweep(self.number, self.who);
            den.wait_empty(Duration::from_millis(100));
        }
        self.settle(den, bound, Excuse::Nobody)
    }

    fn left(&self, bound: Bound) -> Duration {
        (bound.since + bound.lasts + self.campaign.allowance).saturating_duration_since(Instant::now())
    }

    /// Polls: no event says that only the excused are left.
    fn wait_for_the_others(&self, den: &Den, bound: Bound, excuse: Excuse) -> bool {
        while !self.not_excused(den, excuse).is_empty() {
            if self.left(bound).is_zero() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Who is there and must not be.
    fn not_excused(&self, den: &Den, excuse: Excuse) -> Vec<Stat> {
        if excuse == Excuse::Nobody {
            return den.left();
        }
        let alive = self.scene.alive().into_iter();
        let excused: Vec<u32> = alive.filter(|a| excused_by(excuse, &a.name)).map(|a| a.pid).collect();
        let mut left = den.left();
        left.retain(|stat| {
            // A caretaker, or the init of a namespace, stays as long as what was released there does.
            let guard = excuse == Excuse::Released && stat.comm.starts_with("killcord");
            // No list has the number that it has now.
            let hopper = excuse == Excuse::LeftTheGroup && stat.comm == "kc-hopper";
            !guard && !hopper && !stat.is_dead() && !excused.contains(&stat.pid)
        });
        left
    }

    /// What is not promised to end is ended here, by handles, and so is a hopper, which goes with its list.
    fn end_the_excused(&self, den: &Den, excuse: Excuse) {
        if excuse == Excuse::Nobody {
            return;
        }
        let pinned = self.scene.pin();
        if excuse == Excuse::LeftTheGroup {
            self.campaign.tally.note("left their group, not promised, ended here", pinned.len() as u32);
        }
        pinned.kill(Signal::KILL);
        let _ = fs::rename(self.scene.path("ids"), self.scene.path("ids.over"));
        let bound = Bound::now(Duration::from_secs(2));
        if !den.wait_empty(self.left(bound)) {
            self.survivors(den, Excuse::Nobody);
        }
        let _ = fs::rename(self.scene.path("ids.over"), self.scene.path("ids"));
    }

    fn survivors(&self, den: &Den, excuse: Excuse) {
        let mut found: Vec<String> = self.not_excused(den, excuse).iter().map(describe).collect();
        if found.is_empty() {
            found.push("nobody below the nest, but somebody holds the output".to_owned());
        }
        self.campaign.tally.survivors(&self.kind, self.number, &self.what, &found);
        if !den.clear() {
            self.campaign.tally.fault(self.number, "survivors that KILL does not end");
        }
    }
}

fn excused_by(excuse: Excuse, name: &str) -> bool {
    match excuse {
        Excuse::Nobody => false,
        Excuse::LeftTheGroup => has_left_its_group(name),
        Excuse::Released => name.starts_with("released"),
    }
}

/// Everything that helps to find out why it lives.
pub(crate) fn describe(stat: &Stat) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", stat.pid)).unwrap_or_default();
    let of_status = ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "NSpid"];
    let status: Vec<String> = read("status")
        .lines()
        .filter(|line| of_status.iter().any(|field| line.starts_with(field)))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let cgroup = read("cgroup").lines().find(|line| line.starts_with("0::")).unwrap_or_default().to_owned();
    format!(
        "{} {} {} child of {}, group {}, session {}, audit session {}, in {} ({cgroup}); {}; stack: {}",
        stat.pid,
        stat.comm,
        stat.state,
        stat.parent,
        stat.group,
        stat.session,
        read("sessionid"),
        read("wchan"),
        status.join(", "),
        read("stack").split_whitespace().filter(|word| word.contains('+')).collect::<Vec<_>>().join(" ")
    )
}
