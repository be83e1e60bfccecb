//! What an operator can set, and every limit of the host in one place.

use std::{fmt, time::Duration};

const MIB: usize = 1 << 20;

/// Settings of a [`Host`](crate::Host). The defaults are meant for production.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// When set, nobody registers without it: in the handshake as `Authorization: Bearer`, in the register
    /// message as `auth.token`, or in the cookie that `/mdp/auth` gives.
    pub token: Option<String>,
    /// What cookies are signed with. Without one a new key is made, and cookies end with the process.
    pub cookie_key: Option<[u8; 32]>,
    /// Whether the credentials of a request for a skill are passed on to the client that has it.
    pub forward_credentials: bool,
    /// Whether TLS ends in front of this server: addresses are then told, and cookies set, accordingly.
    pub behind_tls: bool,
    /// How much.
    pub limits: Limits,
    /// How long.
    pub times: Times,
}

/// How much of anything there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Clients that are registered.
    pub clients: usize,
    /// Sessions on which nobody is registered.
    pub unregistered: usize,
    /// Paths of one client.
    pub catalog_entries: usize,
    /// Bytes that the present catalogues take in memory, about and all together.
    pub catalog_bytes: usize,
    /// Bytes of a path.
    pub path_bytes: usize,
    /// Segments of a path.
    pub path_depth: usize,
    /// Bytes of a message of a client, but for results.
    pub message_bytes: usize,
    /// Bytes of a result.
    pub result_bytes: usize,
    /// Bytes of one question to many clients, all together, and of their results.
    pub gathered_bytes: usize,
    /// Calls that one client may have under way.
    pub calls_per_client: usize,
    /// Bytes that may wait for one session to take them.
    pub queue_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 10_000,
            unregistered: 1024,
            catalog_entries: 10_000,
            catalog_bytes: 256 * MIB,
            path_bytes: 1024,
            path_depth: 32,
            message_bytes: MIB,
            result_bytes: 8 * MIB,
            gathered_bytes: 32 * MIB,
            calls_per_client: 1024,
            queue_bytes: 4 * MIB,
        }
    }
}

/// How long anything may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Between two pings.
    pub ping_every: Duration,
    /// A session from which nothing was heard for so long is dropped.
    pub silence: Duration,
    /// A client has so long to answer a call.
    pub answer_within: Duration,
    /// Who connects has so long to register.
    pub register_within: Duration,
    /// How long a poll waits that does not say for how long.
    pub poll: Duration,
    /// How long a poll waits at most.
    pub longest_poll: Duration,
    /// A client that has taken nothing for so long, while something waits for it, is disconnected.
    pub stall: Duration,
    /// How long a cookie is good for.
    pub cookie: Duration,
}

impl Default for Times {
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

// By hand: the secrets must not reach a log.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("token", &self.token.as_ref().map(|_| "_"))
            .field("forward_credentials", &self.forward_credentials)
            .field("behind_tls", &self.behind_tls)
            .field("limits", &self.limits)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}
