//! What becomes of a session whose task panics. Its job is real, and its end is the kernel's word.

use super::*;
use crate::config;
use crate::session::{Bounds, Kind, Place, Registry, Start};
use crate::text;
use killcord::{Leftovers, Limits, Owner, Verdict};
use killcord_testkit::Scene;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn registry(scene: &Scene) -> Registry {
    let owner = Owner::builder().warden(killcord_testkit::example("killcord-mcp", "serve")).build().unwrap();
    let audit = config::Audit { directory: Some(scene.path("audit")), ..config::Audit::default() };
    let recorder = Arc::new(Recorder::open(&audit).unwrap());
    let bounds = Bounds { most: 4, idle: SOON, absolute: SOON, kept: SOON };
    Registry::new(owner, recorder, bounds)
}

fn start(scene: &Scene, place: Place) -> Start {
    let leaf = killcord_testkit::bin("kc-leaf");
    let script = format!("(setsid {0} daemon 50 &); exec {0} main 50", leaf.display());
    Start {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        directory: None,
        environment: vec![("D".into(), scene.dir().into())],
        place,
        timeout: None,
        grace: Duration::from_secs(1),
        leftovers: Leftovers::Keep,
        limits: Limits::default(),
        title: "follow".to_owned(),
        call: crate::audit::Call::default(),
        capacity: 4096,
    }
}

#[test]
fn a_panic_in_the_task_of_a_session_ends_its_job_and_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for place in [Place::Pipe(None), Place::Terminal(80, 24)] {
        let scene = Scene::new();
        let registry = registry(&scene);
        runtime.block_on(async {
            let session = registry.start(start(&scene, place)).await.unwrap();
            scene.wait_recorded(2, SOON);
            let pinned = scene.pin();
            assert_eq!(pinned.alive().len(), 2);
            let watch = crate::session::Watch::for_exit(SOON);
            session.order(Order::Panic);
            assert_eq!(watch.wait(&session, 0).await, crate::session::Why::Exited);
            pinned.wait_gone(Duration::ZERO).unwrap();
            let state = session.state();
            let said = text::standing(&session, &state).join(" | ");
            assert!(said.contains("killcord failed in it and ended it: output is missing"), "{said}");
            assert!(state.is_over() && matches!(state.end().unwrap().verdict, Verdict::Empty(_)), "{said}");
            drop(state);
            // Later orders and typing find nobody, and harm nobody.
            session.order(Order::End(Ladder::now()));
            assert!(session.type_in(b"x".to_vec()).is_ok());
            if session.kind == Kind::Terminal {
                session.order(Order::Resize(90, 20));
            }
        });
        let log = std::fs::read_dir(scene.path("audit")).unwrap().flatten();
        let log: String = log.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect();
        assert!(log.contains("\"event\":\"end\"") && log.contains("\"verdict\":\"empty\""), "{log}");
    }
}
