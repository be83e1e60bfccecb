//! State of one connection: identity, queue and quotas. It knows neither its socket nor its registrations.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use skills_core::{Code, LogLimiter};
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::{
    HubConfig,
    identity::{DEFAULT_MAX_MESSAGE, Identity},
    now_ms,
};
use crate::{CallError, ErrorBody, protocol::outbound, wire::queue::Queue};

/// A connected worker.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: String,
    pub(crate) reattach_token: String,
    pub(crate) address: Option<SocketAddr>,
    /// Set for a process of the user of this process, on the Unix socket.
    pub(crate) is_owner: bool,
    pub(crate) connected_at_ms: u64,
    pub(crate) queue: Queue,
    /// Unfinished calls that the peer has made.
    pub(crate) open_calls: AtomicUsize,
    /// Signals that a function of this process has finished one of them.
    call_finished: Notify,
    /// Unanswered calls that the peer serves.
    pub(crate) serving: AtomicUsize,
    identity: Mutex<Option<Arc<Identity>>>,
    identified: Notify,
    identify_by: Instant,
    quota: Mutex<Quota>,
    is_gone: AtomicBool,
    /// Held while the end of the connection is handled.
    pub(crate) removal: Mutex<()>,
    replies: Mutex<ReplyRoute>,
    /// Limits the log lines that the peer writes.
    pub(crate) log_lines: LogLimiter,
}

/// Log lines that one worker may write per second.
const MAX_LOG_LINES: u32 = 200;

/// Bytes of replies that are buffered for a worker without a connection.
const MAX_BUFFERED_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// Destination of the replies to a peer's calls.
#[derive(Debug, Default)]
enum ReplyRoute {
    /// The queue of this connection.
    #[default]
    Queue,
    /// A buffer, until the worker reattaches.
    Buffer { frames: Vec<String>, bytes: usize },
    /// The next connection of the worker.
    Forward(Arc<Peer>),
}

#[derive(Debug)]
struct Quota {
    entries: usize,
    bytes: usize,
}

impl Peer {
    pub(crate) fn new(config: &HubConfig, address: Option<SocketAddr>, is_owner: bool) -> Self {
        Self {
            id: Uuid::new_v4().to_string(),
            reattach_token: Uuid::new_v4().to_string(),
            address,
            is_owner,
            connected_at_ms: now_ms(),
            queue: Queue::new(config.queue_limits()),
            open_calls: AtomicUsize::new(0),
            call_finished: Notify::new(),
            serving: AtomicUsize::new(0),
            identity: Mutex::default(),
            identified: Notify::new(),
            identify_by: Instant::now() + config.identify_timeout,
            quota: Mutex::new(Quota {
                entries: config.max_registrations,
                bytes: config.max_registration_bytes,
            }),
            is_gone: AtomicBool::new(false),
            removal: Mutex::default(),
            replies: Mutex::default(),
            log_lines: LogLimiter::new(MAX_LOG_LINES, Duration::from_secs(1)),
        }
    }

    /// Buffers further replies: the connection is gone, and the worker may reattach.
    pub(crate) fn buffer_replies(&self) {
        *self.replies.lock() = ReplyRoute::Buffer { frames: Vec::new(), bytes: 0 };
    }

    /// Forwards all replies to the next connection of the worker.
    pub(crate) fn forward_replies(&self, next: &Arc<Self>) {
        let forward = ReplyRoute::Forward(next.clone());
        let previous = std::mem::replace(&mut *self.replies.lock(), forward);
        if let ReplyRoute::Buffer { frames, .. } = previous {
            for text in frames {
                next.queue.push_control(text);
            }
        }
    }

    /// Drops the buffered replies. Returns `false` if the worker has reattached meanwhile.
    pub(crate) fn stop_buffering(&self) -> bool {
        let mut route = self.replies.lock();
        let is_buffering = matches!(*route, ReplyRoute::Buffer { .. });
        if is_buffering {
            *route = ReplyRoute::Queue;
        }
        is_buffering
    }

    /// Returns the identity, if the peer has identified itself.
    pub(crate) fn identity(&self) -> Option<Arc<Identity>> {
        self.identity.lock().clone()
    }

    pub(crate) fn identify(&self, identity: Identity) {
        *self.identity.lock() = Some(Arc::new(identity));
        self.identified.notify_waiters();
    }

    /// Waits until the peer has identified itself or its time for that is up.
    pub(crate) async fn wait_identity(&self) -> Option<Arc<Identity>> {
        loop {
            let identified = self.identified.notified();
            tokio::pin!(identified);
            identified.as_mut().enable();
            if let Some(identity) = self.identity() {
                return Some(identity);
            }
            if tokio::time::timeout_at(self.identify_by, identified).await.is_err() {
                return self.identity();
            }
        }
    }

    /// Returns whether the peer may still identify itself.
    pub(crate) fn is_identity_pending(&self) -> bool {
        self.identity().is_none() && Instant::now() < self.identify_by
    }

    /// Returns the largest message that the peer accepts.
    pub(crate) async fn max_message(&self) -> usize {
        self.wait_identity().await.map_or(DEFAULT_MAX_MESSAGE, |identity| identity.max_message())
    }

    /// Marks the peer as gone. Tables check the mark under their own lock before they add anything, so that nothing of
    /// the peer stays behind. Returns whether this was the first time.
    pub(crate) fn mark_gone(&self) -> bool {
        !self.is_gone.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Reserves quota for one registration of `bytes`.
    ///
    /// # Errors
    /// When the quota is used up.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), CallError> {
        let mut quota = self.quota.lock();
        let entries = quota.entries.checked_sub(1);
        let (Some(entries), Some(bytes)) = (entries, quota.bytes.checked_sub(bytes)) else {
            return Err(CallError::remote(
                Code::TooManyRegistrations,
                "this connection has reached its limit of registrations; \
                 unregister something or use a second connection",
            ));
        };
        *quota = Quota { entries, bytes };
        Ok(())
    }

    /// Releases the quota of one registration.
    pub(crate) fn release(&self, bytes: usize) {
        let mut quota = self.quota.lock();
        quota.entries += 1;
        quota.bytes += bytes;
    }

    /// Counts a call of this peer that a function of this process has finished.
    pub(crate) fn finish_call(&self) {
        self.open_calls.fetch_sub(1, Ordering::SeqCst);
        self.call_finished.notify_waiters();
    }

    /// Waits until no more than `limit` calls are unfinished. Calls with an answer are rejected earlier; void calls cannot
    /// be, so the hub stops reading from a peer that makes too many.
    pub(crate) async fn wait_for_call_slot(&self, limit: usize) {
        while self.open_calls.load(Ordering::SeqCst) > limit {
            let finished = self.call_finished.notified();
            tokio::pin!(finished);
            finished.as_mut().enable();
            if self.open_calls.load(Ordering::SeqCst) > limit {
                finished.await;
            }
        }
    }

    /// Sends an error about a frame that has no answer.
    pub(crate) fn send_error(&self, error: &CallError) {
        self.queue.push_control(outbound::error(&error.body()));
    }

    /// Replies to a call of this peer.
    pub(crate) fn reply(
        &self,
        invocation_id_json: &str,
        function_id_json: &str,
        outcome: Result<&str, &ErrorBody>,
    ) {
        let text = match outcome {
            Ok(json) => {
                outbound::result(invocation_id_json, function_id_json, json, &Default::default())
            }
            Err(error) => outbound::failure(invocation_id_json, function_id_json, error),
        };
        self.send_reply(invocation_id_json, function_id_json, text);
    }

    /// Sends a reply that is a frame already.
    pub(crate) fn send_reply(
        &self,
        invocation_id_json: &str,
        function_id_json: &str,
        text: String,
    ) {
        let mut route = self.replies.lock();
        match &mut *route {
            ReplyRoute::Queue => {}
            ReplyRoute::Buffer { frames, bytes } => {
                if *bytes + text.len() <= MAX_BUFFERED_REPLY_BYTES {
                    *bytes += text.len();
                    frames.push(text);
                }
                return;
            }
            ReplyRoute::Forward(next) => {
                let next = next.clone();
                drop(route);
                return next.send_reply(invocation_id_json, function_id_json, text);
            }
        }
        drop(route);
        if !self.queue.push_reply(text) {
            let error = ErrorBody {
                code: Code::ChannelSendFailed.into(),
                message: "answer dropped: this connection does not read its answers".into(),
                ..ErrorBody::default()
            };
            self.queue.push_control(outbound::failure(
                invocation_id_json,
                function_id_json,
                &error,
            ));
        }
    }
}
