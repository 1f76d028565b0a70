//! An owner that lives long: nothing grows with the jobs it has had, and numbers that were its jobs' are anybody's.
//!
//! Promised: after 500 jobs of one owner its process has as many descriptors as before and no child, the warden has as
//! many descriptors as before and no child, and no cgroup is left (G9, G12). A number that was a job's is nobody's when
//! the job is dropped, or swept for after its guards were killed (G5): an innocent process with that number and with a
//! group of that number hears no signal. When the keeper of a released job is killed, what was let go comes to the warden;
//! from then on too the warden ends what other killed keepers leave, and never what was let go (G2).

use crate::kit::{BOUND, Guards, SOON, boundaries, command, owner_of, script, trials};
use killcord::{Boundary, Job, Leftovers, Owner};
use killcord_testkit::{Host, Need, PinnedProcess, Running, Scene, Signal, Who, bin, procs, skip};
use std::time::{Duration, Instant};

trials![
    heavy_five_hundred_jobs_of_one_owner_leave_nothing,
    heavy_a_number_that_was_a_jobs_is_whoevers_it_is_now,
    a_caretaker_that_was_killed_leaves_the_second_line_as_it_was,
];

const JOBS: usize = 500;
/// Others may get the number first; then it is tried again with another job.
const ATTEMPTS: u32 = 6;

fn descriptors(process: &str) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

fn cgroup_of(job: &Job) -> std::path::PathBuf {
    let own = Host::get().cgroup_dir().unwrap_or_else(|| std::path::Path::new("/nonexistent"));
    own.join(job.id().cgroup_name())
}

/// Waits until the warden has no child but the keeper that it forks ahead, where it does: it reaps its keepers a
/// moment after the last report.
fn has_no_job(warden: &PinnedProcess, boundary: Boundary) {
    let until = Instant::now() + SOON;
    let spares = if boundary == Boundary::Namespace { vec![] } else { vec!["killcord-spare"] };
    loop {
        let children: Vec<String> = procs::children(warden.pid).into_iter().filter_map(procs::comm).collect();
        if children == spares {
            return;
        }
        assert!(Instant::now() < until, "the warden has these children: {children:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the warden has opened what it has for good: the socket in our claim comes when its first job is on its way.
fn listens_for_callers() {
    let until = Instant::now() + SOON;
    let me = std::process::id();
    loop {
        let list = killcord::list(None).unwrap();
        let mut ours = list.owners.iter().filter(|owner| owner.pid == me);
        if ours.all(|owner| owner.claim.join("control").exists()) {
            return;
        }
        assert!(Instant::now() < until, "{list:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn heavy_five_hundred_jobs_of_one_owner_leave_nothing() {
    for boundary in boundaries() {
        let owner = owner_of(boundary);
        let first = owner.command("sleep").arg("30").spawn().unwrap();
        let warden = Guards::of(&first).warden;
        drop(first);
        has_no_job(&warden, boundary);
        listens_for_callers();
        let before = (descriptors("self"), descriptors(&warden.pid.to_string()));
        let mut cgroups = Vec::new();
        for number in 0..JOBS {
            let mut job =
                owner.command("sh").args(["-c", &format!("exit {}", number % 200)]).spawn().unwrap();
            let end = job.wait().unwrap();
            assert_eq!(
                end.status,
                Some(killcord::ExitStatus::Code(number as i32 % 200)),
                "{boundary}: {end:?}"
            );
            assert!(matches!(end.verdict, killcord::Verdict::Empty(_)), "{boundary}: {end:?}");
            cgroups.push(cgroup_of(&job));
        }
        has_no_job(&warden, boundary);
        assert_eq!((descriptors("self"), descriptors(&warden.pid.to_string())), before, "{boundary}");
        assert_eq!(cgroups.iter().filter(|path| path.exists()).count(), 0, "{boundary}");
        assert!(procs::children(std::process::id()).is_empty(), "{boundary}: the host has a child of ours");
    }
}

/// How the job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Dropped,
    SweptFor,
}

/// A job whose leader has exited and whose leftover is kept, the leader's number, and the leftover.
fn leaderless(owner: &Owner, scene: &Scene) -> (Job, u32, Guards) {
    let text = "setsid \"$1\" stay 60 & until [ -e \"$D/exit\" ]; do sleep .02; done";
    let mut job = script(owner, scene, text).leftovers(Leftovers::Keep).spawn().unwrap();
    scene.wait_recorded(1, SOON);
    let guards = Guards::of(&job);
    std::fs::write(scene.path("exit"), "").unwrap();
    let number = job.pid().unwrap();
    let end = job.wait_timeout(SOON).unwrap().expect("the leader does not exit");
    assert!(end.goes_on(), "{end:?}");
    (job, number, guards)
}

/// False when the number was not to be had in time.
fn attempt(boundary: Boundary, end: End) -> bool {
    let (owner, scene) = (owner_of(boundary), Scene::new());
    let (mut job, number, guards) = leaderless(&owner, &scene);
    let left = scene.pin();
    let arguments = [&number.to_string(), "5", "--group"];
    let mut innocent = Running::start(scene.command(Who::Root, bin("kc-occupy")).args(arguments));
    if innocent.stdout.expect(&format!("ok {number} "), SOON).is_err() {
        return false;
    }
    match end {
        End::Dropped => drop(job),
        End::SweptFor => {
            for signal in [Signal::STOP, Signal::KILL] {
                guards.warden.kill(signal).unwrap();
                // The init of a namespace may be gone with the warden.
                let _ = guards.keeper.kill(signal);
            }
            assert!(job.wait_timeout(SOON).unwrap().is_some(), "{boundary}: it waits for ever");
        }
    }
    left.wait_gone(BOUND).unwrap();
    let status = innocent.wait(SOON).expect("the innocent one does not end");
    assert_eq!(status.code(), Some(0), "{boundary} {end:?}: {}", innocent.stdout.text());
    // What is left of the owner works on.
    assert!(command(&owner, &scene, "true").spawn().unwrap().wait().unwrap().success());
    true
}

fn heavy_a_number_that_was_a_jobs_is_whoevers_it_is_now() {
    if !Host::get().has(Need::Root) {
        skip!(Need::Root);
    }
    for boundary in boundaries() {
        for end in [End::Dropped, End::SweptFor] {
            let met = (0..ATTEMPTS).any(|_| attempt(boundary, end));
            assert!(met, "{boundary} {end:?}: the number was never to be had in time");
        }
    }
}

/// On `namespace` the caretaker is the init, and what was let go ends with it.
fn a_caretaker_that_was_killed_leaves_the_second_line_as_it_was() {
    for boundary in boundaries().into_iter().filter(|boundary| *boundary != Boundary::Namespace) {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let released =
            script(&owner, &scene, "setsid \"$1\" let-go 60 & exec \"$1\" main 60").spawn().unwrap();
        scene.wait_names(&["let-go", "main"], SOON);
        let caretaker = Guards::of(&released).keeper;
        released.release().unwrap();
        let let_go = scene.pin();
        caretaker.kill(Signal::KILL).unwrap();
        // Its leader goes with it, by its death signal.
        assert!(let_go.get("main").unwrap().wait_gone(BOUND));
        for round in 0..2 {
            let other = Scene::new();
            let text = "setsid \"$1\" escaped 60 & \"$2\" 60 & exec \"$1\" second 60";
            let mut job = script(&owner, &other, text).spawn().unwrap();
            other.wait_names(&["escaped", "ignore", "second"], SOON);
            let members = other.pin();
            Guards::of(&job).keeper.kill(Signal::KILL).unwrap();
            let gone = members.wait_gone(BOUND);
            assert!(gone.is_ok(), "{boundary}, round {round}: {gone:?}");
            let end = job.wait_timeout(SOON).unwrap().unwrap();
            assert!(matches!(end.verdict, killcord::Verdict::Empty(_)), "{boundary}: {end:?}");
        }
        assert!(let_go.get("let-go").unwrap().is_alive(), "{boundary}: what was let go was ended");
        let_go.kill(Signal::KILL);
    }
}
