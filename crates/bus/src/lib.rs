//! The bus: functions are registered on it and called through it.
//!
//! - [`api`]: the [`Bus`] trait and the types that cross it
//! - [`hub`]: the embedded hub, a server of the iii worker protocol
//! - [`client`]: client of a hub or an iii engine, for calls alone or as a worker
//! - `protocol`, `wire`: frames of the iii worker protocol, and parts of a connection; only `hub` and `client` use them
//! - [`proof`]: proof of a server's identity before it is sent a credential
//! - [`running`]: execution of functions of this process
//!
//! Nothing in this crate knows what a skill or a prompt is.

pub mod address;
pub mod api;
pub mod client;
mod error;
pub mod hub;
mod json;
pub mod proof;
mod protocol;
pub mod running;
mod wire;

pub use api::{
    Activation, Bus, CALLER_FIELD, DeliveryMode, Function, FunctionCall, FunctionCaller,
    FunctionSpec, Observer, ObserverSink, TriggerBinding, TriggerProvider, TriggerTypeSpec,
};
pub use client::{BusClient, ClientError};
pub use error::{CallError, ErrorBody, is_outcome_unknown};
pub use hub::{EngineMode, Hub, HubConfig};
pub use json::Json;
pub use proof::ServerSecret;
