//! Parts of a WebSocket connection that the hub and the client share.
//!
//! - [`queue`]: bounded queue of outgoing frames
//! - [`fragments`]: large messages in continuation frames
//! - [`activity`]: time of the last message, for keepalive
//! - [`invocation_ids`]: ids of calls

pub(crate) mod activity;
pub(crate) mod fragments;
pub(crate) mod invocation_ids;
pub(crate) mod queue;

/// Largest message of the protocol.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

/// Size that every peer accepts in one frame. Larger messages are sent in fragments.
pub(crate) const MAX_SINGLE_FRAME: usize = 1 << 20;
