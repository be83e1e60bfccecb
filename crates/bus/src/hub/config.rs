//! Settings and limits of the hub.

use std::{fmt, time::Duration};

use skills_core::{SurfaceCounter, origin::WebHost};
use skills_net::FailedCredentials;

use super::EngineMode;
use crate::{proof::ServerSecret, wire::queue::QueueLimits};

const MIB: usize = 1024 * 1024;

/// Settings of a [`Hub`](super::Hub). The defaults are meant for production; tests shorten the timeouts.
#[derive(Clone)]
pub struct HubConfig {
    /// Name of this process in listings.
    pub name: String,
    /// Token that every connection must send, as `Authorization: Bearer` or `?token=`.
    pub token: Option<String>,
    /// Local ports that serve user content. Web pages of these origins may not connect: a document that runs as a page
    /// there would otherwise be a worker.
    pub content_ports: Vec<u16>,
    /// Hosts that requests may name besides IP addresses and this machine.
    pub allowed_hosts: Vec<WebHost>,
    /// Reason for which every connection is refused with status 503, for a server that waits for its store.
    pub unavailable: Option<&'static str>,
    /// Secret by which the hub proves its identity before clients send any credential.
    pub secret: Option<ServerSecret>,
    /// True if a second worker of the same name is rejected, as on an iii engine since 0.23. Older SDKs do not understand
    /// the rejection and are accepted.
    pub unique_names: bool,
    /// True if object payloads between workers get `_caller_worker_id`, as on an iii engine.
    pub inject_caller_id: bool,
    /// Counter of the calls of workers.
    pub counter: Option<SurfaceCounter>,
    /// Counter of refused tokens, shared with the rest of the process.
    pub failed_credentials: FailedCredentials,
    /// Greeting and socket options, which differ between versions of an iii engine.
    pub engine_mode: EngineMode,
    /// Time that running calls have to finish at shutdown.
    pub drain_timeout: Duration,
    /// Largest accepted message (64 MiB).
    pub max_message: usize,
    /// Largest message that is read at all (128 MiB). A message between the two limits is rejected with an error; a larger
    /// one ends the connection.
    pub max_read: usize,
    /// Calls in the send queue of one worker.
    pub max_queued_calls: usize,
    /// Bytes of calls in the send queue of one worker.
    pub max_queued_call_bytes: usize,
    /// Replies in the send queue of one worker, above which the hub stops reading from it.
    pub max_queued_replies: usize,
    /// Bytes of replies in the send queue of one worker, above which the hub stops reading from it. Above four times the
    /// limit, replies are replaced by errors.
    pub max_queued_reply_bytes: usize,
    /// Unanswered calls of one connection.
    pub max_open_calls: usize,
    /// Functions, trigger types, triggers and observers of one connection, together.
    pub max_registrations: usize,
    /// Bytes of ids, descriptions, schemas and configuration that one connection may register.
    pub max_registration_bytes: usize,
    /// Interval of pings.
    pub ping_interval: Duration,
    /// Time after which a peer that sends nothing, not even a pong, is disconnected.
    pub idle_timeout: Duration,
    /// Time after which a peer that does not read its messages is disconnected.
    pub write_timeout: Duration,
    /// Time that a peer has to identify itself before decisions that depend on its SDK.
    pub identify_timeout: Duration,
    /// Concurrent connections. SDKs open two each: for the worker and for telemetry.
    pub max_connections: usize,
    /// Concurrent connections from one address of another machine.
    pub max_connections_per_address: usize,
    /// Concurrent unfinished handshakes. One more evicts the oldest, so that connections that never send a token lock out no
    /// worker.
    pub max_handshakes: usize,
    /// Size limit of the request head of a handshake.
    pub max_request_head: usize,
    /// Time that a client has to send the request of its handshake.
    pub handshake_timeout: Duration,
    /// Time that replies to a disconnected worker are buffered for its next connection.
    pub reattach_timeout: Duration,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            name: "hub".to_owned(),
            token: None,
            content_ports: vec![],
            allowed_hosts: vec![],
            unavailable: None,
            secret: None,
            unique_names: false,
            inject_caller_id: true,
            counter: None,
            failed_credentials: FailedCredentials::default(),
            engine_mode: EngineMode::default(),
            drain_timeout: Duration::from_secs(2),
            max_message: 64 * MIB,
            max_read: 128 * MIB,
            max_queued_calls: 8192,
            max_queued_call_bytes: 64 * MIB,
            max_queued_replies: 65_536,
            max_queued_reply_bytes: 64 * MIB,
            max_open_calls: 65_536,
            max_registrations: 65_536,
            max_registration_bytes: 64 * MIB,
            ping_interval: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(90),
            write_timeout: Duration::from_secs(30),
            identify_timeout: Duration::from_secs(1),
            max_connections: 1024,
            max_connections_per_address: 256,
            max_handshakes: 256,
            max_request_head: 16 * 1024,
            handshake_timeout: Duration::from_secs(10),
            reattach_timeout: Duration::from_secs(10),
        }
    }
}

impl HubConfig {
    /// Returns the limits of the send queue of one worker.
    pub(super) const fn queue_limits(&self) -> QueueLimits {
        QueueLimits {
            max_calls: self.max_queued_calls,
            max_call_bytes: self.max_queued_call_bytes,
            max_replies: self.max_queued_replies,
            max_reply_bytes: self.max_queued_reply_bytes,
        }
    }
}

// Manual implementation: the token may not reach a log.
impl fmt::Debug for HubConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubConfig")
            .field("name", &self.name)
            .field("token", &self.token.as_ref().map(|_| "set"))
            .field("inject_caller_id", &self.inject_caller_id)
            .field("drain_timeout", &self.drain_timeout)
            .finish_non_exhaustive()
    }
}
