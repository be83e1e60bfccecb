//! What this registry offers beyond the contract that every registry of skills has.

use serde_json::json;
use skills_bus::{Bus, FunctionSpec, Json};

use crate::offer::offer_listing;

/// The function that tells.
pub(crate) const CAPABILITIES: &str = "skills::capabilities";

/// The functions beside the eleven of the contract. What is offered and not named here is not found by
/// those who ask first.
const ADDITIONAL: [&str; 1] = [CAPABILITIES];

pub(crate) fn register(bus: &dyn Bus) {
    let spec = FunctionSpec {
        id: CAPABILITIES.to_owned(),
        description:
            "Tell which registry this is and which functions it has beyond the published contract."
                .to_owned(),
        request_format: Some(json!({ "type": "object", "title": "EmptyInput" })),
        response_format: Some(json!({
            "type": "object",
            "title": "CapabilitiesOutput",
            "required": ["name", "version", "functions"],
            "properties": {
                "name": { "type": "string" },
                "version": { "type": "string" },
                "functions": { "type": "array", "items": { "type": "string" } },
            },
        })),
        metadata: None,
    };
    offer_listing(bus, spec, || {
        let mut functions = ADDITIONAL;
        functions.sort_unstable();
        Ok(Json::from(&json!({
            "name": "skills",
            "version": env!("CARGO_PKG_VERSION"),
            "functions": functions,
        })))
    });
}
