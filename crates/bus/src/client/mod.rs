//! Client of a hub or an iii engine.
//!
//! | type | for |
//! |---|---|
//! | [`BusClient`] | one connection for calls, without registrations: the command line |
//! | [`WorkerClient`] | a worker: functions, trigger types, subscriptions, observers; reconnects forever |
//!
//! Both share the connection:
//!
//! - [`endpoint`]: address and headers of a server, validated
//! - `socket`: TCP with `TCP_NODELAY` and quick acknowledgements, TLS, the WebSocket handshake, the greeting
//! - `connection`: reads, writes and keeps alive one WebSocket
//! - `pending`: calls that wait for their answer
//!
//! A worker adds `options`, `registrations` (what is sent again after a reconnect), `dispatch` (frames of the server),
//! `observed` (observers of its functions), `reconnect` (backoff), and `shared` (its state).
//!
//! Payloads are JSON text and never parsed into trees. Nothing but registrations is sent again after a reconnect.

mod call_client;
mod connection;
mod dispatch;
pub mod endpoint;
mod observed;
mod options;
mod pending;
mod reconnect;
mod registrations;
mod shared;
mod socket;
mod worker;

pub use self::{
    call_client::{BusClient, ClientError},
    connection::Keepalive,
    endpoint::{Endpoint, EndpointError},
    options::{WorkerIdentity, WorkerOptions},
    pending::PendingCall,
    reconnect::{Backoff, ConnectionState},
    registrations::SubscriptionId,
    socket::{ByteStream, DialError, Dialer, QuickAckStream},
    worker::{ObserverEvent, TriggerRequest, WorkerCall, WorkerClient, WorkerEvents},
};
