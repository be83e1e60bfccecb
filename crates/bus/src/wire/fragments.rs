//! Large messages in continuation frames.

use std::time::Duration;

use futures_util::{Sink, SinkExt as _};
use tokio::time::{error::Elapsed, timeout};
use tokio_tungstenite::tungstenite::{
    Bytes, Error, Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

/// Fragment size. The WebSocket library moves the rest of its buffer after each write, which is quadratic for one large
/// frame.
const FRAGMENT_SIZE: usize = 256 * 1024;

/// Sends a text message in fragments, each within `write_timeout`.
pub(crate) async fn send_fragments<S>(
    sink: &mut S,
    text: String,
    write_timeout: Duration,
) -> Result<Result<(), Error>, Elapsed>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let payload = Bytes::from(text);
    let mut start = 0;
    while start < payload.len() {
        let end = payload.len().min(start + FRAGMENT_SIZE);
        let kind = if start == 0 { Data::Text } else { Data::Continue };
        let frame =
            Frame::message(payload.slice(start..end), OpCode::Data(kind), end == payload.len());
        match timeout(write_timeout, sink.send(Message::Frame(frame))).await {
            Ok(Ok(())) => start = end,
            failed => return failed,
        }
    }
    Ok(Ok(()))
}
