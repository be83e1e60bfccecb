//! The contract that workers see matches the published API reference exactly.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use skills_bus::{
    Activation, Bus, CallError, Function, FunctionCall, FunctionSpec, Json, ObserverSink,
    TriggerProvider, TriggerTypeSpec,
};
use skills_core::{KeyDirectory, caller::EmptyKeyDirectory};
use skills_execution::{NoExecutor, ToolExecutor};
use skills_registry::{CollectRequest, Registry, RegistryConfig};
use skills_store::MemoryStore;
use skills_testkit::published_schema;

/// Bus that records registrations.
#[derive(Default)]
pub(crate) struct RecordingBus {
    functions: Mutex<BTreeMap<String, FunctionSpec>>,
    served: Mutex<BTreeMap<String, Arc<dyn Function>>>,
    triggers: Mutex<BTreeMap<String, TriggerTypeSpec>>,
    observables: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Bus for RecordingBus {
    fn register_function(&self, spec: FunctionSpec, function: Arc<dyn Function>) {
        self.served.lock().unwrap().insert(spec.id.clone(), function);
        assert!(self.functions.lock().unwrap().insert(spec.id.clone(), spec).is_none());
    }

    fn register_trigger_type(&self, spec: TriggerTypeSpec, _: Arc<dyn TriggerProvider>) {
        self.triggers.lock().unwrap().insert(spec.id.clone(), spec);
    }

    fn register_observable(&self, spec: FunctionSpec, _: Arc<dyn ObserverSink>) {
        self.observables.lock().unwrap().push(spec.id);
    }

    async fn call(&self, function_id: &str, _: Json, _: Duration) -> Result<Json, CallError> {
        Err(CallError::NotFound(function_id.to_owned()))
    }

    async fn notify(
        &self,
        function_id: &str,
        _: Json,
        _: Option<Activation>,
    ) -> Result<(), CallError> {
        Err(CallError::NotFound(function_id.to_owned()))
    }
}

impl RecordingBus {
    pub(crate) fn function(&self, id: &str) -> Arc<dyn Function> {
        Arc::clone(&self.served.lock().unwrap()[id])
    }
}

/// Registers the functions of a registry.
pub(crate) fn serve(registry: &Arc<Registry>) -> Arc<RecordingBus> {
    let offers = Arc::new(RecordingBus::default());
    let bus: Arc<dyn Bus> = offers.clone();
    let keys: Arc<dyn KeyDirectory> = Arc::new(EmptyKeyDirectory);
    let tools: Arc<dyn ToolExecutor> = Arc::new(NoExecutor);
    skills_worker::serve(&bus, registry, &tools, &keys, CollectRequest::default());
    offers
}

fn offers() -> Arc<RecordingBus> {
    let store = Arc::new(MemoryStore::new());
    serve(&Registry::open(store, None, RegistryConfig::default()).unwrap())
}

#[test]
fn functions_have_the_published_descriptions_and_schemas() {
    let reference: Value = serde_json::from_str(include_str!("../api-reference.json")).unwrap();
    let offers = offers();
    let functions = offers.functions.lock().unwrap();
    let published = reference["functions"].as_array().unwrap();
    assert_eq!(published.len(), 11);
    for function in published {
        let name = function["name"].as_str().unwrap();
        let offered = &functions[name];
        assert_eq!(offered.description, function["description"], "{name}");
        let request = published_schema(offered.request_format.clone().unwrap());
        assert_eq!(request, function["request_schema"], "{name}");
        assert_eq!(offered.response_format.as_ref(), Some(&function["response_schema"]), "{name}");
        assert_eq!(offered.metadata.as_ref(), Some(&function["metadata"]), "{name}");
    }
}

/// `capabilities` lists exactly the functions beyond the published ones.
#[tokio::test]
async fn capabilities_list_the_functions_beyond_the_published_contract() {
    let reference: Value = serde_json::from_str(include_str!("../api-reference.json")).unwrap();
    let is_published = |id: &String| {
        reference["functions"].as_array().unwrap().iter().any(|known| known["name"] == id.as_str())
    };
    let offers = offers();
    let mut additional: Vec<String> =
        offers.functions.lock().unwrap().keys().filter(|id| !is_published(id)).cloned().collect();
    additional.sort_unstable();
    let ask = offers.function("skills::capabilities");
    let call = FunctionCall::local(Json::null());
    let answer = ask.call(call).await.unwrap();
    let answer: Value = answer.parse().unwrap();
    assert_eq!(answer["name"], "skills");
    assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(answer["functions"], serde_json::json!(additional));
    assert!(additional.iter().any(|id| id == "skills::capabilities"));
}

#[test]
fn trigger_types_are_published_and_observable() {
    let reference: Value = serde_json::from_str(include_str!("../api-reference.json")).unwrap();
    let offers = offers();
    let triggers = offers.triggers.lock().unwrap();
    for trigger in reference["triggers"].as_array().unwrap() {
        let name = trigger["name"].as_str().unwrap();
        assert_eq!(triggers[name].description, trigger["description"], "{name}");
    }
    assert_eq!(triggers.len(), 2);
    assert_eq!(*offers.observables.lock().unwrap(), ["skills::on-change", "prompts::on-change"]);
}
