//! Jobs on a pseudo-terminal of their own.
//!
//! Promised (G6, G10): whatever a shell there started ends with the job: background jobs in groups of their own,
//! under nohup, deaf to HUP and TERM, in a session of their own. The terminal is the job's controlling one, the
//! leader leads the session, a resize is seen, and the entry in `/dev/pts` is gone afterwards. A job that did not
//! ask for a terminal has none.

use crate::kit::{BOUND, SOON, boundaries, command, ms, owner_of, script, timed, trials};
use killcord::{Boundary, ExitStatus, Job, Ladder, Owner, Stdio, Terminal, Verdict};
use killcord_testkit::{Scene, bin, procs};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

trials![
    everything_a_shell_started_ends_with_the_job,
    everything_a_shell_started_ends_when_the_handle_is_dropped,
    the_leader_has_the_terminal_and_leads_the_session,
    a_job_has_no_terminal_unless_asked_for,
    a_resize_is_seen,
    the_terminals_entry_is_gone_afterwards,
    output_of_a_terminal_is_collected_to_its_end,
    a_terminal_that_is_closed_before_its_reader_holds_up_nobody,
];

fn expect(terminal: &mut Terminal, text: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = terminal.read(&mut buffer).unwrap();
        assert!(n > 0, "{text:?} is not in {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..n]);
        let so_far = String::from_utf8_lossy(&all).into_owned();
        if so_far.contains(text) {
            return so_far;
        }
    }
}

/// A shell with job control on a terminal, with five kinds of background jobs.
fn busy_shell(owner: &Owner, scene: &Scene) -> Job {
    let mut job = command(owner, scene, "bash")
        .args(["--norc", "--noprofile", "-i"])
        .env("HISTFILE", "")
        .env("TERM", "dumb")
        .on_terminal(80, 24)
        .spawn()
        .unwrap();
    let leaf = bin("kc-leaf").display().to_string();
    let ignore = bin("kc-ignore").display().to_string();
    let lines = format!(
        "{leaf} group 60 &\nnohup {leaf} nohup 60 >/dev/null 2>&1 &\n(trap '' HUP; exec {leaf} hupless 60) &\n\
         setsid {leaf} setsid 60 &\n{ignore} 60 &\n(setsid {leaf} orphan 60 &)\n"
    );
    job.terminal.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    scene.wait_names(&["group", "nohup", "hupless", "setsid", "ignore", "orphan"], SOON);
    job
}

fn everything_a_shell_started_ends_with_the_job() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = busy_shell(&owner, &scene);
        let pinned = scene.pin();
        assert_eq!(pinned.len(), 6, "{boundary}");
        let stat = |name| pinned.get(name).unwrap().stat().unwrap();
        assert_ne!(stat("group").group, stat("nohup").group, "{boundary}: no job control");
        assert_ne!(stat("setsid").session, stat("group").session, "{boundary}");
        let (end, took) = timed(|| {
            job.end(Ladder::with_grace(ms(1500))).unwrap();
            job.wait_timeout(SOON).unwrap().unwrap()
        });
        pinned.wait_gone(ms(0)).unwrap();
        assert!(matches!(end.verdict, Verdict::Empty(_)), "{boundary}: {end:?}");
        // Only the one that ignores everything had to be killed.
        assert_eq!(end.forced.count, 1, "{boundary}: {end:?}");
        assert!((ms(1490)..ms(2500)).contains(&took), "{boundary}: {took:?}");
    }
}

fn everything_a_shell_started_ends_when_the_handle_is_dropped() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let job = busy_shell(&owner, &scene);
        let pinned = scene.pin();
        assert_eq!(pinned.len(), 6, "{boundary}");
        drop(job);
        pinned.wait_gone(BOUND).unwrap();
    }
}

/// What `kc-fds` has to say, which is one line of JSON.
fn inherited(output: &str) -> String {
    output.lines().find(|l| l.contains("\"fds\"")).unwrap_or_else(|| panic!("{output:?}")).to_owned()
}

fn number(json: &str, name: &str) -> u32 {
    let rest = json.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("no {name} in {json}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

fn the_leader_has_the_terminal_and_leads_the_session() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let job = command(&owner, &scene, bin("kc-fds")).on_terminal(80, 24).spawn().unwrap();
        let output = job.into_output(10_000).unwrap();
        let said = inherited(&output.stdout.to_text());
        let pid = number(&said, "pid");
        assert_eq!((number(&said, "session"), number(&said, "group")), (pid, pid), "{boundary}: {said}");
        assert_ne!(number(&said, "tty"), 0, "{boundary}: {said}");
        assert_eq!(said.matches("/dev/pts/").count(), 3, "{boundary}: {said}");
        assert_eq!(said.matches("\"fd\":").count(), 3, "{boundary}: {said}");
        assert!(said.contains("\"blocked\":[],\"ignored\":[]"), "{boundary}: {said}");
    }
}

fn a_job_has_no_terminal_unless_asked_for() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let job = command(&owner, &scene, bin("kc-fds")).stdout(Stdio::piped()).spawn().unwrap();
        let said = inherited(&job.into_output(10_000).unwrap().stdout.to_text());
        let pid = number(&said, "pid");
        assert_eq!((number(&said, "session"), number(&said, "tty")), (pid, 0), "{boundary}: {said}");
        assert_eq!(said.matches("\"fd\":").count(), 3, "{boundary}: {said}");
        assert_eq!(said.matches("/dev/null").count(), 2, "{boundary}: {said}");
        assert!(said.contains("\"blocked\":[],\"ignored\":[]"), "{boundary}: {said}");
    }
}

fn a_resize_is_seen() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done";
        let mut job = script(&owner, &scene, text).on_terminal(81, 25).spawn().unwrap();
        let terminal = job.terminal.as_mut().unwrap();
        expect(terminal, "25 81");
        terminal.resize(100, 40).unwrap();
        expect(terminal, "40 100");
        assert_eq!(terminal.size().unwrap(), (100, 40), "{boundary}");
    }
}

fn the_terminals_entry_is_gone_afterwards() {
    let (owner, scene) = (owner_of(Boundary::Tree), Scene::new());
    for how in ["end", "drop"] {
        let scene = if how == "end" { &scene } else { &Scene::new() };
        let mut job =
            command(&owner, scene, bin("kc-leaf")).args(["leaf", "60"]).on_terminal(80, 24).spawn().unwrap();
        scene.wait_recorded(1, SOON);
        let name = std::fs::read_link(format!("/proc/{}/fd/0", job.pid().unwrap())).unwrap();
        assert!(name.starts_with("/dev/pts"), "{}", name.display());
        // The number may be given to somebody else at once: the entry's birth tells them apart.
        let birth = |m: std::fs::Metadata| (m.ctime(), m.ctime_nsec());
        let before = std::fs::metadata(&name).map(birth).unwrap();
        assert_eq!(procs::stat(job.pid().unwrap()).unwrap().session, job.pid().unwrap());
        let pinned = scene.pin();
        if how == "end" {
            job.end_now().unwrap();
            let _ = job.wait().unwrap();
        }
        drop(job);
        pinned.wait_gone(BOUND).unwrap();
        let after = std::fs::metadata(&name).map(birth).ok();
        assert_ne!(after, Some(before), "{how}: {} is still there", name.display());
    }
}

fn output_of_a_terminal_is_collected_to_its_end() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let text = "i=0; while [ $i -lt 2000 ]; do echo \"line $i\"; i=$((i+1)); done";
        let job = script(&owner, &scene, text).on_terminal(80, 24).spawn().unwrap();
        let output = job.into_output(1_000_000).unwrap();
        let lines: Vec<_> = (0..2000).map(|n| format!("line {n}\r\n")).collect();
        assert!(output.stdout.to_text() == lines.concat(), "{boundary}: {} bytes", output.stdout.total);
    }
}

/// The handle, and with it the terminal, goes while somebody is in a read of it: the job ends all the same, and so does
/// the read. Without a reader the kernel hangs up, and a program that prints without end is gone of that alone.
fn a_terminal_that_is_closed_before_its_reader_holds_up_nobody() {
    for boundary in boundaries() {
        let (owner, scene) = (owner_of(boundary), Scene::new());
        let mut job = busy_shell(&owner, &scene);
        let pinned = scene.pin();
        let mut reader = job.terminal.as_ref().unwrap().try_clone().unwrap();
        // Nothing more will come, so that the next read waits.
        job.terminal.as_mut().unwrap().write_all(b"stty -echo; echo qui''et; exec sleep 60\n").unwrap();
        expect(job.terminal.as_mut().unwrap(), "quiet");
        let (sender, thread) = std::sync::mpsc::channel();
        let reading = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).map(|_| ())
        });
        let thread = thread.recv().unwrap().as_raw_pid();
        let sleeps = || procs::stat(thread as u32).is_some_and(|stat| stat.state == 'S');
        let begun = std::time::Instant::now();
        while !sleeps() {
            assert!(begun.elapsed() < SOON, "the reader does not wait");
            std::thread::sleep(ms(1));
        }
        let ((), took) = timed(|| drop(job));
        assert!(took < ms(500), "{boundary}: the handle is gone after {took:?}");
        pinned.wait_gone(BOUND).unwrap();
        let begun = std::time::Instant::now();
        while !reading.is_finished() {
            assert!(begun.elapsed() < BOUND, "{boundary}: the reader still waits");
            std::thread::sleep(ms(1));
        }
        reading.join().unwrap().unwrap();

        let mut job =
            script(&owner, &scene, "while :; do echo line; done").on_terminal(80, 24).spawn().unwrap();
        expect(job.terminal.as_mut().unwrap(), "line");
        let (end, took) = timed(|| {
            drop(job.terminal.take());
            job.wait_timeout(SOON).unwrap().unwrap()
        });
        assert_eq!(end.status, Some(ExitStatus::Signal(1)), "{boundary}: {end:?}");
        assert!(matches!(end.verdict, Verdict::Empty(_)) && took < BOUND, "{boundary}: {took:?} {end:?}");
    }
}
