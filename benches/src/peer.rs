//! The least server that runs commands for an agent: the SDK and `tokio::process`. Nothing holds what it starts.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, ServerCapabilities, ServerConfig};
use rmcp::{ErrorData, ServerHandler, ServiceExt, tool, tool_handler, tool_router};

#[derive(Clone)]
struct Peer;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    command: String,
}

#[tool_router]
impl Peer {
    #[tool(description = "Runs a command.")]
    async fn shell_run(&self, Parameters(args): Parameters<Args>) -> Result<CallToolResult, ErrorData> {
        let mut command = tokio::process::Command::new("bash");
        command.args(["-c", &args.command]).stdin(std::process::Stdio::null());
        let output = command.output().await.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        let code = output.status.code().unwrap_or(-1);
        let text = format!("[exit {code}]\n{}", String::from_utf8_lossy(&output.stdout));
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }
}

#[tool_handler]
impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info
    }
}

/// Serves stdin and stdout until stdin ends.
pub(crate) fn serve() -> crate::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let served = Peer.serve(rmcp::transport::stdio()).await.map_err(|e| e.to_string())?;
        served.waiting().await.map(|_| ()).map_err(|e| e.to_string())
    })
}
