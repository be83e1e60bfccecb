//! ACP over standard input and output, for editors that start the agent themselves.
//!
//! Standard output belongs to the protocol: nothing else in the process may write to it.

use std::{sync::Arc, time::Duration};

use agent_client_protocol::{Channel, Error, ErrorCode, RawJsonRpcMessage, TransportFrame};
use futures_util::StreamExt as _;
use skills_registry::SkillRegistry;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    SkillsUpdate,
    agent::{self, Shared},
    send_queue::SendQueue,
    write_backpressure::WriteBackpressure,
};

/// Longest message, in bytes.
const MAX_LINE: usize = 16 << 20;
/// Time after which a client that has not read a message is stalled.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Error of an ACP connection over standard input and output.
#[derive(Debug, thiserror::Error)]
pub enum AcpStdioError {
    /// The connection failed.
    #[error("the ACP connection failed: {0}")]
    Failed(String),
    /// Standard input or output failed.
    #[error("standard input or output failed: {0}")]
    Io(#[from] std::io::Error),
    /// The client does not read from standard output.
    #[error("the client does not read its messages")]
    Stalled,
}

/// Serves one client until it closes standard input, or until `shutdown`.
///
/// # Errors
/// When the client does not read.
pub async fn serve(
    skills: Arc<dyn SkillRegistry>,
    skills_update: SkillsUpdate,
    shutdown: CancellationToken,
) -> Result<(), AcpStdioError> {
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let served = serve_on(skills, skills_update, STALL_TIMEOUT, input, output);
    tokio::select! {
        served = served => served,
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn serve_on(
    skills: Arc<dyn SkillRegistry>,
    skills_update: SkillsUpdate,
    stall_timeout: Duration,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), AcpStdioError> {
    let shared = Arc::new(Shared::new(skills, skills_update));
    let (transport, agent_side) = Channel::duplex();
    let (outgoing, incoming) = transport.into_parts();
    let agent = async {
        let served = agent::serve(&shared, agent_side).await;
        served.map_err(|error| AcpStdioError::Failed(error.message))
    };
    let backpressure = WriteBackpressure::default();
    let (sender, receiver) = mpsc::unbounded_channel();
    let read = read(BufReader::new(input), incoming, &backpressure);
    let queue = queue(outgoing, sender, &backpressure);
    let write = write(receiver, output, stall_timeout, &backpressure, &shared.send_queue);
    tokio::try_join!(agent, read, queue, write).map(drop)
}

/// Line to be written.
struct Line {
    text: String,
    is_update: bool,
}

/// Moves messages from the SDK's queue, whose length is unknown, to one that is counted.
async fn queue(
    mut frames: impl futures_util::Stream<Item = TransportFrame> + Unpin,
    lines: mpsc::UnboundedSender<Line>,
    backpressure: &WriteBackpressure,
) -> Result<(), AcpStdioError> {
    while let Some(frame) = frames.next().await {
        let Ok(mut text) = frame.to_json() else { continue };
        text.push('\n');
        let is_update = matches!(frame, TransportFrame::Single(RawJsonRpcMessage::Notification(_)));
        backpressure.queued(text.len());
        if lines.send(Line { text, is_update }).is_err() {
            break;
        }
    }
    Ok(())
}

async fn write(
    mut lines: mpsc::UnboundedReceiver<Line>,
    mut output: impl AsyncWrite + Unpin,
    stall_timeout: Duration,
    backpressure: &WriteBackpressure,
    send_queue: &SendQueue,
) -> Result<(), AcpStdioError> {
    while let Some(Line { text, is_update }) = lines.recv().await {
        let written = async {
            output.write_all(text.as_bytes()).await?;
            output.flush().await
        };
        match tokio::time::timeout(stall_timeout, written).await {
            Ok(written) => written?,
            Err(_) => return Err(AcpStdioError::Stalled),
        }
        backpressure.record_written(text.len());
        if is_update {
            send_queue.confirm_written();
        }
    }
    Ok(())
}

async fn read(
    mut input: impl AsyncBufRead + Unpin,
    frames: futures_channel::mpsc::UnboundedSender<TransportFrame>,
    backpressure: &WriteBackpressure,
) -> Result<(), AcpStdioError> {
    let mut line = Vec::new();
    loop {
        backpressure.wait_for_capacity().await;
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        if (&mut input).take(limit).read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let frame = if line.len() > MAX_LINE && !line.ends_with(b"\n") {
            skip_line(&mut input).await?;
            let message = format!("message too large: the limit is {} MiB", MAX_LINE >> 20);
            TransportFrame::Malformed {
                raw: String::new(),
                error: Error::new(ErrorCode::INVALID_REQUEST, message),
            }
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            parse(&line)
        };
        // The agent has ended.
        if frames.unbounded_send(frame).is_err() {
            return Ok(());
        }
        // The agent handles it before the next is read, so that few are queued.
        tokio::task::yield_now().await;
    }
}

fn parse(line: &[u8]) -> TransportFrame {
    match TransportFrame::parse_json(String::from_utf8_lossy(line).trim()) {
        // Without the error's data, which repeats the line.
        TransportFrame::Malformed { raw, error } => {
            TransportFrame::Malformed { raw, error: Error::new(error.code, error.message) }
        }
        frame => frame,
    }
}

async fn skip_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(());
        }
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(buffer.len(), |at| at + 1);
        input.consume(used);
        if newline.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skills_registry::{Registry, RegistryConfig};
    use skills_store::MemoryStore;

    use super::*;

    fn registry() -> Arc<Registry> {
        Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap()
    }

    fn request(id: usize, method: &str, params: &Value) -> String {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        format!("{message}\n")
    }

    /// Returns the bytes that are read from a client that sends requests and never reads, until it is dropped.
    async fn bytes_read(line: String) -> usize {
        let (mut client, input) = tokio::io::duplex(64 << 10);
        let (output, _never_read) = tokio::io::duplex(64 << 10);
        let timeout = Duration::from_secs(5);
        let served = serve_on(registry(), SkillsUpdate::OptIn, timeout, input, output);
        let send = async {
            let mut bytes = 0;
            while client.write_all(line.as_bytes()).await.is_ok() {
                bytes += line.len();
            }
            bytes
        };
        let (served, bytes) = tokio::join!(served, send);
        assert!(matches!(served, Err(AcpStdioError::Stalled)), "{served:?}");
        bytes
    }

    #[tokio::test]
    async fn a_client_that_never_reads_is_throttled_and_dropped() {
        let lines = [
            request(1, "no/such", &json!({})),
            request(1, "initialize", &json!({ "protocolVersion": 1 })),
            "nothing that could be JSON, and longer than it need be\n".to_owned(),
        ];
        let read = futures_util::future::join_all(lines.map(bytes_read)).await;
        assert!(read.iter().all(|bytes| *bytes < 2 << 20), "{read:?} bytes were read");
    }
}
