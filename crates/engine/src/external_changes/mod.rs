//! External changes: what other processes write to the scopes of the engine's state that hold the registry's content.
//!
//! - `listener`: subscribes to the `state` trigger and to the list of functions
//! - `event_buffer`: collects events until the registry is open
//! - `follower`: applies events to the registry, one task at a time on its writer thread
//! - `event_queue`: bounded queue of events and of records to recheck
//! - `comparison`: compares all records with the state, page by page
//!
//! Events may overtake each other, arrive late or not at all. The state itself decides; an event is at most a hint.

mod comparison;
mod event_buffer;
mod event_queue;
mod follower;
mod listener;

pub use self::{event_buffer::EventBuffer, event_queue::StateTriggerEvent, follower::Follower};
pub(crate) use self::{
    event_queue::{EventQueue, StateEvent},
    listener::listen_to_state,
};
