//! Answers to calls.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;

/// What a call is answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Whether the caller can do better.
    pub(crate) wrong: bool,
    /// For machines.
    pub(crate) meta: Option<Value>,
}

impl Answer {
    pub(crate) fn text(text: String) -> Self {
        Self { text, wrong: false, meta: None }
    }

    /// Something that the caller can correct, and how.
    pub(crate) fn wrong(text: impl Into<String>) -> Self {
        Self { text: text.into(), wrong: true, meta: None }
    }

    pub(crate) fn with(self, meta: Value) -> Self {
        Self { meta: Some(meta), ..self }
    }
}

impl From<Answer> for CallToolResult {
    fn from(answer: Answer) -> Self {
        let content = vec![ContentBlock::text(answer.text)];
        let mut result = if answer.wrong { Self::error(content) } else { Self::success(content) };
        result.meta = answer.meta.map(|meta| {
            let mut object = MetaObject::new();
            object.0.insert("killcord/session".to_owned(), meta);
            object
        });
        result
    }
}
