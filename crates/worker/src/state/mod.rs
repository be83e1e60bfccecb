//! `state::*`: the key-value functions of an iii engine, stored in the registry's own store.
//!
//! - `functions`: set, get, delete, list, list_entries, list_groups, update, compare_and_set
//! - `update`: the operations of `state::update`
//! - `trigger`: the trigger type `state`
//!
//! An acknowledged write is on disk. `compare_and_set`, which an engine does not have, lets two workers share a value
//! without losing an update.

mod functions;
mod trigger;
mod update;

use std::sync::Arc;

use skills_bus::Bus;
use skills_registry::Registry;

/// Registers the state functions and the `state` trigger type.
pub fn serve(bus: &Arc<dyn Bus>, registry: &Arc<Registry>) {
    functions::register(&**bus, &registry.state());
    trigger::register(bus, &registry.state());
}
