//! The engine, played by the project's own hub: `state::*` and nothing else, on a port of its own.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use serde_json::{Value, json};
use skills_bus::{Bus, Hub, HubConfig};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{MemoryStore, Store};
use skills_testkit::{Peer, Worker};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::attached::eventually;

/// Where the stand-in differs from the usual one.
#[derive(Clone, Default)]
pub(crate) struct Kind {
    /// What workers must present.
    pub(crate) token: Option<String>,
    /// Whether a second worker of the same name is refused.
    pub(crate) unique_names: bool,
    /// Whether there is no state worker.
    pub(crate) stateless: bool,
}

pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    store: Arc<dyn Store>,
    kind: Kind,
    running: Option<Running>,
}

struct Running {
    /// The registry knows it weakly.
    _bus: Arc<dyn Bus>,
    registry: Arc<Registry>,
    shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Engine {
    /// Starts an engine without any state.
    pub(crate) async fn start() -> Self {
        Self::of(Kind::default()).await
    }

    pub(crate) async fn of(kind: Kind) -> Self {
        Self::on(kind, Arc::new(MemoryStore::new())).await
    }

    /// Starts one whose state is in a given store.
    pub(crate) async fn on(kind: Kind, store: Arc<dyn Store>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut engine = Self { address, store, kind, running: None };
        engine.run_on(listener).await;
        engine
    }

    /// Has an address, but does not listen there yet.
    pub(crate) async fn planned(kind: Kind, store: Arc<dyn Store>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, store, kind, running: None }
    }

    /// Begins to serve.
    pub(crate) async fn run(&mut self) {
        // Someone else may have been given the port for a moment.
        let mut listener = None;
        eventually("the engine's port is free", async || {
            listener = TcpListener::bind(self.address).await.ok();
            listener.is_some()
        })
        .await;
        self.run_on(listener.unwrap()).await;
    }

    async fn run_on(&mut self, listener: TcpListener) {
        let store = Arc::clone(&self.store);
        self.serve(listener, |bus| async move {
            let open = move || Registry::open(store, Some(bus), RegistryConfig::default());
            tokio::task::spawn_blocking(open).await.unwrap().unwrap()
        })
        .await;
    }

    async fn serve<Opened: Future<Output = Arc<Registry>>>(
        &mut self,
        listener: TcpListener,
        open: impl FnOnce(Weak<dyn Bus>) -> Opened,
    ) {
        assert!(self.running.is_none());
        let hub = Hub::new(HubConfig {
            token: self.kind.token.clone(),
            unique_names: self.kind.unique_names,
            drain: Duration::from_millis(50),
            ..HubConfig::default()
        });
        let bus: Arc<dyn Bus> = Arc::new(hub.clone());
        let registry = open(Arc::downgrade(&bus)).await;
        if !self.kind.stateless {
            skills_worker::state::serve(&bus, &registry);
        }
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let serving = tokio::spawn(async move { hub.serve(listener, stop).await });
        self.running = Some(Running { _bus: bus, registry, shutdown, serving });
    }

    /// Another engine over the same state, as two that share a Redis are.
    pub(crate) async fn sharing_state(&self) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (store, kind) = (Arc::clone(&self.store), self.kind.clone());
        let mut other = Self { address, store, kind, running: None };
        let registry = Arc::clone(&self.running.as_ref().unwrap().registry);
        other.serve(listener, |_| async { registry }).await;
        other
    }

    /// Decides whether the next run has a state worker.
    pub(crate) fn has_state(&mut self, has_state: bool) {
        self.kind.stateless = !has_state;
    }

    /// Ends it; whoever was connected no longer is.
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

    /// Stops it and lets it begin anew with nothing in its state.
    pub(crate) async fn restart_empty(&mut self) {
        self.stop().await;
        self.store = Arc::new(MemoryStore::new());
        self.run().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Another worker on the engine.
    pub(crate) async fn worker(&self) -> Worker {
        let Some(token) = &self.kind.token else { return Worker::connect(&self.url()).await };
        let header = format!("Bearer {token}");
        let peer = Peer::connect_with(&self.url(), &[("authorization", &header)]).await;
        Worker::of(peer.unwrap())
    }
}

/// Writes to the state behind the registry's back.
pub(crate) async fn set(worker: &Worker, scope: &str, key: &str, value: &Value) {
    worker.ok("state::set", json!({ "scope": scope, "key": key, "value": value })).await;
}

pub(crate) async fn delete(worker: &Worker, scope: &str, key: &str) {
    worker.ok("state::delete", json!({ "scope": scope, "key": key })).await;
}

/// Everything in a scope, by key.
pub(crate) async fn state(worker: &Worker, scope: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let input = json!({ "scope": scope, "cursor": cursor });
        let page = worker.ok("state::list_entries", input).await;
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

/// A skill in the shape of the worker that this one replaces.
pub(crate) fn record(id: &str, body: &str) -> Value {
    json!({ "id": id, "skill": body, "registered_at": "2026-05-04T12:00:00.123456789+00:00" })
}
