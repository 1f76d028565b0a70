//! `killcord`: when the owner goes, everything it started stops.

mod args;
mod cmd;
mod message;
mod paint;
mod report;

use clap::Parser;
use killcord_model::status;

fn main() {
    killcord::init();
    let code = match args::Cli::try_parse() {
        Ok(cli) => match cli.command {
            args::Command::Run(run) => cmd::run::run(&run),
            args::Command::Doctor(doctor) => cmd::doctor::doctor(&doctor),
            args::Command::Demo(demo) => cmd::demo::demo(&demo),
        },
        Err(e) => args::complain(&e, status::FAILED),
    };
    std::process::exit(code)
}
