//! The command lines of `killcord mcp`, `killcord config` and `killcord audit`.

use super::Subcommand;
use clap::{Args, ValueEnum};
use killcord_mcp::install::{Client, Scope};
use std::path::PathBuf;
use std::time::SystemTime;

const CONFIG_HELP: &str = "The configuration [default: $XDG_CONFIG_HOME/killcord/config.toml if it is there]";

const MCP_PAGE: &str = page!(
    "  killcord mcp install --client claude       enter it into Claude Code
  killcord mcp                               what the client then starts
  killcord config check                      whether its configuration is right
  killcord audit show -f what it does
"
);

/// Serve an agent over MCP: commands and terminals that never outlive it
#[derive(Debug, Args)]
#[command(help_template = MCP_PAGE, args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Enter `killcord mcp` into a client's configuration
    Install(Install),
}

const INSTALL_PAGE: &str = page!(
    "  killcord mcp install --client claude --dry-run  what would be changed
  killcord mcp install --client claude       for this user, in every project
  killcord mcp install --client cursor --scope project
  killcord mcp install --client codex --remove  take it out again
"
);

const INSTALL_AFTER: &str = "\
All else in the file stays byte for byte, and a copy of it is put beside it. A
file that is not understood is not touched; then the lines to put in by hand are
printed.

Exit status:
  0 if the file says it (or, with --remove, does not say it any more), 1 if it
  was left as it is, 125 if it could not be read or written";

/// Enter `killcord mcp` into a client's configuration
#[derive(Debug, Args)]
#[command(help_template = INSTALL_PAGE, after_help = INSTALL_AFTER)]
pub(crate) struct Install {
    /// claude, codex, gemini, cursor or vscode
    #[arg(long, value_name = "CLIENT", value_parser = |text: &str| text.parse::<Client>())]
    pub(crate) client: Client,

    /// For this user in every project, or for the project in the working directory
    #[arg(long, value_name = "user|project", value_enum, default_value_t = ScopeArg::User)]
    #[arg(hide_possible_values = true)]
    pub(crate) scope: ScopeArg,

    /// The name of the entry
    #[arg(long, value_name = "NAME", default_value = "killcord")]
    pub(crate) name: String,

    /// Take the entry out
    #[arg(long)]
    pub(crate) remove: bool,

    /// Only show what would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    User,
    Project,
}

impl ScopeArg {
    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::User => Scope::User,
            Self::Project => Scope::Project,
        }
    }
}

const CONFIG_PAGE: &str = page!(
    "  killcord config check                      the one `killcord mcp` reads
  killcord config check ./config.toml
  killcord config show                       the values that hold, defaults too
"
);

const CONFIG_AFTER: &str = "\
Exit status:
  0 if it is right, 1 if something is wrong in it, 125 if it could not be read";

/// Check or show the configuration of `killcord mcp`
#[derive(Debug, Args)]
#[command(help_template = CONFIG_PAGE, after_help = CONFIG_AFTER)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print ok, or everything that is wrong
    Check {
        #[arg(value_name = "FILE", help = CONFIG_HELP)]
        file: Option<PathBuf>,
        /// Print one JSON object, as docs/configuration.md describes it
        #[arg(long)]
        json: bool,
    },
    /// Print the values that hold, as TOML
    Show {
        #[arg(value_name = "FILE", help = CONFIG_HELP)]
        file: Option<PathBuf>,
    },
}

const AUDIT_PAGE: &str = page!(
    "  killcord audit show --since 2h             what `killcord mcp` did
  killcord audit verify  whether somebody has touched the log
  killcord audit verify --expect 3f9a1c...  and whether this record is there
"
);

/// Show or check what `killcord mcp` has recorded
#[derive(Debug, Args)]
#[command(help_template = AUDIT_PAGE)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Find records that were changed, removed, moved, inserted or cut
    Verify(AuditVerify),
    /// Show records
    Show(AuditShow),
}

const VERIFY_AFTER: &str = "\
Whoever may write to the files can cut the end of the log off, or remove all of
it: what is left is then whole. Note the last hash somewhere else, and give it to
--expect.

Exit status:
  0 if it is whole, 1 if it is not, 125 if it could not be looked at";

const VERIFY_PAGE: &str = page!(
    "  killcord audit verify                      the log of this user
  killcord audit verify /backup/audit --json
  killcord audit verify --expect 3f9a1c...  a hash that was noted before
"
);

/// Find records that were changed, removed, moved, inserted or cut
#[derive(Debug, Args)]
#[command(help_template = VERIFY_PAGE, after_help = VERIFY_AFTER)]
pub(crate) struct AuditVerify {
    /// A directory, or one file of it [default: audit.directory of the configuration]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,

    /// A hash of which a record must still be there
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub(crate) expect: Option<String>,

    /// Print one JSON object, as docs/audit.md describes it
    #[arg(long)]
    pub(crate) json: bool,
}

const SHOW_PAGE: &str = page!(
    "  killcord audit show -n 20                  the last twenty records
  killcord audit show --since 2h --job 3f9a  of a job, by its id's beginning
  killcord audit show -f --json | jq .tool   and those that come
"
);

/// Show records
#[derive(Debug, Args)]
#[command(help_template = SHOW_PAGE)]
pub(crate) struct AuditShow {
    /// A directory, or one file of it [default: audit.directory of the configuration]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,

    /// Only what is not older: 2h, or a time in UTC such as 2026-11-30T21:00
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<SystemTime>,

    /// Only of this job or session, by the beginning of its id
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,

    /// Only the last N
    #[arg(short, value_name = "N")]
    pub(crate) n: Option<usize>,

    /// Go on with what comes
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Print the records as they stand in the files
    #[arg(long)]
    pub(crate) json: bool,
}

fn hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hash {
        Ok(text.to_owned())
    } else {
        Err("use the 64 digits that `killcord audit verify` prints".to_owned())
    }
}

fn since(text: &str) -> Result<SystemTime, String> {
    let ago = killcord_model::units::duration(text).ok().and_then(|ago| SystemTime::now().checked_sub(ago));
    ago.or_else(|| killcord_mcp::audit::parse_time(text))
        .ok_or_else(|| "use 2h, 2026-11-30 or 2026-11-30T21:00, which is UTC".to_owned())
}
