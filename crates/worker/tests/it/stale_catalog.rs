//! Functions on the bus while the shared store cannot be reached.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use skills_bus::{CallError, FunctionCall, Json};
use skills_core::{Code, Coded as _, Digest, EntryKey, Layer, Timestamp};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{
    Batch, Change, GroupOutcome, LogFilter, LogRecord, MemoryStore, StateEntry, Store, StoreError,
    StoredEntry, Subscription, VersionPage, Wake,
};

use crate::contract::{RecordingBus, serve};

/// Store in memory that other servers share, and that can go away.
#[derive(Debug, Default)]
struct RemoteStore {
    memory: MemoryStore,
    is_down: AtomicBool,
}

impl RemoteStore {
    fn up(&self) -> Result<&MemoryStore, StoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            let (code, message) = (Code::StoreUnavailable.into(), "it is gone".to_owned());
            return Err(StoreError::Unavailable { code, message });
        }
        Ok(&self.memory)
    }
}

impl Store for RemoteStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        self.up()?.entries()
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.up()?.revision()
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        self.up()?.commit(group, now)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.up()?.blob(digest)
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.up()?.changes(after, limit)
    }

    fn follow(&self, _: Wake) -> Result<Option<Subscription>, StoreError> {
        Ok(Some(Box::new(())))
    }

    fn versions(
        &self,
        key: &EntryKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<VersionPage, StoreError> {
        self.up()?.versions(key, before, limit)
    }

    fn log(
        &self,
        filter: &LogFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        self.up()?.log(filter, before, limit)
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.up()?.state_get(scope, key)
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        self.up()?.state_page(scope, after, limit, max_bytes)
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        self.up()?.state_size(scope)
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        self.up()?.state_scopes()
    }
}

/// Functions that read the registry, with their inputs.
fn reads() -> Vec<(&'static str, Value)> {
    vec![
        ("skills::list", json!({})),
        ("skills::resources-list", json!({})),
        ("skills::resources-read", json!({ "uri": "iii://a" })),
        ("skills::resources-read", json!({ "uri": "iii://skills" })),
        ("prompts::list", json!({})),
        ("prompts::mcp-list", json!({})),
        ("skills::available", json!({})),
        ("skills::catalog", json!({})),
        ("skills::files", json!({ "id": "a" })),
        ("skills::resolve", json!({ "id": "a" })),
        ("skills::search", json!({ "query": "a" })),
        ("skills::history", json!({ "id": "a" })),
        ("skills::log", json!({})),
        ("collections::list", json!({})),
    ]
}

/// Functions that call something, or that read what is not there.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("skills::execute", json!({ "id": "a", "arguments": {} })),
        ("prompts::mcp-get", json!({ "name": "p" })),
        ("skills::diff", json!({ "id": "a", "from": "1", "to": "1" })),
        ("collections::get", json!({ "name": "c" })),
    ]
}

async fn call(bus: &RecordingBus, function_id: &str, input: &Value) -> Result<Json, CallError> {
    let function = bus.function(function_id);
    function.call(FunctionCall::local(Json::from(input))).await
}

#[tokio::test]
async fn every_read_is_refused_when_the_catalog_is_too_old() {
    let store = Arc::new(RemoteStore::default());
    let config = RegistryConfig { max_stale: Some(Duration::ZERO), ..RegistryConfig::default() };
    let registry = Registry::open(Arc::clone(&store) as _, None, config).unwrap();
    registry.register_skill("t", &Layer::Official, "a", "# A".into()).await.unwrap();
    let bus = serve(&registry);
    for (function_id, input) in reads() {
        let answered = call(&bus, function_id, &input).await;
        assert!(answered.is_ok(), "{function_id}: {answered:?}");
    }

    let mut health = registry.store_health();
    store.is_down.store(true, Ordering::SeqCst);
    let lost = health.wait_for(|health| health.age().is_some());
    tokio::time::timeout(Duration::from_secs(60), lost).await.unwrap().unwrap();
    for (function_id, input) in reads().into_iter().chain(calls()) {
        let error = call(&bus, function_id, &input).await.unwrap_err();
        assert_eq!(error.code_text(), "store_unavailable", "{function_id}: {error}");
    }
}
