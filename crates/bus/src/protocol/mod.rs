//! The frames of the iii worker protocol: one JSON object per WebSocket text message.
//!
//! - [`frame`]: what a worker can send
//! - [`inbound`]: reading what a peer sent, without building a tree of any payload
//! - [`outbound`]: writing frames around payloads that are JSON text already
//!
//! Nothing here knows connections, tables or rules of routing.

pub(crate) mod frame;
pub(crate) mod inbound;
pub(crate) mod outbound;

/// What a server declares in `workerregistered`. Newer SDKs keep some functions to themselves
/// unless they see `observe.v2`; older ones look for `observe.v1` only.
pub(crate) const FEATURES: [&str; 2] = ["observe.v1", "observe.v2"];

/// Declared by a peer that takes messages of 64 MiB whatever its version says.
pub(crate) const LARGE_MESSAGES: &str = "large-messages.v1";

/// First bytes of the binary frames in which SDKs send telemetry.
pub(crate) const TELEMETRY: [&[u8]; 3] = [b"OTLP", b"MTRC", b"LOGS"];

/// Call by which every SDK says what it is.
pub(crate) const IDENTIFY: &str = "engine::workers::register";
