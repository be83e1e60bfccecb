//! The `Bus` trait: what a part of this program may ask of the fabric it runs on.
//!
//! It is the same for the embedded hub and for a client of an iii engine; nothing here knows
//! which of the two it is, nor anything about skills.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::{CallError, Json};

/// A call as a function of this process receives it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The payload; `null` when the caller sent none.
    pub data: Json,
    /// The connection that called, or `None` for a call from this process.
    pub caller: Option<String>,
}

/// A function of this process that workers can call.
///
/// The hub polls the returned future once, in the order in which the caller's frames came in,
/// before it reads the caller's next frame. Work that must keep the caller's order (such as
/// queueing a write) belongs before the first `await`.
pub trait Function: Send + Sync + 'static {
    /// Starts one call.
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Json, CallError>>;
}

impl<F, Fut> Function for F
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Json, CallError>> + Send + 'static,
{
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Json, CallError>> {
        Box::pin(self(call))
    }
}

/// How a function presents itself to other workers.
#[derive(Debug, Clone, Default)]
pub struct FunctionSpec {
    /// The id it is called by, such as `skills::register`.
    pub id: String,
    /// One sentence.
    pub description: String,
    /// JSON Schema (draft-07) of the payload.
    pub request_format: Option<Value>,
    /// JSON Schema (draft-07) of the result.
    pub response_format: Option<Value>,
    /// Free-form.
    pub metadata: Option<Value>,
}

/// How a trigger type presents itself.
#[derive(Debug, Clone, Default)]
pub struct TriggerTypeSpec {
    /// The id subscribers name.
    pub id: String,
    /// One sentence.
    pub description: String,
    /// JSON Schema of a subscriber's `config`.
    pub trigger_request_format: Option<Value>,
    /// JSON Schema of what is delivered.
    pub call_request_format: Option<Value>,
}

/// One subscription to a trigger type.
#[derive(Debug, Clone)]
pub struct TriggerBinding {
    /// Chosen by the subscriber; the key of the subscription.
    pub id: String,
    /// The function to call when the trigger fires.
    pub function_id: String,
    /// The subscriber's configuration.
    pub config: Json,
}

/// The owner of a trigger type in this process. It calls its subscribers itself.
///
/// Both methods are called in the order of the subscriber's frames and must not block.
pub trait TriggerProvider: Send + Sync + 'static {
    /// A subscription has come, or has come again with the same id.
    ///
    /// # Errors
    /// When the configuration is not acceptable; the subscriber is told.
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError>;
    /// The subscription has ended.
    fn unbind(&self, trigger_id: &str);
}

/// What an observer wants to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deliver {
    /// The whole activation: input, output, status and times.
    #[default]
    Envelope,
    /// The input of the observed call.
    Input,
    /// The output of the observed call.
    Output,
}

/// One observer of an observable function.
#[derive(Debug, Clone)]
pub struct Observer {
    /// Chosen by the observer; the key.
    pub id: String,
    /// The function to activate.
    pub target: String,
    /// What to send it.
    pub deliver: Deliver,
    /// Travels beside the payload of each activation.
    pub metadata: Option<Json>,
}

/// The owner of an observable function in this process. It activates its observers itself.
///
/// Both methods are called in the order of the observer's frames and must not block.
pub trait ObserverSink: Send + Sync + 'static {
    /// An observer has come, or has come again with the same id.
    fn observe(&self, observer: Observer);
    /// The observer has gone.
    fn unobserve(&self, observer_id: &str);
}

/// Marks a delivery as the activation of an observer.
#[derive(Debug, Clone)]
pub struct Activation {
    /// Whom it is for.
    pub observer_id: String,
    /// Unique for each delivery.
    pub activation_id: String,
    /// The observer's own metadata, which travels beside the payload.
    pub metadata: Option<Json>,
}

/// The fabric on which functions are registered and called.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Offers a function of this process to every worker.
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>);

    /// Offers a trigger type of this process. Subscriptions that were waiting are bound at once.
    fn register_trigger_type(&self, spec: TriggerTypeSpec, provider: Arc<dyn TriggerProvider>);

    /// Offers a function that is there to be observed. Calling it from outside is an error:
    /// what it announces happens here and nowhere else.
    fn register_observable(&self, spec: FunctionSpec, observers: Arc<dyn ObserverSink>);

    /// Calls a function and waits for its result.
    ///
    /// # Errors
    /// Each way in which a call can fail is its own variant of [`CallError`].
    async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError>;

    /// The same in a namespace other than the worker's own. A bus without namespaces has all
    /// functions in the one that was asked for.
    ///
    /// # Errors
    /// As [`call`](Self::call).
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

    /// Moves when functions come or go. On a bus that does not tell it is closed from the start.
    fn functions_changed(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Sends a void call: waits until there is room in the callee's queue, never for an answer.
    /// `function_id` is what a [`TriggerBinding`] or an [`Observer`] named. Calls to one function
    /// arrive in the order in which they were made. On an engine it also waits for the connection.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when nobody has registered the function; an engine tells only
    /// afterwards, so there it may be about an earlier call, and what was sent since may be lost
    /// with it. The engine's bus then also ends the subscriptions of the function, through
    /// [`TriggerProvider::unbind`].
    /// [`CallError::Stopped`] when its worker went while there was no room, and
    /// [`CallError::Disconnected`] when this bus has been shut down.
    async fn notify(
        &self,
        function_id: &str,
        data: Json,
        activation: Option<Activation>,
    ) -> Result<(), CallError>;
}
