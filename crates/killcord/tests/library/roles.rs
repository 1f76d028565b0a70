//! The hosts that the tests kill: this executable in a role. Each process of them ends by an alarm.

use crate::kit::{Guards, ROLE, SOON};
use crate::{at_most_once, caretaker, flood, host, uncontained};
use killcord::{Boundary, Choice, Error, Job, Ladder, Owner};
use killcord_sys::fixture;
use killcord_testkit::{Signal, bin, life};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};
use std::time::Duration;

/// The scene that the test has made for its host.
pub(crate) fn dir() -> PathBuf {
    std::env::var_os("D").unwrap().into()
}

fn argument(n: usize) -> String {
    std::env::args().nth(n).unwrap()
}

pub(crate) fn say(line: &str) {
    life::say(line).unwrap();
}

/// Blocks until the test closes our input.
pub(crate) fn wait_for_end_of_input() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A job of two processes that ignore TERM and HUP.
fn stubborn(owner: &Owner) -> Job {
    let mut command = owner.command("sh");
    command.args(["-c", "\"$0\" 60 & exec \"$0\" 60"]).arg(bin("kc-ignore")).spawn().unwrap()
}

/// Waits until so many processes of the scene are there.
pub(crate) fn wait_recorded(n: usize) {
    let ids = dir().join("ids");
    let deadline = life::now_ms() + SOON.as_millis() as u64;
    while std::fs::read_to_string(&ids).unwrap().lines().count() < n {
        assert!(life::now_ms() < deadline, "the job is not up");
        life::sleep_until(life::now_ms() + 2);
    }
}

/// Roles of programs that do not call `init`.
pub(crate) fn play_without_init() {
    if std::env::var_os(ROLE).is_some_and(|role| role == "no init") {
        life::arm();
        match Owner::new().and_then(|owner| owner.command("true").spawn()?.wait()) {
            Ok(end) => say(&format!("ran {}", end.success())),
            Err(e) => {
                assert!(matches!(e, Error::NoWarden { .. }) && e.nothing_ran(), "{e:?}");
                say(&format!("error {e}"));
            }
        }
        std::process::exit(0);
    }
    if std::env::var_os(ROLE).is_some_and(|role| role == "uncontained") {
        life::arm();
        uncontained::play(&argument(1));
        std::process::exit(0);
    }
}

/// Plays the role that the environment names, and does not return then.
pub(crate) fn play() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    life::arm();
    match role.to_str().unwrap() {
        "leave" => leave(),
        "fork" => fork(),
        "fork twice" => fork_twice(),
        "keep across exec" => keep_across_exec(),
        "kept across exec" => kept_across_exec(),
        "give" => give(),
        "take" => take(),
        "release" => release(),
        "killed starts" => at_most_once::killed_starts(argument(1).parse().unwrap()),
        "crowded" => at_most_once::crowded(),
        "undisturbed" => host::undisturbed(),
        "quiet" => host::quiet(),
        "two jobs" => caretaker::two_jobs(&argument(1)),
        other => assert!(flood::play(other), "no role {other:?}"),
    }
    std::process::exit(0);
}

fn leave() {
    let boundary: Boundary = argument(1).parse().unwrap();
    let owner = Owner::builder().boundary(Choice::Exactly(boundary)).build().unwrap();
    let job = stubborn(&owner);
    wait_recorded(2);
    let way = argument(2);
    if way == "kill in a teardown" {
        job.end(Ladder::with_grace(Duration::from_secs(50))).unwrap();
    }
    say("ready");
    wait_for_end_of_input();
    match way.as_str() {
        "return" => drop(job),
        "panic" => panic!("on purpose"),
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),
        other => panic!("still alive: {other}"),
    }
}

/// A copy of the host, with all of its descriptors, that outlives it.
fn fork() {
    let owner = Owner::builder().boundary(Choice::Exactly(argument(1).parse().unwrap())).build().unwrap();
    let _job = stubborn(&owner);
    wait_recorded(2);
    live_on_with_a_copy(3);
}

/// A copy of the host that drops what it has of the owner, and one that lives on.
fn fork_twice() {
    let owner = Owner::new().unwrap();
    let _job = leaf(&owner);
    let copied = fixture::fork().unwrap();
    let fixture::Forked::Parent(copy) = copied else {
        drop(owner);
        fixture::exit_now(0);
    };
    life::reap(copy).unwrap();
    say("dropped");
    live_on_with_a_copy(2);
}

/// Makes a copy of this process that writes itself down as one more of so many.
fn live_on_with_a_copy(recorded: usize) {
    if fixture::fork().unwrap() == fixture::Forked::Child {
        life::arm();
        killcord_testkit::record(&dir().join("ids"), "copy").unwrap();
        life::sleep_until(life::now_ms() + 60_000);
        fixture::exit_now(0);
    }
    wait_recorded(recorded);
    say("ready");
    life::sleep_until(life::now_ms() + 60_000);
}

fn leaf(owner: &Owner) -> Job {
    let mut command = owner.command(bin("kc-leaf"));
    let job = command.args(["leaf", "60"]).spawn().unwrap();
    wait_recorded(1);
    job
}

fn myself(role: &str, job: &Job) -> Program {
    let mut program = Program::new("/proc/self/exe");
    program.env(ROLE, role).arg(job.id().to_string());
    program
}

/// Executes itself again, with the cord as its standard input.
fn keep_across_exec() {
    let owner = Owner::new().unwrap();
    let job = leaf(&owner);
    let mut again = myself("kept across exec", &job);
    let cord = job.into_fd().unwrap();
    panic!("{}", again.stdin(cord).exec());
}

/// The cord in our standard input, which then is `/dev/null` again, so that there is no second copy of it.
fn cord_in_stdin() -> OwnedFd {
    let cord = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null").unwrap()).unwrap();
    cord
}

fn kept_across_exec() {
    let mut job = Job::adopt(cord_in_stdin(), argument(1).parse().unwrap()).unwrap();
    assert!(job.wait_timeout(Duration::from_secs(1)).unwrap().is_none(), "exec has ended the job");
    say("kept");
    job.end(Ladder::with_grace(Duration::from_secs(5))).unwrap();
    let end = job.wait_timeout(SOON).unwrap().unwrap();
    assert_eq!(end.status.map(killcord::ExitStatus::as_shell), Some(143), "{end:?}");
    say("ended");
}

/// Gives the job to a process of its own making, of which the test learns the number. With the word `copy`, the
/// giver keeps a copy of the cord; with `late`, the keeper is stopped and hears nothing of it for now.
#[expect(clippy::zombie_processes, reason = "this process is killed, or ends with its scene")]
fn give() {
    let owner = Owner::builder().boundary(Choice::Exactly(argument(1).parse().unwrap())).build().unwrap();
    let job = leaf(&owner);
    let mut other = myself("take", &job);
    if argument(2) == "late" {
        Guards::of(&job).keeper.kill(Signal::STOP).unwrap();
    }
    let cord = job.into_fd().unwrap();
    let _copy = (argument(2) == "copy").then(|| cord.try_clone().unwrap());
    let mut taker = other.stdin(cord).stdout(Stdio::piped()).spawn().unwrap();
    // Its copy of the cord is closed here.
    drop(other);
    let mut line = [0; 6];
    taker.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"taken\n");
    say(&format!("given to {}.", taker.id()));
    life::sleep_until(life::now_ms() + 60_000);
}

fn take() {
    let _job = Job::adopt(cord_in_stdin(), argument(1).parse().unwrap()).unwrap();
    std::io::stdout().write_all(b"taken\n").unwrap();
    life::sleep_until(life::now_ms() + 60_000);
}

fn release() {
    let owner = Owner::builder().boundary(Choice::Exactly(argument(1).parse().unwrap())).build().unwrap();
    leaf(&owner).release().unwrap();
    say("released");
    life::sleep_until(life::now_ms() + 60_000);
}
