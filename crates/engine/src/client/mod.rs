//! This process as a worker of an iii engine: [`Bus`] over a [`WorkerClient`].
//!
//! - `config`: settings and their validation
//! - `events`: subscriptions and observers that the engine reports
//!
//! `skills_bus::client` has the connection, `crate::delivery` the notifications.

mod config;
mod events;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use skills_bus::{
    Activation, Bus, CallError, Function, FunctionCall, FunctionSpec, Json, ObserverSink,
    TriggerProvider, TriggerTypeSpec,
    client::{SubscriptionId, WorkerCall, WorkerClient, WorkerEvents},
};
use skills_core::Code;
use tokio::{runtime::Handle, sync::watch};

pub use self::config::{EngineConfig, EngineError};
use crate::delivery::Lanes;
pub use skills_bus::client::ConnectionState;

/// Bus over an engine, which reconnects forever. Clones are handles to the same client.
#[derive(Clone)]
pub struct EngineBus {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// This value, for tasks that outlive a call.
    this: Weak<Self>,
    pub(crate) config: EngineConfig,
    namespace: Option<String>,
    pub(crate) client: WorkerClient,
    pub(crate) state: watch::Receiver<ConnectionState>,
    providers: Mutex<HashMap<String, Arc<dyn TriggerProvider>>>,
    bindings: Mutex<events::Bindings>,
    /// Sinks of observable functions, by function.
    sinks: Mutex<HashMap<String, Arc<dyn ObserverSink>>>,
    /// Observed functions, by observer.
    pub(crate) observers: Mutex<HashMap<String, String>>,
    pub(crate) lanes: Lanes,
}

/// Subscription of this process to a trigger type of another worker. It ends with the client, or by [`end`](Self::end).
#[must_use = "the subscription can only be ended through this handle"]
pub struct TriggerSubscription {
    inner: Weak<Inner>,
    id: SubscriptionId,
}

impl TriggerSubscription {
    /// Ends the subscription.
    pub fn end(self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.client.unsubscribe(&self.id);
        }
    }
}

impl fmt::Debug for TriggerSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TriggerSubscription")
    }
}

impl EngineBus {
    /// Starts connecting and returns at once; [`connection`](Self::connection) reports the progress.
    ///
    /// # Errors
    /// When the settings are invalid or there is no Tokio runtime.
    pub fn connect(config: EngineConfig) -> Result<Self, EngineError> {
        let options = config.worker_options()?;
        let _runtime = Handle::try_current().map_err(|_| EngineError::NoRuntime)?;
        let inner = Arc::new_cyclic(|this: &Weak<Inner>| {
            let namespace = options.identity.namespace.clone();
            let events: Weak<dyn WorkerEvents> = this.clone();
            let client = WorkerClient::start(options, events);
            let state = client.connection();
            Inner {
                this: this.clone(),
                config,
                namespace,
                client,
                state,
                providers: Mutex::default(),
                bindings: Mutex::default(),
                sinks: Mutex::default(),
                observers: Mutex::default(),
                lanes: Lanes::default(),
            }
        });
        Ok(Self { inner })
    }

    /// Returns the state of the connection, as it changes.
    #[must_use]
    pub fn connection(&self) -> watch::Receiver<ConnectionState> {
        self.inner.state.clone()
    }

    /// Subscribes a function of this process to a trigger type of another worker, on this and every later connection.
    ///
    /// # Errors
    /// [`CallError::PayloadTooLarge`].
    pub fn subscribe(
        &self,
        trigger_type: &str,
        function_id: &str,
        config: &Json,
    ) -> Result<TriggerSubscription, CallError> {
        let id = self.inner.client.subscribe(trigger_type, function_id, config)?;
        Ok(TriggerSubscription { inner: self.inner.this.clone(), id })
    }

    /// Shuts down: rejects new calls, lets running calls finish within [`EngineConfig::drain_timeout`], and closes the
    /// connection within another second.
    pub async fn shutdown(&self) {
        self.inner.client.shutdown().await;
        // Providers and sinks may hold handles to this bus.
        self.inner.providers.lock().clear();
        self.inner.sinks.lock().clear();
        self.inner.bindings.lock().clear();
    }
}

impl Inner {
    async fn call(
        &self,
        namespace: Option<&str>,
        function_id: &str,
        data: &Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let call = WorkerCall { function_id, data, namespace, metadata: None, epoch: None };
        self.client.call(&call, timeout).await
    }

    fn register(&self, spec: &FunctionSpec, function: Arc<dyn Function>, is_observable: bool) {
        if spec.id.trim().is_empty() {
            tracing::error!("function without an id not registered");
            return;
        }
        self.client.register_function(spec, function, is_observable);
    }
}

#[async_trait]
impl Bus for EngineBus {
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>) {
        self.inner.register(&spec, function, false);
    }

    fn register_trigger_type(&self, spec: TriggerTypeSpec, provider: Arc<dyn TriggerProvider>) {
        self.inner.providers.lock().insert(spec.id.clone(), provider);
        self.inner.client.register_trigger_type(&spec);
    }

    fn register_observable(&self, spec: FunctionSpec, observers: Arc<dyn ObserverSink>) {
        let id = spec.id.clone();
        let reject = move |_: FunctionCall| {
            let message = format!("{id} cannot be called, only observed");
            async move { Err(CallError::remote(Code::NotCallable, message)) }
        };
        self.inner.sinks.lock().insert(spec.id.clone(), observers);
        self.inner.register(&spec, Arc::new(reject), true);
    }

    async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        self.inner.call(None, function_id, &data, timeout).await
    }

    async fn call_in(
        &self,
        namespace: &str,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        self.inner.call(Some(namespace), function_id, &data, timeout).await
    }

    async fn notify(
        &self,
        function_id: &str,
        data: Json,
        activation: Option<Activation>,
    ) -> Result<(), CallError> {
        match activation {
            Some(activation) => self.inner.activate(&data, &activation).await,
            None => self.inner.deliver(function_id, data).await,
        }
    }
}

impl fmt::Debug for EngineBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBus")
            .field("config", &self.inner.config)
            .field("connection", &*self.inner.state.borrow())
            .finish_non_exhaustive()
    }
}
