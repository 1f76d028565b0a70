//! A host that does without a warden, on tokio: whoever waits keeps the timeout and the grace.

use crate::kit::{self, ROLE, SOON, ms, timed, trials};
use crate::runtime::{current, multi};
use killcord::{Boundary, Cause, ExitStatus, Ladder, Owner, Stdio};
use killcord_testkit::{Scene, bin, life, procs, run};
use tokio::time::timeout;

trials![an_uncontained_job_is_waited_for];

/// The host without `init`; does not return when it is one.
pub(crate) fn play_without_init() {
    if std::env::var_os(ROLE).is_some_and(|role| role == "uncontained") {
        life::arm();
        play();
        life::say("played").unwrap();
        std::process::exit(0);
    }
}

fn play() {
    for runtime in [current(), multi(2)] {
        let owner = Owner::builder().allow_uncontained().build().unwrap();
        let stubborn = || {
            let mut command = owner.command(std::env::var_os("IGNORE").unwrap());
            command.arg("60").timeout(ms(300)).grace(ms(300)).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut job = owner.command("/bin/sh").args(["-c", "exit 3"]).spawn().unwrap();
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert_eq!((end.status, end.boundary), (Some(ExitStatus::Code(3)), Boundary::Uncontained));

        let mut job = stubborn();
        let (end, took) = timed(|| runtime.block_on(async { timeout(SOON, job.wait_async()).await }));
        let end = end.expect("the timeout is not kept").unwrap();
        assert_eq!((end.cause, end.status), (Cause::Timeout, Some(ExitStatus::Signal(9))));
        assert!(took < ms(1500), "{took:?}");

        let output = runtime.block_on(async { timeout(SOON, stubborn().into_output_async(100)).await });
        let output = output.expect("the timeout is not kept").unwrap();
        assert_eq!((output.end.cause, output.stdout.to_text().as_str()), (Cause::Timeout, "ready\n"));

        let mut job = stubborn();
        job.end(Ladder::with_grace(ms(100))).unwrap();
        let end = runtime.block_on(async { timeout(SOON, job.wait_async()).await }).unwrap().unwrap();
        assert_eq!(end.cause, Cause::Asked);
        assert!(procs::children(std::process::id()).is_empty(), "a zombie is left");
    }
}

fn an_uncontained_job_is_waited_for() {
    let scene = Scene::new();
    let mut host = kit::host(&scene, "uncontained");
    let done = run(host.env("PATH", "").env_remove("KILLCORD_BIN").env("IGNORE", bin("kc-ignore")), SOON);
    assert!(done.code() == 0 && done.stdout == "played\n", "{done:?}");
}
