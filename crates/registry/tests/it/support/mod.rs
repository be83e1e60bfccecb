//! A store that can be made to fail and whose writes the test may complete, and a bus with a fixed answer.

pub(crate) mod controlled_writes;

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
    Batch, Change, ConcurrentStore, DatabaseError, GroupOutcome, MemoryStore, StateEntry, Store,
    StoreError, StoredEntry,
};

use self::controlled_writes::ControlledWrites;

/// In-memory store with injectable failures.
#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    pub(crate) full: AtomicBool,
    pub(crate) unreadable: AtomicBool,
    pub(crate) without_blobs: AtomicBool,
    /// Blob that makes every read of it panic.
    pub(crate) panics_on_blob: Mutex<Option<Digest>>,
    /// Panics in the next commit before anything is stored.
    pub(crate) panics_before: AtomicBool,
    /// Panics in the next commit after everything is stored.
    pub(crate) panics_after: AtomicBool,
    /// Last change that the log has dropped.
    pub(crate) forgotten: AtomicU64,
    /// Set if the test completes the writes.
    controlled: Option<ControlledWrites>,
}

impl FaultyStore {
    fn readable(&self) -> Result<(), StoreError> {
        if self.unreadable.load(Ordering::SeqCst) {
            return Err(DatabaseError::Other("it cannot be read".to_owned()).into());
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        self.readable()?;
        self.inner.entries()
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(DatabaseError::DiskFull { path: "full".into() }.into());
        }
        assert!(!self.panics_before.swap(false, Ordering::SeqCst), "before the commit");
        let outcome = self.inner.commit(group, now);
        assert!(!self.panics_after.swap(false, Ordering::SeqCst), "after the commit");
        outcome
    }

    fn as_concurrent(self: Arc<Self>) -> Option<Arc<dyn ConcurrentStore>> {
        self.controlled.is_some().then_some(self)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.readable()?;
        let panics = self.panics_on_blob.lock().unwrap().as_ref() == Some(digest);
        assert!(!panics, "reading a blob");
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

/// Bus on which every call has the same outcome.
pub(crate) struct FakeBus {
    pub(crate) outcome: Result<Value, CallError>,
    pub(crate) calls: Mutex<Vec<(String, Value, Duration)>>,
}

impl FakeBus {
    pub(crate) fn with(outcome: Result<Value, CallError>) -> Arc<Self> {
        Arc::new(Self { outcome, calls: Mutex::default() })
    }
}

#[async_trait::async_trait]
impl Bus for FakeBus {
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

/// Opens a registry on a [`FaultyStore`], without a bus.
pub(crate) fn on_faulty_store() -> (Arc<FaultyStore>, Arc<Registry>) {
    let store = Arc::new(FaultyStore::default());
    let registry = Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
    (store, registry)
}

/// Opens a registry on a [`FakeBus`].
pub(crate) fn on_fake_bus(outcome: Result<Value, CallError>) -> (Arc<FakeBus>, Arc<Registry>) {
    let answering = FakeBus::with(outcome);
    let bus: Arc<dyn Bus> = answering.clone();
    let config =
        RegistryConfig { handler_timeout: Duration::from_millis(70), ..Default::default() };
    let store = Arc::new(MemoryStore::new());
    let registry = Registry::open(store, Some(Arc::downgrade(&bus)), config).unwrap();
    (answering, registry)
}
