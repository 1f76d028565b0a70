//! What a warden does, effect by effect and at its very instant.

use super::*;

fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

const A: JobId = JobId(1);
const B: JobId = JobId(2);

/// A warden with these jobs.
fn with(jobs: &[JobId]) -> Warden {
    let mut w = Warden::default();
    for job in jobs {
        assert_eq!(w.step(Event::Forked(*job), at(0)), []);
    }
    w
}

/// The same, and what has happened to the first.
fn after(event: Event) -> Warden {
    let mut w = with(&[A, B]);
    w.step(event, at(0));
    w
}

#[test]
fn who_asks_hears_what_each_job_is() {
    let held = |w: &Warden| (w.holding(A), w.jobs().collect::<Vec<_>>());
    assert_eq!(held(&with(&[B, A])), (Some(Holding::Guarded), vec![A, B]));
    assert_eq!(held(&after(Event::HandedOver(A))), (Some(Holding::Guarded), vec![A, B]));
    assert_eq!(held(&after(Event::KeeperLost(A))), (Some(Holding::Guarded), vec![A, B]));
    assert_eq!(held(&after(Event::Released(A))), (Some(Holding::LetGo), vec![A, B]));
    assert_eq!(held(&after(Event::KeeperDone(A))), (None, vec![B]));
}

#[test]
fn a_job_that_somebody_guards_can_be_stopped_and_no_other() {
    for now in [true, false] {
        let stop = Event::Stop { job: A, now };
        let told = vec![Effect::EndJob { job: A, now }];
        for (so_far, expected) in [
            (Event::Changed, told.clone()),
            (Event::HandedOver(A), told),
            (Event::Released(A), Vec::new()),
            (Event::KeeperLost(A), Vec::new()),
            (Event::KeeperDone(A), Vec::new()),
        ] {
            assert_eq!(after(so_far).step(stop, at(1)), expected, "{so_far:?}");
        }
    }
}

#[test]
fn a_release_is_for_ever_and_so_is_a_loss() {
    // Whoever else has the job now: the keeper that lets it go has been told so by its owner.
    let mut w = after(Event::HandedOver(A));
    w.step(Event::Released(A), at(1));
    assert_eq!(w.holding(A), Some(Holding::LetGo));
    w.step(Event::HandedOver(A), at(2));
    assert_eq!(w.holding(A), Some(Holding::LetGo));
    let mut w = after(Event::KeeperLost(A));
    for event in [Event::Released(A), Event::HandedOver(A), Event::KeeperLost(A)] {
        assert_eq!(w.step(event, at(1)), [], "{event:?}");
    }
    assert_eq!(w.step(Event::Changed, at(2)), [Effect::Look(A)]);
}

#[test]
fn only_a_job_whose_keeper_is_lost_is_looked_at_and_as_long_as_that() {
    let mut w = with(&[A, B]);
    assert_eq!((w.step(Event::Changed, at(0)), w.deadline()), (Vec::new(), None));
    assert_eq!(w.step(Event::Seen(A, Sight::Empty), at(0)), []);
    w.step(Event::KeeperLost(A), at(0));
    assert_eq!(w.deadline(), Some(at(10)));
    assert_eq!(w.step(Event::Tick, at(9)), []);
    let again = [Effect::EndWhatIsLeft(A), Effect::Look(A)];
    assert_eq!((w.step(Event::Tick, at(10)), w.deadline()), (again.to_vec(), Some(at(20))));
    // The last look comes in time, however late the one before it was.
    assert_eq!((w.step(Event::Tick, at(1995)), w.deadline()), (again.to_vec(), Some(at(2000))));
    assert_eq!(w.step(Event::Seen(A, Sight::Members), at(1999)), []);
    assert_eq!(w.step(Event::Tick, at(2000)), again);
    assert_eq!(
        w.step(Event::Seen(A, Sight::Unknown), at(2000)),
        [Effect::Tell(A, Sight::Unknown), Effect::Forget(A)]
    );
    assert_eq!((w.deadline(), w.holding(A), w.holding(B)), (None, None, Some(Holding::Guarded)));
}

#[test]
fn what_nobody_has_is_nothing_to_it() {
    let mut w = with(&[B]);
    for event in [Event::KeeperDone(A), Event::KeeperLost(A), Event::Released(A), Event::HandedOver(A)] {
        assert_eq!((w.step(event, at(0)), w.holding(A)), (Vec::new(), None), "{event:?}");
    }
    assert_eq!(w.step(Event::KeeperDone(B), at(1)), [Effect::Forget(B)]);
    // A keeper that ends when what it left was being ended has done it by itself.
    let mut w = after(Event::KeeperLost(A));
    assert_eq!(w.step(Event::KeeperDone(A), at(1)), [Effect::Forget(A)]);
}

#[test]
fn the_owners_end_gives_the_keepers_their_time_and_then_their_death() {
    let mut w = with(&[A]);
    assert!(!w.owner_is_gone() && !w.takes_no_more() && w.orphans() == Orphans::OfTheLost);
    assert_eq!(w.step(Event::OwnerGone, at(100)), []);
    assert!(w.owner_is_gone() && w.takes_no_more() && !w.is_done());
    // Said twice, it has ended once.
    w.step(Event::OwnerGone, at(900));
    assert_eq!((w.deadline(), w.step(Event::Tick, at(3099))), (Some(at(3100)), Vec::new()));
    assert_eq!(w.step(Event::Tick, at(3100)), [Effect::KillKeeper(A)]);
    // One that cannot be killed is asked again, and not without a pause.
    assert_eq!((w.deadline(), w.step(Event::Tick, at(6099))), (Some(at(6100)), Vec::new()));
    assert_eq!(w.step(Event::Tick, at(6100)), [Effect::KillKeeper(A)]);
    // A warden that is let go by a living owner hurries nobody.
    let mut w = with(&[A]);
    w.step(Event::Retired, at(0));
    assert!(w.takes_no_more() && !w.owner_is_gone() && !w.is_done());
    assert_eq!((w.deadline(), w.step(Event::Tick, at(99_999))), (None, Vec::new()));
}

#[test]
fn a_stopped_keeper_goes_on_half_a_second_later() {
    let go_on = |job| vec![Effect::ContinueKeeper(job)];
    // Whoever has the job, and if nobody has it: a caretaker reaps.
    for so_far in [Event::Changed, Event::HandedOver(A), Event::Released(A), Event::Retired] {
        let mut w = after(so_far);
        assert_eq!((w.step(Event::KeeperStopped(A), at(100)), w.deadline()), (Vec::new(), Some(at(600))));
        assert_eq!(w.step(Event::Tick, at(599)), [], "{so_far:?}");
        assert_eq!((w.step(Event::Tick, at(600)), w.deadline()), (go_on(A), None), "{so_far:?}");
    }
    // Each has its own time, and who stops it twice does not begin it anew.
    let mut w = with(&[A, B]);
    for (job, when) in [(A, 0), (B, 200), (A, 300)] {
        w.step(Event::KeeperStopped(job), at(when));
        assert_eq!(w.deadline(), Some(at(500)));
    }
    assert_eq!((w.step(Event::Tick, at(500)), w.deadline()), (go_on(A), Some(at(700))));
    w.step(Event::KeeperStopped(A), at(650));
    assert_eq!((w.step(Event::Tick, at(1000)), w.deadline()), (go_on(B), Some(at(1150))));
    assert_eq!((w.step(Event::Tick, at(1200)), w.deadline()), (go_on(A), None));
    w.step(Event::KeeperStopped(B), at(1300));
    w.step(Event::KeeperStopped(A), at(1300));
    assert_eq!(w.step(Event::Tick, at(1900)), [go_on(A), go_on(B)].concat());
}

#[test]
fn a_keeper_that_is_not_there_is_not_continued() {
    let stopped_and = |end| {
        let mut w = with(&[A, B]);
        w.step(Event::KeeperStopped(A), at(0));
        w.step(end, at(1));
        w
    };
    assert_eq!(stopped_and(Event::KeeperDone(A)).deadline(), None);
    let mut w = stopped_and(Event::KeeperLost(A));
    // A stop that was reported before it was killed and is heard of behind that.
    w.step(Event::KeeperStopped(A), at(2));
    w.step(Event::Seen(A, Sight::Empty), at(3));
    w.step(Event::KeeperStopped(A), at(4));
    assert_eq!((w.deadline(), w.step(Event::Tick, at(999))), (None, Vec::new()));
    let mut w = after(Event::Released(A));
    w.step(Event::KeeperStopped(A), at(0));
    let told = vec![Effect::Tell(A, Sight::Unknown), Effect::Forget(A)];
    assert_eq!((w.step(Event::KeeperLost(A), at(1)), w.deadline()), (told, None));
}

#[test]
fn a_keeper_that_is_stopped_again_and_again_is_killed_when_its_owner_is_gone_for_long() {
    let mut w = with(&[A]);
    w.step(Event::OwnerGone, at(0));
    for stopped in (0..2500).step_by(500) {
        w.step(Event::KeeperStopped(A), at(stopped));
        assert_eq!(w.deadline(), Some(at(stopped + 500)));
        assert_eq!(w.step(Event::Tick, at(stopped + 500)), [Effect::ContinueKeeper(A)]);
    }
    w.step(Event::KeeperStopped(A), at(2500));
    assert_eq!(w.step(Event::Tick, at(3000)), [Effect::ContinueKeeper(A), Effect::KillKeeper(A)]);
}

#[test]
fn a_released_jobs_orphans_are_nobodys() {
    let mut w = after(Event::Released(A));
    assert_eq!(w.orphans(), Orphans::OfAnybody);
    let told = [Effect::Tell(A, Sight::Unknown), Effect::Forget(A)];
    assert_eq!(w.step(Event::KeeperLost(A), at(1)), told);
    assert_eq!(w.orphans(), Orphans::OfAnybody);
    // A keeper that is done has left nobody.
    let mut w = after(Event::Released(A));
    w.step(Event::KeeperDone(A), at(1));
    assert_eq!(w.orphans(), Orphans::OfTheLost);
    let mut w = after(Event::Released(A));
    w.step(Event::KeeperLost(A), at(1));
    // The other's leaf is ended all the same.
    assert_eq!(w.step(Event::KeeperLost(B), at(2)), [Effect::EndWhatIsLeft(B), Effect::Look(B)]);
}
