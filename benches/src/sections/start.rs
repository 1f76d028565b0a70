//! From the call to the end of a program that does nothing, in this process.

use super::{BOUNDARIES, by_killcord, checked, ours, owner, silent, well};
use crate::measure::{Case, Found, Variant};
use crate::{Result, Setup};
use killcord_sys::fixture;
use std::hint::black_box;
use std::path::Path;

const STD: &str = "std::process";
const STD_SESSION: &str = "std::process, pre_exec(setsid)";

pub(crate) fn measure(setup: &Setup, found: &mut Found) -> Result<()> {
    for (name, program, goal) in
        [("a tiny static program", setup.tiny.as_path(), 1.8), ("/bin/true", Path::new("/bin/true"), 1.15)]
    {
        let case = Case {
            section: "Library: start to exit",
            name: format!("{name}, small owner"),
            yardstick: Some(STD.to_owned()),
            goals: [killcord::Boundary::Tree, killcord::Boundary::Cgroup]
                .map(|b| (ours(b), STD.to_owned(), goal))
                .to_vec(),
            ..Case::default()
        };
        found.interleave(&case, setup.rounds(400, 60), small(setup, program)?);
    }
    let size: usize = if setup.quick { 256 << 20 } else { 2 << 30 };
    // Every page is touched: it is resident.
    let ballast = vec![1u8; size];
    let case = Case {
        section: "Library: start to exit",
        name: format!("a tiny static program in a session, owner with {} MiB resident", size >> 20),
        yardstick: Some(STD_SESSION.to_owned()),
        goals: [killcord::Boundary::Tree, killcord::Boundary::Cgroup]
            .map(|b| (ours(b), STD_SESSION.to_owned(), if setup.quick { 0.16 } else { 0.02 }))
            .to_vec(),
        ..Case::default()
    };
    found.interleave(&case, setup.rounds(40, 8), large(setup)?);
    black_box(&ballast);
    Ok(())
}

fn small<'a>(setup: &'a Setup, program: &'a Path) -> Result<Vec<Variant<'a>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = std::rc::Rc::new(runtime.map_err(|e| format!("tokio: {e}"))?);
    let (of_tokio, of_processkit) = (runtime.clone(), runtime);
    let mut all = vec![
        Variant::timed(STD, move || checked(silent(program).status())),
        Variant::timed("posix_spawn", move || {
            fixture::posix_spawn(program).and_then(|child| child.wait()).map_err(|e| e.to_string()).and_then(
                |code| {
                    if code == 0 { Ok(()) } else { Err(format!("exit {code}")) }
                },
            )
        }),
        Variant::timed("tokio::process", move || {
            of_tokio.block_on(async {
                let mut command = tokio::process::Command::from(silent(program));
                checked(command.status().await)
            })
        }),
        Variant::timed("process-wrap, session", move || {
            use process_wrap::std::{CommandWrap, ProcessSession};
            let mut wrap = CommandWrap::from(silent(program));
            let child = wrap.wrap(ProcessSession).spawn().map_err(|e| e.to_string());
            checked(child?.wait())
        }),
        Variant::timed("processkit", move || {
            of_processkit.block_on(async {
                let ran = processkit::Command::new(program).run().await;
                ran.map(|_| ()).map_err(|e| e.to_string())
            })
        }),
        Variant::timed("a guard program and ps", move || {
            let mut guard = silent(&setup.own);
            checked(guard.arg("role:guard").arg(program).status())
        }),
    ];
    for boundary in BOUNDARIES {
        let owner = owner(setup, boundary)?;
        all.push(Variant::timed(ours(boundary), move || by_killcord(&owner, program)));
    }
    Ok(all)
}

fn large(setup: &Setup) -> Result<Vec<Variant<'_>>> {
    let tiny = setup.tiny.as_path();
    let mut all = vec![
        Variant::timed(STD_SESSION, move || {
            let mut command = silent(tiny);
            fixture::lead_a_session(&mut command);
            checked(command.status())
        }),
        Variant::timed("pty-process, terminal", move || {
            let (_pty, pts) = pty_process::blocking::open().map_err(|e| e.to_string())?;
            let child = pty_process::blocking::Command::new(tiny).spawn(pts);
            checked(child.map_err(|e| e.to_string())?.wait())
        }),
    ];
    for boundary in BOUNDARIES {
        let owner = std::rc::Rc::new(owner(setup, boundary)?);
        let on_terminal = owner.clone();
        all.push(Variant::timed(ours(boundary), move || by_killcord(&owner, tiny)));
        all.push(Variant::timed(format!("{}, terminal", ours(boundary)), move || {
            let mut command = on_terminal.command(tiny);
            let end = command.on_terminal(80, 24).spawn().and_then(|mut job| job.wait());
            well(&end.map_err(|e| e.to_string())?)
        }));
    }
    Ok(all)
}
