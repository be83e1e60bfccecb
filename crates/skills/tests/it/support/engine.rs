//! [`TestEngine`]: the project's own hub with `state::*` and nothing else plays the engine, in the manner of several
//! versions.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use serde_json::{Value, json};
use skills_bus::{Bus, EngineMode, Hub, HubConfig};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{MemoryStore, Store};
use skills_testkit::{Peer, ReservedPort, Worker};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::state_worker_bus::StateWorkerBus;

/// Deviations from the default engine.
#[derive(Clone, Default)]
pub(crate) struct EngineOptions {
    /// Token that workers must send.
    pub(crate) token: Option<String>,
    /// Refuses a second worker of the same name if true.
    pub(crate) unique_names: bool,
    /// Runs without a state worker if true.
    pub(crate) stateless: bool,
    /// Greeting and socket options.
    pub(crate) mode: EngineMode,
    /// Leaves out `state::list_entries`, which older state workers lack, if true.
    pub(crate) without_pages: bool,
    /// Loses the answer of one write to the state in this many.
    pub(crate) lost_answers: Option<usize>,
}

impl EngineOptions {
    /// Engine 0.11 with its builtin state.
    pub(crate) fn v0_11() -> Self {
        Self { mode: EngineMode::V0_11, without_pages: true, ..Self::default() }
    }

    /// Engine 0.23 with its builtin state.
    pub(crate) fn v0_23() -> Self {
        Self { mode: EngineMode::V0_23, without_pages: true, unique_names: true, ..Self::default() }
    }

    /// Engine 0.23 with a separate state worker.
    pub(crate) fn v0_23_with_pages() -> Self {
        Self { without_pages: false, ..Self::v0_23() }
    }

    pub(crate) fn v0_25() -> Self {
        Self { mode: EngineMode::V0_25, unique_names: true, ..Self::default() }
    }

    pub(crate) fn v0_26() -> Self {
        Self { mode: EngineMode::V0_26, unique_names: true, ..Self::default() }
    }

    /// Returns all engines by name.
    pub(crate) fn all() -> [(&'static str, Self); 6] {
        [
            ("this hub", Self::default()),
            ("0.11", Self::v0_11()),
            ("0.23", Self::v0_23()),
            ("0.23 with list_entries", Self::v0_23_with_pages()),
            ("0.25", Self::v0_25()),
            ("0.26", Self::v0_26()),
        ]
    }
}

pub(crate) struct TestEngine {
    pub(crate) address: SocketAddr,
    port: ReservedPort,
    store: Arc<dyn Store>,
    options: EngineOptions,
    running: Option<Running>,
}

struct Running {
    /// Kept alive here, because the registry holds a weak reference.
    _bus: Arc<dyn Bus>,
    registry: Arc<Registry>,
    shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl TestEngine {
    /// Starts an engine without any state.
    pub(crate) async fn start() -> Self {
        Self::with_options(EngineOptions::default()).await
    }

    pub(crate) async fn with_options(options: EngineOptions) -> Self {
        Self::with_store(options, Arc::new(MemoryStore::new())).await
    }

    /// Starts an engine with its state in a given store.
    pub(crate) async fn with_store(options: EngineOptions, store: Arc<dyn Store>) -> Self {
        let mut engine = Self::reserve(options, store);
        engine.run().await;
        engine
    }

    /// Reserves an address without listening on it.
    pub(crate) fn reserve(options: EngineOptions, store: Arc<dyn Store>) -> Self {
        let port = ReservedPort::new();
        Self { address: port.address(), port, store, options, running: None }
    }

    /// Starts serving.
    pub(crate) async fn run(&mut self) {
        let store = Arc::clone(&self.store);
        self.serve(|bus| async move {
            let open = move || Registry::open(store, Some(bus), RegistryConfig::default());
            tokio::task::spawn_blocking(open).await.unwrap().unwrap()
        })
        .await;
    }

    async fn serve<Opened: Future<Output = Arc<Registry>>>(
        &mut self,
        open: impl FnOnce(Weak<dyn Bus>) -> Opened,
    ) {
        assert!(self.running.is_none());
        let hub = Hub::new(HubConfig {
            token: self.options.token.clone(),
            unique_names: self.options.unique_names,
            engine_mode: self.options.mode,
            drain_timeout: Duration::from_millis(50),
            ..HubConfig::default()
        });
        let bus: Arc<dyn Bus> = Arc::new(StateWorkerBus {
            hub: hub.clone(),
            has_pages: !self.options.without_pages,
            lost_answers: self.options.lost_answers,
        });
        let registry = open(Arc::downgrade(&bus)).await;
        if !self.options.stateless {
            skills_worker::state::serve(&bus, &registry);
        }
        let shutdown = CancellationToken::new();
        let (listener, stop) = (self.port.listen(), shutdown.clone());
        let serving = tokio::spawn(async move { hub.serve(listener, stop).await });
        self.running = Some(Running { _bus: bus, registry, shutdown, serving });
    }

    /// Starts another engine over the same state, like two that share a Redis.
    pub(crate) async fn sharing_state(&self) -> Self {
        let mut other = Self::reserve(self.options.clone(), Arc::clone(&self.store));
        let registry = Arc::clone(&self.running.as_ref().unwrap().registry);
        other.serve(|_| async { registry }).await;
        other
    }

    /// Sets whether the next run has a state worker.
    pub(crate) fn has_state(&mut self, has_state: bool) {
        self.options.stateless = !has_state;
    }

    /// Stops the engine and its connections.
    pub(crate) async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.shutdown.cancel();
        running.serving.await.unwrap().unwrap();
        let registry = running.registry;
        tokio::task::spawn_blocking(move || registry.close()).await.unwrap();
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.run().await;
    }

    /// Restarts the engine with empty state.
    pub(crate) async fn restart_empty(&mut self) {
        self.stop().await;
        self.store = Arc::new(MemoryStore::new());
        self.run().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Connects another worker.
    pub(crate) async fn worker(&self) -> Worker {
        let Some(token) = &self.options.token else { return Worker::connect(&self.url()).await };
        let header = format!("Bearer {token}");
        let peer = Peer::connect_with(&self.url(), &[("authorization", &header)]).await;
        Worker::from_peer(peer.unwrap())
    }
}

/// Writes to the state directly, not through the registry.
pub(crate) async fn set(worker: &Worker, scope: &str, key: &str, value: &Value) {
    worker.ok("state::set", json!({ "scope": scope, "key": key, "value": value })).await;
}

pub(crate) async fn delete(worker: &Worker, scope: &str, key: &str) {
    worker.ok("state::delete", json!({ "scope": scope, "key": key })).await;
}

/// Returns all entries of a scope, sorted by key.
pub(crate) async fn state(worker: &Worker, scope: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let input = json!({ "scope": scope, "cursor": cursor });
        let page = match worker.call("state::list_entries", input).await {
            Ok(page) => page,
            Err(failure) => {
                assert_eq!(failure.code, "function_not_found", "{failure:?}");
                return unpaged_state(worker, scope).await;
            }
        };
        for entry in page["entries"].as_array().unwrap() {
            found.push((entry[0].as_str().unwrap().to_owned(), entry[1].clone()));
        }
        if page["done"] == true {
            found.sort_by(|one, other| one.0.cmp(&other.0));
            return found;
        }
        cursor = page["next_cursor"].clone();
    }
}

/// Returns all entries of a scope of a state worker without pages, sorted by key.
async fn unpaged_state(worker: &Worker, scope: &str) -> Vec<(String, Value)> {
    let values = worker.ok("state::list", json!({ "scope": scope })).await;
    let values = values.as_array().unwrap().iter().cloned();
    let key =
        |value: &Value| value.get("id").or(value.get("name")).unwrap().as_str().unwrap().to_owned();
    let mut found: Vec<_> = values.map(|value| (key(&value), value)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// Builds a skill record in the shape of the replaced worker.
pub(crate) fn record(id: &str, body: &str) -> Value {
    json!({ "id": id, "skill": body, "registered_at": "2026-05-04T12:00:00.123456789+00:00" })
}
