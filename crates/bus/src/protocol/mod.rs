//! Frames of the iii worker protocol: one JSON object per WebSocket text message.
//!
//! - [`frame`], [`inbound`]: frames that a worker can send, and their parsing, for the hub
//! - [`outbound`]: writing of frames of a hub
//! - [`server_frame`]: frames that a hub or an engine can send, and their parsing, for a client
//! - [`worker_outbound`]: writing of frames of a worker
//! - [`payload`]: the caller's id within a payload
//! - `object`: writer of frames around payloads that are JSON text already
//!
//! No payload is parsed into a tree. It does not know connections, tables or routing rules.

pub(crate) mod frame;
pub(crate) mod inbound;
mod object;
pub(crate) mod outbound;
pub(crate) mod payload;
pub(crate) mod server_frame;
pub(crate) mod worker_outbound;

/// Features that a server declares in `workerregistered`. Newer SDKs disable some functions without `observe.v2`; older
/// ones look for `observe.v1` only.
pub(crate) const FEATURES: [&str; 2] = [OBSERVE, "observe.v2"];

/// Feature of a peer that knows observers.
pub(crate) const OBSERVE: &str = "observe.v1";

/// Feature of a peer that accepts messages of 64 MiB, whatever its version.
pub(crate) const LARGE_MESSAGES: &str = "large-messages.v1";

/// First bytes of the binary frames in which SDKs send telemetry.
pub(crate) const TELEMETRY: [&[u8]; 3] = [b"OTLP", b"MTRC", b"LOGS"];

/// Function by which every worker identifies itself.
pub(crate) const IDENTIFY: &str = "engine::workers::register";
