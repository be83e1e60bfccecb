//! One connection as the rest of the hub sees it: who it is, what waits for it, what it may still
//! use. It does not know its socket, nor what it has registered where.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::{
    HubConfig,
    identify::{Identity, UNKNOWN_CAPACITY},
    queue::Queue,
};
use crate::{CallError, ErrorBody, protocol::outbound};

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: String,
    pub(crate) reattach_token: String,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) connected_at_ms: u64,
    pub(crate) queue: Queue,
    /// Calls it has made that are not done.
    pub(crate) open_calls: AtomicUsize,
    /// Told whenever this process is done with one of them.
    call_done: Notify,
    /// Calls it was asked to run that it has not answered.
    pub(crate) serving: AtomicUsize,
    identity: Mutex<Option<Arc<Identity>>>,
    identified: Notify,
    identify_by: Instant,
    quota: Mutex<Quota>,
    gone: AtomicBool,
    answers: Mutex<Answers>,
}

/// Answers that may be kept for a worker without a connection, in bytes.
const KEPT: usize = 16 * 1024 * 1024;

/// Where the answers to a peer's calls go.
#[derive(Debug, Default)]
enum Answers {
    /// Into its own queue.
    #[default]
    Here,
    /// They are kept until the worker is back.
    Kept { frames: Vec<String>, bytes: usize },
    /// To the worker's next connection.
    Moved(Arc<Peer>),
}

#[derive(Debug)]
struct Quota {
    entries: usize,
    bytes: usize,
}

impl Peer {
    pub(crate) fn new(config: &HubConfig, address: Option<SocketAddr>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: Uuid::new_v4().to_string(),
            reattach_token: Uuid::new_v4().to_string(),
            address,
            connected_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            queue: Queue::new(config),
            open_calls: AtomicUsize::new(0),
            call_done: Notify::new(),
            serving: AtomicUsize::new(0),
            identity: Mutex::default(),
            identified: Notify::new(),
            identify_by: Instant::now() + config.identify_wait,
            quota: Mutex::new(Quota {
                entries: config.max_registrations,
                bytes: config.max_registration_bytes,
            }),
            gone: AtomicBool::new(false),
            answers: Mutex::default(),
        }
    }

    /// The connection is gone, and the worker may come back for its answers.
    pub(crate) fn away(&self) {
        *lock(&self.answers) = Answers::Kept { frames: Vec::new(), bytes: 0 };
    }

    /// The worker has come back: here is its new connection.
    pub(crate) fn moved(&self, next: &Arc<Self>) {
        let kept = std::mem::replace(&mut *lock(&self.answers), Answers::Moved(next.clone()));
        if let Answers::Kept { frames, .. } = kept {
            for text in frames {
                next.queue.push(text);
            }
        }
    }

    /// The worker did not come back in time. `false` when it did.
    pub(crate) fn give_up(&self) -> bool {
        let mut answers = lock(&self.answers);
        let waited = matches!(*answers, Answers::Kept { .. });
        if waited {
            *answers = Answers::Here;
        }
        waited
    }

    /// What the peer has said it is, if it has.
    pub(crate) fn identity(&self) -> Option<Arc<Identity>> {
        lock(&self.identity).clone()
    }

    pub(crate) fn identify(&self, identity: Identity) {
        *lock(&self.identity) = Some(Arc::new(identity));
        self.identified.notify_waiters();
    }

    /// Waits until the peer has said what it is, or has had its time to.
    pub(crate) async fn identified(&self) -> Option<Arc<Identity>> {
        loop {
            let said = self.identified.notified();
            tokio::pin!(said);
            said.as_mut().enable();
            if let Some(identity) = self.identity() {
                return Some(identity);
            }
            if tokio::time::timeout_at(self.identify_by, said).await.is_err() {
                return self.identity();
            }
        }
    }

    /// Whether the peer may still be about to say what it is.
    pub(crate) fn may_identify(&self) -> bool {
        self.identity().is_none() && Instant::now() < self.identify_by
    }

    /// The largest message the peer can take.
    pub(crate) async fn capacity(&self) -> usize {
        self.identified().await.map_or(UNKNOWN_CAPACITY, |identity| identity.capacity())
    }

    /// Marks the end. Tables look at it under their own lock before they add anything, so that
    /// nothing of this peer stays behind. Returns whether this was the first time.
    pub(crate) fn retire(&self) -> bool {
        !self.gone.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Takes one registration of `bytes` off what the peer may still register.
    ///
    /// # Errors
    /// When it has used up its share.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), CallError> {
        let mut quota = lock(&self.quota);
        let entries = quota.entries.checked_sub(1);
        let (Some(entries), Some(bytes)) = (entries, quota.bytes.checked_sub(bytes)) else {
            return Err(CallError::remote(
                "too_many_registrations",
                "this connection has registered as much as one connection may; \
                 unregister something or use a second connection",
            ));
        };
        *quota = Quota { entries, bytes };
        Ok(())
    }

    /// Gives one registration back.
    pub(crate) fn release(&self, bytes: usize) {
        let mut quota = lock(&self.quota);
        quota.entries += 1;
        quota.bytes += bytes;
    }

    /// Notes that this process is done with a call of this peer.
    pub(crate) fn call_done(&self) {
        self.open_calls.fetch_sub(1, Ordering::SeqCst);
        self.call_done.notify_waiters();
    }

    /// Waits until no more than `limit` calls are under way. Calls that want an answer are refused
    /// before it comes to that; void ones cannot be, so whoever makes too many is not read from.
    pub(crate) async fn calm(&self, limit: usize) {
        while self.open_calls.load(Ordering::SeqCst) > limit {
            let done = self.call_done.notified();
            tokio::pin!(done);
            done.as_mut().enable();
            if self.open_calls.load(Ordering::SeqCst) > limit {
                done.await;
            }
        }
    }

    /// Tells the peer about something that has no answer of its own.
    pub(crate) fn complain(&self, error: &CallError) {
        self.queue.push(outbound::error(&error.body()));
    }

    /// Answers a call of this peer.
    pub(crate) fn answer(
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
        self.send_answer(invocation_id_json, function_id_json, text);
    }

    /// Sends an answer that is a frame already.
    pub(crate) fn send_answer(
        &self,
        invocation_id_json: &str,
        function_id_json: &str,
        text: String,
    ) {
        let mut answers = lock(&self.answers);
        match &mut *answers {
            Answers::Here => {}
            Answers::Kept { frames, bytes } => {
                if *bytes + text.len() <= KEPT {
                    *bytes += text.len();
                    frames.push(text);
                }
                return;
            }
            Answers::Moved(next) => {
                let next = next.clone();
                drop(answers);
                return next.send_answer(invocation_id_json, function_id_json, text);
            }
        }
        drop(answers);
        if self.queue.answer(text).is_err() {
            let error = ErrorBody {
                code: "channel_send_failed".into(),
                message:
                    "the answer was dropped: too many answers wait for this connection to read them"
                        .into(),
            };
            self.queue.push(outbound::failure(invocation_id_json, function_id_json, &error));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
