//! Client of a worker: it serves functions, provides trigger types, subscribes, and calls.

use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use uuid::Uuid;

use super::{
    ConnectionState, SubscriptionId, WorkerOptions,
    pending::PendingCall,
    reconnect,
    shared::{Shared, check_size},
};
use crate::{
    CallError, Function, FunctionSpec, Json, TriggerTypeSpec,
    wire::queue::{CloseReason, PushError},
};

/// Time that the results of running calls, and the closing handshake, have at shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(900);

/// Subscription to a trigger type of this worker.
#[derive(Debug)]
pub struct TriggerRequest<'a> {
    /// Unique id, chosen by the subscriber.
    pub id: &'a str,
    /// Trigger type.
    pub trigger_type: &'a str,
    /// Function to call when the trigger fires.
    pub function_id: &'a str,
    /// Namespace of the function, if the server reports it.
    pub namespace: Option<&'a str>,
    /// Configuration of the subscription.
    pub config: Json,
    /// Connection on which it arrived.
    pub epoch: u64,
}

/// Receiver of what the server reports, in the order of its frames. No method may block.
pub trait WorkerEvents: Send + Sync + 'static {
    /// Adds a subscription. The server repeats it after a reconnect.
    ///
    /// # Errors
    /// When the configuration is invalid; the subscriber gets the error.
    fn trigger_added(&self, trigger: TriggerRequest<'_>) -> Result<(), CallError>;
    /// Removes a subscription.
    fn trigger_removed(&self, trigger_type: &str, id: &str);
    /// Adds an observer of an observable function, whose events go to the function `target`.
    fn observer_added(&self, function_id: &str, id: &str, target: &str);
    /// Removes an observer.
    fn observer_removed(&self, function_id: &str, id: &str);
}

/// Call of a function on the bus.
#[derive(Debug, Clone, Copy)]
pub struct WorkerCall<'a> {
    /// Function to call.
    pub function_id: &'a str,
    /// Payload.
    pub data: &'a Json,
    /// Namespace of the function; `None` for the worker's own.
    pub namespace: Option<&'a str>,
    /// JSON text that is sent beside the payload.
    pub metadata: Option<&'a str>,
    /// Connection on which to send it; `None` for the current one.
    pub epoch: Option<u64>,
}

/// Event of an observable function for one of its observers.
#[derive(Debug, Clone, Copy)]
pub struct ObserverEvent<'a> {
    /// The observed function.
    pub function_id: &'a str,
    /// The observer.
    pub observer_id: &'a str,
    /// Unique id, by which a receiver recognizes an event that was sent twice.
    pub event_id: Uuid,
    /// Payload.
    pub data: &'a Json,
}

/// Worker on a hub or an engine, which reconnects forever.
pub struct WorkerClient {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl WorkerClient {
    /// Starts connecting in the current Tokio runtime and returns at once; [`connection`](Self::connection) reports the
    /// progress.
    pub fn start(options: WorkerOptions, events: Weak<dyn WorkerEvents>) -> Self {
        let shared = Arc::new(Shared::new(options, events));
        let task = tokio::spawn(reconnect::run(Arc::clone(&shared)));
        Self { shared, task: Mutex::new(Some(task)) }
    }

    /// Returns the state of the connection, as it changes.
    #[must_use]
    pub fn connection(&self) -> watch::Receiver<ConnectionState> {
        self.shared.state.subscribe()
    }

    /// Returns the number of the current connection. It is ahead of [`connection`](Self::connection) by a moment.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.shared.link().map(|link| link.epoch)
    }

    /// Waits until the client has shut down.
    pub async fn wait_closed(&self) {
        self.shared.closed.cancelled().await;
    }

    /// Returns whether the client has shut down.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    /// Registers a function, or replaces the one of the same id. Observers of an observable one are reported to
    /// [`WorkerEvents`], and [`emit`](Self::emit) sends them events; observers of another are the server's.
    pub fn register_function(
        &self,
        spec: &FunctionSpec,
        function: Arc<dyn Function>,
        is_observable: bool,
    ) {
        self.shared.register(|registrations| {
            ((), Some(registrations.add_function(spec, function, is_observable)))
        });
    }

    /// Registers a trigger type. Its subscriptions are reported to [`WorkerEvents`].
    pub fn register_trigger_type(&self, spec: &TriggerTypeSpec) {
        self.shared.register(|registrations| ((), Some(registrations.add_trigger_type(spec))));
    }

    /// Subscribes a function of this worker to a trigger type of another one.
    ///
    /// # Errors
    /// [`CallError::PayloadTooLarge`].
    pub fn subscribe(
        &self,
        trigger_type: &str,
        function_id: &str,
        config: &Json,
    ) -> Result<SubscriptionId, CallError> {
        check_size(config.as_str())?;
        let namespace = self.shared.options.identity.namespace.as_deref();
        let config = config.as_str();
        Ok(self.shared.register(|registrations| {
            let (id, frame) =
                registrations.add_subscription(trigger_type, function_id, config, namespace);
            (id, Some(frame))
        }))
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, id: &SubscriptionId) {
        self.shared.register(|registrations| ((), registrations.remove_subscription(id)));
    }

    /// Calls a function and waits for its result. Without a connection it fails at once.
    ///
    /// # Errors
    /// See [`CallError`]. After [`CallError::Disconnected`] the call was not sent. A call whose connection breaks after it
    /// was sent waits until its timeout, because the server may answer on the next connection.
    pub async fn call(
        &self,
        call: &WorkerCall<'_>,
        timeout_after: Duration,
    ) -> Result<Json, CallError> {
        let (pending, text, link) = self.shared.prepare(call)?;
        let name = || call.function_id.to_owned();
        match timeout(timeout_after, link.queue.push_call(text)).await {
            Ok(Ok(())) => pending.answer(timeout_after).await,
            Ok(Err(())) => Err(CallError::Disconnected(name())),
            Err(_) => Err(CallError::Timeout { function_id: name(), after: timeout_after }),
        }
    }

    /// Queues a call, after all earlier ones, without waiting for its answer.
    ///
    /// # Errors
    /// See [`call`](Self::call); [`CallError::Congested`] if the queue is full.
    pub fn start_call(&self, call: &WorkerCall<'_>) -> Result<PendingCall, CallError> {
        let (pending, text, link) = self.shared.prepare(call)?;
        match link.queue.try_push_call(text) {
            Ok(()) => Ok(pending),
            Err(PushError::Full(_)) => Err(CallError::Congested(call.function_id.to_owned())),
            Err(PushError::Gone) => Err(CallError::Disconnected(call.function_id.to_owned())),
        }
    }

    /// Queues an event of an observable function for one of its observers, and returns the number of the connection. Waits
    /// for a connection on which the server has confirmed the function. The server sends no answer: after that to a later
    /// call on the same connection, it has the event.
    ///
    /// # Errors
    /// - [`CallError::Disconnected`] when the client has shut down or was rejected.
    /// - `OBSERVER_NOT_ACTIVE` when there is no such observer.
    pub async fn emit(&self, event: &ObserverEvent<'_>) -> Result<u64, CallError> {
        loop {
            let changed = self.shared.observed_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_rejected =
                matches!(*self.shared.state.borrow(), ConnectionState::Rejected { .. });
            if is_rejected || self.is_closed() {
                return Err(CallError::Disconnected(event.function_id.to_owned()));
            }
            if let Some((text, link)) = self.shared.prepare_event(event)? {
                let epoch = link.epoch;
                if link.queue.push_call(text).await.is_ok() {
                    return Ok(epoch);
                }
            }
            changed.await;
        }
    }

    /// Shuts down: rejects new calls, lets running calls finish within [`WorkerOptions::drain_timeout`], sends their
    /// results, and closes the connection within another second.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        if shared.closing.swap(true, Ordering::SeqCst) {
            return shared.closed.cancelled().await;
        }
        if timeout(shared.options.drain_timeout, shared.running.wait_until_zero()).await.is_err() {
            tracing::warn!("shutting down with unanswered calls");
        }
        shared.closed.cancel();
        if let Some(link) = shared.link() {
            link.queue.close(CloseReason { code: 1000, reason: "the worker has shut down" });
        }
        let task = self.task.lock().take();
        if let Some(mut task) = task
            && timeout(CLOSE_TIMEOUT, &mut task).await.is_err()
        {
            task.abort();
            shared.disconnect();
        }
        let reason = "the worker has shut down".to_owned();
        shared.set_state(ConnectionState::Lost { reason });
        shared.pending.fail_all(CallError::Disconnected);
        // Functions may hold handles to this client.
        shared.registrations.lock().clear();
    }
}

impl Drop for WorkerClient {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

impl fmt::Debug for WorkerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerClient")
            .field("endpoint", &self.shared.options.endpoint)
            .field("connection", &*self.shared.state.borrow())
            .finish_non_exhaustive()
    }
}
