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

use crate::{Mcp, ending};

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

/// Serves one client until it closes standard input, or until the shutdown in the settings.
///
/// # Errors
/// When the client does not speak MCP or does not read.
pub async fn serve(mcp: &Mcp) -> Result<(), StdioError> {
    let shutdown = &mcp.shared.settings.shutdown;
    let handler = mcp.handler(None);
    let stalled = handler.stalled.clone();
    let (input, output) = stdio_pipes();
    let input = Watched { input, ended: handler.hung_up.clone() };
    let service =
        match serve_server_with_ct(handler, (input, output), ending::after(shutdown)).await {
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

/// Input that tells of its end. What a client still waits for is answered then, but a stream that it
/// listened to would never end by itself.
struct Watched<Input> {
    input: Input,
    ended: CancellationToken,
}

impl<Input: AsyncRead + Unpin> AsyncRead for Watched<Input> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_over = match &polled {
            Poll::Ready(Ok(())) => room > 0 && buffer.remaining() == room,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_over {
            self.ended.cancel();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn the_end_is_told_and_nothing_before_it() {
        let ended = CancellationToken::new();
        let mut input = Watched { input: &b"ab"[..], ended: ended.clone() };
        let mut read = [0; 2];
        input.read_exact(&mut read).await.unwrap();
        assert!(!ended.is_cancelled());
        assert_eq!(input.read(&mut []).await.unwrap(), 0);
        assert!(!ended.is_cancelled());
        assert_eq!(input.read(&mut read).await.unwrap(), 0);
        assert!(ended.is_cancelled());
    }
}
