//! Settings and limits of a host.

use std::{fmt, time::Duration};

use skills_core::MemoryBudget;
use skills_net::FailedCredentials;

const MIB: usize = 1 << 20;

/// Maximum bytes of a message before authentication, if a token is configured.
pub const MAX_UNAUTHENTICATED_MESSAGE_BYTES: usize = 64 << 10;

/// Settings of a [`MdpHost`](crate::MdpHost). The defaults are meant for production.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Token that a registration needs: in the handshake as `Authorization: Bearer`, in the register message as
    /// `auth.token`, or in the cookie of `/mdp/auth`.
    pub token: Option<String>,
    /// Key that signs cookies. Without one the host generates a key, and cookies end with the process.
    pub cookie_key: Option<[u8; 32]>,
    /// Forwards the credentials of a request for a skill to its client.
    pub forward_credentials: bool,
    /// Names of headers, in lower case, that are forwarded to clients in addition to the default ones.
    pub forward_headers: Vec<String>,
    /// A proxy terminates TLS for this server: URLs use `https` and `wss`, and cookies are `Secure`.
    pub behind_tls: bool,
    /// Limits.
    pub limits: MdpLimits,
    /// Timeouts.
    pub times: MdpTimeouts,
    /// Memory budget, shared with the rest of the process.
    pub budget: MemoryBudget,
    /// Counter of refused credentials, shared with the rest of the process.
    pub failed_credentials: FailedCredentials,
}

/// Limits of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MdpLimits {
    /// Registered clients.
    pub clients: usize,
    /// Sessions without a registered client.
    pub unregistered: usize,
    /// Paths of one client.
    pub catalog_entries: usize,
    /// Estimated memory of all catalogs, in bytes.
    pub catalog_bytes: usize,
    /// Estimated memory of the catalog of one client, in bytes.
    pub client_bytes: usize,
    /// Bytes of a path.
    pub path_bytes: usize,
    /// Segments of a path.
    pub path_depth: usize,
    /// Bytes of a message of a client, except results.
    pub message_bytes: usize,
    /// Bytes of a result.
    pub result_bytes: usize,
    /// Bytes of the messages of one call to many clients, and of all their results.
    pub gathered_bytes: usize,
    /// Calls in progress of one client.
    pub calls_per_client: usize,
    /// Bytes of the send queue of one session.
    pub queue_bytes: usize,
}

impl Default for MdpLimits {
    fn default() -> Self {
        Self {
            clients: 10_000,
            unregistered: 1024,
            catalog_entries: 10_000,
            catalog_bytes: 96 * MIB,
            client_bytes: 32 * MIB,
            path_bytes: 1024,
            path_depth: 32,
            message_bytes: MIB,
            result_bytes: 8 * MIB,
            gathered_bytes: 8 * MIB,
            calls_per_client: 1024,
            queue_bytes: 4 * MIB,
        }
    }
}

/// Timeouts and intervals of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MdpTimeouts {
    /// Interval of pings.
    pub ping_every: Duration,
    /// Time without a message after which a session ends.
    pub silence: Duration,
    /// Timeout of a call.
    pub answer_within: Duration,
    /// Time in which a new session has to register a client.
    pub register_within: Duration,
    /// Default duration of a poll.
    pub poll: Duration,
    /// Maximum duration of a poll.
    pub longest_poll: Duration,
    /// Time after which a client that does not read its messages is disconnected.
    pub stall: Duration,
    /// Lifetime of a cookie.
    pub cookie: Duration,
}

impl Default for MdpTimeouts {
    fn default() -> Self {
        Self {
            ping_every: Duration::from_secs(30),
            silence: Duration::from_secs(90),
            answer_within: Duration::from_secs(15),
            register_within: Duration::from_secs(10),
            poll: Duration::from_secs(25),
            longest_poll: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            cookie: Duration::from_secs(3600),
        }
    }
}

// Manual implementation: secrets must not reach a log.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("token", &self.token.as_ref().map(|_| "_"))
            .field("forward_credentials", &self.forward_credentials)
            .field("forward_headers", &self.forward_headers)
            .field("behind_tls", &self.behind_tls)
            .field("limits", &self.limits)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}
