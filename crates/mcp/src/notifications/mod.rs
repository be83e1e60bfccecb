//! Change notifications.
//!
//! Every session and every listen stream has a task that follows the registry's changes. Changes within a few
//! milliseconds, or while the client is still reading, are debounced into one notification of each kind; so the memory
//! of a slow client is bounded, and no change is lost.
//!
//! - `source`: where the changes come from
//! - `pending`: changes to notify of, and the notifications that a client wants

mod pending;
mod source;

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use rmcp::model::ServerNotification;
use skills_registry::{NOTIFY_DEBOUNCE, SkillRegistry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::pending::PendingChanges;
pub(crate) use self::{
    pending::NotificationFilter,
    source::{ChangeSource, PendingListens},
};

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
pub(crate) struct Notifier {
    source: ChangeSource,
    filter: NotificationFilter,
    /// `None` for a client that can always be notified.
    stream: Option<watch::Receiver<StreamState>>,
    /// Number of the stream that was notified last.
    notified_stream: u64,
}

impl Notifier {
    pub(crate) fn new(
        source: ChangeSource,
        filter: NotificationFilter,
        stream: Option<watch::Receiver<StreamState>>,
    ) -> Self {
        Self { source, filter, stream, notified_stream: 0 }
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
        let mut pending = PendingChanges::default();
        while self.collect(&mut pending).await.is_some() {
            if pending.has_skills() && self.filter.has_tools() {
                refresh_catalog(Arc::clone(&self.source.skills)).await;
            }
            for notification in std::mem::take(&mut pending).notifications(&self.filter) {
                match tokio::time::timeout(STALL_TIMEOUT, send(notification)).await {
                    Ok(true) => {}
                    Ok(false) => return NotifierEnd::Disconnected,
                    Err(_) => return NotifierEnd::Stalled,
                }
            }
        }
        NotifierEnd::Closed
    }

    /// Waits until there are changes and an open stream, and debounces the changes; `None` at the end.
    async fn collect(&mut self, pending: &mut PendingChanges) -> Option<()> {
        while !self.is_stream_open(pending) || pending.is_empty() {
            tokio::select! {
                changed = self.source.changes.next() => pending.add(changed?),
                event = stream_changed(self.stream.as_mut()) => event?,
            }
        }
        NOTIFY_DEBOUNCE.collect(&mut self.source.changes, |changed| pending.add(changed)).await
    }

    /// Returns whether the client can be notified. A reopened stream gets everything: the last notifications of the
    /// stream before it may not have arrived.
    fn is_stream_open(&mut self, pending: &mut PendingChanges) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let StreamState { is_open, opened } = *stream.borrow_and_update();
        if opened > self.notified_stream {
            if self.notified_stream > 0 {
                *pending = PendingChanges::everything();
            }
            self.notified_stream = opened;
        }
        is_open
    }
}

/// Makes a lazy registry read its catalog: whether a changed skill is a tool is a change of its own.
async fn refresh_catalog(skills: Arc<dyn SkillRegistry>) {
    if let Err(error) = skills.catalog().await {
        tracing::debug!(%error, "catalog unavailable; tool changes not detected");
    }
}

async fn stream_changed(stream: Option<&mut watch::Receiver<StreamState>>) -> Option<()> {
    match stream {
        Some(stream) => stream.changed().await.ok(),
        None => std::future::pending().await,
    }
}
