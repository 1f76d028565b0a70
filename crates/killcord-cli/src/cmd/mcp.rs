//! `killcord mcp` and `killcord mcp install`.

use crate::args::{Install, Mcp, McpCommand};
use crate::message::say;
use crate::paint::show;
use killcord_mcp::install::{Change, Entry, InstallError, Places, plan};
use killcord_model::status;
use std::time::SystemTime;

/// Serves, or does what the subcommand says. Returns the exit status.
pub(crate) fn mcp(args: &Mcp) -> i32 {
    match &args.command {
        None => killcord_mcp::serve(args.config.as_deref()),
        Some(McpCommand::Install(args)) => install(args),
    }
}

fn install(args: &Install) -> i32 {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => return failed(&format!("failed to find this program's own path: {e}")),
    };
    let (Some(entry), Some(places)) = (Entry::new(&program), Places::from_environment()) else {
        return failed("this program's path is no Unicode, or there is no home directory (HOME)");
    };
    let entry = Entry { name: args.name.clone(), ..entry };
    let change = if args.remove { Change::Remove } else { Change::Enter };
    let plan = match plan(args.client, args.scope.scope(), &places, &entry, change) {
        Ok(plan) => plan,
        Err(e) => return refused(&e),
    };
    let file = plan.path.display();
    if plan.changes_nothing() {
        show(&format!("{file}: {}\n", if args.remove { "it is not in there" } else { "already there" }));
        return 0;
    }
    if args.dry_run {
        show(&plan.diff());
        return 0;
    }
    match plan.apply(SystemTime::now()) {
        Err(e) => refused(&e),
        Ok(done) => {
            let what = if args.remove { "taken out" } else { "entered" };
            let backup = done.backup.map(|path| format!("; the old file is {}", path.display()));
            let next = format!("restart {}", args.client.title());
            show(&format!("{file}: {} {what}{}; {next}\n", args.name, backup.unwrap_or_default()));
            0
        }
    }
}

fn failed(why: &str) -> i32 {
    say(why);
    status::FAILED
}

fn refused(error: &InstallError) -> i32 {
    match error {
        InstallError::NotEdited { snippet, .. } => {
            say(&format!("{error}; put this in by hand:"));
            show(snippet);
            1
        }
        InstallError::NotOurs { .. } => {
            say(&error.to_string());
            1
        }
        InstallError::Io { .. } | InstallError::Name(_) => failed(&error.to_string()),
    }
}
