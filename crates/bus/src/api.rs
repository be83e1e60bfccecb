//! The `Bus` trait and the types of its methods.
//!
//! The embedded hub and the client of an iii engine implement it; callers do not know which of the two they have.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::{CallError, Json};

/// Payload field in which a bus names the calling worker. Handlers may trust it, so a client must not set it.
pub const CALLER_FIELD: &str = "_caller_worker_id";

/// Caller of a function of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionCaller {
    /// This process, through its own [`Bus`].
    Process,
    /// A worker.
    Worker {
        /// Id of its connection.
        id: String,
        /// Name that it gave itself, where the bus knows it.
        name: Option<String>,
    },
    /// A worker that the bus does not name, or a subscription. It has no rights of its own.
    Unnamed,
}

impl FunctionCaller {
    /// Returns the id of the calling connection.
    #[must_use]
    pub fn worker_id(&self) -> Option<&str> {
        match self {
            Self::Worker { id, .. } => Some(id),
            Self::Process | Self::Unnamed => None,
        }
    }

    /// Returns the name of the calling worker.
    #[must_use]
    pub fn worker_name(&self) -> Option<&str> {
        match self {
            Self::Worker { name, .. } => name.as_deref(),
            Self::Process | Self::Unnamed => None,
        }
    }
}

/// Call of a function of this process.
#[derive(Debug, Clone)]
pub struct FunctionCall {
    /// Payload; `null` if the caller sent none.
    pub data: Json,
    /// Caller, as the bus knows it.
    pub caller: FunctionCaller,
}

impl FunctionCall {
    /// Creates a call from this process.
    #[must_use]
    pub const fn local(data: Json) -> Self {
        Self { data, caller: FunctionCaller::Process }
    }
}

/// Function of this process that workers can call.
///
/// The hub polls the returned future once, in the order of the caller's frames, before it reads the caller's next
/// frame. Work that must keep the caller's order (such as queueing a write) belongs before the first `await`.
pub trait Function: Send + Sync + 'static {
    /// Starts one call.
    fn call(&self, call: FunctionCall) -> BoxFuture<'static, Result<Json, CallError>>;
}

impl<F, Fut> Function for F
where
    F: Fn(FunctionCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Json, CallError>> + Send + 'static,
{
    fn call(&self, call: FunctionCall) -> BoxFuture<'static, Result<Json, CallError>> {
        Box::pin(self(call))
    }
}

/// Description of a function for other workers.
#[derive(Debug, Clone, Default)]
pub struct FunctionSpec {
    /// Id of the function, such as `skills::register`.
    pub id: String,
    /// Description in one sentence.
    pub description: String,
    /// JSON Schema (draft-07) of the payload.
    pub request_format: Option<Value>,
    /// JSON Schema (draft-07) of the result.
    pub response_format: Option<Value>,
    /// Free-form metadata.
    pub metadata: Option<Value>,
}

/// Description of a trigger type for other workers.
#[derive(Debug, Clone, Default)]
pub struct TriggerTypeSpec {
    /// Id of the trigger type.
    pub id: String,
    /// Description in one sentence.
    pub description: String,
    /// JSON Schema of a subscriber's `config`.
    pub trigger_request_format: Option<Value>,
    /// JSON Schema of the payload that subscribers receive.
    pub call_request_format: Option<Value>,
}

/// Subscription to a trigger type.
#[derive(Debug, Clone)]
pub struct TriggerBinding {
    /// Unique id, chosen by the subscriber.
    pub id: String,
    /// Function to call when the trigger fires.
    pub function_id: String,
    /// Configuration of the subscription.
    pub config: Json,
    /// Id of the subscribing connection; `None` on a bus that does not report it.
    pub subscriber: Option<String>,
}

/// Provider of a trigger type in this process. It calls its subscribers itself.
///
/// The bus calls both methods in the order of the subscriber's frames; they must not block.
pub trait TriggerProvider: Send + Sync + 'static {
    /// Adds a subscription, or replaces the one of the same id.
    ///
    /// # Errors
    /// When the configuration is invalid; the subscriber gets the error.
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError>;
    /// Removes a subscription.
    fn unbind(&self, trigger_id: &str);
}

/// Payload that an observer receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeliveryMode {
    /// Envelope with input, output, status and times.
    #[default]
    Envelope,
    /// Input of the observed call.
    Input,
    /// Output of the observed call.
    Output,
}

/// Observer of an observable function.
#[derive(Debug, Clone)]
pub struct Observer {
    /// Unique id, chosen by the observer.
    pub id: String,
    /// Function to activate.
    pub target: String,
    /// Payload to send.
    pub deliver: DeliveryMode,
    /// Metadata that is sent with each activation.
    pub metadata: Option<Json>,
    /// Id of the observing connection; `None` on a bus that does not report it.
    pub subscriber: Option<String>,
}

/// Owner of an observable function in this process. It activates its observers itself.
///
/// The bus calls both methods in the order of the observer's frames; they must not block.
pub trait ObserverSink: Send + Sync + 'static {
    /// Adds an observer, or replaces the one of the same id.
    fn observe(&self, observer: Observer);
    /// Removes an observer.
    fn unobserve(&self, observer_id: &str);
}

/// Activation of an observer by a notification.
#[derive(Debug, Clone)]
pub struct Activation {
    /// Id of the observer.
    pub observer_id: String,
    /// Unique id of the activation.
    pub activation_id: String,
    /// Metadata of the observer.
    pub metadata: Option<Json>,
}

/// Bus on which functions are registered and called.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Registers a function of this process.
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>);

    /// Registers a trigger type of this process. Subscriptions that were waiting for it are bound at once.
    fn register_trigger_type(&self, spec: TriggerTypeSpec, provider: Arc<dyn TriggerProvider>);

    /// Registers a function that can only be observed. Calling it is an error: it stands for events of this process.
    fn register_observable(&self, spec: FunctionSpec, observers: Arc<dyn ObserverSink>);

    /// Calls a function and waits for its result.
    ///
    /// # Errors
    /// See [`CallError`]: one variant for each way in which a call can fail.
    async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError>;

    /// Calls a function in a namespace other than the worker's own. A bus without namespaces ignores it.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    async fn call_in(
        &self,
        namespace: &str,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let _ = namespace;
        self.call(function_id, data, timeout).await
    }

    /// Calls a function on behalf of a subscriber, such as a condition. It may be private to that subscriber.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    async fn call_for(
        &self,
        subscriber: Option<&str>,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let _ = subscriber;
        self.call(function_id, data, timeout).await
    }

    /// Returns whether a subscription of this subscriber may be delivered to a function: a private function receives only
    /// what its own worker subscribed it to. Providers check this before each [`notify`](Self::notify), because a
    /// function may become private, or another worker's, after the subscription. A bus that does not report subscribers
    /// makes that decision itself.
    fn may_deliver(&self, function_id: &str, subscriber: Option<&str>) -> bool {
        let _ = (function_id, subscriber);
        true
    }

    /// Returns a counter that changes with the set of functions. On a bus that does not report it, the channel is closed.
    fn functions_changed(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Sends a void call: waits for room in the callee's queue, never for an answer. `function_id` comes from a
    /// [`TriggerBinding`] or an [`Observer`]. Calls to one function arrive in order. On an engine it also waits for the
    /// connection.
    ///
    /// # Errors
    /// - [`CallError::NotFound`] when no worker has registered the function. An engine reports it late: it may be about
    ///   an earlier call, and calls since may be lost. The bus then also ends the subscriptions of the function, through
    ///   [`TriggerProvider::unbind`].
    /// - [`CallError::Stopped`] when the worker disconnected while there was no room.
    /// - [`CallError::Disconnected`] when this bus has been shut down.
    async fn notify(
        &self,
        function_id: &str,
        data: Json,
        activation: Option<Activation>,
    ) -> Result<(), CallError>;
}
