//! What a start is asked for is what the program gets, and what cannot be done is said before anything ran.
//!
//! Promised (G7, G10): environment of any size that the kernel takes, and its own error for what it does not;
//! attributes; descriptors; the stage in the error. Owners are independent of each other and of threads. Without a
//! warden there is an error that names both ways to have one.

use crate::kit::{self, SOON, boundaries, command, owner_of, script, trials};
use killcord::model::spec::ResourceLimit;
use killcord::model::wire::Stage;
use killcord::{Boundary, Choice, Error, ExitStatus, Owner, Stdio};
use killcord_testkit::{Scene, bin, run};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::Command as Program;

const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EACCES: i32 = 13;
const NOFILE: u32 = 7;

trials![
    a_megabyte_of_environment_arrives,
    more_than_the_kernel_takes_is_its_error_and_nothing_ran,
    the_attributes_are_the_programs,
    extra_descriptors_arrive_and_no_others,
    an_emptied_environment_is_empty_but_for_the_jobs_name_and_place,
    streams_go_where_they_are_sent,
    a_program_that_cannot_be_executed_is_named_with_its_stage,
    a_contradiction_is_a_weaker_boundary_and_nothing_ran,
    several_owners_and_many_threads,
    a_host_without_init_and_without_killcord_is_told_both_ways,
    a_host_without_init_uses_killcord_bin_and_then_path,
];

/// What a script prints with this owner.
fn output(owner: &Owner, scene: &Scene, text: &str) -> String {
    let job = script(owner, scene, text).stdout(Stdio::piped()).spawn().unwrap();
    let output = job.into_output(100_000).unwrap();
    assert!(output.end.success(), "{text:?}: {output:?}");
    output.stdout.to_text()
}

/// That many variables of 64 KiB.
fn large(command: &mut killcord::Command, variables: usize) {
    for n in 0..variables {
        command.env(format!("LARGE_{n}"), "x".repeat(64 * 1024));
    }
}

fn a_megabyte_of_environment_arrives() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command = script(&owner, &scene, "env | wc -c");
        large(&mut command, 16);
        let output = command.stdout(Stdio::piped()).spawn().unwrap().into_output(1000).unwrap();
        let count: usize = output.stdout.to_text().trim().parse().unwrap();
        assert!((1 << 20..1_100_000).contains(&count), "{boundary}: {output:?}");
    }
}

fn more_than_the_kernel_takes_is_its_error_and_nothing_ran() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut command = script(&owner, &scene, "echo run >>\"$D/runs\"");
        large(&mut command, 128);
        let error = command.spawn().unwrap_err();
        let Error::NotStarted { stage: Stage::Exec, source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.raw_os_error(), Some(E2BIG), "{boundary}");
        assert!(error.nothing_ran() && !scene.path("runs").exists(), "{boundary}: {error:?}");
        assert!(output(&owner, &scene, "echo fine") == "fine\n", "{boundary}");
    }
}

fn the_attributes_are_the_programs() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "umask; nice; ulimit -n; cat /proc/self/oom_score_adj; pwd";
        let own: i32 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
        let nofile = ResourceLimit { resource: NOFILE, soft: Some(77), hard: Some(77) };
        let mut command = script(&owner, &scene, text);
        command.umask(0o027).nice(5).resource_limit(nofile).oom_score_adj(300).current_dir("/usr");
        let set = command.stdout(Stdio::piped()).spawn().unwrap().into_output(1000).unwrap();
        let adj = (own + 300).min(1000);
        assert_eq!(set.stdout.to_text(), format!("0027\n5\n77\n{adj}\n/usr\n"), "{boundary}");
        let adj = (own + 100).min(1000);
        assert_eq!(output(&owner, &scene, "cat /proc/self/oom_score_adj"), format!("{adj}\n"), "{boundary}");
    }
}

fn extra_descriptors_arrive_and_no_others() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        // One of ours that the program has no business with, not closed by exec.
        let mine = std::fs::File::open("/dev/zero").unwrap();
        rustix::io::fcntl_setfd(&mine, rustix::io::FdFlags::empty()).unwrap();
        let (read, write) = std::io::pipe().unwrap();
        let (mut answer, answering) = std::io::pipe().unwrap();
        let mut command = script(&owner, &scene, "cat <&9 >&4; exec \"$3\"");
        command.arg(bin("kc-fds"));
        let job =
            command.descriptor(9, read).descriptor(4, answering).stdout(Stdio::piped()).spawn().unwrap();
        drop(command);
        (&write).write_all(b"through").unwrap();
        drop(write);
        let mut said = String::new();
        answer.read_to_string(&mut said).unwrap();
        let output = job.into_output(1000).unwrap();
        let fds = output.stdout.to_text();
        let has = |n: u32| fds.contains(&format!("\"fd\":{n},"));
        assert!(said == "through" && [0, 1, 2, 4, 9].into_iter().all(has), "{boundary}: {said} {output:?}");
        assert!(fds.matches("\"fd\":").count() == 5 && !fds.contains("/dev/zero"), "{boundary}: {fds}");
    }
}

fn an_emptied_environment_is_empty_but_for_the_jobs_name_and_place() {
    for boundary in boundaries() {
        let owner = owner_of(boundary);
        let mut command = owner.command("/usr/bin/env");
        let job = command.env("GONE", "x").env_clear().env("A", "1").stdout(Stdio::piped()).spawn().unwrap();
        let id = job.id();
        let output = job.into_output(1000).unwrap();
        let text = output.stdout.to_text();
        let (rest, place) = text.split_once("TMPDIR=").unwrap();
        assert_eq!(rest, format!("A=1\nKILLCORD_JOB={id}\n"), "{boundary}");
        let short = &id.to_string()[..12];
        assert!(place.trim_end().ends_with(&format!("/tmp/{short}")), "{boundary}: {place}");
        let mut command = owner.command("sh");
        command.args(["-c", "echo \"${HOME-none} $B\""]).env("B", "2").env_remove("HOME");
        let output = command.stdout(Stdio::piped()).spawn().unwrap().into_output(1000).unwrap();
        assert_eq!(output.stdout.to_text(), "none 2\n", "{boundary}");
    }
}

fn streams_go_where_they_are_sent() {
    let (owner, scene) = (owner_of(Boundary::Tree), Scene::new());
    let file = std::fs::File::create(scene.path("err")).unwrap();
    let mut command = script(&owner, &scene, "cat; echo err >&2");
    let mut job = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
    job.stdin.as_mut().unwrap().write_all(b"typed").unwrap();
    // Closing our end is the end of its input; `into_output` does so.
    let output = job.into_output(1000).unwrap();
    assert_eq!(output.stdout.to_text(), "typed");
    assert_eq!(std::fs::read_to_string(scene.path("err")).unwrap(), "err\n");
}

fn a_program_that_cannot_be_executed_is_named_with_its_stage() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let data = scene.path("data");
        std::fs::write(&data, "no program").unwrap();
        let data = data.to_str().unwrap();
        let missing = scene.path("missing");
        let attempts = [
            (command(&owner, &scene, "no-such-program"), Stage::Exec, ENOENT, "no-such-program"),
            (command(&owner, &scene, "/no/such/program"), Stage::Exec, ENOENT, "/no/such/program"),
            (command(&owner, &scene, data), Stage::Exec, EACCES, data),
        ];
        for (mut command, stage, errno, named) in attempts {
            let error = command.spawn().unwrap_err();
            let Error::NotStarted { stage: at, source, .. } = &error else { panic!("{error:?}") };
            assert_eq!((*at, source.raw_os_error()), (stage, Some(errno)), "{boundary}: {error:?}");
            assert!(error.nothing_ran() && error.to_string().contains(named), "{boundary}: {error}");
        }
        let error = command(&owner, &scene, "true").arg("a\0b").spawn().unwrap_err();
        let named = error.nothing_ran() && error.to_string().contains("zero byte");
        assert!(
            named && matches!(error, Error::NotStarted { stage: Stage::Exec, .. }),
            "{boundary}: {error}"
        );
        let error = command(&owner, &scene, "true").current_dir(&missing).spawn().unwrap_err();
        let Error::NotStarted { stage: Stage::Directory, path, .. } = &error else { panic!("{error:?}") };
        assert_eq!(path, &missing, "{boundary}");
    }
}

fn a_contradiction_is_a_weaker_boundary_and_nothing_ran() {
    let owner = Owner::new().unwrap();
    let mut command = owner.command("true");
    let error =
        command.boundary(Choice::Exactly(Boundary::Group)).require(Boundary::Tree).spawn().unwrap_err();
    assert!(matches!(error, Error::Weaker { .. }) && error.nothing_ran(), "{error:?}");
    // And where it can be had, it is what is said.
    let job = owner.command("true").require(Boundary::Tree).spawn().unwrap();
    assert!(job.boundary().unwrap() >= Boundary::Tree);
}

fn several_owners_and_many_threads() {
    let owners: Vec<Owner> = boundaries().into_iter().map(owner_of).chain([Owner::new().unwrap()]).collect();
    let ids = std::thread::scope(|scope| {
        let start = |thread: usize| {
            let owner = owners[thread % owners.len()].clone();
            move || {
                let one = |n: usize| {
                    let code = (thread * 10 + n) as i32;
                    let mut command = owner.command("sh");
                    let mut job = command.args(["-c", &format!("exit {code}")]).spawn().unwrap();
                    let end = job.wait_timeout(SOON).unwrap().expect("no end");
                    assert_eq!(end.status, Some(ExitStatus::Code(code)));
                    job.id()
                };
                (0..10).map(one).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..16).map(|thread| scope.spawn(start(thread))).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(ids.len(), 160);
    // Each has a warden of its own.
    let jobs: Vec<_> = owners.iter().map(|o| o.command("sleep").arg("30").spawn().unwrap()).collect();
    let wardens: BTreeSet<_> = jobs.iter().map(|job| kit::Guards::of(job).warden.pid).collect();
    assert_eq!(wardens.len(), owners.len());
    drop(owners);
    // A job needs its own handle only.
    assert!(jobs.into_iter().all(|mut job| job.try_wait().unwrap().is_none()));
}

/// A host that has not called `init`, with nothing installed.
fn without_init(scene: &Scene) -> Program {
    let mut host = kit::host(scene, "no init");
    host.env("PATH", scene.path("bin")).env_remove("KILLCORD_BIN");
    host
}

fn a_host_without_init_and_without_killcord_is_told_both_ways() {
    let scene = Scene::new();
    let done = run(&mut without_init(&scene), SOON);
    assert!(done.stdout.starts_with("error no warden"), "{done:?}");
    for way in ["killcord::init()", "first in main", "install `killcord`", "KILLCORD_BIN", "PATH"] {
        assert!(done.stdout.contains(way), "{way}: {done:?}");
    }
    // A named program that is not there is an error as well, and nothing else is taken instead.
    let done = run(without_init(&scene).env("KILLCORD_BIN", "/no/such/killcord"), SOON);
    assert!(
        done.stdout.starts_with("error no warden") && done.stdout.contains("/no/such/killcord"),
        "{done:?}"
    );
    // Nor is a program that is no warden one that leaves us waiting.
    let done = run(without_init(&scene).env("KILLCORD_BIN", "/bin/true"), SOON);
    assert!(done.stdout.starts_with("error "), "{done:?}");
}

fn a_host_without_init_uses_killcord_bin_and_then_path() {
    let scene = Scene::new();
    let own = std::env::current_exe().unwrap();
    let (first, second) = (scene.path("first"), scene.path("second"));
    for dir in [&first, &second] {
        std::fs::create_dir(dir).unwrap();
    }
    // Something of that name that cannot be executed is passed over.
    std::fs::write(first.join("killcord"), "data").unwrap();
    std::os::unix::fs::symlink(&own, second.join("killcord")).unwrap();
    let path = std::env::join_paths([first, second, "/bin".into(), "/usr/bin".into()]).unwrap();
    let done = run(without_init(&scene).env("PATH", &path), SOON);
    assert_eq!(done.stdout, "ran true\n", "{done:?}");
    // `true` itself must still be found.
    let done = run(without_init(&scene).env("PATH", "/bin:/usr/bin").env("KILLCORD_BIN", &own), SOON);
    assert_eq!(done.stdout, "ran true\n", "{done:?}");
}
