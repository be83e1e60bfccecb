//! Notification delivery: void calls to subscribers and activations of observers on an engine.
//!
//! - `lanes`: one queue of notifications per function
//! - `driver`: sends the notifications of a lane, in order and across reconnects
//! - `barrier`: confirms that the engine has what was sent
//! - `observers`: events of functions of this process that are only observed

mod barrier;
mod driver;
mod lanes;
mod observers;

pub(crate) use self::lanes::Lanes;
