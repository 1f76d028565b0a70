//! What killcord costs, beside what people would use in its place.
//!
//! All variants of a thing are measured in turn in one run, so that what else the machine does meets all of them alike;
//! read the ratios. `tools/bench` builds everything and runs this.

mod helper;
mod leaf;
mod measure;
mod peer;
mod report;
mod roles;
mod sections;

use clap::Parser;
use measure::Found;
use report::Machine;
use std::io::Write;
use std::path::PathBuf;

type Result<T> = std::result::Result<T, String>;

/// Measures killcord beside its peers.
#[derive(Debug, Parser)]
#[command(
    name = "killcord-bench",
    after_help = "Sections: start, run, teardown, owner-kill, memory, many, output, claims, mcp"
)]
struct Args {
    /// Under two minutes in place of many; for a look, not for a claim
    #[arg(long)]
    quick: bool,
    /// JSON on stdout in place of the table
    #[arg(long)]
    json: bool,
    /// Also write the JSON, the plot and the tables of a document into this directory
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// The release build of killcord
    #[arg(long, value_name = "PATH")]
    killcord: PathBuf,
    /// The static program that does nothing
    #[arg(long, value_name = "PATH")]
    tiny: PathBuf,
    /// Where tools/bench has put the peers
    #[arg(long, value_name = "DIR")]
    tools: PathBuf,
    /// Only these sections
    sections: Vec<String>,
}

/// What every section needs.
pub(crate) struct Setup {
    quick: bool,
    killcord: PathBuf,
    tiny: PathBuf,
    tools: PathBuf,
    /// This program, which plays the trees and the peers as well.
    own: PathBuf,
}

impl Setup {
    fn rounds(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

fn main() -> std::process::ExitCode {
    roles::play();
    match run(&Args::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("killcord-bench: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let wanted = |name: &str| args.sections.is_empty() || args.sections.iter().any(|s| s == name);
    if let Some(unknown) = args.sections.iter().find(|s| sections::ALL.iter().all(|(name, _)| name != *s)) {
        return Err(format!("there is no section {unknown}; see --help"));
    }
    let setup = Setup {
        quick: args.quick,
        killcord: args.killcord.clone(),
        tiny: args.tiny.clone(),
        tools: args.tools.clone(),
        own: std::env::current_exe().map_err(|e| e.to_string())?,
    };
    let machine = machine(args.quick);
    let mut found = Found::default();
    let mut failed = Vec::new();
    for (name, measure) in sections::ALL.iter().filter(|(name, _)| wanted(name)) {
        // What was measured until then, and the other sections, are shown all the same.
        failed.extend(measure(&setup, &mut found).err().map(|why| format!("{name}: {why}")));
    }
    let json = serde_json::json!({"machine": machine, "rows": found.rows, "missing": found.missing});
    let json = serde_json::to_string_pretty(&json).map_err(|e| e.to_string())?;
    if let Some(dir) = &args.save {
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
        };
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        write("results.json", &format!("{json}\n"))?;
        write("results.svg", &report::plot(&machine, &found))?;
        write("results.md", &report::markdown(&machine, &found))?;
    }
    let text = if args.json { format!("{json}\n") } else { report::table(&machine, &found) };
    // Whoever has stopped reading has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn machine(quick: bool) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let of = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|l| Some(l.strip_prefix("model name")?.split_once(": ")?.1.to_owned()));
    Machine {
        date: of("date", &["-u", "+%Y-%m-%d"]),
        commit: of("git", &["describe", "--always", "--dirty", "--abbrev=9"]),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        model: model.unwrap_or_else(|| "unknown".to_owned()),
        load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        quick,
    }
}
