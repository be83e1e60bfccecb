//! The fabric on which functions are registered and called.
//!
//! - [`api`]: the [`Bus`] trait and the types that cross it
//! - [`hub`]: the embedded hub, a server of the iii worker protocol
//! - [`engine`]: a worker of an iii engine, over its SDK (cargo feature `engine`)
//! - [`client`]: a client that only calls, for the command line
//! - `protocol`: the frames of the iii worker protocol; only `hub` and `client` see them
//!
//! Nothing in this crate knows what a skill or a prompt is.

mod address;
pub mod api;
pub mod client;
#[cfg(feature = "engine")]
pub mod engine;
mod error;
pub mod hub;
mod json;
mod protocol;
mod running;

pub use api::{
    Activation, Bus, Call, Deliver, Function, FunctionSpec, Observer, ObserverSink, TriggerBinding,
    TriggerProvider, TriggerTypeSpec,
};
pub use client::{BusClient, ClientError};
#[cfg(feature = "engine")]
pub use engine::{Connection, EngineBus, EngineConfig, EngineError};
pub(crate) use error::OUT_OF_TURN;
pub use error::{CallError, ErrorBody};
pub use hub::{Hub, HubConfig};
pub use json::Json;
