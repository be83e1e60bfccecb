//! The `mdp::*` functions: operations on live clients and their paths, over a bus.
//!
//! The registry defines the operations; this module does not know the protocol of the clients.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skills_bus::{Bus, FunctionSpec};
use skills_core::KeyDirectory;
use skills_registry::{Registry, live::LiveOperation};

use crate::{authenticator::Authenticator, contract::HasKey, register::Registrar};

/// Arguments of an operation, and the key of its caller.
#[derive(Deserialize)]
struct Input {
    key: Option<String>,
    #[serde(flatten)]
    arguments: Map<String, Value>,
}

impl HasKey for Input {
    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

/// Registers the four functions on a bus, for a registry that hosts live clients.
pub fn serve(bus: &dyn Bus, registry: &Arc<Registry>, keys: &Arc<dyn KeyDirectory>) {
    let context = (Arc::clone(registry), Authenticator::new(keys, registry));
    let functions = Registrar { bus, context };
    for operation in LiveOperation::ALL {
        let definition = operation.definition();
        let mut input = definition.input;
        input["properties"]["key"] = json!({
            "type": "string",
            "description": "Key of the calling user, which begins with `us-`.",
        });
        let spec = FunctionSpec {
            id: operation.function_id().to_owned(),
            description: definition.description.to_owned(),
            request_format: Some(input),
            response_format: Some(definition.output),
            ..FunctionSpec::default()
        };
        functions.typed(spec, move |(registry, keys), _, input: Input| {
            let (registry, caller) = (Arc::clone(registry), keys.caller(&input));
            async move { registry.call_live_as(&caller?, operation, input.arguments).await }
        });
    }
}
