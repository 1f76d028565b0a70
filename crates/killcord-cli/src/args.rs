//! The command line.

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use killcord_model::boundary::{Boundary, Choice};
use killcord_model::{spec, units};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How a help page is laid out: the examples stand before the options.
macro_rules! page {
    ($examples:expr) => {
        concat!(
            "{about-with-newline}\n{usage-heading} {usage}\n\nExamples:\n",
            $examples,
            "\n{all-args}{after-help}"
        )
    };
}

const PAGE: &str = page!(
    "  killcord run -- npx some-mcp-server    its browser and its dev servers go with it
  killcord run --timeout 10m -- make     ask it to end after 10 minutes, kill it 5 seconds later
  killcord doctor                        what holds here, what does not, and what would help
  killcord demo                          see it happen, in five seconds
"
);

/// When the owner goes, everything it started stops: after a normal end, a crash or kill -9
#[derive(Debug, Parser)]
#[command(name = "killcord", version, max_term_width = 100, help_template = PAGE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command; its whole tree of processes ends with it
    Run(Box<Run>),
    /// Say what holds on this machine, by trying it
    Doctor(Doctor),
    /// Show in a few seconds what is left of a killed owner, without killcord and with it
    Demo(Demo),
}

const RUN_PAGE: &str = page!(
    "  killcord run -- npx some-mcp-server              its browser and its dev servers go with it
  killcord run --timeout 10m --grace 5s -- make    TERM after 10 minutes, KILL 5 seconds later
  killcord run --require cgroup -- ./ci.sh         refuse to start with anything weaker
  killcord run --memory 512M --pids 200 -- ./job   limits on the whole tree, or a refusal
  killcord run --report - -- make                  one JSON object about the end, on stderr
  killcord run --leftovers keep -- ./start.sh      wait for what it leaves running, too
  killcord run -- vim notes.txt                    at a terminal: its keys work as ever
"
);

const RUN_AFTER: &str = "\
Exit status:
  the program's own; 128+n if signal n ended it; 124 its time was up; 125 killcord failed and
  nothing ran; 126 not executable; 127 not found; 137 a guard was killed, and the job with it

Signals: INT and TERM end the job (a second one at once), and so does HUP with --ack; else HUP,
and QUIT, USR1, USR2 and WINCH are passed to the program. On a terminal its keys reach the
program as without killcord.";

const DOCTOR_PAGE: &str = page!(
    "  killcord doctor                                  for a person
  killcord doctor --json | jq -r .boundary         for a script: cgroup, tree, group or null
"
);

const DOCTOR_AFTER: &str = "\
Exit status:
  0 if a job is held here with all that escapes from it (cgroup or tree), 1 if not, 125 if
  nothing could be tried";

const DEMO_PAGE: &str = page!(
    "  killcord demo                                    with what `killcord run` takes here
  killcord demo --boundary namespace               with this boundary
"
);

const DEMO_AFTER: &str = "\
Every process of it ends by itself within 30 seconds, and at once when the demo ends.

Exit status:
  0 if processes outlived their owner without killcord and none did with it, 1 if not, 125 if
  it could not be played";

const HOLDS: &str = "What holds it";
const ENDS: &str = "When it ends, and how";
const LIMITS: &str = "Limits on the whole job (refused where they cannot be enforced)";
const GETS: &str = "What the program gets";

/// Run a command; its whole tree of processes ends with it
#[derive(Debug, Args)]
#[command(help_template = RUN_PAGE, after_help = RUN_AFTER)]
pub(crate) struct Run {
    /// End the job after this time, such as 500ms, 90s, 5m or plain seconds
    #[arg(long, help_heading = ENDS, value_name = "TIME", value_parser = units::duration)]
    pub(crate) timeout: Option<Duration>,

    /// The time between TERM and KILL
    #[arg(long, help_heading = ENDS, value_name = "TIME", value_parser = units::duration, default_value = "5s")]
    pub(crate) grace: Duration,

    /// What holds the job: cgroup, tree, namespace, group, or auto, which is cgroup, else tree, else
    /// group [default: auto]
    #[arg(long, value_name = "B", value_enum, default_value_t = BoundaryArg::Auto)]
    #[arg(hide_possible_values = true, hide_default_value = true, help_heading = HOLDS)]
    pub(crate) boundary: BoundaryArg,

    /// Refuse to start with a boundary weaker than this; group is the weakest, then tree, cgroup,
    /// namespace
    #[arg(long, value_name = "B", value_parser = require, help_heading = HOLDS)]
    pub(crate) require: Option<Boundary>,

    /// What becomes of processes that are still there when the program has exited: end them, keep them
    /// and wait, or release them [default: end]
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = LeftoversArg::End)]
    #[arg(hide_possible_values = true, hide_default_value = true, help_heading = ENDS)]
    pub(crate) leftovers: LeftoversArg,

    /// Start with HOME, PATH, USER, LOGNAME, SHELL, TERM, TZ, LANG and LC_* only
    #[arg(long, help_heading = GETS)]
    pub(crate) env_clean: bool,

    /// Write one JSON object about the end to FILE (- is stderr)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// End the job when killcord's parent goes; the default unless started by an interactive shell
    #[arg(long, help_heading = ENDS, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_parser = yes_no)]
    pub(crate) watch_parent: Option<bool>,

    /// Memory, such as 512M
    #[arg(long, help_heading = LIMITS, value_name = "SIZE", value_parser = units::size)]
    pub(crate) memory: Option<u64>,

    /// Processes and threads at once
    #[arg(long, help_heading = LIMITS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) pids: Option<u32>,

    /// Processors, such as 0.5 or 2
    #[arg(long, help_heading = LIMITS, value_name = "N", value_parser = units::cpu)]
    pub(crate) cpu: Option<u32>,

    /// Pass this open descriptor to the program, beside 0, 1 and 2; may be repeated
    #[arg(long, help_heading = GETS, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1023))]
    pub(crate) pass_fd: Vec<u32>,

    /// Before the program is executed, write one JSON line to stdout that says that it is contained
    #[arg(long, help_heading = GETS)]
    pub(crate) ack: bool,

    /// End the job when this open descriptor ends, such as a pipe whose other end the caller holds
    #[arg(long, help_heading = ENDS, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1023))]
    pub(crate) control_fd: Option<u32>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// Say what holds on this machine, by trying it
#[derive(Debug, Args)]
#[command(help_template = DOCTOR_PAGE, after_help = DOCTOR_AFTER)]
pub(crate) struct Doctor {
    /// Print one JSON object, as docs/doctor.md describes it
    #[arg(long)]
    pub(crate) json: bool,

    /// How the probe calls itself as the program that it puts into a boundary
    #[arg(long, hide = true)]
    pub(crate) witness: bool,
}

/// Show in a few seconds what is left of a killed owner, without killcord and with it
#[derive(Debug, Args)]
#[command(help_template = DEMO_PAGE, after_help = DEMO_AFTER)]
pub(crate) struct Demo {
    /// What holds the job in the second half
    #[arg(long, value_name = "B", value_enum, default_value_t = BoundaryArg::Auto)]
    #[arg(hide_possible_values = true)]
    pub(crate) boundary: BoundaryArg,

    /// How the demo calls itself as one of the programs of its tree
    #[arg(long, hide = true, value_name = "ROLE")]
    pub(crate) role: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BoundaryArg {
    Auto,
    Cgroup,
    Tree,
    Namespace,
    Group,
}

impl BoundaryArg {
    pub(crate) fn choice(self) -> Choice {
        match self {
            Self::Auto => Choice::Auto,
            Self::Cgroup => Choice::Exactly(Boundary::Cgroup),
            Self::Tree => Choice::Exactly(Boundary::Tree),
            Self::Namespace => Choice::Exactly(Boundary::Namespace),
            Self::Group => Choice::Exactly(Boundary::Group),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeftoversArg {
    End,
    Keep,
    Release,
}

impl LeftoversArg {
    pub(crate) fn policy(self) -> spec::Leftovers {
        match self {
            Self::End => spec::Leftovers::End,
            Self::Keep => spec::Leftovers::Keep,
            Self::Release => spec::Leftovers::Release,
        }
    }
}

fn require(text: &str) -> Result<Boundary, killcord_model::boundary::NotABoundary> {
    text.parse()
}

fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("use yes or no".to_owned()),
    }
}

/// Prints help and versions as they are, and an error as one line that ends with what to do. Returns the
/// exit status.
pub(crate) fn complain(error: &clap::Error, failed: i32) -> i32 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed stdout is no failure of the help.
            let _ = error.print();
            0
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            failed
        }
        _ => {
            let text = error.to_string();
            // The paragraphs are: what is wrong, perhaps a tip, the usage.
            let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
            let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let more: Vec<&str> =
                lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more")).collect();
            let more = if more.is_empty() { String::new() } else { format!(" {}", more.join(" ")) };
            crate::message::say(&format!("{first}{more}; see killcord --help"));
            failed
        }
    }
}
