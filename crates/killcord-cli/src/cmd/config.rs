//! `killcord config`: whether the configuration of `killcord mcp` is right, and what holds.

use crate::args::{Config as Args, ConfigCommand};
use crate::message::say;
use crate::paint::show;
use killcord_mcp::config::{self, ConfigError, Shown, Wrong};
use killcord_model::status;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Checks or shows, and returns the exit status.
pub(crate) fn config(args: &Args) -> i32 {
    match &args.command {
        ConfigCommand::Check { file, json } => check(file.as_deref(), *json),
        ConfigCommand::Show { file } => match config::load(file.as_deref()) {
            Ok(config) => {
                show(&Shown(&config).to_string());
                0
            }
            Err(e) => wrong(&e),
        },
    }
}

/// What is wrong is the answer, and stands on standard output, a line for each.
fn wrong(error: &ConfigError) -> i32 {
    match error {
        ConfigError::Wrong { .. } => {
            show(&format!("{error}\n"));
            1
        }
        ConfigError::Read { .. } => {
            say(&error.to_string());
            status::FAILED
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    file: String,
    ok: bool,
    wrong: &'a [Wrong],
}

fn check(file: Option<&Path>, json: bool) -> i32 {
    let path = file.map_or_else(config::default_path, PathBuf::from);
    let loaded = config::load(file);
    let found: &[Wrong] = match &loaded {
        Err(ConfigError::Wrong { wrong, .. }) => wrong,
        Err(e @ ConfigError::Read { .. }) => return wrong(e),
        Ok(_) => &[],
    };
    if json {
        let report =
            Report { version: 1, file: path.display().to_string(), ok: found.is_empty(), wrong: found };
        // Numbers and strings alone can always be written.
        show(&format!("{}\n", serde_json::to_string(&report).unwrap_or_default()));
        return i32::from(!found.is_empty());
    }
    match &loaded {
        Err(e) => wrong(e),
        Ok(_) if file.is_none() && !path.exists() => {
            show(&format!("ok: there is no {}, and the defaults hold\n", path.display()));
            0
        }
        Ok(_) => {
            show(&format!("ok: {}\n", path.display()));
            0
        }
    }
}
