//! The protocol: rmcp speaks it, in both of its eras; this is what it calls.

use crate::answer::Answer;
use crate::audit::Call;
use crate::calls::{self, Desk, Progress, Turn};
use crate::tools::{self, Name};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Semaphore;

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    desk: Arc<Desk>,
    turns: Turns,
}

/// How many calls are carried out at once; the others wait in their order.
#[derive(Debug, Clone)]
struct Turns {
    /// Those that take as long as a program does.
    long: Arc<Semaphore>,
    /// All others: who has only stuck calls must be able to look at them and to end them.
    short: Arc<Semaphore>,
}

impl Turns {
    fn of(&self, tool: Name, arguments: &JsonObject) -> Arc<Semaphore> {
        Arc::clone(if tool.takes_long(arguments) { &self.long } else { &self.short })
    }
}

impl Server {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        let turns = || Arc::new(Semaphore::new(desk.settings.at_once));
        let turns = Turns { long: turns(), short: turns() };
        Self { desk, turns }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(tools::INSTRUCTIONS);
        info.server_info = Implementation::new("killcord", env!("CARGO_PKG_VERSION"));
        info.server_info.title = Some("killcord: shells that never outlive you".to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let what = match request.method.as_str() {
            // Only what does not fit its method comes here.
            "tools/call" => request.params_as::<CallToolRequestParams>().err().map(|e| e.to_string()),
            "initialize" | "server/discover" | "tools/list" | "ping" => None,
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        };
        let what = what.unwrap_or_else(|| "they are missing, or of another kind".to_owned());
        Err(ErrorData::invalid_params(format!("the params do not fit {}: {what}", request.method), None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (desk, name) = (Arc::clone(&self.desk), request.name.into_owned());
        let turn = Turn {
            call: Call {
                client: context.client_info().map(|client| format!("{} {}", client.name, client.version)),
                request: Some(context.id.to_string()),
                tool: Some(name.clone()),
                job: None,
            },
            arguments: request.arguments.unwrap_or_default(),
            cancelled: context.ct.clone(),
            progress: Progress::asked_for(&context),
        };
        let Some(tool) = Name::of(&name) else {
            // As the specification has it; the caller cannot mend the list that its client has.
            return Err(ErrorData::invalid_params(calls::unknown(&desk, &name, &turn), None));
        };
        let place = tokio::select! {
            place = self.turns.of(tool, &turn.arguments).acquire_owned() => place,
            () = turn.cancelled.cancelled() => {
                desk.cancelled(&turn);
                return Err(unheard());
            }
        };
        let call = async move {
            let answer = calls::call(&desk, tool, &turn).await;
            drop(place);
            answer
        };
        match carried_out(call).await {
            Ok(Some(answer)) => Ok(CallToolResult::from(answer).into()),
            Ok(None) => Err(unheard()),
            Err(panicked) => {
                self.desk.counters.panicked.fetch_add(1, Ordering::Relaxed);
                Ok(CallToolResult::from(panicked).into())
            }
        }
    }
}

/// Carries out a call in a task of its own: what panics in it is an answer, and takes nothing along.
async fn carried_out(
    call: impl Future<Output = Option<Answer>> + Send + 'static,
) -> Result<Option<Answer>, Answer> {
    tokio::spawn(call).await.map_err(|e| {
        let text = format!("killcord failed in this call, which may or may not have been carried out: {e}");
        Answer::wrong(text)
    })
}

/// For a call that was cancelled: nobody hears it.
fn unheard() -> ErrorData {
    ErrorData::internal_error("cancelled", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_panics_is_answered_and_gives_its_turn_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let turns = Arc::new(Semaphore::new(1));
        for _ in 0..3 {
            let turn = Arc::clone(&turns).try_acquire_owned().unwrap();
            let call = async move {
                let _turn = turn;
                tokio::task::yield_now().await;
                panic!("in the middle")
            };
            let answer = runtime.block_on(carried_out(call)).unwrap_err();
            assert!(
                answer.wrong && answer.text.contains("may or may not have been carried out"),
                "{answer:?}"
            );
        }
        let call = async { Some(Answer::text("on".to_owned())) };
        assert_eq!(runtime.block_on(carried_out(call)).unwrap().unwrap().text, "on");
    }
}
