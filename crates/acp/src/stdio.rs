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
use tokio_util::sync::CancellationToken;

use crate::{
    SkillsUpdate,
    agent::{self, Shared},
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
    let served = serve_on(skills, skills_update, tokio::io::stdin(), tokio::io::stdout());
    tokio::select! {
        served = served => served,
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn serve_on(
    skills: Arc<dyn Skills>,
    skills_update: SkillsUpdate,
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
    let read = read(BufReader::new(input), incoming);
    let write = write(outgoing, output, &shared.pace);
    tokio::try_join!(agent, read, write).map(drop)
}

async fn write(
    mut frames: impl futures_util::Stream<Item = TransportFrame> + Unpin,
    mut output: impl AsyncWrite + Unpin,
    pace: &Pace,
) -> Result<(), StdioError> {
    while let Some(frame) = frames.next().await {
        let Ok(mut line) = frame.to_json() else { continue };
        line.push('\n');
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        match tokio::time::timeout(STALLED, written).await {
            Ok(written) => written?,
            Err(_) => return Err(StdioError::Stalled),
        }
        if matches!(frame, TransportFrame::Single(RawJsonRpcMessage::Notification(_))) {
            pace.wrote();
        }
    }
    Ok(())
}

async fn read(
    mut input: impl AsyncBufRead + Unpin,
    frames: futures_channel::mpsc::UnboundedSender<TransportFrame>,
) -> Result<(), StdioError> {
    let mut line = Vec::new();
    loop {
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
