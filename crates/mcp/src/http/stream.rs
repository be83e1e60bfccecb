//! The stream of a session: what rmcp has for the client is passed on for as long as the client takes it.
//!
//! A task of its own does that, so that a stream can be ended while its connection hangs.

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

use crate::live::STALLED;

/// Passes messages on.
pub(super) struct Forward {
    pub(super) sender: mpsc::Sender<ServerSseMessage>,
    pub(super) end: CancellationToken,
    pub(super) next_event: Arc<AtomicU64>,
    /// Events before this were on a stream before; rmcp would repeat them.
    pub(super) skip_before: u64,
}

impl Forward {
    /// Runs until either side is gone, and says whether the client does not read.
    pub(super) async fn run(self, from: impl Stream<Item = ServerSseMessage>) -> bool {
        let mut from = pin!(from);
        loop {
            let message = tokio::select! {
                message = from.next() => message,
                () = self.end.cancelled() => None,
                () = self.sender.closed() => None,
            };
            let Some(message) = message else { return false };
            let number = number(&message);
            if number.is_some_and(|number| number < self.skip_before) {
                continue;
            }
            let sent = tokio::select! {
                sent = tokio::time::timeout(STALLED, self.sender.send(message)) => sent,
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

/// The number of an event of the session's own stream; those of a request's stream have a slash.
fn number(message: &ServerSseMessage) -> Option<u64> {
    message.event_id.as_deref()?.parse().ok()
}

/// What the connection reads.
pub(super) struct Receiving(mpsc::Receiver<ServerSseMessage>);

impl Receiving {
    pub(super) const fn new(receiver: mpsc::Receiver<ServerSseMessage>) -> Self {
        Self(receiver)
    }
}

impl Stream for Receiving {
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

    fn forward(skip_before: u64) -> (Forward, mpsc::Receiver<ServerSseMessage>) {
        let (sender, receiver) = mpsc::channel(1);
        let end = CancellationToken::new();
        (Forward { sender, end, next_event: Arc::default(), skip_before }, receiver)
    }

    #[tokio::test]
    async fn what_was_on_a_stream_before_is_not_repeated() {
        let (forward, mut receiver) = forward(2);
        let next_event = Arc::clone(&forward.next_event);
        let run = tokio::spawn(forward.run(futures_util::stream::iter((0..4).map(event))));
        assert_eq!(receiver.recv().await.unwrap().event_id.unwrap(), "2");
        assert_eq!(receiver.recv().await.unwrap().event_id.unwrap(), "3");
        assert!(!run.await.unwrap());
        assert_eq!(next_event.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_told_apart_from_one_that_is_gone() {
        let (one, deaf) = forward(0);
        assert!(one.run(futures_util::stream::iter((0..9).map(event))).await);
        drop(deaf);
        let (one, gone) = forward(0);
        drop(gone);
        assert!(!one.run(futures_util::stream::iter((0..9).map(event))).await);
    }

    #[tokio::test]
    async fn it_ends_while_its_connection_hangs() {
        let (one, _hanging) = forward(0);
        let end = one.end.clone();
        let run = tokio::spawn(one.run(futures_util::stream::iter((0..9).map(event))));
        end.cancel();
        assert!(!run.await.unwrap());
    }
}
