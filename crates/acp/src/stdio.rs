//! ACP over standard input and output, for editors that start the agent themselves.
//!
//! Standard output belongs to the protocol: nothing else in the process may write to it.

use std::{sync::Arc, time::Duration};

use agent_client_protocol::{Channel, Error, ErrorCode, RawJsonRpcMessage, TransportFrame};
use futures_util::StreamExt as _;
use skills_registry::Skills;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    SkillsUpdate,
    agent::{self, Shared},
    backlog::Backlog,
    pace::Pace,
};

/// Longest message that is taken in, in bytes.
const MAX_LINE: usize = 16 << 20;
/// Who has not taken in a message after this does not read.
const STALLED: Duration = Duration::from_secs(30);

/// Why serving over standard input and output failed.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(String),
    /// Standard input or output cannot be used.
    #[error("standard input and output: {0}")]
    Io(#[from] std::io::Error),
    /// The client does not read what it is told.
    #[error("the client does not read what it is told")]
    Stalled,
}

/// Serves one client until it closes standard input, or until `shutdown`.
///
/// # Errors
/// When the client does not read.
pub async fn serve(
    skills: Arc<dyn Skills>,
    skills_update: SkillsUpdate,
    shutdown: CancellationToken,
) -> Result<(), StdioError> {
    let served = serve_on(skills, skills_update, STALLED, tokio::io::stdin(), tokio::io::stdout());
    tokio::select! {
        served = served => served,
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn serve_on(
    skills: Arc<dyn Skills>,
    skills_update: SkillsUpdate,
    stalled: Duration,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), StdioError> {
    let shared = Arc::new(Shared::new(skills, skills_update));
    let (ours, theirs) = Channel::duplex();
    let (outgoing, incoming) = ours.into_parts();
    let agent = async {
        let served = agent::serve(&shared, theirs).await;
        served.map_err(|error| StdioError::Failed(error.message))
    };
    let backlog = Backlog::default();
    let (lines, waiting) = mpsc::unbounded_channel();
    let read = read(BufReader::new(input), incoming, &backlog);
    let take = take(outgoing, lines, &backlog);
    let write = write(waiting, output, stalled, &backlog, &shared.pace);
    tokio::try_join!(agent, read, take, write).map(drop)
}

/// A line that is to be written.
struct Line {
    text: String,
    is_update: bool,
}

/// Takes what the SDK has to say, which it keeps in a queue that nobody can look into, and counts it.
async fn take(
    mut frames: impl futures_util::Stream<Item = TransportFrame> + Unpin,
    lines: mpsc::UnboundedSender<Line>,
    backlog: &Backlog,
) -> Result<(), StdioError> {
    while let Some(frame) = frames.next().await {
        let Ok(mut text) = frame.to_json() else { continue };
        text.push('\n');
        let is_update = matches!(frame, TransportFrame::Single(RawJsonRpcMessage::Notification(_)));
        backlog.add(text.len());
        if lines.send(Line { text, is_update }).is_err() {
            break;
        }
    }
    Ok(())
}

async fn write(
    mut lines: mpsc::UnboundedReceiver<Line>,
    mut output: impl AsyncWrite + Unpin,
    stalled: Duration,
    backlog: &Backlog,
    pace: &Pace,
) -> Result<(), StdioError> {
    while let Some(Line { text, is_update }) = lines.recv().await {
        let written = async {
            output.write_all(text.as_bytes()).await?;
            output.flush().await
        };
        match tokio::time::timeout(stalled, written).await {
            Ok(written) => written?,
            Err(_) => return Err(StdioError::Stalled),
        }
        backlog.done(text.len());
        if is_update {
            pace.wrote();
        }
    }
    Ok(())
}

async fn read(
    mut input: impl AsyncBufRead + Unpin,
    frames: futures_channel::mpsc::UnboundedSender<TransportFrame>,
    backlog: &Backlog,
) -> Result<(), StdioError> {
    let mut line = Vec::new();
    loop {
        // Who does not read answers does not get to ask more.
        backlog.is_short().await;
        line.clear();
        let most = MAX_LINE as u64 + 1;
        if (&mut input).take(most).read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let frame = if line.len() > MAX_LINE && !line.ends_with(b"\n") {
            skip_line(&mut input).await?;
            let message = format!("a message may have {} MiB", MAX_LINE >> 20);
            TransportFrame::Malformed {
                raw: String::new(),
                error: Error::new(ErrorCode::INVALID_REQUEST, message),
            }
        } else if line.trim_ascii().is_empty() {
            continue;
        } else {
            parse(&line)
        };
        // Nobody listens any more.
        if frames.unbounded_send(frame).is_err() {
            return Ok(());
        }
        // The agent has a look at it before the next is read, so that few wait.
        tokio::task::yield_now().await;
    }
}

fn parse(line: &[u8]) -> TransportFrame {
    match TransportFrame::parse_json(String::from_utf8_lossy(line).trim()) {
        // Without the data, which would be the line once more.
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

    /// How much is taken in of a client that asks on and on and never reads, until it is dropped.
    async fn taken(line: String) -> usize {
        let (mut client, input) = tokio::io::duplex(64 << 10);
        let (output, _never_read) = tokio::io::duplex(64 << 10);
        let stalled = Duration::from_secs(5);
        let served = serve_on(registry(), SkillsUpdate::OptIn, stalled, input, output);
        let ask = async {
            let mut taken = 0;
            while client.write_all(line.as_bytes()).await.is_ok() {
                taken += line.len();
            }
            taken
        };
        let (served, taken) = tokio::join!(served, ask);
        assert!(matches!(served, Err(StdioError::Stalled)), "{served:?}");
        taken
    }

    #[tokio::test]
    async fn who_never_reads_is_not_read_from_and_dropped() {
        let lines = [
            request(1, "no/such", &json!({})),
            request(1, "initialize", &json!({ "protocolVersion": 1 })),
            "nothing that could be JSON, and longer than it need be\n".to_owned(),
        ];
        let taken = futures_util::future::join_all(lines.map(taken)).await;
        assert!(taken.iter().all(|taken| *taken < 2 << 20), "{taken:?} bytes were taken in");
    }
}
