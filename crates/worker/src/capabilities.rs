//! `skills::capabilities`: the extension functions of this registry. Clients that work with any registry call it, and
//! use the published contract alone where it does not exist.

use std::sync::Arc;

use skills_bus::Json;
use skills_registry::{Registry, RegistryError, StoreHealth, live::LiveOperation};

use crate::{
    Context,
    collections::COLLECTION_FUNCTIONS,
    contract::{CapabilitiesOutput, DegradedOutput, EmptyInput},
    extensions::{AVAILABLE, CATALOG, EXECUTE, FILES, RESOLVE, SEARCH},
    functions::spec,
    register::Registrar,
    register_many::REGISTER_MANY,
    versions::VERSION_FUNCTIONS,
};

const CAPABILITIES: &str = "skills::capabilities";

/// Extension functions besides those of versions and collections. A test compares them with the registered ones.
const EXTENSIONS: [&str; 8] =
    [AVAILABLE, CAPABILITIES, CATALOG, EXECUTE, FILES, REGISTER_MANY, RESOLVE, SEARCH];

/// Returns the extension functions and, if the registry hosts live clients, the `mdp::*` functions, sorted.
fn function_ids(registry: &Registry) -> Vec<String> {
    let has_live_host = registry.has_live_host();
    let mdp =
        LiveOperation::ALL.into_iter().filter(|_| has_live_host).map(LiveOperation::function_id);
    let extensions = EXTENSIONS.into_iter().chain(VERSION_FUNCTIONS).chain(COLLECTION_FUNCTIONS);
    let mut functions: Vec<String> = extensions.chain(mdp).map(str::to_owned).collect();
    functions.sort_unstable();
    functions
}

/// Returns the problem of the store, if it has one.
fn degraded(health: &StoreHealth) -> Option<DegradedOutput> {
    let catalog_age = health.age().map(|age| age.as_secs());
    health.problem().map(|reason| DegradedOutput { reason, catalog_age })
}

pub(crate) fn register(functions: &Registrar<'_, Arc<Context>>) {
    let spec = spec::<EmptyInput, CapabilitiesOutput>(
        CAPABILITIES,
        "Return the name and version of this registry, and its extension functions.",
    );
    functions.listing(spec, |context, _: EmptyInput| {
        let registry = &context.registry;
        let output = CapabilitiesOutput {
            name: "skills".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            functions: function_ids(registry),
            prefix: registry.catalog().prefix().to_string(),
            client_ms: registry
                .live_answer_timeout()
                .map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
            has_live_clients: registry.has_live_host().then(|| registry.has_live_clients()),
            degraded: degraded(&registry.store_health().borrow()),
        };
        Json::from_serialize(&output).map_err(|_| RegistryError::Unexpected("the capabilities"))
    });
}
