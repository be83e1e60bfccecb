//! One connection of a client over any transport: its send queue, its calls in progress, and the time of its last
//! message. It does not know the client that is registered on it.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use skills_core::{Caller, MemoryBudget, Timestamp};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    ClientResponse,
    clock::Clock,
    memory_shares::MemoryShares,
    queue::{EnqueueError, PendingMessage, Queue, SessionOutput},
    transport::{ConnectionMode, TransportAuth},
};
use crate::{
    ClientCallError, CloseReason, MdpLimits, config::MAX_UNAUTHENTICATED_MESSAGE_BYTES,
    wire::outgoing::Payload,
};

/// Time after a call in which a large message may still be its result.
const LATE_RESULT: Duration = Duration::from_secs(30);

/// Outcome of a call.
type Outcome = Result<ClientResponse, ClientCallError>;

/// Connection of a client.
#[derive(Debug)]
pub struct Session {
    /// Secret id: over HTTP, a request with it can send on this session.
    pub id: Uuid,
    /// Transport.
    pub mode: ConnectionMode,
    /// The transport is encrypted.
    pub is_secure: bool,
    queue: Queue,
    calls: Mutex<Calls>,
    /// Prefix of the ids of its calls. It is unique: a client that reconnects may still send results of calls of its
    /// last session.
    call_id_prefix: u64,
    max_calls: usize,
    /// Credentials of the handshake.
    pub(super) transport: TransportAuth,
    clock: Clock,
    /// Time since which no client is registered.
    unregistered_since: AtomicU64,
    last_seen: AtomicU64,
    last_ping: AtomicU64,
    /// Number of the latest poll.
    latest_poll: AtomicU64,
    /// Wakes a poll that a newer one supersedes.
    superseded: Notify,
    is_registered: AtomicBool,
    /// A client was registered at some time.
    has_registered: AtomicBool,
    /// Time of the last call.
    last_call: AtomicU64,
    /// User of the first request with a key.
    owner: OnceLock<Caller>,
    ended: CancellationToken,
}

#[derive(Debug)]
struct OpenCall {
    sender: oneshot::Sender<Outcome>,
    /// Budget of the response.
    memory: MemoryBudget,
}

#[derive(Debug, Default)]
struct Calls {
    open: HashMap<u64, OpenCall>,
    last_number: u64,
    has_ended: bool,
}

impl Session {
    pub(super) fn new(
        mode: ConnectionMode,
        is_secure: bool,
        transport: TransportAuth,
        limits: &MdpLimits,
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        Self {
            id: Uuid::new_v4(),
            mode,
            is_secure,
            queue: Queue::new(limits.queue_bytes),
            calls: Mutex::default(),
            call_id_prefix: Uuid::new_v4().as_u64_pair().0,
            max_calls: limits.calls_per_client,
            transport,
            clock,
            unregistered_since: AtomicU64::new(now),
            last_seen: AtomicU64::new(now),
            last_ping: AtomicU64::new(now),
            latest_poll: AtomicU64::new(0),
            superseded: Notify::new(),
            is_registered: AtomicBool::new(false),
            has_registered: AtomicBool::new(false),
            last_call: AtomicU64::new(0),
            owner: OnceLock::new(),
            ended: CancellationToken::new(),
        }
    }

    /// Returns whether a caller may use the session. It belongs to the first user that does; requests without a key may
    /// use it too, because they know its secret id.
    #[must_use]
    pub fn is_usable_by(&self, caller: &Caller) -> bool {
        match (caller, self.owner.get()) {
            (Caller::User(_), Some(owner)) => owner == caller,
            _ => true,
        }
    }

    /// Binds a session without an owner to a user; returns whether it did.
    pub(super) fn claim_owner(&self, caller: &Caller) -> bool {
        matches!(caller, Caller::User(_)) && self.owner.set(caller.clone()).is_ok()
    }

    /// Waits until the session has ended.
    pub(super) async fn wait_until_ended(&self) {
        self.ended.cancelled().await;
    }

    /// Returns whether the client has presented the token, in the handshake or in a registration.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.transport.is_authorized || self.has_registered.load(Ordering::Relaxed)
    }

    /// Returns the network address of the client; `None` without a connection, as in tests.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.transport.address
    }

    /// Returns the maximum size of the next message: small before authentication, large only while a result may come.
    #[must_use]
    pub fn max_message_bytes(&self, is_authorized: bool, limits: &MdpLimits) -> usize {
        if !is_authorized && !self.is_trusted() {
            return MAX_UNAUTHENTICATED_MESSAGE_BYTES.min(limits.message_bytes);
        }
        if self.may_receive_result() {
            limits.result_bytes.max(limits.message_bytes)
        } else {
            limits.message_bytes
        }
    }

    /// Returns whether a result may still come.
    fn may_receive_result(&self) -> bool {
        let last_call = self.last_call.load(Ordering::Relaxed);
        last_call != 0 && self.clock.since(last_call) < LATE_RESULT
            || !self.calls.lock().open.is_empty()
    }

    /// Records activity of the client.
    pub fn mark_seen(&self) {
        self.last_seen.store(self.clock.now(), Ordering::Relaxed);
    }

    /// Returns the time of the last activity.
    #[must_use]
    pub fn last_seen_at(&self) -> Timestamp {
        self.clock.timestamp(self.last_seen.load(Ordering::Relaxed))
    }

    /// Takes the next output, if there is one.
    pub fn pop(&self) -> Option<SessionOutput> {
        self.queue.pop()
    }

    /// Waits until [`pop`](Self::pop) may return an output.
    pub async fn ready(&self) {
        self.queue.ready().await;
    }

    /// Waits for the next output.
    pub async fn next(&self) -> SessionOutput {
        loop {
            if let Some(next) = self.pop() {
                return next;
            }
            self.ready().await;
        }
    }

    /// Waits for the next output of a polling client; `None` after the timeout, or when a newer poll supersedes this
    /// one.
    pub async fn poll(&self, max_wait: Duration) -> Option<SessionOutput> {
        let number = self.latest_poll.fetch_add(1, Ordering::SeqCst) + 1;
        self.superseded.notify_waiters();
        self.mark_seen();
        let next = timeout(max_wait, self.next_for_poll(number)).await.unwrap_or_default();
        self.mark_seen();
        next
    }

    async fn next_for_poll(&self, number: u64) -> Option<SessionOutput> {
        loop {
            let superseded = self.superseded.notified();
            tokio::pin!(superseded);
            superseded.as_mut().enable();
            if self.latest_poll.load(Ordering::SeqCst) != number {
                // This poll may have consumed the wake-up of the newer one.
                self.queue.wake();
                return None;
            }
            if let Some(next) = self.pop() {
                return Some(next);
            }
            tokio::select! {
                () = superseded => {}
                () = self.ready() => {}
            }
        }
    }

    pub(super) fn idle_time(&self) -> Duration {
        self.clock.since(self.last_seen.load(Ordering::Relaxed))
    }

    /// Returns whether no client has registered within the timeout.
    pub(super) fn is_registration_overdue(&self, register_within: Duration) -> bool {
        !self.is_registered()
            && self.clock.since(self.unregistered_since.load(Ordering::Relaxed)) >= register_within
    }

    /// Returns whether a client is registered.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Sets whether a client is registered, and restarts the timeout for a registration.
    pub(super) fn set_registered(&self, is_registered: bool) {
        if is_registered {
            self.has_registered.store(true, Ordering::Relaxed);
        }
        self.unregistered_since.store(self.clock.now(), Ordering::Relaxed);
        self.is_registered.store(is_registered, Ordering::Relaxed);
    }

    /// Returns whether a ping is due, and if so schedules the next one.
    pub(super) fn take_ping_due(&self, every: Duration) -> bool {
        let is_due = self.clock.since(self.last_ping.load(Ordering::Relaxed)) >= every;
        if is_due {
            self.last_ping.store(self.clock.now(), Ordering::Relaxed);
        }
        is_due
    }

    /// Queues a message of the host itself; returns whether there was room.
    pub(super) fn enqueue(&self, message: String, memory: &MemoryShares) -> bool {
        let Ok(reserved) = memory.reserve_for_host(PendingMessage::memory_size(&message, None))
        else {
            return false;
        };
        let message = PendingMessage { head: message, tail: None, reserved, call: None };
        self.queue.push(message) != Err(EnqueueError::Full)
    }

    /// Queues a call and returns its pending response. Both are reserved from `memory`.
    pub(super) fn send_call(
        self: &Arc<Self>,
        client: &str,
        memory: &MemoryBudget,
        payload: &Payload,
        head: impl FnOnce(Uuid) -> String,
    ) -> Result<PendingCall, ClientCallError> {
        let (sender, receiver) = oneshot::channel();
        let disconnected = || ClientCallError::Disconnected(client.to_owned());
        let busy = |what| ClientCallError::Busy { client: client.to_owned(), what };
        let number = {
            let mut calls = self.calls.lock();
            if calls.has_ended {
                return Err(disconnected());
            }
            if calls.open.len() >= self.max_calls {
                return Err(busy("calls in progress"));
            }
            calls.last_number += 1;
            let number = calls.last_number;
            calls.open.insert(number, OpenCall { sender, memory: memory.clone() });
            number
        };
        let pending = PendingCall { session: Arc::clone(self), number, receiver, is_open: true };
        let head = head(request_id(self.call_id_prefix, number));
        let (bytes, max) = (head.len() + payload.size(), self.queue.max_bytes());
        if bytes > max {
            return Err(ClientCallError::TooLarge { bytes, clients: 1, max });
        }
        let tail = payload.text();
        let reserved = memory.try_reserve(PendingMessage::memory_size(&head, Some(&tail)))?;
        let message = PendingMessage { head, tail: Some(tail), reserved, call: Some(number) };
        match self.queue.push(message) {
            Ok(()) => {
                self.last_call.store(self.clock.now().max(1), Ordering::Relaxed);
                Ok(pending)
            }
            Err(EnqueueError::Full) => Err(busy("messages wait to be read")),
            Err(EnqueueError::Ended) => Err(disconnected()),
        }
    }

    /// Completes a call with its result. A result of no open call of this session is dropped.
    pub(super) fn complete_call(
        &self,
        request_id: &str,
        outcome: Result<Option<&RawValue>, ClientCallError>,
    ) {
        let number =
            Uuid::try_parse(request_id).ok().and_then(|id| call_number(self.call_id_prefix, id));
        match number.and_then(|number| self.calls.lock().open.remove(&number)) {
            Some(OpenCall { sender, memory }) => {
                let outcome = outcome.and_then(|data| ClientResponse::from_client(data, &memory));
                drop(sender.send(outcome));
            }
            None => tracing::debug!(mode = self.mode.as_str(), "result of an unknown call dropped"),
        }
    }

    /// Fails all calls in progress.
    pub(super) fn fail_calls(&self, error: &ClientCallError) {
        let open = std::mem::take(&mut self.calls.lock().open);
        for (number, call) in open {
            self.queue.drop_call(number);
            let _ = call.sender.send(Err(error.clone()));
        }
    }

    /// Ends the session: fails its calls, and closes its queue with the reason.
    pub(super) fn end(&self, close: CloseReason, error: &ClientCallError) {
        self.calls.lock().has_ended = true;
        self.fail_calls(error);
        self.queue.close(close);
        self.ended.cancel();
    }

    #[cfg(test)]
    pub(super) fn open_calls(&self) -> usize {
        self.calls.lock().open.len()
    }
}

/// Call in progress. Dropping it cancels the call.
pub(super) struct PendingCall {
    session: Arc<Session>,
    number: u64,
    receiver: oneshot::Receiver<Outcome>,
    /// The session still has the call.
    is_open: bool,
}

impl PendingCall {
    /// Waits for the response.
    pub(super) async fn response(mut self, client: &str, max_wait: Duration) -> Outcome {
        let received = timeout(max_wait, &mut self.receiver).await;
        // The session removes a call before it sends to or drops its sender.
        self.is_open = received.is_err();
        match received {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ClientCallError::Disconnected(client.to_owned())),
            Err(_) => Err(ClientCallError::Timeout(client.to_owned())),
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.is_open {
            self.session.calls.lock().open.remove(&self.number);
            // A call that was not sent yet need not be sent any more.
            self.session.queue.drop_call(self.number);
        }
    }
}

/// Variant bit in the second half of a UUID.
const VARIANT_BIT: u64 = 1 << 63;

/// Returns the id of a call. Only its first half is random, so a call needs no random numbers.
fn request_id(prefix: u64, number: u64) -> Uuid {
    Uuid::from_u64_pair(prefix, VARIANT_BIT | number)
}

/// Returns the number of a call from its id, if the id has the prefix.
fn call_number(prefix: u64, id: Uuid) -> Option<u64> {
    let (start, number) = id.as_u64_pair();
    (start == prefix).then_some(number & !VARIANT_BIT)
}
