//! Stream of a session: forwards rmcp's messages, with a stall timeout.
//!
//! A task of its own forwards, so that a stream can be ended while its connection hangs.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt as _};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::notifications::STALL_TIMEOUT;

/// Forwards the messages of one stream to its connection.
pub(super) struct StreamForwarder {
    pub(super) sender: mpsc::Sender<ServerSseMessage>,
    pub(super) end: CancellationToken,
    pub(super) next_event: Arc<AtomicU64>,
    /// Events before this number were sent on an earlier stream; rmcp would repeat them.
    pub(super) skip_before: u64,
}

impl StreamForwarder {
    /// Runs until either side is gone, and returns whether the client is stalled.
    pub(super) async fn run(self, source: impl Stream<Item = ServerSseMessage>) -> bool {
        let mut source = pin!(source);
        loop {
            let message = tokio::select! {
                message = source.next() => message,
                () = self.end.cancelled() => None,
                () = self.sender.closed() => None,
            };
            let Some(message) = message else { return false };
            let number = event_number(&message);
            if number.is_some_and(|number| number < self.skip_before) {
                continue;
            }
            let sent = tokio::select! {
                sent = tokio::time::timeout(STALL_TIMEOUT, self.sender.send(message)) => sent,
                () = self.end.cancelled() => return false,
            };
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return false,
                Err(_) => return true,
            }
            if let Some(number) = number {
                self.next_event.fetch_max(number + 1, Ordering::SeqCst);
            }
        }
    }
}

/// Returns the number of an event of the session's own stream; ids of a request's stream contain a slash.
fn event_number(message: &ServerSseMessage) -> Option<u64> {
    message.event_id.as_deref()?.parse().ok()
}

/// Receiving side of a forwarded stream, which the connection reads.
pub(super) struct StreamReceiver(pub(super) mpsc::Receiver<ServerSseMessage>);

impl Stream for StreamReceiver {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> ServerSseMessage {
        let mut event = ServerSseMessage::default();
        event.event_id = Some(number.to_string());
        event
    }

    fn forwarder(skip_before: u64) -> (StreamForwarder, mpsc::Receiver<ServerSseMessage>) {
        let (sender, receiver) = mpsc::channel(1);
        let end = CancellationToken::new();
        (StreamForwarder { sender, end, next_event: Arc::default(), skip_before }, receiver)
    }

    #[tokio::test]
    async fn events_of_an_earlier_stream_are_not_repeated() {
        let (forwarder, mut receiver) = forwarder(2);
        let next_event = Arc::clone(&forwarder.next_event);
        let run = tokio::spawn(forwarder.run(futures_util::stream::iter((0..4).map(event))));
        assert_eq!(receiver.recv().await.unwrap().event_id.unwrap(), "2");
        assert_eq!(receiver.recv().await.unwrap().event_id.unwrap(), "3");
        assert!(!run.await.unwrap());
        assert_eq!(next_event.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_client_is_distinguished_from_a_disconnected_one() {
        let (stalled, unread) = forwarder(0);
        assert!(stalled.run(futures_util::stream::iter((0..9).map(event))).await);
        drop(unread);
        let (disconnected, receiver) = forwarder(0);
        drop(receiver);
        assert!(!disconnected.run(futures_util::stream::iter((0..9).map(event))).await);
    }

    #[tokio::test]
    async fn a_stream_can_be_ended_while_its_connection_hangs() {
        let (forwarder, _hanging) = forwarder(0);
        let end = forwarder.end.clone();
        let run = tokio::spawn(forwarder.run(futures_util::stream::iter((0..9).map(event))));
        end.cancel();
        assert!(!run.await.unwrap());
    }
}
