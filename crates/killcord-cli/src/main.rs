//! `killcord`: when the owner goes, everything it started stops.

mod args;
mod cmd;
mod message;
mod paint;
mod report;
mod short;

use killcord_model::status;

fn main() {
    killcord::init();
    let code = match args::Command::read() {
        Ok(command) => match command {
            args::Command::Run(run) => cmd::run::run(&run),
            args::Command::Doctor(doctor) => cmd::doctor::doctor(&doctor),
            args::Command::Demo(demo) => cmd::demo::demo(&demo),
            args::Command::List(list) => cmd::list::list(&list),
            args::Command::Stop(stop) => cmd::stop::stop(&stop),
            args::Command::Logs(logs) => cmd::service::logs(&logs),
            args::Command::Wait(wait) => cmd::service::wait(&wait),
            args::Command::Sweep(sweep) => cmd::sweep::sweep(&sweep),
            args::Command::Mcp(mcp) => cmd::mcp::mcp(&mcp),
            args::Command::Config(config) => cmd::config::config(&config),
            args::Command::Audit(audit) => cmd::audit::audit(&audit),
        },
        Err(e) => args::complain(&e, status::FAILED),
    };
    std::process::exit(code)
}
