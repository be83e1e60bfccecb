//! Change notifications.
//!
//! One dispatcher follows the registry's changes and passes them to the clients that asked for them. Every session and
//! every listen stream has a task that sends what waits for its client, one notification of each kind; so the memory of a
//! slow client is bounded, and no change is lost.
//!
//! - `source`: where the changes come from
//! - `dispatcher`: the clients, by what they asked for
//! - `change_set`: changes that wait, and the notifications of them
//! - `listen`: streams of listen requests

mod change_set;
mod dispatcher;
mod listen;
mod source;

use std::time::Duration;

use rmcp::model::ServerNotification;
use skills_core::Caller;
use skills_registry::RegistryError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    change_set::Lists,
    dispatcher::{Dispatcher, Subscriber},
    listen::{ListenRefused, ListenStream, ListenStreams, PendingListens},
    source::{ListedTools, changes},
};
use crate::server::Shared;

/// Time after which a client that has not read a notification is stalled.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// State of the one stream that a session may have for notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StreamState {
    pub(crate) is_open: bool,
    /// Number of streams that the session has opened so far.
    pub(crate) opened: u64,
}

/// Notification stream of a session, as the notifier sees it.
#[derive(Debug, Clone)]
pub(crate) struct SessionStream {
    pub(crate) state: watch::Receiver<StreamState>,
    /// Cancelled when there will be no more notifications.
    pub(crate) closed: CancellationToken,
}

/// Reason why a notifier ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotifierEnd {
    /// The client does not read.
    Stalled,
    /// The client is disconnected.
    Disconnected,
    /// The source ended: the key was revoked, or the registry is gone.
    Closed,
}

/// Sends change notifications to one client.
pub(crate) struct Notifier<'a> {
    subscriber: &'a Subscriber,
    shared: &'a Shared,
    /// `None` for a client that can always be notified.
    stream: Option<watch::Receiver<StreamState>>,
    /// Number of the stream that was notified last.
    notified_stream: u64,
}

impl<'a> Notifier<'a> {
    pub(crate) const fn new(
        subscriber: &'a Subscriber,
        shared: &'a Shared,
        stream: Option<watch::Receiver<StreamState>>,
    ) -> Self {
        Self { subscriber, shared, stream, notified_stream: 0 }
    }

    /// Notifies of every change until the client or the registry is gone. `send` returns whether the client is still
    /// connected.
    pub(crate) async fn run<Sent>(
        mut self,
        send: impl Fn(ServerNotification) -> Sent,
    ) -> NotifierEnd
    where
        Sent: Future<Output = bool>,
    {
        while self.wait().await.is_some() && self.has_access().await {
            for notification in self.subscriber.take() {
                match tokio::time::timeout(STALL_TIMEOUT, send(notification)).await {
                    Ok(true) => {}
                    Ok(false) => return NotifierEnd::Disconnected,
                    Err(_) => return NotifierEnd::Stalled,
                }
            }
        }
        NotifierEnd::Closed
    }

    /// Waits until there are changes and an open stream; `None` at the end.
    async fn wait(&mut self) -> Option<()> {
        loop {
            let is_open = self.is_stream_open();
            tokio::select! {
                waiting = self.subscriber.wait(), if is_open => return waiting,
                event = stream_changed(self.stream.as_mut()) => event?,
            }
        }
    }

    /// Returns whether the client can be notified. A reopened stream gets everything: the last notifications of the
    /// stream before it may not have arrived.
    fn is_stream_open(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let StreamState { is_open, opened } = *stream.borrow_and_update();
        if opened > self.notified_stream {
            if self.notified_stream > 0 {
                self.subscriber.add_everything();
            }
            self.notified_stream = opened;
        }
        is_open
    }

    /// Returns whether the client's key is still active: it may have ended, and its connection not been closed yet.
    async fn has_access(&self) -> bool {
        let Caller::User(_) = &self.shared.caller else { return true };
        !matches!(self.shared.skills.catalog().await, Err(RegistryError::UnknownKey))
    }
}

async fn stream_changed(stream: Option<&mut watch::Receiver<StreamState>>) -> Option<()> {
    match stream {
        Some(stream) => stream.changed().await.ok(),
        None => std::future::pending().await,
    }
}
