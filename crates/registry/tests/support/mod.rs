//! A store that can be made to fail, and a bus that answers as it is told.

#![allow(dead_code, reason = "not every test needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use skills_bus::{
    Activation, Bus, CallError, Function, FunctionSpec, Json, ObserverSink, TriggerProvider,
    TriggerTypeSpec,
};
use skills_core::{Digest, Timestamp};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{
    Batch, Change, Entry, GroupOutcome, MemoryStore, StateEntry, Store, StoreError,
};

/// A store in memory whose parts can be broken and mended.
#[derive(Debug, Default)]
pub(crate) struct Fragile {
    inner: MemoryStore,
    pub(crate) full: AtomicBool,
    pub(crate) unreadable: AtomicBool,
    pub(crate) without_blobs: AtomicBool,
    /// The last change that its log does not have any more.
    pub(crate) forgotten: AtomicU64,
}

impl Fragile {
    fn readable(&self) -> Result<(), StoreError> {
        match self.unreadable.load(Ordering::SeqCst) {
            true => Err(StoreError::Database("it cannot be read".to_owned())),
            false => Ok(()),
        }
    }
}

impl Store for Fragile {
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.readable()?;
        self.inner.entries()
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(StoreError::Full);
        }
        self.inner.commit(group, now)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.readable()?;
        if self.without_blobs.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.inner.blob(digest)
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.readable()?;
        let until = self.forgotten.load(Ordering::SeqCst);
        if after < until {
            return Err(StoreError::Forgotten { until });
        }
        self.inner.changes(after, limit)
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.inner.state_get(scope, key)
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        self.inner.state_page(scope, after, limit, max_bytes)
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        self.inner.state_size(scope)
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        self.inner.state_scopes()
    }
}

/// A bus on which every call has the same outcome.
pub(crate) struct Answering {
    pub(crate) outcome: Result<Value, CallError>,
    pub(crate) calls: Mutex<Vec<(String, Value, Duration)>>,
}

impl Answering {
    pub(crate) fn with(outcome: Result<Value, CallError>) -> Arc<Self> {
        Arc::new(Self { outcome, calls: Mutex::default() })
    }
}

#[async_trait::async_trait]
impl Bus for Answering {
    fn register_function(&self, _: FunctionSpec, _: Arc<dyn Function>) {}

    fn register_trigger_type(&self, _: TriggerTypeSpec, _: Arc<dyn TriggerProvider>) {}

    fn register_observable(&self, _: FunctionSpec, _: Arc<dyn ObserverSink>) {}

    async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let call = (function_id.to_owned(), data.parse().unwrap(), timeout);
        self.calls.lock().unwrap().push(call);
        self.outcome.clone().map(|value| Json::from(&value))
    }

    async fn notify(&self, _: &str, _: Json, _: Option<Activation>) -> Result<(), CallError> {
        Ok(())
    }
}

/// A registry on a fragile store, without a bus.
pub(crate) fn fragile() -> (Arc<Fragile>, Arc<Registry>) {
    let store = Arc::new(Fragile::default());
    let registry = Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
    (store, registry)
}

/// A registry on a bus that answers as told.
pub(crate) fn on_a_bus(outcome: Result<Value, CallError>) -> (Arc<Answering>, Arc<Registry>) {
    let answering = Answering::with(outcome);
    let bus: Arc<dyn Bus> = answering.clone();
    let config =
        RegistryConfig { handler_timeout: Duration::from_millis(70), ..Default::default() };
    let store = Arc::new(MemoryStore::new());
    let registry = Registry::open(store, Some(Arc::downgrade(&bus)), config).unwrap();
    (answering, registry)
}
