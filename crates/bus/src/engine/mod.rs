//! This process as a worker of an iii engine, over the engine's SDK.
//!
//! - `config`: what can be set, and what is wrong with it
//! - `monitor`, `probe`: whether there is a connection, and if not, why
//! - `functions`, `triggers`, `observers`: what this process offers, as the SDK serves it
//! - `calls`: calls that want an answer; `lanes`, `driver`: those that do not
//! - `log`: what of the SDK's own log is worth reading
//!
//! The SDK connects, reconnects for ever and registers everything again each time, all on a thread
//! of its own. Nothing outside this module sees a type of it.

mod calls;
mod config;
mod driver;
mod functions;
mod lanes;
pub mod log;
mod monitor;
mod observers;
mod probe;
mod triggers;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use iii_helpers::observability::OtelConfig;
use iii_sdk::{
    IIIClient, InitOptions, Observe, Observer as Observing, RegisterFunction, RegisterTriggerType,
    WorkerIdentityMode,
    protocol::RegisterTriggerInput,
    register_worker,
    runtime::{FunctionRef, WorkerMetadata},
    trigger::Trigger,
};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    config::{EngineConfig, EngineError},
    monitor::Connection,
};
use self::{functions::Handler, lanes::Lanes, observers::Hooks, triggers::Provider};
use crate::{
    Activation, Bus, Call, CallError, Function, FunctionSpec, Json, ObserverSink, TriggerProvider,
    TriggerTypeSpec, running::Gauge,
};

/// How long running calls may take to finish when the bus is shut down.
const DRAIN: Duration = Duration::from_millis(1500);

/// How long what they answered may take to reach the engine.
const FLUSH: Duration = Duration::from_millis(500);

/// How long the SDK may take to stop.
const STOP: Duration = Duration::from_millis(400);

/// A connection to an engine, kept for ever. Clones are handles to the same one.
#[derive(Clone)]
pub struct EngineBus {
    inner: Arc<Inner>,
}

struct Inner {
    config: EngineConfig,
    namespace: Option<String>,
    client: IIIClient,
    /// Where functions of this process run.
    runtime: Handle,
    state: watch::Receiver<Connection>,
    functions: Mutex<HashMap<String, FunctionRef>>,
    bindings: Mutex<triggers::Bindings>,
    observers: Mutex<HashMap<String, Observing>>,
    lanes: Lanes,
    running: Gauge,
    /// The last connection that was announced.
    epoch: AtomicU64,
    /// Events given to the SDK since it was last waited for.
    emitted: AtomicUsize,
    /// No new calls are taken.
    closing: AtomicBool,
    /// All is over.
    closed: CancellationToken,
}

/// A subscription of this process to a trigger type of someone else.
#[must_use = "the subscription can only be ended through this"]
pub struct Subscription(Trigger);

impl Subscription {
    /// Ends it.
    pub fn end(self) {
        self.0.unregister();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

impl EngineBus {
    /// Begins to connect, and returns at once: whether there is a connection is told by
    /// [`connection`](Self::connection).
    ///
    /// # Errors
    /// When the settings cannot be right, or there is no Tokio runtime.
    pub fn connect(config: EngineConfig) -> Result<Self, EngineError> {
        config.check()?;
        let runtime = Handle::try_current().map_err(|_| EngineError::NoRuntime)?;
        let namespace = config.namespace();
        let metadata = WorkerMetadata {
            name: config.name.clone(),
            version: config.version.clone(),
            description: Some(config.description.clone()).filter(|text| !text.is_empty()),
            namespace: namespace.clone(),
            ..WorkerMetadata::default()
        };
        let telemetry = OtelConfig {
            enabled: Some(config.telemetry),
            service_name: Some(config.name.clone()),
            service_version: Some(config.version.clone()),
            shutdown_timeout_ms: Some(300),
            ..OtelConfig::default()
        };
        let options = InitOptions {
            metadata: Some(metadata),
            headers: Some(config.handshake_headers()),
            otel: Some(telemetry),
            namespace: namespace.clone(),
            identity: WorkerIdentityMode::Explicit,
        };
        let client = register_worker(&config.url, options);
        let (sender, state) = watch::channel(Connection::Connecting);
        let inner = Arc::new(Inner {
            config,
            namespace,
            client,
            runtime: runtime.clone(),
            state,
            functions: Mutex::default(),
            bindings: Mutex::default(),
            observers: Mutex::default(),
            lanes: Lanes::default(),
            running: Gauge::default(),
            epoch: AtomicU64::new(0),
            emitted: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            closed: CancellationToken::new(),
        });
        runtime.spawn(monitor::run(inner.clone(), sender));
        Ok(Self { inner })
    }

    /// The connection as it comes and goes.
    #[must_use]
    pub fn connection(&self) -> watch::Receiver<Connection> {
        self.inner.state.clone()
    }

    /// Subscribes a function of this process to a trigger type of someone else. It may be done
    /// without a connection, and is done again on each.
    ///
    /// # Errors
    /// [`CallError::PayloadTooLarge`].
    pub fn subscribe(
        &self,
        trigger_type: &str,
        function_id: &str,
        config: &Json,
    ) -> Result<Subscription, CallError> {
        let config: Value = config
            .parse()
            .map_err(|error| CallError::remote("serialization_error", error.to_string()))?;
        let input = RegisterTriggerInput::new(trigger_type, function_id, config);
        // The SDK serves triggers and wishes that it did not.
        #[allow(deprecated)]
        let trigger = self.inner.client.register_trigger(input);
        trigger
            .map(Subscription)
            .map_err(|error| calls::failure(function_id, Duration::ZERO, error))
    }

    /// Takes no new calls, lets those that run answer, and ends the connection; within 2.5 s.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        if inner.closing.swap(true, Ordering::SeqCst) {
            return inner.closed.cancelled().await;
        }
        let drained = timeout(DRAIN, inner.running.idle()).await;
        if drained.is_err() {
            tracing::warn!("some calls did not finish in time and stay unanswered");
        }
        let _ = timeout(FLUSH, inner.flushed()).await;
        inner.closed.cancel();
        let (done, stopped) = oneshot::channel();
        let client = inner.client.clone();
        // Not a blocking task of the runtime: a runtime that ends waits for those.
        let thread = std::thread::Builder::new().name("iii-shutdown".to_owned());
        let spawned = thread.spawn(move || {
            client.shutdown();
            let _ = done.send(());
        });
        if spawned.is_ok() {
            let _ = timeout(STOP, stopped).await;
        }
        // What was registered holds this bus.
        for (_, function) in lock(&inner.functions).drain() {
            function.unregister();
        }
    }
}

impl Inner {
    /// The connection on which a frame has just come: the present one, or one that has not been
    /// noticed yet.
    fn epoch_now(&self) -> u64 {
        let last = self.epoch.load(Ordering::SeqCst);
        if self.state.borrow().epoch().is_some() { last } else { last + 1 }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until there is a connection.
    async fn connected(&self, function_id: &str) -> Result<(), CallError> {
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| {
            matches!(state, Connection::Connected { .. } | Connection::Rejected { .. })
        });
        let up = tokio::select! {
            () = self.closed.cancelled() => false,
            state = decided => state.is_ok_and(|state| state.epoch().is_some()),
        };
        if up { Ok(()) } else { Err(CallError::Disconnected(function_id.to_owned())) }
    }

    /// Waits until the SDK has sent what it was given. What it sends is in order, so an answer
    /// says that all before it was sent. Twice, because the SDK may have been about to take an
    /// answer of a function that is done.
    async fn flushed(&self) {
        for _ in 0..2 {
            let any = Json::from(&serde_json::json!({"function_id": ""}));
            // That it fails is of no interest.
            let _ = self.call(None, "engine::functions::info", &any, FLUSH).await;
        }
    }

    fn register(self: &Arc<Self>, spec: FunctionSpec, registration: RegisterFunction) {
        let FunctionSpec { id, description, request_format, response_format, metadata } = spec;
        if id.trim().is_empty() {
            tracing::error!("a function without an id was not registered");
            return;
        }
        let mut registration = registration.description(description);
        if let Some(schema) = request_format {
            registration = registration.request_format(schema);
        }
        if let Some(schema) = response_format {
            registration = registration.response_format(schema);
        }
        if let Some(metadata) = metadata {
            registration = registration.metadata(metadata);
        }
        let mut functions = lock(&self.functions);
        // The SDK does not take the same id twice.
        if let Some(former) = functions.remove(&id) {
            former.unregister();
        }
        let registered = self.client.register_function(id.clone(), registration);
        functions.insert(id, registered);
    }
}

#[async_trait]
impl Bus for EngineBus {
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>) {
        let handler = Handler { function, inner: self.inner.clone() };
        self.inner.register(spec, RegisterFunction::new_async(handler));
    }

    fn register_trigger_type(&self, spec: TriggerTypeSpec, provider: Arc<dyn TriggerProvider>) {
        let handler = Provider { provider, inner: self.inner.clone() };
        // Schemas of trigger types can only be given as types there; this crate has them as values.
        let offer = RegisterTriggerType::new(spec.id, spec.description, handler);
        #[allow(deprecated)]
        self.inner.client.register_trigger_type_without_warning(offer);
    }

    fn register_observable(&self, spec: FunctionSpec, observers: Arc<dyn ObserverSink>) {
        let id = spec.id.clone();
        let refuse = move |_: Call| {
            let message =
                format!("{id} cannot be called: it announces what happened, observe it instead");
            async move { Err(CallError::remote("not_callable", message)) }
        };
        let handler = Handler { function: Arc::new(refuse), inner: self.inner.clone() };
        let hooks = Hooks { sink: observers, inner: self.inner.clone() };
        let registration =
            RegisterFunction::new_async(handler).observe(Observe::owner().handler(hooks));
        self.inner.register(spec, registration);
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
            Some(activation) => self.inner.activate(function_id, &data, &activation).await,
            None => self.inner.notify(function_id, data).await,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
