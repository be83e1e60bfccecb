//! What this registry offers beyond the published contract. Clients that work with any registry ask for it,
//! and use no more than the contract where nobody answers.

use std::sync::Arc;

use skills_bus::{Bus, Json};
use skills_registry::{Registry, RegistryError, live::Question};

use crate::{
    beyond::{AVAILABLE, CATALOG, EXECUTE, FILES, RESOLVE},
    contract::{CapabilitiesOutput, EmptyInput},
    functions::spec,
    offer::offer_listing,
};

const CAPABILITIES: &str = "skills::capabilities";

/// The functions beside the published eleven, sorted. A test compares them with what is offered.
const ADDITIONAL: [&str; 6] = [AVAILABLE, CAPABILITIES, CATALOG, EXECUTE, FILES, RESOLVE];

/// What it has beyond the published functions, sorted.
fn functions(registry: &Registry) -> Vec<String> {
    let hosts = registry.hosts_clients();
    let questions = Question::TOOLS.into_iter().filter(|_| hosts);
    let questions = questions.filter_map(Question::function);
    let mut functions: Vec<String> =
        ADDITIONAL.into_iter().chain(questions).map(str::to_owned).collect();
    functions.sort_unstable();
    functions
}

pub(crate) fn register(bus: &dyn Bus, registry: &Arc<Registry>) {
    let spec = spec::<EmptyInput, CapabilitiesOutput>(
        CAPABILITIES,
        "Tell which registry this is, and which functions it has beyond the published ones.",
    );
    let registry = Arc::clone(registry);
    offer_listing(bus, spec, move |_: EmptyInput| {
        let output = CapabilitiesOutput {
            name: "skills".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            functions: functions(&registry),
            prefix: registry.catalog().prefix().to_string(),
            client_ms: registry
                .clients_answer_within()
                .map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
        };
        Json::from_serialize(&output).map_err(|_| RegistryError::Unexpected("what it can do"))
    });
}
