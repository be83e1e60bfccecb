//! Attached mode: this process as a worker of an external iii engine.
//!
//! - [`EngineBus`] (`client`): the [`Bus`](skills_bus::Bus) implementation of a worker
//! - `delivery`: notification delivery to subscribers and observers, in order and across reconnects
//! - [`StateStore`] (`state_store`): the [`Store`](skills_store::Store) implementation over the engine's state worker
//! - `external_changes`: follows what other processes write to the same state, with [`Follower`]
//! - [`trigger_listener`]: functions of this process that triggers of other workers call
//! - [`Attachment`] (`attachment`): lifecycle: find the state worker, open the registry, stay in sync after reconnects
//!
//! It does not know which surfaces run on the engine; the binary composes them.

mod attachment;
mod client;
mod delivery;
mod external_changes;
mod state_store;
pub mod trigger_listener;

pub use attachment::{AttachError, Attachment};
pub use client::{ConnectionState, EngineBus, EngineConfig, EngineError, TriggerSubscription};
pub use external_changes::{EventBuffer, Follower, StateTriggerEvent};
pub use state_store::{StateLocation, StateScopes, StateStore};
