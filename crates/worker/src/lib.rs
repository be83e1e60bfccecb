//! The iii contract: how skills and prompts look to workers on a bus.
//!
//! - [`contract`]: inputs, outputs and their JSON Schemas
//! - `functions`: the eleven functions
//! - `beyond`: more of our own
//! - `capabilities`: the one that tells of those
//! - `rendered`: listings as JSON text, made once for each state of the catalog
//! - `on_change`: the trigger types, and the observable functions of the same names
//! - [`state`]: the `state::*` functions, for a bus that has no state worker of its own
//! - `error`: the one mapping from the registry's errors to the bus's
//!
//! Nothing here knows whether the bus is the embedded hub or an engine.

mod beyond;
mod capabilities;
pub mod contract;
mod error;
mod functions;
mod offer;
mod on_change;
mod rendered;
pub mod state;

use std::sync::Arc;

use skills_bus::Bus;
use skills_registry::Registry;

/// Offers the eleven functions, those beyond them, and the two trigger types on a bus.
pub fn serve(bus: &Arc<dyn Bus>, registry: &Arc<Registry>) {
    functions::register(&**bus, registry);
    beyond::register(&**bus, registry);
    capabilities::register(&**bus);
    on_change::register(bus, registry);
}
