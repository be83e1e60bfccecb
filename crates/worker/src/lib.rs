//! The iii contract: how skills and prompts look to workers on a bus.
//!
//! - [`contract`]: inputs, outputs and their JSON Schemas
//! - `functions`: the eleven functions
//! - `beyond`: more of our own
//! - `capabilities`: the one that tells of those
//! - `rendered`: listings as JSON text, made once for each state of the catalog
//! - `on_change`: the trigger types, and the observable functions of the same names
//! - [`paths`]: the `mdp::*` functions, where live clients are hosted
//! - [`state`]: the `state::*` functions, for a bus that has no state worker of its own
//! - `who`: whom the key of a call stands for
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
pub mod paths;
mod rendered;
pub mod state;
mod who;

use std::sync::Arc;

use skills_bus::Bus;
use skills_core::Identify;
use skills_registry::Registry;

use self::who::Who;

/// Offers the eleven functions, those beyond them, and the two trigger types on a bus. `keys` tells whom the keys
/// stand for that calls may carry.
pub fn serve(bus: &Arc<dyn Bus>, registry: &Arc<Registry>, keys: &Arc<dyn Identify>) {
    let who = Who::new(keys);
    functions::register(&**bus, registry, &who);
    beyond::register(&**bus, registry, &who);
    capabilities::register(&**bus, registry);
    on_change::register(bus, registry);
}
