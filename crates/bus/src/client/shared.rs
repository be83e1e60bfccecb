//! State of a worker that its task and its handles share.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use skills_core::{Code, Timestamp};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectionState, ObserverEvent, WorkerCall, WorkerEvents, WorkerOptions,
    connection::QUEUE_LIMITS,
    observed::ObservedFunctions,
    options::identity_payload,
    pending::{PendingCall, PendingCalls},
    registrations::Registrations,
};
use crate::{
    CallError,
    protocol::{
        LARGE_MESSAGES, OBSERVE,
        server_frame::{Greeting, Rejection},
        worker_outbound::{self, CallFrame, ObservedEvent},
    },
    running::CallCounter,
    wire::{MAX_MESSAGE, queue::Queue},
};

/// Namespace of the functions of an engine itself.
const DEFAULT_NAMESPACE: &str = "default";

/// Prefixes of functions that are in the default namespace, whatever the namespace of the worker.
const ENGINE_PREFIXES: [&str; 2] = ["engine::", "configuration::"];

/// The current connection.
pub(super) struct Link {
    pub(super) epoch: u64,
    pub(super) queue: Queue,
    worker_id: String,
    /// Rejection of this worker, which ends the client.
    pub(super) rejection: Mutex<Option<Rejection>>,
    /// The server has sent a frame besides its greeting.
    is_used: AtomicBool,
}

impl Link {
    pub(super) fn mark_used(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

pub(super) struct Shared {
    pub(super) options: WorkerOptions,
    pub(super) events: Weak<dyn WorkerEvents>,
    pub(super) pending: Arc<PendingCalls>,
    pub(super) registrations: Mutex<Registrations>,
    pub(super) observed: Mutex<ObservedFunctions>,
    /// Signals that a function was confirmed, or its observers changed.
    pub(super) observed_changed: Notify,
    /// Changed only while `registrations` is locked, so that no registration is missed or sent twice.
    pub(super) link: Mutex<Option<Arc<Link>>>,
    pub(super) state: watch::Sender<ConnectionState>,
    pub(super) running: CallCounter,
    pub(super) closing: AtomicBool,
    pub(super) closed: CancellationToken,
}

impl Shared {
    pub(super) fn new(options: WorkerOptions, events: Weak<dyn WorkerEvents>) -> Self {
        Self {
            options,
            events,
            pending: Arc::default(),
            registrations: Mutex::default(),
            observed: Mutex::default(),
            observed_changed: Notify::new(),
            link: Mutex::default(),
            state: watch::Sender::new(ConnectionState::Connecting),
            running: CallCounter::default(),
            closing: AtomicBool::new(false),
            closed: CancellationToken::new(),
        }
    }

    /// Makes a connection the current one and queues what comes first on it: who this worker was and is, and its
    /// registrations.
    pub(super) fn connect(
        &self,
        epoch: u64,
        greeting: &Greeting,
        previous: Option<&Greeting>,
    ) -> Arc<Link> {
        let queue = Queue::new(QUEUE_LIMITS);
        if let Some(Greeting { worker_id, reattach_token, .. }) = previous {
            queue.push_control(worker_outbound::reattach(worker_id, reattach_token.as_deref()));
        }
        let identity = identity_payload(&self.options.identity, &[OBSERVE, LARGE_MESSAGES]);
        queue.push_control(worker_outbound::identify(&identity));
        let can_observe = greeting.features.iter().any(|feature| feature == OBSERVE);
        if !can_observe && let Some(events) = self.events.upgrade() {
            self.observed.lock().release_all(&*events);
        }
        let registrations = self.registrations.lock();
        registrations.replay(&queue);
        let link = Arc::new(Link {
            epoch,
            queue,
            worker_id: greeting.worker_id.clone(),
            rejection: Mutex::default(),
            is_used: AtomicBool::new(false),
        });
        *self.link.lock() = Some(Arc::clone(&link));
        link
    }

    pub(super) fn disconnect(&self) {
        let _registrations = self.registrations.lock();
        *self.link.lock() = None;
    }

    pub(super) fn set_state(&self, state: ConnectionState) {
        self.state.send_if_modified(|current| {
            let is_modified = *current != state;
            *current = state;
            is_modified
        });
        self.observed_changed.notify_waiters();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().clone()
    }

    /// Changes the registrations and sends the frame of the change.
    pub(super) fn register<T>(
        &self,
        change: impl FnOnce(&mut Registrations) -> (T, Option<String>),
    ) -> T {
        let mut registrations = self.registrations.lock();
        let (result, frame) = change(&mut registrations);
        if let (Some(frame), Some(link)) = (frame, self.link()) {
            link.queue.push_control(frame);
        }
        result
    }

    /// Adds a call and returns it with its frame and its connection.
    pub(super) fn prepare(
        &self,
        call: &WorkerCall<'_>,
    ) -> Result<(PendingCall, String, Arc<Link>), CallError> {
        let link = self.link().filter(|link| call.epoch.is_none_or(|epoch| epoch == link.epoch));
        let link = link.ok_or_else(|| CallError::Disconnected(call.function_id.to_owned()))?;
        let own = self.options.identity.namespace.as_deref();
        let is_engine = ENGINE_PREFIXES.iter().any(|prefix| call.function_id.starts_with(prefix));
        let implicit = if is_engine { own.map(|_| DEFAULT_NAMESPACE) } else { own };
        let pending = self.pending.add(call.function_id);
        let frame = CallFrame {
            function_id: call.function_id,
            data_json: call.data.as_str(),
            namespace: call.namespace.or(implicit),
            metadata_json: call.metadata,
        };
        let text = worker_outbound::call(pending.id, &frame);
        check_size(&text)?;
        Ok((pending, text, link))
    }

    /// Writes the frame of an event; `None` if the function is not confirmed on the current connection.
    pub(super) fn prepare_event(
        &self,
        event: &ObserverEvent<'_>,
    ) -> Result<Option<(String, Arc<Link>)>, CallError> {
        let ObserverEvent { function_id, observer_id, event_id, data } = *event;
        let observed = self.observed.lock();
        if !observed.is_member(function_id, observer_id) {
            return Err(CallError::remote(
                Code::ObserverNotActive,
                format!("the observer {observer_id} is not active"),
            ));
        }
        let Some(link) = self.link() else { return Ok(None) };
        let Some(namespace) = observed.confirmed(function_id, link.epoch) else { return Ok(None) };
        let text = worker_outbound::observed(&ObservedEvent {
            function_id,
            namespace,
            event_id,
            observer_id,
            input_json: data.as_str(),
            caller: (&link.worker_id, &self.options.identity.name),
            at_ms: Timestamp::now().as_millis(),
        });
        check_size(&text)?;
        Ok(Some((text, link)))
    }
}

/// Checks the size of an outgoing message.
pub(super) fn check_size(text: &str) -> Result<(), CallError> {
    let size = text.len();
    if size > MAX_MESSAGE {
        return Err(CallError::PayloadTooLarge(format!(
            "a message of {size} bytes is larger than the {MAX_MESSAGE} allowed"
        )));
    }
    Ok(())
}
