//! Fixture of tests of the state store: a bus with a state worker whose calls and answers can be held back.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};
use skills_bus::{
    Activation, Bus, CallError, Function, FunctionSpec, Json, ObserverSink, TriggerProvider,
    TriggerTypeSpec,
};
use skills_engine::{Follower, StateLocation, StateScopes, StateStore, StateTriggerEvent};
use skills_registry::{ChangeFeed, Registry, RegistryConfig};
use tokio::sync::Semaphore;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Bus with a state worker and nothing else.
#[derive(Default)]
pub(crate) struct StateBus {
    scopes: Mutex<Map<String, Value>>,
    pub(crate) calls: Mutex<Vec<String>>,
    /// Offers `state::list_entries` if true.
    pub(crate) pages: AtomicBool,
    /// Refuses to list a whole scope if true.
    pub(crate) too_large: AtomicBool,
    pub(crate) down: AtomicBool,
    /// Semaphores that block calls until the test adds permits, by function, and by function and key.
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Semaphores that hold back answers of executed calls.
    answer_gates: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl StateBus {
    /// Blocks calls of a function (`state::set`), or those with a key (`state::set a`).
    pub(crate) fn gate(&self, calls: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.gates.lock().unwrap().insert(calls.to_owned(), gate.clone());
        gate
    }

    /// Holds back the answers of calls that are executed.
    pub(crate) fn answer_gate(&self, calls: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.answer_gates.lock().unwrap().insert(calls.to_owned(), gate.clone());
        gate
    }

    pub(crate) fn called(&self, function_id: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|called| *called == function_id).count()
    }

    pub(crate) async fn until_called(&self, function_id: &str, times: usize) {
        let called = async {
            while self.called(function_id) < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, called).await.unwrap();
    }

    pub(crate) fn scope(&self, name: &str) -> Map<String, Value> {
        let scopes = self.scopes.lock().unwrap();
        scopes.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Writes as another worker and returns the event of the write.
    pub(crate) fn write(&self, scope: &str, key: &str, value: Value) -> StateTriggerEvent {
        let mut scopes = self.scopes.lock().unwrap();
        let values = scopes.entry(scope).or_insert_with(|| json!({})).as_object_mut().unwrap();
        let old = match &value {
            Value::Null => values.remove(key),
            value => values.insert(key.to_owned(), value.clone()),
        };
        serde_json::from_value(json!({
            "type": "state", "scope": scope, "key": key,
            "old_value": old.unwrap_or_default(), "new_value": value,
        }))
        .unwrap()
    }

    fn answer(&self, function_id: &str, data: &Value) -> Result<Value, CallError> {
        let (scope, key) =
            (data["scope"].as_str().unwrap_or_default(), data["key"].as_str().unwrap_or_default());
        let values = self.scope(scope);
        match function_id {
            "state::get" => Ok(values.get(key).cloned().unwrap_or_default()),
            "state::set" => {
                self.write(scope, key, data["value"].clone());
                Ok(json!({ "old_value": null, "new_value": data["value"] }))
            }
            "state::delete" => {
                self.write(scope, key, Value::Null);
                Ok(values.get(key).cloned().unwrap_or_default())
            }
            "state::list" if self.too_large.load(Ordering::SeqCst) => {
                Err(CallError::remote("payload_too_large", "too much"))
            }
            "state::list" => Ok(values.values().cloned().collect()),
            "state::list_entries" if self.pages.load(Ordering::SeqCst) => {
                let start: usize = data["cursor"].as_str().map_or(0, |at| at.parse().unwrap());
                let entries: Vec<_> = values.iter().skip(start).take(2).collect();
                let next = start + entries.len();
                let done = next >= values.len();
                let cursor = (!done).then(|| next.to_string());
                Ok(json!({ "entries": entries, "next_cursor": cursor, "done": done }))
            }
            other => Err(CallError::NotFound(other.to_owned())),
        }
    }
}

async fn wait_for(gates: &Mutex<HashMap<String, Arc<Semaphore>>>, function_id: &str, data: &Value) {
    let with_key = format!("{function_id} {}", data["key"].as_str().unwrap_or_default());
    let gates: Vec<_> = {
        let gates = gates.lock().unwrap();
        [function_id, &with_key].into_iter().filter_map(|calls| gates.get(calls).cloned()).collect()
    };
    for gate in gates {
        gate.acquire().await.unwrap().forget();
    }
}

#[async_trait::async_trait]
impl Bus for StateBus {
    fn register_function(&self, _: FunctionSpec, _: Arc<dyn Function>) {}

    fn register_trigger_type(&self, _: TriggerTypeSpec, _: Arc<dyn TriggerProvider>) {}

    fn register_observable(&self, _: FunctionSpec, _: Arc<dyn ObserverSink>) {}

    async fn call(&self, function_id: &str, data: Json, _: Duration) -> Result<Json, CallError> {
        self.calls.lock().unwrap().push(function_id.to_owned());
        let data: Value = data.parse().unwrap();
        wait_for(&self.gates, function_id, &data).await;
        let disconnected = || CallError::Disconnected(function_id.to_owned());
        if self.down.load(Ordering::SeqCst) {
            return Err(disconnected());
        }
        let answer = self.answer(function_id, &data);
        wait_for(&self.answer_gates, function_id, &data).await;
        if self.down.load(Ordering::SeqCst) {
            return Err(disconnected());
        }
        answer.map(|value| Json::from(&value))
    }

    async fn notify(&self, _: &str, _: Json, _: Option<Activation>) -> Result<(), CallError> {
        Ok(())
    }
}

pub(crate) struct Fixture {
    pub(crate) bus: Arc<StateBus>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) follower: Follower,
}

pub(crate) async fn attach(bus: Arc<StateBus>) -> Fixture {
    let (shared, runtime) = (bus.clone() as Arc<dyn Bus>, tokio::runtime::Handle::current());
    let scopes = StateScopes { skills: "skills".into(), prompts: "prompts".into() };
    let store = Arc::new(StateStore::new(shared, StateLocation::Own, scopes, TIMEOUT, runtime));
    let stand = store.clone();
    let open = move || Registry::open(stand, None, RegistryConfig::default());
    let registry = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    Fixture { bus, follower: Follower::new(registry.clone(), store), registry }
}

pub(crate) fn skill(id: &str, body: &str, registered_at: &str) -> Value {
    json!({ "id": id, "skill": body, "registered_at": registered_at })
}

impl Fixture {
    pub(crate) fn ids(&self) -> Vec<String> {
        self.registry.catalog().skills().iter().map(|row| row.id.to_string()).collect()
    }

    pub(crate) async fn body(&self, id: &str) -> String {
        let resource = self.registry.read(&format!("iii://{id}")).await.unwrap();
        resource.into_text()
    }
}

pub(crate) async fn next(feed: &mut ChangeFeed) -> (String, bool) {
    let change = tokio::time::timeout(TIMEOUT, feed.next()).await.unwrap().unwrap().unwrap();
    (change.key.id.to_string(), change.is_served())
}

pub(crate) async fn in_time<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, awaited).await.unwrap()
}
