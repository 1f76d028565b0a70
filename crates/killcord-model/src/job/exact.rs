//! What a job does, effect by effect and at its very instant: where `tests` shows that nothing is forgotten, this shows
//! that nothing else is done.

use super::*;
use crate::ladder::{GRACE, SHORT_GRACE};

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

fn all(signal: Signal) -> Effect {
    Effect::Signal(To::Members, signal)
}

fn end_with(grace: Duration) -> Event {
    Event::Order(Order::End(Ladder::with_grace(grace)))
}

/// A job whose leader is on its way to exec since 0.
fn running(policy: Policy) -> Job {
    let mut job = Job::new(policy);
    assert_eq!(job.step(Event::Armed, at(0)), [Effect::StartLeader]);
    assert_eq!(job.step(Event::Cloned, at(0)), []);
    assert!(job.guards() && !job.let_go() && !job.is_over());
    job
}

/// The same, whose leader has exited at 1000 and left somebody.
fn left_over(leftovers: Leftovers, timeout: Option<Duration>) -> Job {
    let mut job = running(Policy { timeout, leftovers, ..Policy::default() });
    let exited = job.step(Event::LeaderExited(ExitStatus::Code(0)), at(1000));
    assert_eq!(exited, [Effect::Report(Report::Exited(ExitStatus::Code(0))), Effect::Look]);
    job
}

/// The same, on a ladder of this grace since 0.
fn ending(grace: Duration) -> Job {
    let mut job = running(Policy::default());
    assert_eq!(job.step(end_with(grace), at(0)), [all(Signal::Term), all(Signal::Cont)]);
    job
}

fn over(cause: Cause, sight: Option<Sight>, fate: Option<Fate>) -> [Effect; 2] {
    [Effect::End { cause, sight, fate }, Effect::Leave]
}

#[test]
fn every_rung_says_exactly_this_and_in_this_order() {
    let mut job = ending(GRACE);
    assert_eq!(job.deadline(), Some(at(500)));
    assert_eq!(job.step(Event::Tick, at(499)), []);
    assert_eq!(job.step(Event::Tick, at(500)), [all(Signal::Hup), all(Signal::Cont)]);
    assert_eq!((job.deadline(), job.step(Event::Tick, at(4999))), (Some(at(5000)), Vec::new()));
    assert_eq!(job.step(Event::Tick, at(5000)), [Effect::NoteForced, Effect::Kill, Effect::Look]);
    assert_eq!((job.deadline(), job.step(Event::Tick, at(5009))), (Some(at(5010)), Vec::new()));
    assert_eq!(job.step(Event::Tick, at(5010)), [Effect::Kill, Effect::Look]);
    assert_eq!(job.step(Event::Changed, at(5011)), [Effect::Look]);
    assert_eq!(job.step(Event::Tick, at(7000)), [Effect::Look]);
    assert_eq!(
        job.step(Event::Seen(Sight::Unknown), at(7000)),
        over(Cause::Asked, Some(Sight::Unknown), None)
    );
}

#[test]
fn whatever_is_said_while_it_ends_makes_it_only_shorter() {
    let minute = Duration::from_secs(60);
    // The rung of the hang-up is behind it, so that the deadline is KILL's.
    let deaf = || {
        let mut job = ending(minute);
        job.step(Event::Tick, at(500));
        assert_eq!(job.deadline(), Some(at(60_000)));
        job
    };
    for (event, kill_at) in [
        (end_with(Duration::from_secs(90)), 60_000),
        (end_with(Duration::from_secs(2)), 3000),
        (Event::OwnerGone, 1500),
        (Event::WardenGone, 1500),
        (Event::Order(Order::Release), 60_000),
        (Event::Order(Order::HandOver), 60_000),
    ] {
        let mut job = deaf();
        assert_eq!(job.step(event.clone(), at(1000)), [], "{event:?}");
        assert_eq!((job.deadline(), job.let_go()), (Some(at(kill_at)), false), "{event:?}");
    }
    let killed = [Effect::NoteForced, Effect::Kill, Effect::Look];
    assert_eq!(deaf().step(end_with(Duration::ZERO), at(1000)), killed);
    // Its owner gone, a job on the owner's terminal has no time to be asked.
    let mut job = running(Policy::default()).on_owners_terminal();
    job.step(end_with(minute), at(0));
    assert_eq!(job.step(Event::OwnerGone, at(1000)), killed);
}

#[test]
fn a_timeout_is_a_deadline_of_the_keeper_from_the_clone_on() {
    let timeout = Some(Duration::from_secs(2));
    let mut job = Job::new(Policy { timeout, ..Policy::default() });
    job.step(Event::Armed, at(0));
    assert_eq!(job.deadline(), None);
    job.step(Event::Cloned, at(3000));
    assert_eq!((job.deadline(), job.step(Event::Tick, at(4999))), (Some(at(5000)), Vec::new()));
    assert_eq!(job.step(Event::Tick, at(5000)), [all(Signal::Term), all(Signal::Cont)]);
    job.step(Event::LeaderExited(ExitStatus::Signal(15)), at(5001));
    let ended = job.step(Event::Seen(Sight::Empty), at(5001));
    assert_eq!(ended, over(Cause::Timeout, Some(Sight::Empty), None));
    // Without one a tick says nothing.
    let mut job = running(Policy::default());
    assert_eq!((job.deadline(), job.step(Event::Tick, at(99_999))), (None, Vec::new()));
}

#[test]
fn kept_leftovers_have_the_jobs_own_time_and_no_more() {
    let mut job = left_over(Leftovers::Keep, Some(Duration::from_secs(2)));
    assert_eq!(job.deadline(), Some(at(1200)));
    assert_eq!(job.step(Event::Tick, at(1199)), []);
    let (sight, fate) = (Some(Sight::Members), Some(Fate::Kept));
    assert_eq!(job.step(Event::Tick, at(1200)), [Effect::End { cause: Cause::LeaderExited, sight, fate }]);
    assert_eq!((job.deadline(), job.step(Event::Tick, at(1999))), (Some(at(2000)), Vec::new()));
    let asked = [Effect::NoteLeftovers, all(Signal::Term), all(Signal::Cont)];
    assert_eq!(job.step(Event::Tick, at(2000)), asked);
    assert_eq!(
        job.step(Event::Seen(Sight::Empty), at(2001)),
        over(Cause::Timeout, Some(Sight::Empty), Some(Fate::Ended))
    );
    // Those that end by themselves before they were told of have been kept as well.
    let mut job = left_over(Leftovers::Keep, None);
    assert_eq!(job.step(Event::Changed, at(1001)), [Effect::Look]);
    let kept = over(Cause::LeaderExited, Some(Sight::Empty), Some(Fate::Kept));
    assert_eq!(job.step(Event::Seen(Sight::Empty), at(1002)), kept);
}

#[test]
fn leftovers_that_end_in_the_drain_have_ended_by_themselves() {
    let mut job = left_over(Leftovers::End, None);
    assert_eq!(job.step(Event::Tick, at(1199)), []);
    let gone = over(Cause::LeaderExited, Some(Sight::Empty), Some(Fate::EndedByThemselves));
    assert_eq!(job.step(Event::Seen(Sight::Empty), at(1199)), gone);
}

#[test]
fn leftovers_end_with_an_order_the_owner_and_the_warden_for_that_reason() {
    let asked = [Effect::NoteLeftovers, all(Signal::Term), all(Signal::Cont)];
    for leftovers in [Leftovers::End, Leftovers::Keep] {
        for (event, cause, kill_at) in [
            (end_with(Duration::from_millis(300)), Cause::Asked, 1400),
            (Event::OwnerGone, Cause::OwnerGone, 1600),
            (Event::WardenGone, Cause::WardenGone, 1600),
        ] {
            let mut job = left_over(leftovers, None);
            assert_eq!(job.step(event.clone(), at(1100)), asked, "{event:?}");
            assert_eq!(job.deadline(), Some(at(kill_at)), "{event:?}");
            let ended = job.step(Event::Seen(Sight::Empty), at(1101));
            assert_eq!(ended, over(cause, Some(Sight::Empty), Some(Fate::Ended)), "{event:?}");
        }
    }
}

#[test]
fn a_signal_goes_to_the_leader_and_when_it_is_gone_to_whoever_is_left() {
    let usr1 = || Event::Order(Order::Signal(Signal::Usr1));
    let to_leader = [Effect::Signal(To::Leader, Signal::Usr1)];
    assert_eq!(running(Policy::default()).step(usr1(), at(1)), to_leader);
    assert_eq!(left_over(Leftovers::Keep, None).step(usr1(), at(1001)), [all(Signal::Usr1)]);
    let mut job = ending(GRACE);
    assert_eq!(job.step(usr1(), at(1)), to_leader);
    job.step(Event::LeaderExited(ExitStatus::Code(0)), at(2));
    // Its number may be anybody's by now.
    assert_eq!(job.step(usr1(), at(3)), []);
    // Before there is a leader, there is nobody to send it to.
    assert_eq!(Job::new(Policy::default()).step(usr1(), at(0)), []);
}

#[test]
fn the_owner_hears_that_the_leader_stops_and_goes_on() {
    let mut job = running(Policy::default());
    assert_eq!(job.step(Event::LeaderStopped(20), at(1)), [Effect::Report(Report::Stopped { signal: 20 })]);
    assert_eq!(job.step(Event::LeaderContinued, at(2)), [Effect::Report(Report::Continued)]);
}

#[test]
fn a_released_job_is_over_when_its_leader_and_everybody_else_is_gone() {
    let released = |cause| {
        let (sight, fate) = (Some(Sight::Members), Some(Fate::Released));
        [Effect::LetGo, Effect::End { cause, sight, fate }]
    };
    let mut job = running(Policy::default());
    assert_eq!(job.step(Event::Order(Order::Release), at(1)), released(Cause::Asked));
    assert!(job.let_go() && !job.guards() && !job.is_over());
    for event in [Event::OwnerGone, Event::WardenGone, Event::Tick, end_with(Duration::ZERO)] {
        assert_eq!((job.step(event, at(99_999)), job.deadline()), (Vec::new(), None));
    }
    assert_eq!(job.step(Event::Changed, at(2)), [Effect::Look]);
    // The leader is no member that a look sees before it has executed.
    assert_eq!(job.step(Event::Seen(Sight::Empty), at(2)), []);
    assert_eq!(job.step(Event::LeaderExited(ExitStatus::Code(0)), at(3)), [Effect::Look]);
    assert_eq!(job.step(Event::Seen(Sight::Members), at(3)), []);
    assert_eq!(job.step(Event::Changed, at(4)), [Effect::Look]);
    assert_eq!(job.step(Event::Seen(Sight::Empty), at(4)), [Effect::Leave]);
    assert!(job.is_over() && !job.let_go() && !job.guards());

    // What the leader has left, by order and by policy.
    let noted = |cause| [&[Effect::NoteLeftovers][..], &released(cause)].concat();
    let mut job = left_over(Leftovers::Keep, None);
    assert_eq!(job.step(Event::Order(Order::Release), at(1001)), noted(Cause::LeaderExited));
    assert_eq!(job.step(Event::Seen(Sight::Empty), at(1002)), [Effect::Leave]);
    let mut job = left_over(Leftovers::Release, None);
    assert_eq!(job.step(Event::Seen(Sight::Members), at(1001)), noted(Cause::LeaderExited));
}

#[test]
fn nothing_that_comes_before_the_start_is_lost_and_nothing_runs_then() {
    let refusal = || Refusal::Limit { which: "pids".to_owned(), why: "it cannot".to_owned() };
    for (event, cause) in [
        (Event::OwnerGone, Cause::OwnerGone),
        (Event::WardenGone, Cause::WardenGone),
        (end_with(GRACE), Cause::Asked),
    ] {
        let mut job = Job::new(Policy::default());
        assert!(!job.guards());
        assert_eq!(job.step(event, at(0)), over(cause, None, None));
        assert!(job.is_over());
    }
    let said = || Effect::Report(Report::NotStarted(refusal()));
    let mut job = Job::new(Policy::default());
    let refused = job.step(Event::NotStarted(refusal()), at(0));
    assert_eq!(refused, [&[said()][..], &over(Cause::LeaderExited, None, None)].concat());
    // A failed exec has a process that is about to exit.
    let mut job = running(Policy::default());
    assert_eq!(job.step(Event::NotStarted(refusal()), at(0)), [said()]);
    assert_eq!(job.step(Event::Tick, at(99_999)), []);
    let exited = job.step(Event::LeaderExited(ExitStatus::Code(127)), at(1));
    assert_eq!(exited, over(Cause::LeaderExited, None, None));
}

#[test]
fn the_end_of_the_owner_is_a_short_ladder_and_on_its_terminal_none() {
    let kill_at = |event: Event| {
        let mut job = running(Policy::default());
        job.step(event, at(0));
        job.deadline()
    };
    assert_eq!(kill_at(Event::OwnerGone), Some(Time(SHORT_GRACE)));
    assert_eq!(kill_at(Event::WardenGone), Some(Time(SHORT_GRACE)));
    // The warden's end is no reason to hurry there.
    let mut job = running(Policy::default()).on_owners_terminal();
    assert_eq!(job.step(Event::WardenGone, at(0)), [all(Signal::Term), all(Signal::Cont)]);
}
