//! The clients, where each has its configuration, and what an entry looks like there.

use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A program that speaks to MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Code.
    Claude,
    /// Codex CLI and its extensions.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
}

/// A word that names no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a client: use claude, codex, gemini, cursor or vscode")]
pub struct NotAClient(pub String);

impl Client {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Gemini, Self::Cursor, Self::Vscode];

    /// The word that is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
        }
    }

    /// The member in which the servers are.
    pub(super) fn servers(self) -> &'static str {
        match self {
            Self::Claude | Self::Gemini | Self::Cursor => "mcpServers",
            Self::Codex => "mcp_servers",
            Self::Vscode => "servers",
        }
    }

    /// Whether the file is TOML; else it is JSON.
    pub(super) fn is_toml(self) -> bool {
        self == Self::Codex
    }

    /// The file, for this scope.
    pub fn file(self, scope: Scope, places: &Places) -> PathBuf {
        let own =
            |given: &Option<PathBuf>, usual: &str| given.clone().unwrap_or_else(|| places.home.join(usual));
        match (scope, self) {
            (Scope::Project, Self::Claude) => places.project.join(".mcp.json"),
            (Scope::Project, Self::Codex) => places.project.join(".codex/config.toml"),
            (Scope::Project, Self::Gemini) => places.project.join(".gemini/settings.json"),
            (Scope::Project, Self::Cursor) => places.project.join(".cursor/mcp.json"),
            (Scope::Project, Self::Vscode) => places.project.join(".vscode/mcp.json"),
            (Scope::User, Self::Claude) => own(&places.claude, "").join(".claude.json"),
            (Scope::User, Self::Codex) => own(&places.codex, ".codex").join("config.toml"),
            (Scope::User, Self::Gemini) => places.home.join(".gemini/settings.json"),
            (Scope::User, Self::Cursor) => places.home.join(".cursor/mcp.json"),
            (Scope::User, Self::Vscode) => own(&places.config, ".config").join("Code/User/mcp.json"),
        }
    }
}

impl FromStr for Client {
    type Err = NotAClient;

    fn from_str(text: &str) -> Result<Self, NotAClient> {
        Self::ALL.into_iter().find(|c| c.name() == text).ok_or_else(|| NotAClient(text.to_owned()))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// For whom the entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For this user, in every project.
    User,
    /// For whoever works in this project.
    Project,
}

/// Where things are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The home directory.
    pub home: PathBuf,
    /// The project: the working directory.
    pub project: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub claude: Option<PathBuf>,
    /// `CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config: Option<PathBuf>,
}

impl Places {
    /// As the environment says. `None` without a home directory.
    pub fn from_environment() -> Option<Self> {
        let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Some(Self {
            home: named("HOME")?,
            project: std::env::current_dir().ok()?,
            claude: named("CLAUDE_CONFIG_DIR"),
            codex: named("CODEX_HOME"),
            config: named("XDG_CONFIG_HOME"),
        })
    }
}

/// What is entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Under this name.
    pub name: String,
    /// This program, by its absolute path,
    pub program: String,
    /// with these arguments.
    pub arguments: Vec<String>,
}

impl Entry {
    /// `killcord mcp` under its usual name.
    pub fn new(program: &Path) -> Option<Self> {
        let program = program.to_str()?.to_owned();
        Some(Self { name: "killcord".to_owned(), program, arguments: vec!["mcp".to_owned()] })
    }

    /// Its members, in the order in which they are written.
    pub(super) fn members(&self, client: Client) -> Vec<(&'static str, Value)> {
        let command = [("command", json!(self.program)), ("args", json!(self.arguments))];
        // These three document `type`; Gemini CLI knows it for servers on the network only, and Codex not at all.
        let kind = matches!(client, Client::Claude | Client::Cursor | Client::Vscode);
        kind.then(|| ("type", json!("stdio"))).into_iter().chain(command).collect()
    }
}
