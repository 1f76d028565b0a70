//! What is on the wire: a message in each line. rmcp's own transport passes over what is no JSON, so its sender would
//! wait for as long as it waits for anything, and answers a message of the wrong shape without the id by which the
//! sender would know which it is. So lines are read here, and those that are no message are answered here.

use crate::lines::{Line, Lines};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, Empty};
use tokio::sync::Notify;

/// The transport.
pub(crate) struct Wire<R, W: AsyncWrite> {
    lines: Lines<R>,
    longest: usize,
    /// Of rmcp's transport the half that writes.
    out: AsyncRwTransport<RoleServer, Empty, W>,
    ended: Arc<Notify>,
}

impl<R, W> Wire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Whose lines are no longer than `longest` bytes. The end of the input, or a failure to read it, is notified.
    pub(crate) fn new(input: R, output: W, longest: usize, ended: Arc<Notify>) -> Self {
        let out = AsyncRwTransport::new_server(tokio::io::empty(), output);
        Self { lines: Lines::new(input, longest), longest, out, ended }
    }
}

impl<R, W> Transport<RoleServer> for Wire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.out.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let Ok(Some(line)) = self.lines.next().await else {
                self.ended.notify_one();
                return None;
            };
            match message(&line, self.longest) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                // A client that does not read its answers must not keep the rest of the input from being read.
                Err((id, error)) => drop(tokio::spawn(self.send(ServerJsonRpcMessage::error(error, id)))),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out.close().await
    }
}

/// The error that a line is answered with, and its id as far as it is known.
pub(crate) type Unread = (Option<RequestId>, ErrorData);

/// The message in a line, or `None` where nothing is expected of it.
pub(crate) fn message(line: &Line, longest: usize) -> Result<Option<ClientJsonRpcMessage>, Unread> {
    let Some(text) = line.whole() else {
        let why = format!("the message was not read: it is longer than {longest} bytes");
        return Err((line.id(), ErrorData::invalid_request(why, None)));
    };
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    if let Ok(message) = serde_json::from_slice(text) {
        return Ok(Some(message));
    }
    match serde_json::from_slice(text) {
        Ok(value) => wrong(&value).map_or(Ok(None), Err),
        Err(e) => {
            let why = format!("the message was not read: it is no JSON: {e}");
            Err((line.id(), ErrorData::parse_error(why, None)))
        }
    }
}

/// What is wrong with JSON that is no message. Nothing is said to a notification.
fn wrong(value: &Value) -> Option<Unread> {
    let invalid = |id, why: &str| Some((id, ErrorData::invalid_request(why.to_owned(), None)));
    let Value::Object(object) = value else {
        let batch = "batches are not taken: one message in each line";
        return invalid(None, if value.is_array() { batch } else { "the message is no object" });
    };
    let has = |key| object.contains_key(key);
    if !has("method") && (has("result") || has("error")) {
        // An error with its id would be taken for the answer to a request of the client's.
        return invalid(None, "nothing was asked of the client");
    }
    let method = object.get("method").and_then(Value::as_str);
    let Some(id) = object.get("id") else {
        return if method.is_some() { None } else { invalid(None, "the message has no method") };
    };
    let Ok(id) = serde_json::from_value::<RequestId>(id.clone()) else {
        return invalid(None, "the id is neither a string nor an integer");
    };
    let id = Some(id);
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(id, "jsonrpc is not \"2.0\"");
    }
    if method.is_none() {
        return invalid(id, "the method is no string");
    }
    if has("result") || has("error") {
        return invalid(id, "a request has no result and no error");
    }
    Some((id, ErrorData::invalid_params("the params are no object", None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str) -> Result<bool, (Option<String>, i32)> {
        let line = format!("{text}\n");
        let line = Lines::new(line.as_bytes(), 1000).next().await.unwrap().unwrap();
        match message(&line, 1000) {
            Ok(message) => Ok(message.is_some()),
            Err((id, error)) => Err((id.map(|id| serde_json::to_string(&id).unwrap()), error.code.0)),
        }
    }

    /// Each kind of line, with what it is answered with.
    #[test]
    fn each_line_is_a_message_or_is_answered_by_what_is_wrong_with_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let long = "x".repeat(1000);
        let seven = || Some("7".to_owned());
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#, Ok(true)),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}\r", Ok(true)),
            (r#"{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":5}}"#, Ok(true)),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, Ok(true)),
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Ok(true)),
            ("", Ok(false)),
            ("  \r", Ok(false)),
            (r#"{"jsonrpc":"2.0","method":"m","params":5}"#, Ok(false)),
            ("{", Err((None, -32700))),
            ("nonsense", Err((None, -32700))),
            ("[1,2", Err((None, -32700))),
            (r#"{"id":1}}"#, Err((None, -32700))),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"#, Err((seven(), -32700))),
            (&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{long}"}}"#), Err((seven(), -32600))),
            ("[]", Err((None, -32600))),
            (r#"[{"jsonrpc":"2.0","id":7,"method":"m"}]"#, Err((None, -32600))),
            ("7", Err((None, -32600))),
            ("null", Err((None, -32600))),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, Err((seven(), -32600))),
            (r#"{"jsonrpc":"2.0","id":7}"#, Err((seven(), -32600))),
            (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, Err((seven(), -32600))),
            (r#"{"id":7,"method":"m"}"#, Err((seven(), -32600))),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","result":{}}"#, Err((seven(), -32600))),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":5}"#, Err((seven(), -32602))),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":["a"]}"#, Err((seven(), -32602))),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, Err((None, -32600))),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, Err((None, -32600))),
            (r#"{"jsonrpc":"2.0","method":5}"#, Err((None, -32600))),
            (r#"{"jsonrpc":"2.0","id":7,"error":5}"#, Err((None, -32600))),
        ] {
            assert_eq!(runtime.block_on(read(text)), expected, "{text:?}");
        }
    }
}
