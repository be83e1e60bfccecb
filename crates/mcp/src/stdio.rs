//! MCP over standard input and output, for hosts that start the server themselves.
//!
//! Standard output belongs to the protocol: nothing else in the process may write to it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use rmcp::{
    service::{QuitReason, ServerInitializeError, serve_server_with_ct},
    transport::stdio_pipes,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::{Mcp, shutdown};

/// Error of an MCP connection over standard input and output.
#[derive(Debug, thiserror::Error)]
pub enum McpStdioError {
    /// The client did not speak MCP.
    #[error("MCP handshake failed: {0}")]
    Handshake(String),
    /// A task of the server failed.
    #[error("the MCP server failed: {0}")]
    Failed(String),
    /// The client does not read from standard output.
    #[error("the client does not read its messages")]
    Stalled,
}

/// Serves one client until it closes standard input, or until the shutdown in the settings.
///
/// # Errors
/// When the client does not speak MCP or does not read.
pub async fn serve(mcp: &Mcp) -> Result<(), McpStdioError> {
    let cancelled = shutdown::after_grace_period(&mcp.shared.settings.shutdown);
    let handler = mcp.handler();
    let stalled = handler.stalled.clone();
    let (input, output) = stdio_pipes();
    let input = EofDetector { input, eof: handler.disconnected.clone() };
    let service = match serve_server_with_ct(handler, (input, output), cancelled).await {
        Ok(service) => service,
        // A host that only checks whether the program starts closes standard input at once.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(McpStdioError::Handshake(error.to_string())),
    };
    tokio::select! {
        quit = service.waiting() => match quit {
            Ok(QuitReason::JoinError(error)) | Err(error) => Err(McpStdioError::Failed(error.to_string())),
            Ok(_) => Ok(()),
        },
        () = stalled.cancelled() => Err(McpStdioError::Stalled),
    }
}

/// Reader that cancels a token at the end of its input. Pending requests are still answered then, but a listen stream
/// would never end by itself.
struct EofDetector<Input> {
    input: Input,
    eof: CancellationToken,
}

impl<Input: AsyncRead + Unpin> AsyncRead for EofDetector<Input> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let capacity = buffer.remaining();
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_eof = match &polled {
            Poll::Ready(Ok(())) => capacity > 0 && buffer.remaining() == capacity,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_eof {
            self.eof.cancel();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn the_token_is_cancelled_at_the_end_of_input_and_not_before() {
        let eof = CancellationToken::new();
        let mut input = EofDetector { input: &b"ab"[..], eof: eof.clone() };
        let mut read = [0; 2];
        input.read_exact(&mut read).await.unwrap();
        assert!(!eof.is_cancelled());
        assert_eq!(input.read(&mut []).await.unwrap(), 0);
        assert!(!eof.is_cancelled());
        assert_eq!(input.read(&mut read).await.unwrap(), 0);
        assert!(eof.is_cancelled());
    }
}
