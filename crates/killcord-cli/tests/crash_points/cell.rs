//! One user and one boundary: a state directory, and those beside the job who must hear of nothing.

use killcord_testkit::claims::{State, TEN};
use killcord_testkit::{Guards, Nest, Pinned, PinnedProcess, Running, Scene, Who};
use std::time::{Duration, Instant};

/// A fixture lives 60 s, so the neighbour is replaced in time.
const RENEWED_AFTER: Duration = Duration::from_secs(25);

pub(crate) struct Cell<'a> {
    pub(crate) state: State<'a>,
    pub(crate) boundary: &'static str,
    /// `None` only while it is exchanged.
    neighbour: Option<Neighbour>,
    /// A process that has nothing to do with anything.
    stranger: Running,
}

/// A job of another owner, with its claim in the same state directory.
struct Neighbour {
    nest: Nest,
    claim: String,
    processes: Vec<PinnedProcess>,
    members: Pinned,
    /// Its list of members, and the guard that ends them.
    _scene: Scene,
    since: Instant,
}

impl Neighbour {
    fn start(state: &State<'_>, boundary: &str) -> Self {
        let scene = Scene::new();
        let mut command = state.shell(&["--boundary", boundary], "./leaf.sh near 60 & read line; exit 7");
        // The link to the leaf is where the command begins; its list is its own.
        command.env("D", scene.dir());
        let nest = Nest::start(&command);
        let (claim, _) = state.started();
        scene.wait_recorded(1, TEN);
        let guards = Guards::find(nest.program.pid, TEN);
        let processes: Vec<_> = [guards.warden, guards.keeper, guards.leader].into_iter().flatten().collect();
        assert_eq!(processes.len(), 3, "the neighbour is not up: {processes:?}");
        let claim = claim.file_name().unwrap().to_string_lossy().into_owned();
        Self { nest, claim, processes, members: scene.pin(), _scene: scene, since: Instant::now() }
    }

    /// What of it is not as it was.
    fn hurt(&self) -> Option<String> {
        let lives = self.nest.program.is_alive() && self.processes.iter().all(PinnedProcess::is_alive);
        let members = self.members.alive().len();
        (!lives || members != 1).then(|| format!("the neighbour was hurt: {:?}", self.nest.left()))
    }

    fn end(mut self, state: &State<'_>) {
        assert_eq!(self.hurt(), None);
        self.nest.running().close_stdin();
        assert_eq!(self.nest.wait_empty(TEN).unwrap().code, 7);
        assert!(!state.path.join(&self.claim).exists());
    }
}

fn stranger(who: Who) -> Running {
    Running::start(who.command("sleep").arg("60"))
}

impl<'a> Cell<'a> {
    pub(crate) fn new(home: &'a Scene, who: Who, boundary: &'static str) -> Self {
        let state = State::new(env!("CARGO_BIN_EXE_killcord"), home, who);
        let neighbour = Some(Neighbour::start(&state, boundary));
        Self { state, boundary, neighbour, stranger: stranger(who) }
    }

    /// The name of the neighbour's claim, which is all that may be in the state directory.
    pub(crate) fn neighbours_claim(&self) -> &str {
        self.neighbour.as_ref().map_or("", |neighbour| &neighbour.claim)
    }

    /// Who was hurt of those who have nothing to do with a job.
    pub(crate) fn hurt(&mut self) -> Option<String> {
        let stranger = self.stranger.wait(Duration::ZERO).map(|_| "a stranger was ended".to_owned());
        stranger.or_else(|| self.neighbour.as_ref().and_then(Neighbour::hurt))
    }

    /// Exchanges the neighbour and the stranger before their watchdogs do. Between two rounds only.
    pub(crate) fn renew(&mut self) {
        if let Some(old) = self.neighbour.take_if(|neighbour| neighbour.since.elapsed() > RENEWED_AFTER) {
            old.end(&self.state);
            self.neighbour = Some(Neighbour::start(&self.state, self.boundary));
            self.stranger = stranger(self.state.who);
        }
    }

    /// The neighbour ends as it would have by itself, and nothing is left.
    pub(crate) fn close(mut self) {
        if let Some(neighbour) = self.neighbour.take() {
            neighbour.end(&self.state);
        }
        assert_eq!(self.state.names(), [""; 0]);
    }
}
