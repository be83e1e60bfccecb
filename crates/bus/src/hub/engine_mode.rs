//! Differences between engine versions that a worker sees when it connects.

use crate::protocol::FEATURES;

/// Greeting and socket options of a hub. The default is this hub's own; the others make tests and benchmarks meet the
/// engines that workers attach to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineMode {
    /// Whether sockets have `TCP_NODELAY` and the handshake declares it. Without it, a small message waits until the peer
    /// has acknowledged the one before, which a peer with nothing to send delays by up to 40 ms.
    pub tcp_nodelay: bool,
    /// Features in the first frame.
    pub features: &'static [&'static str],
    /// Whether the first frame has a token with which the worker can reattach.
    pub has_reattach_token: bool,
}

impl EngineMode {
    /// Engines before 0.21.8.
    pub const V0_11: Self = Self { tcp_nodelay: false, features: &[], has_reattach_token: false };
    /// Engines from 0.21.8 to 0.24.
    pub const V0_23: Self = Self { has_reattach_token: true, ..Self::V0_11 };
    /// Engine 0.25.
    pub const V0_25: Self = Self {
        tcp_nodelay: true,
        features: &["observe.v1", "local-dispatch.v1"],
        has_reattach_token: true,
    };
    /// Engine 0.26.
    pub const V0_26: Self =
        Self { features: &["observe.v1", "observe.v2", "local-dispatch.v1"], ..Self::V0_25 };
}

impl Default for EngineMode {
    fn default() -> Self {
        Self { tcp_nodelay: true, features: &FEATURES, has_reattach_token: true }
    }
}
