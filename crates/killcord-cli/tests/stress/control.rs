//! Negative controls: the bookkeeping of the stress, where something does get away.

use crate::bystanders;
use crate::campaign::Campaign;
use crate::den::{Den, Io};
use crate::events::{Bound, DEATH, Event, SOON, Victim};
use crate::round::{Excuse, Round};
use killcord_testkit::{Who, bin};

trials![
    what_gets_away_is_counted_as_a_survivor,
    what_nothing_holds_is_counted_as_a_survivor,
    a_wrong_exit_status_is_a_fault,
];

/// On `group` those who left it live on, and are seen when nobody is excused.
fn what_gets_away_is_counted_as_a_survivor() {
    let campaign = Campaign::new(1, DEATH);
    let mut round = Round::new(&campaign, 0, "control", Who::here()[0], "group");
    let mut command = round.killcord(&["run", "--boundary", "group", "--"]);
    command.arg(bin("kc-payload"));
    let mut den = Den::start(&round.corner, &command, Io::Pipes);
    assert!(den.output.wait_word("ready", SOON));
    let owner = den.program.take().unwrap();
    let bound = round.happen(&Event::Kill(vec![Victim::Owner]), &mut den, &owner);
    // Not excused: the same judgement as on any other boundary.
    assert!(!round.settle(&den, bound, Excuse::Nobody));
    let sum = campaign.tally.sum();
    assert!(sum.survivors >= 3 && sum.kills == 1, "{sum:?}");
    // They were ended by the harness all the same.
    assert!(den.is_empty() && sum.faults == 0, "{sum:?}");
}

/// The same without killcord.
fn what_nothing_holds_is_counted_as_a_survivor() {
    let campaign = Campaign::new(1, DEATH);
    let mut round = Round::new(&campaign, 0, "control", Who::here()[0], "tree");
    let mut command = round.program(bin("kc-payload"));
    command.args(["--leader", "exit"]);
    let mut den = Den::start(&round.corner, &command, Io::Pipes);
    assert!(den.output.wait_word("ready", SOON));
    "nothing holds it".clone_into(&mut round.what);
    assert!(!round.settle(&den, Bound::now(DEATH), Excuse::Nobody));
    assert!(campaign.tally.sum().survivors >= 4, "{:?}", campaign.tally.sum());
    round.look_behind(&mut den, None);
}

/// And a status, a word, a file and a hurt bystander that should not be.
fn a_wrong_exit_status_is_a_fault() {
    let campaign = Campaign::new(1, DEATH);
    let round = Round::new(&campaign, 0, "control", Who::here()[0], "tree");
    let mut command = round.killcord(&["run", "--boundary", "tree", "--"]);
    command.args(["sh", "-c", "exit 4"]);
    let mut den = Den::start(&round.corner, &command, Io::Pipes);
    assert!(round.settle(&den, Bound::now(DEATH), Excuse::Nobody));
    round.look_behind(&mut den, Some(4));
    assert_eq!(campaign.tally.sum().faults, 0);
    round.look_behind(&mut den, Some(5));
    assert_eq!(campaign.tally.sum().faults, 1);
    std::fs::write(round.scene.path("tmp/left"), "").unwrap();
    round.look_behind(&mut den, None);
    assert_eq!(campaign.tally.sum().faults, 2);
    let mut hurt = round.program("sh");
    hurt.args(["-c", "kill -TERM $$"]);
    assert!(bystanders::ended_by_itself(&mut hurt, 0, true).is_err());
}
