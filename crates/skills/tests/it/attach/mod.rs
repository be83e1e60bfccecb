//! Attached mode: the real binary as a worker of an engine.
//!
//! The engine cannot be installed here, so the project's own hub with its `state::*` functions plays it, without the
//! contract. A proxy between the two injects network faults.
//!
//! - `contract`, `records`, `external_changes`, `instances`, `import`, `live`: content
//! - `gateway`: users with keys
//! - `lifecycle`, `shutdown`, `settings`, `refusals`, `handshake`: the process
//! - `faults`, `restarts`, `slow_state`, `large_scope`, `state_worker`, `oversized_listing`: faults

mod contract;
mod external_changes;
mod faults;
mod gateway;
mod handshake;
mod import;
mod instances;
mod large_scope;
mod lifecycle;
mod live;
mod oversized_listing;
mod records;
mod refusals;
mod restarts;
pub(crate) mod settings;
mod shutdown;
mod slow_state;
mod state_worker;
