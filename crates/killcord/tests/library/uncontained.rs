//! A host that cannot have a warden, and has said that it will do without.
//!
//! Promised: its commands start all the same, as plain children; each result says so (boundary, note, verdict). A
//! timeout, and KILL at the grace, come while somebody waits. Only the leader ends with its handle, and it leaves no
//! zombie. What takes a keeper is refused by a typed error before anything ran; so is everything without the opt-in.
//!
//! Not promised: anything about what the leader started. That it is left is asserted, so that nobody promises more.
//!
//! Each test is a host of its own: this executable, without `init`, without `KILLCORD_BIN`, with an empty `PATH`.

use crate::kit::{self, SOON, ms, timed, trials};
use crate::roles::{dir, say};
use killcord::{
    Boundary, Cause, Command, End, Error, ExitStatus, Job, Ladder, Limits, Owner, Stdio, Verdict,
};
use killcord_testkit::{PinnedProcess, Scene, bin, procs, run};
use std::process::Command as Program;
use std::time::Duration;

trials![
    a_command_starts_and_each_result_says_that_nothing_holds_it,
    a_timeout_is_kept_by_whoever_waits,
    an_order_to_end_is_kept_by_whoever_waits,
    the_leader_ends_with_its_handle_and_leaves_no_zombie,
    what_takes_a_keeper_is_refused,
    without_pidfds_nothing_runs,
    without_the_opt_in_there_is_no_start,
    what_the_leader_started_is_left,
];

/// Roles of hosts that may do without a warden; `main` calls it before `init`.
pub(crate) fn play(name: &str) {
    match name {
        "start" => start(),
        "timeout" => timeout(),
        "end" => end(),
        "drop" => drop_it(),
        "refuse" => refuse(),
        "no pidfds" => no_pidfds(),
        "no opt-in" => no_opt_in(),
        "leave" => leave(),
        other => panic!("no role {other:?}"),
    }
    assert!(procs::children(std::process::id()).is_empty(), "a child is left, perhaps a zombie");
    say("played");
}

fn without_warden(scene: &Scene, mut host: Program, name: &str) {
    host.arg(name)
        .env("PATH", "")
        .env_remove("KILLCORD_BIN")
        .env("LEAF", bin("kc-leaf"))
        .env("IGNORE", bin("kc-ignore"));
    let done = run(&mut host, SOON);
    assert!(done.code() == 0 && done.stdout == "played\n", "{done:?} {:?}", scene.alive());
}

fn played(name: &str) -> Scene {
    let scene = Scene::new();
    without_warden(&scene, kit::host(&scene, "uncontained"), name);
    scene
}

fn owner() -> Owner {
    Owner::builder().allow_uncontained().build().unwrap()
}

fn script(owner: &Owner, text: &str) -> Command {
    let mut command = owner.command("/bin/sh");
    command.args(["-c", text]).env("PATH", "/bin:/usr/bin");
    command
}

/// A leader that ignores TERM, INT and HUP, and is up.
fn stubborn(owner: &Owner, set: impl Fn(&mut Command)) -> (Job, PinnedProcess) {
    up(owner, "exec \"$IGNORE\" 60", set)
}

/// A leader that is up when its first line has come.
fn up(owner: &Owner, text: &str, set: impl Fn(&mut Command)) -> (Job, PinnedProcess) {
    let mut command = script(owner, text);
    set(&mut command);
    let mut job = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(job.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    job.stdout = Some(stdout.into_inner());
    let leader = PinnedProcess::open(job.pid().unwrap(), |s| s.parent == std::process::id()).unwrap();
    (job, leader)
}

/// What every result says.
fn says_so(end: &End) {
    assert_eq!(end.boundary, Boundary::Uncontained, "{end:?}");
    assert!(end.notes.iter().any(|note| note.contains("uncontained")), "{end:?}");
    assert!(matches!(&end.verdict, Verdict::Unconfirmed(why) if why.contains("uncontained")), "{end:?}");
}

fn start() {
    let owner = owner();
    let job = script(&owner, "echo $KILLCORD_JOB; cat; echo err >&2; exit 5")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = job.id();
    assert_eq!(job.boundary(), Some(Boundary::Uncontained));
    let output = job.into_output(1000).unwrap();
    assert_eq!((output.stdout.to_text(), output.stderr.to_text()), (format!("{id}\n"), "err\n".to_owned()));
    assert_eq!((output.end.cause, output.end.status), (Cause::LeaderExited, Some(ExitStatus::Code(5))));
    says_so(&output.end);

    let mut job = script(&owner, "kill -9 $$").spawn().unwrap();
    let end = job.wait_timeout(SOON).unwrap().unwrap();
    assert_eq!(
        (end.status, job.wait().unwrap(), job.try_wait().unwrap()),
        (Some(ExitStatus::Signal(9)), end.clone(), Some(end.clone()))
    );
    says_so(&end);
    let error = owner.command("/no/such/program").spawn().unwrap_err();
    assert!(matches!(error, Error::NotStarted { .. }) && error.nothing_ran(), "{error:?}");
}

fn a_command_starts_and_each_result_says_that_nothing_holds_it() {
    played("start");
}

fn timeout() {
    let owner = owner();
    // Asked at its time, killed at the grace.
    let set = |command: &mut Command| {
        command.timeout(ms(500)).grace(ms(300));
    };
    let waits: [fn(Job) -> End; 3] = [
        |mut job| job.wait().unwrap(),
        |mut job| job.wait_timeout(SOON).unwrap().unwrap(),
        |job| job.into_output(1000).unwrap().end,
    ];
    for wait in waits {
        let (job, leader) = stubborn(&owner, set);
        let (end, took) = timed(|| wait(job));
        assert_eq!((end.cause, end.status), (Cause::Timeout, Some(ExitStatus::Signal(9))), "{end:?}");
        assert!(end.duration >= ms(800) && took < ms(1500), "{end:?} {took:?}");
        assert!(!leader.is_alive());
        says_so(&end);
        let (end, _) = timed(|| wait(script(&owner, "exec sleep 50").timeout(ms(100)).spawn().unwrap()));
        assert_eq!((end.cause, end.status), (Cause::Timeout, Some(ExitStatus::Signal(15))), "{end:?}");
    }
}

fn a_timeout_is_kept_by_whoever_waits() {
    played("timeout");
}

fn end() {
    let owner = owner();
    let (mut job, _leader) =
        up(&owner, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done", |_| {});
    job.end(Ladder::with_grace(Duration::from_secs(5))).unwrap();
    let end = job.wait_timeout(SOON).unwrap().unwrap();
    assert_eq!((end.cause, end.status), (Cause::Asked, Some(ExitStatus::Code(3))));

    // One that is stopped hears of it as well.
    let (mut job, leader) = up(&owner, "echo ready; exec sleep 50", |_| {});
    leader.kill(killcord_testkit::Signal::STOP).unwrap();
    job.end(Ladder::with_grace(Duration::from_secs(5))).unwrap();
    assert_eq!(job.wait_timeout(SOON).unwrap().unwrap().status, Some(ExitStatus::Signal(15)));

    // One that stays is killed at the grace, at the shortest that was given.
    let (mut job, _leader) = stubborn(&owner, |_| {});
    job.end(Ladder::with_grace(Duration::from_secs(50))).unwrap();
    assert!(job.wait_timeout(ms(100)).unwrap().is_none());
    job.end(Ladder::with_grace(ms(400))).unwrap();
    let (end, took) = timed(|| job.wait_timeout(SOON).unwrap().unwrap());
    assert_eq!((end.cause, end.status), (Cause::Asked, Some(ExitStatus::Signal(9))));
    assert!((ms(300)..ms(1400)).contains(&took), "{took:?}");

    let (mut job, _leader) = stubborn(&owner, |_| {});
    job.end_now().unwrap();
    let end = job.wait_timeout(SOON).unwrap().unwrap();
    assert_eq!((end.cause, end.status), (Cause::Asked, Some(ExitStatus::Signal(9))));
    says_so(&end);
    // It is over: nothing to be done, and no error.
    job.end_now().unwrap();
}

fn an_order_to_end_is_kept_by_whoever_waits() {
    played("end");
}

fn drop_it() {
    let panics = |job: Job| {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _job = job;
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
    };
    let owner = owner();
    for leave in [drop, panics] {
        let (job, leader) = stubborn(&owner, |_| {});
        leave(job);
        assert!(!leader.is_alive(), "it outlives its handle");
        assert!(procs::children(std::process::id()).is_empty(), "it is a zombie");
    }
}

fn the_leader_ends_with_its_handle_and_leaves_no_zombie() {
    played("drop");
}

fn refuse() {
    let owner = owner();
    let mark = || dir().join("mark").exists();
    let refused = |set: &dyn for<'a> Fn(&'a mut Command) -> &'a mut Command| {
        let mut command = script(&owner, "echo run >\"$D/mark\"");
        set(&mut command);
        let error = command.spawn().unwrap_err();
        assert!(error.nothing_ran() && !mark(), "{error:?}");
        error
    };
    for weakest in [Boundary::Group, Boundary::Tree, Boundary::Cgroup, Boundary::Namespace] {
        let error = refused(&|command| command.require(weakest));
        assert!(
            matches!(&error, Error::Weaker { wanted, tried } if *wanted == weakest && tried.len() == 1),
            "{error:?}"
        );
    }
    let requiring = Owner::builder().allow_uncontained().require(Boundary::Tree).build().unwrap();
    assert!(matches!(requiring.command("/bin/true").spawn(), Err(Error::Weaker { .. })));
    let limits = [
        Limits { memory: Some(1 << 30), ..Limits::default() },
        Limits { pids: Some(100), ..Limits::default() },
        Limits { cpu: Some(1000), ..Limits::default() },
    ];
    let mut errors: Vec<Error> = limits.into_iter().map(|l| refused(&|command| command.limits(l))).collect();
    errors.push(refused(&|command| command.on_terminal(80, 24)));
    errors.push(refused(&|command| command.umask(0o77)));
    errors.push(refused(&|command| command.nice(5)));
    errors.push(refused(&|command| command.oom_score_adj(300)));
    errors.push(refused(&|command| command.descriptor(9, std::fs::File::open("/dev/null").unwrap())));
    for error in errors {
        assert!(matches!(&error, Error::NoWarden { why } if why.contains("need a warden")), "{error:?}");
    }

    for hand_over in [|job: Job| job.release().err(), |job: Job| job.into_fd().err()] {
        let (job, leader) = stubborn(&owner, |_| {});
        let error = hand_over(job).expect("it was handed over");
        let unsupported = |e: &std::io::Error| e.kind() == std::io::ErrorKind::Unsupported;
        assert!(matches!(&error, Error::Io { source, .. } if unsupported(source)), "{error:?}");
        // The handle is lost, and with it the leader.
        assert!(!leader.is_alive(), "{error:?}");
    }
}

fn what_takes_a_keeper_is_refused() {
    played("refuse");
}

fn no_pidfds() {
    let error = script(&owner(), "echo run >\"$D/mark\"").spawn().unwrap_err();
    assert!(error.nothing_ran() && !dir().join("mark").exists(), "{error:?}");
}

fn without_pidfds_nothing_runs() {
    let scene = Scene::new();
    let host = kit::host(&scene, "uncontained");
    let mut denied = scene.command(kit::here(), bin("kc-deny"));
    denied.env(kit::ROLE, "uncontained").args(["pidfd", "--"]).arg(host.get_program());
    without_warden(&scene, denied, "no pidfds");
    assert!(!scene.path("mark").exists());
}

fn no_opt_in() {
    let error = Owner::builder().build().unwrap_err();
    assert!(matches!(error, Error::NoWarden { .. }) && error.nothing_ran(), "{error:?}");
}

fn without_the_opt_in_there_is_no_start() {
    played("no opt-in");
}

fn leave() {
    let text = "\"$LEAF\" leaf 60 </dev/null >/dev/null 2>&1 & until [ -s \"$D/ids\" ]; do sleep 0.01; done";
    let end = script(&owner(), text).spawn().unwrap().wait().unwrap();
    assert!(end.success() && end.leftovers.is_none(), "{end:?}");
    says_so(&end);
}

fn what_the_leader_started_is_left() {
    let scene = played("leave");
    // Even when the host is gone. The scene ends it.
    assert_eq!(scene.alive().len(), 1);
}
