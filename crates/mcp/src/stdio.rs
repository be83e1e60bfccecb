//! MCP over standard input and output, for hosts that start the server themselves.
//!
//! Standard output belongs to the protocol: nothing else in the process may write to it.

use rmcp::{
    service::{QuitReason, ServerInitializeError, serve_server_with_ct},
    transport::stdio_pipes,
};
use tokio_util::sync::CancellationToken;

use crate::Mcp;

/// Why serving over standard input and output failed.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client did not speak MCP.
    #[error("the client did not begin as MCP begins: {0}")]
    Handshake(String),
    /// A task of the server failed.
    #[error("the server failed: {0}")]
    Failed(String),
    /// The client does not read what it is told.
    #[error("the client does not read what it is told")]
    Stalled,
}

/// Serves one client until it closes standard input, or until `shutdown`.
///
/// # Errors
/// When the client does not speak MCP or does not read.
pub async fn serve(mcp: &Mcp, shutdown: CancellationToken) -> Result<(), StdioError> {
    let handler = mcp.handler();
    let stalled = handler.stalled.clone();
    let service = match serve_server_with_ct(handler, stdio_pipes(), shutdown.clone()).await {
        Ok(service) => service,
        // Nobody there, or nobody there any more: a host that only looks whether the program starts.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(StdioError::Handshake(error.to_string())),
    };
    tokio::select! {
        quit = service.waiting() => match quit {
            Ok(QuitReason::JoinError(error)) | Err(error) => Err(StdioError::Failed(error.to_string())),
            Ok(_) => Ok(()),
        },
        () = stalled.cancelled() => Err(StdioError::Stalled),
    }
}
