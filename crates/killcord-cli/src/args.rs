//! The command line.

use clap::error::ErrorKind;
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use killcord::adopt::{BadPrefix, Prefix};
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

mod mcp;
pub(crate) use mcp::{
    Audit, AuditCommand, AuditShow, AuditVerify, Config, ConfigCommand, Install, Mcp, McpCommand,
};

const PAGE: &str = page!(
    "  killcord run -- npx some-mcp-server   its browser and dev servers go with it
  killcord run --timeout 10m -- make    it is asked to end, and killed 5 s later
  killcord list                         what runs
  killcord doctor                       what holds here, and what would help
  killcord demo                         see it happen, in five seconds
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
    /// Show the owners, jobs and services of this user
    List(List),
    /// Show what a service has printed
    Logs(Logs),
    /// Wait until a service is over, and exit as it did
    Wait(Wait),
    /// End jobs and services, through their own wardens
    Stop(Stop),
    /// Remove what others left behind, once nobody uses it
    Sweep(Sweep),
    /// Say what holds on this machine, by trying it
    Doctor(Doctor),
    /// Show in a few seconds what is left of a killed owner, without killcord and with it
    Demo(Demo),
    /// Serve an agent over MCP: commands and terminals that never outlive it
    Mcp(Mcp),
    /// Check or show the configuration of `killcord mcp`
    Config(Config),
    /// Show or check what `killcord mcp` has recorded
    Audit(Audit),
}

impl Command {
    /// Reads the command line. `run`, which is waited for in front of every command, is read by its own part of the
    /// grammar, since to build all of it takes longer than to read it. Whatever is wrong there, and every page of help, the
    /// whole grammar says.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::read_run(std::env::args_os().skip(1))
            .map_or_else(|| Cli::try_parse().map(|cli| cli.command), Ok)
    }

    /// `run` with what follows it, if that is what these words are and they are right.
    fn read_run(words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut words = words.peekable();
        words.next_if(|word| word == "run")?;
        let grammar = Run::augment_args(clap::Command::new("run").no_binary_name(true));
        let found = grammar.try_get_matches_from(words).ok()?;
        Run::from_arg_matches(&found).ok().map(Box::new).map(Self::Run)
    }
}

const RUN_PAGE: &str = page!(
    "  killcord run -- npx some-mcp-server             its dev servers go with it
  killcord run --timeout 10m --grace 5s -- make   TERM at 10 min, KILL 5 s later
  killcord run --require cgroup -- ./ci.sh        refuse to start with less
  killcord run --memory 512M --pids 200 -- ./job  limits on the whole tree
  killcord run --report - -- make                 a JSON object about the end
  killcord run --leftovers keep -- ./start.sh     wait for what it leaves, too
  killcord run --detach --name web -- npm start   a service outlives its starter
  killcord run -- vim notes.txt                   the keys work as ever
"
);

const RUN_AFTER: &str = "\
Exit status:
  the program's own; 128+n if signal n ended it; 124 its time was up; 125
  killcord failed and nothing ran; 126 not executable; 127 not found; 137 a
  guard was killed, and the job with it

Signals: INT and TERM end the job (a second one at once), and so does HUP with
--ack; else HUP, and QUIT, USR1, USR2 and WINCH are passed to the program. On a
terminal its keys reach the program as without killcord.";

const DOCTOR_PAGE: &str = page!(
    "  killcord doctor                           for a person
  killcord doctor --json | jq -r .boundary  cgroup, tree, group or null
"
);

const DOCTOR_AFTER: &str = "\
Exit status:
  0 if a job is held here with all that escapes from it (cgroup or tree), 1 if
  not, 125 if nothing could be tried";

const DEMO_PAGE: &str = page!(
    "  killcord demo                       with what `killcord run` takes here
  killcord demo --boundary namespace  with this boundary
"
);

const DEMO_AFTER: &str = "\
Every process of it ends by itself within 30 seconds, and at once when the demo
ends.

Exit status:
  0 if processes outlived their owner without killcord and none did with it, 1
  if not, 125 if it could not be played";

const SWEEP_PAGE: &str = page!(
    "  killcord sweep                                     what dead owners left
  killcord sweep --dry-run                           what it would do
  killcord sweep --adopt playwright_                 what would go, and why
  killcord sweep --adopt playwright_ --yes           remove it
  killcord sweep --adopt puppeteer_ --older-than 2d  only what is that old
"
);

const SWEEP_AFTER: &str = "\
The claim of an owner goes when three things are proven: the owner is dead,
none of its guards holds the lease, and its jobs are over; what is left of a
job whose guards are all dead is ended first. Every start of an owner does the
same in the background.

With --adopt a directory goes only if it is this user's, nothing in it was
changed lately, and no process is seen to use it. What this cannot prove is
printed, and is in docs/adopt.md.

Exit status:
  0 if all was removed that was to go, 1 if not, 125 if nothing could be looked
  at";

const HOLDS: &str = "What holds it";
const ENDS: &str = "When it ends, and how";
const LIMITS: &str = "Limits on the whole job (refused where they cannot be enforced)";
const GETS: &str = "What the program gets";
const SERVICE: &str = "Services";

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

    /// A directory of its own in TMPDIR, which goes with it, or the TMPDIR that killcord has [default: own]
    #[arg(long, help_heading = GETS, value_name = "own|inherit", value_enum, default_value_t = TmpdirArg::Own)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) tmpdir: TmpdirArg,

    /// Start a service: it lives on, is listed, stopped by its name, and its output is kept
    #[arg(long, help_heading = SERVICE, requires = "name")]
    #[arg(conflicts_with_all = ["ack", "control_fd", "watch_parent", "report"])]
    pub(crate) detach: bool,

    /// The name of the service
    #[arg(long, help_heading = SERVICE, value_name = "NAME", requires = "detach")]
    pub(crate) name: Option<String>,

    /// End the service after this time, such as 2h
    #[arg(long, help_heading = SERVICE, value_name = "TIME", requires = "detach", value_parser = units::duration)]
    pub(crate) ttl: Option<Duration>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

const LIST_PAGE: &str = page!(
    "  killcord list                                       a table
  killcord list --tree                                by their owners
  killcord list --json | jq -r '.owners[].jobs[].id'
"
);

/// Show the owners, jobs and services of this user
#[derive(Debug, Args)]
#[command(help_template = LIST_PAGE)]
pub(crate) struct List {
    /// Print one JSON object, as docs/services.md describes it
    #[arg(long)]
    pub(crate) json: bool,

    /// Below each owner its jobs
    #[arg(long, conflicts_with = "json")]
    pub(crate) tree: bool,
}

const STOP_PAGE: &str = page!(
    "  killcord stop web           a service, its whole tree
  killcord stop 3f9a1c        a job, by the beginning of its id
  killcord stop --now web db  two of them, without asking them first
"
);

const STOP_AFTER: &str = "\
Each is ended by its own ladder: TERM and CONT, HUP after 0.5 s, KILL at its
grace.

Exit status:
  0 if all are over, 1 if one was not running, 125 if one could not be asked";

/// End jobs and services, through their own wardens
#[derive(Debug, Args)]
#[command(help_template = STOP_PAGE, after_help = STOP_AFTER)]
pub(crate) struct Stop {
    /// The name of a service, or at least four digits of a job's id, as `killcord list` shows them
    #[arg(required = true, value_name = "ID|NAME")]
    pub(crate) what: Vec<String>,

    /// Do not ask the processes first: KILL at once
    #[arg(long)]
    pub(crate) now: bool,
}

const LOGS_PAGE: &str = page!(
    "  killcord logs web      what is kept of its output: the last 4 to 8 MiB
  killcord logs -f web   and what comes, until it is over
"
);

/// Show what a service has printed
#[derive(Debug, Args)]
#[command(help_template = LOGS_PAGE)]
pub(crate) struct Logs {
    /// Go on with what comes, until the service is over
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// The name of the service
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

const WAIT_PAGE: &str = page!(
    "  killcord wait web      its exit status, as soon as it is over
"
);

const WAIT_AFTER: &str = "\
The exit of a service is kept until it is read in this way, or for a day; its
output goes with it. While it is not over, any number may wait for it; of those
who come at the same instant one may hear that the exit has been read.

Exit status:
  the service's own, as `killcord run` has it; 125 if there is no such service";

/// Wait until a service is over, and exit as it did
#[derive(Debug, Args)]
#[command(help_template = WAIT_PAGE, after_help = WAIT_AFTER)]
pub(crate) struct Wait {
    /// The name of the service
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
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

/// Remove what others left behind, once nobody uses it
#[derive(Debug, Args)]
#[command(help_template = SWEEP_PAGE, after_help = SWEEP_AFTER)]
pub(crate) struct Sweep {
    /// Reclaim directories in the temp directory whose names begin with PREFIX
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) adopt: Option<Prefix>,

    /// Leave what was changed within this time, such as 30m or 2d [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "adopt")]
    pub(crate) older_than: Option<Duration>,

    /// Remove them; without it they are only shown
    #[arg(long, requires = "adopt", conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
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
pub(crate) enum TmpdirArg {
    Own,
    Inherit,
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

fn prefix(text: &str) -> Result<Prefix, BadPrefix> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_ascii_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn run_alone_is_read_as_the_whole_grammar_reads_it() {
        let lines = [
            "run -- true",
            "run true --timeout 5 -- x",
            "run --timeout 1m --grace=0 --boundary tree --require group -- sh -c true",
            "run --leftovers keep --env-clean --report - --watch-parent --memory 512M --pids 9 --cpu 0.5 a b",
            "run --watch-parent=no --pass-fd 3 --pass-fd 4 --ack --control-fd 5 --tmpdir inherit -- run run",
            "run --detach --name web --ttl 2h -- npm start",
        ];
        for line in lines {
            let whole = Cli::try_parse_from(words(&format!("killcord {line}"))).unwrap().command;
            let alone = Command::read_run(words(line).into_iter()).unwrap();
            assert_eq!(format!("{alone:?}"), format!("{whole:?}"), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_left_to_the_whole_grammar() {
        let lines =
            ["", "run", "runs", "list", "--version", "help run", "run --help", "run -h", "run --version x"];
        let wrong =
            ["run --timeout never -- true", "run --name web -- true", "run --detach --name a --ack -- true"];
        for line in lines.into_iter().chain(wrong) {
            assert!(Command::read_run(words(line).into_iter()).is_none(), "{line}");
        }
    }
}
