//! `state::*`: the key-value functions of an iii engine, kept in the registry's own store.
//!
//! - `functions`: set, get, delete, list, list_entries, list_groups, update, compare_and_set
//! - `update`: the operations of `state::update`
//! - `trigger`: the trigger type `state`
//!
//! An acknowledged write is on disk, and `compare_and_set` (an addition of ours) lets two workers
//! share a value without losing an update.

mod functions;
mod trigger;
mod update;

use std::sync::Arc;

use skills_bus::Bus;
use skills_registry::Registry;

/// Offers the state functions and the `state` trigger type.
pub fn serve(bus: &Arc<dyn Bus>, registry: &Arc<Registry>) {
    functions::register(&**bus, &registry.state());
    trigger::register(bus, &registry.state());
}
