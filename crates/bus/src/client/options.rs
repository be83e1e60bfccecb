//! Settings and identity of a worker.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{Backoff, Dialer, Endpoint, Keepalive};

/// Description of a worker for the server.
#[derive(Debug, Clone, Default)]
pub struct WorkerIdentity {
    /// Name, unique in its namespace.
    pub name: String,
    /// Version of the worker.
    pub version: String,
    /// Description in one sentence.
    pub description: Option<String>,
    /// Namespace; `None` for the server's default.
    pub namespace: Option<String>,
}

/// Settings of a [`WorkerClient`].
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Address and headers of the server.
    pub endpoint: Endpoint,
    /// Opener of the connections, in place of TCP to the endpoint.
    pub dialer: Option<Arc<dyn Dialer>>,
    /// Description of the worker.
    pub identity: WorkerIdentity,
    /// Time that one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// Intervals by which a half-open connection is found.
    pub keepalive: Keepalive,
    /// Time that running calls have to finish at shutdown.
    pub drain_timeout: Duration,
}

impl WorkerOptions {
    /// Returns the settings of a worker, with the default intervals.
    #[must_use]
    pub fn new(endpoint: Endpoint, identity: WorkerIdentity) -> Self {
        Self {
            endpoint,
            dialer: None,
            identity,
            connect_timeout: Duration::from_secs(10),
            backoff: Backoff::default(),
            keepalive: Keepalive::default(),
            drain_timeout: Duration::from_millis(1500),
        }
    }
}

/// Builds the payload by which a client identifies itself.
pub(super) fn identity_payload(identity: &WorkerIdentity, features: &[&str]) -> Value {
    let WorkerIdentity { name, version, description, namespace } = identity;
    let mut payload = json!({
        "runtime": "rust",
        "version": version,
        "name": name,
        "os": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "pid": std::process::id(),
        "features": features,
    });
    for (key, value) in [("description", description), ("namespace", namespace)] {
        if let Some(value) = value {
            payload[key] = value.as_str().into();
        }
    }
    payload
}
