//! Entering the server into the clients' own files, in a home directory made for it.
//!
//! Promised: all else in the file stays byte for byte; the second run changes nothing; a file that is not understood,
//! or that somebody else changed meanwhile, is not touched; mode, link and a copy of the old file are kept.
//!
//! Not promised: that a client reads it; that is tested with the clients.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use killcord_mcp::install::{Change, Client, Entry, InstallError, Places, Plan, Scope, plan};
use proptest::prelude::*;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn entry() -> Entry {
    Entry::new(Path::new("/opt/killcord/bin/killcord")).unwrap()
}

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn places(&self) -> Places {
        let project = self.dir.path().join("project");
        Places { home: self.dir.path().to_owned(), project, ..Places::default() }
    }

    fn file(&self, client: Client) -> PathBuf {
        client.file(Scope::User, &self.places())
    }

    fn put(&self, client: Client, text: &str) -> PathBuf {
        let path = self.file(client);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn plan(&self, client: Client, change: Change) -> Result<Plan, InstallError> {
        plan(client, Scope::User, &self.places(), &entry(), change)
    }

    /// Everything in the directory of a client's file, with the backups.
    fn names(&self, client: Client) -> Vec<String> {
        let dir = self.file(client).parent().unwrap().to_owned();
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_074_727)
}

const CLAUDE: &str = r#"{
  "numStartups": 184,
  "installMethod": "native",
  "tipsHistory": { "new-user-warmup": 3 },
  "projects": {
    "/home/me/a": {
      "allowedTools": [],
      "mcpServers": {},
      "lastCost": 0.10,
      "history": [{"display": "fix \"mcpServers\": {", "pastedContents": {}}]
    }
  },
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.githubcopilot.com/mcp",
      "headers": {"Authorization": "Bearer \u0061bc"}
    }
  },
  "userID": "0123"
}
"#;

const CODEX: &str = r#"# my Codex
model = "gpt-5.5-codex"   # the default
approval_policy = "on-request"

[projects."/home/me/a"]
trust_level = "trusted"

[mcp_servers.context7]
command = "npx"
args = [
  "-y", # yes
  "@upstash/context7-mcp",
]

[mcp_servers.context7.env]
TOKEN = 'abc'
"#;

const GEMINI: &str = "{\n    \"security\": {\"auth\": {\"selectedType\": \"oauth-personal\"}},\n    \"ui\": {\n        \"theme\": \"GitHub\"\n    }\n}";

const CURSOR: &str = "{\"mcpServers\":{\"time\":{\"command\":\"uvx\",\"args\":[\"mcp-server-time\"]}}}";

const VSCODE: &str = "{\r\n\t\"servers\": {},\r\n\t\"inputs\": []\r\n}\r\n";

const FILES: [(Client, &str); 5] = [
    (Client::Claude, CLAUDE),
    (Client::Codex, CODEX),
    (Client::Gemini, GEMINI),
    (Client::Cursor, CURSOR),
    (Client::Vscode, VSCODE),
];

#[test]
fn what_is_in_the_files_stays_byte_for_byte() {
    let home = Home::new();
    let mut shown = String::new();
    for (client, text) in FILES {
        let path = home.put(client, text);
        let entering = home.plan(client, Change::Enter).unwrap();
        entering.apply(now()).unwrap();
        let after = fs::read_to_string(&path).unwrap();
        let below = path.strip_prefix(home.dir.path()).unwrap().display();
        shown.extend([format!("=== {client}: {below}\n{after}\n")]);
        // Without what came, it is what it was.
        let same = text.chars().zip(after.chars()).take_while(|(a, b)| a == b).count();
        let tail = text.chars().count() - same;
        assert!(after.chars().rev().take(tail).eq(text.chars().rev().take(tail)), "{after}");
        // Again: nothing to do.
        let again = home.plan(client, Change::Enter).unwrap();
        assert!(again.changes_nothing() && again.diff().is_empty());
        // And out again.
        let removing = home.plan(client, Change::Remove).unwrap();
        removing.apply(now()).unwrap();
        let out = fs::read_to_string(&path).unwrap();
        match client {
            // Their file had no list of servers; an empty one stays.
            Client::Gemini => assert!(out.contains("\"mcpServers\": {}")),
            // The list was empty on one line.
            _ => assert_eq!(out, text, "{client}"),
        }
        assert!(home.plan(client, Change::Remove).unwrap().changes_nothing());
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_file_that_is_not_there_is_made() {
    let home = Home::new();
    let mut shown = String::new();
    for client in Client::ALL {
        for scope in [Scope::User, Scope::Project] {
            let path = client.file(scope, &home.places());
            let entering = plan(client, scope, &home.places(), &entry(), Change::Enter).unwrap();
            assert_eq!(entering.apply(now()).unwrap().backup, None);
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let below = path.strip_prefix(home.dir.path()).unwrap().display();
            shown.extend([format!("=== {client}: {below}\n{text}")]);
        }
    }
    insta::assert_snapshot!(shown);
    // Taking out what is not there makes no file.
    let empty = Home::new();
    assert!(empty.plan(Client::Cursor, Change::Remove).unwrap().changes_nothing());
    assert!(!empty.file(Client::Cursor).exists());
}

#[test]
fn a_diff_shows_what_would_be_done() {
    let home = Home::new();
    let mut shown = String::new();
    for (client, text) in FILES {
        let path = home.put(client, text);
        let entering = home.plan(client, Change::Enter).unwrap();
        shown.push_str(&entering.diff().replace(home.dir.path().to_str().unwrap(), "HOME"));
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn an_entry_of_an_older_place_is_brought_up_to_date_and_keeps_what_is_the_users() {
    let home = Home::new();
    let old = "{\n  \"mcpServers\": {\n    \"killcord\": {\n      \"command\": \"/old/killcord\",\n      \"args\": [\"mcp\"],\n      \"env\": {\"A\": \"b\"}\n    }\n  }\n}\n";
    let path = home.put(Client::Gemini, old);
    home.plan(Client::Gemini, Change::Enter).unwrap().apply(now()).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), old.replace("/old/killcord", "/opt/killcord/bin/killcord"));
}

#[test]
fn a_file_that_is_not_understood_is_not_touched() {
    let home = Home::new();
    let mut shown = String::new();
    for (client, text) in [
        (Client::Vscode, "{\n  // mine\n  \"servers\": {}\n}\n"),
        (Client::Vscode, "{\"servers\": {},}"),
        (Client::Cursor, "{\"mcpServers\": []}"),
        (Client::Cursor, "{\"mcpServers\": {}, \"mcpServers\": {}}"),
        (Client::Cursor, "{\"mcpServers\": {"),
        (Client::Cursor, "\u{feff}{}"),
        (Client::Codex, "model = \n"),
        (Client::Codex, "mcp_servers = { a = { command = 'x' } }\n"),
        (Client::Codex, "mcp_servers = 5\n"),
    ] {
        let path = home.put(client, text);
        let error = home.plan(client, Change::Enter).unwrap_err();
        let InstallError::NotEdited { snippet, .. } = &error else { panic!("{error}") };
        assert!(snippet.contains("/opt/killcord/bin/killcord"));
        shown.push_str(&format!("{error}\n").replace(home.dir.path().to_str().unwrap(), "HOME"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(home.names(client).len(), 1);
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn the_file_keeps_its_mode_and_its_link_and_has_a_copy_beside_it() {
    let home = Home::new();
    let dotfiles = home.dir.path().join("dotfiles");
    fs::create_dir(&dotfiles).unwrap();
    let target = dotfiles.join("gemini.json");
    fs::write(&target, GEMINI).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(home.dir.path().join(".gemini")).unwrap();
    symlink("../dotfiles/gemini.json", home.file(Client::Gemini)).unwrap();
    for expected in
        ["gemini.json.killcord-backup-20261130-213847", "gemini.json.killcord-backup-20261130-213847-2"]
    {
        let change = if expected.ends_with('2') { Change::Remove } else { Change::Enter };
        let before = fs::read_to_string(&target).unwrap();
        let done = home.plan(Client::Gemini, change).unwrap().apply(now()).unwrap();
        let backup = done.backup.unwrap();
        assert_eq!(backup, fs::canonicalize(&dotfiles).unwrap().join(expected));
        assert_eq!(fs::read_to_string(&backup).unwrap(), before);
        for path in [&target, &backup] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
        }
    }
    assert!(fs::symlink_metadata(home.file(Client::Gemini)).unwrap().is_symlink());
    assert_eq!(home.names(Client::Gemini), ["settings.json"]);
    assert_eq!(fs::read_dir(&dotfiles).unwrap().count(), 3);
    // A link that leads nowhere is left alone.
    fs::remove_file(&target).unwrap();
    let said = home.plan(Client::Gemini, Change::Enter).unwrap_err().to_string();
    assert!(said.starts_with("failed to follow the link "), "{said}");
}

#[test]
fn what_came_in_between_is_not_lost() {
    let home = Home::new();
    let path = home.put(Client::Claude, CLAUDE);
    let entering = home.plan(Client::Claude, Change::Enter).unwrap();
    fs::write(&path, "{\"by\": \"the client\"}").unwrap();
    let said = entering.apply(now()).unwrap_err().to_string();
    assert!(said.ends_with("it was changed in the meantime; try again"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"by\": \"the client\"}");
    assert!(home.names(Client::Claude).iter().all(|n| !n.contains(".killcord-") || n.contains("backup")));
}

#[test]
fn what_an_exchange_would_take_from_others_is_refused() {
    let home = Home::new();
    let path = home.put(Client::Cursor, CURSOR);
    fs::hard_link(&path, home.dir.path().join("other")).unwrap();
    let said = home.plan(Client::Cursor, Change::Enter).unwrap().apply(now()).unwrap_err().to_string();
    assert!(said.contains("hard links"), "{said}");
    if killcord_testkit::is_root() {
        fs::remove_file(home.dir.path().join("other")).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        let said = home.plan(Client::Cursor, Change::Enter).unwrap().apply(now()).unwrap_err().to_string();
        assert!(said.contains("it belongs to user 1234"), "{said}");
        assert_eq!(fs::metadata(&path).unwrap().uid(), 1234);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), CURSOR);
    assert_eq!(home.names(Client::Cursor), ["mcp.json"]);
}

#[test]
fn the_clients_own_variables_say_where_their_files_are() {
    let places = Places {
        home: "/h".into(),
        project: "/p".into(),
        claude: Some("/c".into()),
        codex: Some("/x".into()),
        config: Some("/d".into()),
    };
    let files = Client::ALL.map(|c| c.file(Scope::User, &places).display().to_string());
    let expected = [
        "/c/.claude.json",
        "/x/config.toml",
        "/h/.gemini/settings.json",
        "/h/.cursor/mcp.json",
        "/d/Code/User/mcp.json",
    ];
    assert_eq!(files, expected);
}

#[test]
fn the_document_has_what_is_entered() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/install.md")).unwrap();
    let entry = Entry::new(Path::new("/usr/local/bin/killcord")).unwrap();
    let home = Home::new();
    for client in Client::ALL {
        let entering = plan(client, Scope::User, &home.places(), &entry, Change::Enter).unwrap();
        assert!(page.contains(&format!("\n{}```", entering.after)), "{client}: {}", entering.after);
    }
}

/// Any JSON value, up to a size.
fn json() -> impl Strategy<Value = Value> {
    let text = "[a-z{}\"\\\\,:\\[\\]\n é]{0,8}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text, inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_else_is_in_a_file_stays(
        members in prop::collection::btree_map("[a-z\"]{0,4}", json(), 0..5),
        servers in prop::option::of(prop::collection::btree_map("[a-z\"]{0,4}", json(), 1..4)),
        pretty in any::<bool>(),
    ) {
        let mut object: serde_json::Map<String, Value> = members.into_iter().collect();
        if let Some(servers) = &servers {
            object.insert("mcpServers".to_owned(), Value::Object(servers.clone().into_iter().collect()));
        }
        let value = Value::Object(object);
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let home = Home::new();
        let path = home.put(Client::Cursor, &text);
        fs::write(&path, home.plan(Client::Cursor, Change::Enter).unwrap().after).unwrap();
        let entered: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        prop_assert_eq!(&entered["mcpServers"]["killcord"]["args"][0], "mcp");
        let out = home.plan(Client::Cursor, Change::Remove).unwrap().after;
        if servers.is_some() {
            prop_assert_eq!(out, text);
        } else {
            let mut out: Value = serde_json::from_str(&out).unwrap();
            prop_assert_eq!(out.as_object_mut().unwrap().remove("mcpServers"), Some(serde_json::json!({})));
            prop_assert_eq!(out, value);
        }
    }
}

#[test]
fn a_name_is_checked() {
    let home = Home::new();
    for name in ["", "a b", "a.b", "é", "\""] {
        let entry = Entry { name: name.to_owned(), ..entry() };
        let error = plan(Client::Codex, Scope::User, &home.places(), &entry, Change::Enter).unwrap_err();
        assert!(matches!(error, InstallError::Name(_)), "{name}");
    }
}
