//! What this registry offers beyond the published contract. Clients that work with any registry ask for it,
//! and use no more than the contract where nobody answers.

use skills_bus::{Bus, Json};

use crate::{
    beyond::{AVAILABLE, CATALOG, FILES},
    contract::{CapabilitiesOutput, EmptyInput},
    error::bad_output,
    functions::spec,
    offer::offer_listing,
};

const CAPABILITIES: &str = "skills::capabilities";

/// The functions beside the published eleven, sorted. A test compares them with what is offered.
const ADDITIONAL: [&str; 4] = [AVAILABLE, CAPABILITIES, CATALOG, FILES];

pub(crate) fn register(bus: &dyn Bus) {
    let spec = spec::<EmptyInput, CapabilitiesOutput>(
        CAPABILITIES,
        "Tell which registry this is, and which functions it has beyond the published ones.",
    );
    offer_listing(bus, spec, || {
        let output = CapabilitiesOutput {
            name: "skills".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            functions: ADDITIONAL.map(str::to_owned).to_vec(),
        };
        Json::from_serialize(&output).map_err(|error| bad_output(&error))
    });
}
