//! What an operator can set, and every limit of the hub in one place.

use std::{fmt, time::Duration};

const MIB: usize = 1024 * 1024;

/// Settings of a [`Hub`](super::Hub). The defaults are meant for production; tests shorten the times.
#[derive(Clone)]
pub struct HubConfig {
    /// What this process is called in listings of workers' functions.
    pub name: String,
    /// When set, every connection must present it, as `Authorization: Bearer` or `?token=`.
    pub token: Option<String>,
    /// Whether a second worker of the same name is refused, as on an iii engine since 0.23. Only
    /// SDKs since then understand the refusal, so others are not refused.
    pub unique_names: bool,
    /// Whether object payloads that workers send each other get `_caller_worker_id`, as on an iii engine.
    pub inject_caller_id: bool,
    /// How long running calls may take to finish when the hub stops.
    pub drain: Duration,
    /// The largest message that is accepted from a peer (64 MiB).
    pub max_message: usize,
    /// The largest message that is read at all (128 MiB). One between the two limits is refused with
    /// an error; a larger one ends the connection.
    pub max_read: usize,
    /// Calls that may wait for one worker to read them.
    pub queue_frames: usize,
    /// Bytes of calls that may wait for one worker to read them.
    pub queue_bytes: usize,
    /// Answers that may wait for a caller to read them before the hub stops reading from it.
    pub owed_frames: usize,
    /// The same in bytes. At four times as much, answers are replaced by errors.
    pub owed_bytes: usize,
    /// Calls that one connection may have under way.
    pub max_open_calls: usize,
    /// Functions, trigger types, triggers and observers that one connection may register, together.
    pub max_registrations: usize,
    /// The same in bytes of ids, descriptions, schemas and configuration.
    pub max_registration_bytes: usize,
    /// How often a peer is pinged.
    pub ping_every: Duration,
    /// A peer that has sent nothing for so long, not even a pong, is disconnected.
    pub silence: Duration,
    /// A peer that has taken nothing for so long, while something waits for it, is disconnected.
    pub stall: Duration,
    /// How long decisions that depend on the kind of SDK wait for it to say what it is.
    pub identify_wait: Duration,
    /// How long a client may take to send the request of its handshake.
    pub handshake: Duration,
    /// How long the answers to calls of a worker whose connection broke are kept for its next one.
    pub reattach_wait: Duration,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            name: "hub".to_owned(),
            token: None,
            unique_names: false,
            inject_caller_id: true,
            drain: Duration::from_secs(2),
            max_message: 64 * MIB,
            max_read: 128 * MIB,
            queue_frames: 8192,
            queue_bytes: 64 * MIB,
            owed_frames: 65_536,
            owed_bytes: 64 * MIB,
            max_open_calls: 65_536,
            max_registrations: 65_536,
            max_registration_bytes: 64 * MIB,
            ping_every: Duration::from_secs(20),
            silence: Duration::from_secs(90),
            stall: Duration::from_secs(30),
            identify_wait: Duration::from_secs(1),
            handshake: Duration::from_secs(10),
            reattach_wait: Duration::from_secs(10),
        }
    }
}

// By hand: the token must not reach a log.
impl fmt::Debug for HubConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubConfig")
            .field("name", &self.name)
            .field("token", &self.token.as_ref().map(|_| "set"))
            .field("inject_caller_id", &self.inject_caller_id)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}
