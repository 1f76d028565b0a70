//! A client of the protocol that knows nothing but lines: what is on the wire is what a test sees.

#![expect(clippy::panic, clippy::expect_used, reason = "it fails the test that uses it, with a message")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// More than anything here takes on a busy machine; a deadline that fails a test and never passes one.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The server's command line: `KILLCORD_MCP_COMMAND`, else the example that serves.
pub(crate) fn server() -> Command {
    let given = std::env::var("KILLCORD_MCP_COMMAND").unwrap_or_default();
    let mut words = given.split_whitespace();
    let mut command = match words.next() {
        Some(program) => Command::new(program),
        None => Command::new(killcord_testkit::example("killcord-mcp", "serve")),
    };
    // What it writes down of itself is not for the home of whoever runs the tests.
    let private = std::env::temp_dir().join("killcord-test-mcp");
    command.args(words).env("XDG_STATE_HOME", &private).env("XDG_CONFIG_HOME", &private);
    command
}

/// A server and the pipes to it. Dropping it ends the server, which ends everything else.
pub(crate) struct Client {
    server: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What has come and was not asked for yet.
    kept: Vec<Value>,
    next_id: u64,
    /// For the newer era: what each request carries.
    meta: Option<Value>,
}

impl Client {
    /// Starts a server and says nothing.
    pub(crate) fn start() -> Self {
        Self::start_as(server())
    }

    /// Starts a server by this command and says nothing.
    pub(crate) fn start_as(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let stdout = server.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // A test that is over listens no more.
                let _ = sender.send(line);
            }
        });
        Self { stdin: server.stdin.take(), server, lines, kept: Vec::new(), next_id: 1000, meta: None }
    }

    /// A client of an older era, behind its handshake; what the server said of itself is checked elsewhere.
    pub(crate) fn initialized(version: &str) -> Self {
        Self::start().greeted(version)
    }

    /// The same with a server that has been started.
    pub(crate) fn greeted(mut self, version: &str) -> Self {
        let client = &mut self;
        client.send(&initialize(0, version));
        assert_eq!(client.answer(&json!(0))["result"]["protocolVersion"], version);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self
    }

    /// The number of the process that was started, which is not reaped before the client is dropped.
    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Closes the server's input and nothing else.
    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// A client of the newer era, which has no handshake.
    pub(crate) fn modern() -> Self {
        let mut client = Self::start();
        client.meta = Some(meta("2026-07-28"));
        client
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("an open input").write_all(bytes).expect("the server reads");
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request, and returns its id.
    pub(crate) fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        for (name, value) in self.meta.as_ref().and_then(Value::as_object).into_iter().flatten() {
            params["_meta"][name] = value.clone();
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next line, which must be JSON, or `None` at the end of the output.
    fn line(&self, deadline: Instant) -> Option<Value> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: the line {line:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no answer in time; there were {:?}", self.kept),
        }
    }

    /// The message for which this holds; what comes before it is kept.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(at) = self.kept.iter().position(&wanted) {
                return self.kept.remove(at);
            }
            let message = self.line(deadline).unwrap_or_else(|| panic!("the output ended: {:?}", self.kept));
            self.kept.push(message);
        }
    }

    /// The answer to a request.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.wait_for(|message| message.get("id") == Some(id))
    }

    /// The answer to a request, if it has come.
    pub(crate) fn arrived(&mut self, id: &Value) -> Option<Value> {
        let at = self.kept.iter().position(|message| message.get("id") == Some(id))?;
        Some(self.kept.remove(at))
    }

    /// Calls a tool and returns the result.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let answer = self.answer(&id);
        let result = &answer["result"];
        let content = result["content"].as_array();
        assert_eq!(content.map(Vec::len), Some(1), "one block of text: {answer}");
        assert!(result.get("structuredContent").is_none(), "{answer}");
        result.clone()
    }

    /// The text of a call.
    pub(crate) fn text(&mut self, tool: &str, arguments: &Value) -> String {
        text(&self.call(tool, arguments))
    }

    /// Closes the server's input. Returns how it ended, and what else it said, all of which must be JSON.
    pub(crate) fn close(mut self) -> (ExitStatus, Vec<Value>) {
        self.stdin = None;
        let deadline = Instant::now() + SOON;
        let mut rest = std::mem::take(&mut self.kept);
        while let Some(message) = self.line(deadline) {
            rest.push(message);
        }
        // Its output has ended, and it closes that with its own end.
        (self.server.wait().expect("a child"), rest)
    }

    /// Goes without reading another line.
    pub(crate) fn close_unread(mut self) -> ExitStatus {
        drop(std::mem::replace(&mut self.lines, channel().1));
        self.stdin = None;
        self.server.wait().expect("a child")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already; it is reaped below either way.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The text of a tool's result.
pub(crate) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
}

/// The first request of the older eras.
pub(crate) fn initialize(id: u64, version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "lines", "version": "1"},
    }})
}

/// What each request of the newer era carries.
pub(crate) fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A request to run a command.
pub(crate) fn run(id: &Value, command: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "shell_run", "arguments": {"command": command},
    }})
}

/// A note that a request is no longer wanted.
pub(crate) fn cancel(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}
