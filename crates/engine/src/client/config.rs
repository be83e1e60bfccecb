//! Settings of the connection to an engine, validated before the first connection attempt.

use std::{fmt, sync::Arc, time::Duration};

use skills_bus::{
    address::without_query,
    client::{Dialer, Endpoint, EndpointError, WorkerIdentity, WorkerOptions},
};

/// Settings of an [`EngineBus`](super::EngineBus).
#[derive(Clone)]
pub struct EngineConfig {
    /// URL of the engine, such as `ws://127.0.0.1:49134`.
    pub url: String,
    /// Opener of the connections, in place of TCP to the URL.
    pub dialer: Option<Arc<dyn Dialer>>,
    /// Name of the worker, unique in its namespace.
    pub name: String,
    /// Namespace of the worker; blank or `None` selects the engine's default.
    pub namespace: Option<String>,
    /// Token that is sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Further headers of the handshake.
    pub headers: Vec<(String, String)>,
    /// Description of the worker in one sentence.
    pub description: String,
    /// Version of the worker.
    pub version: String,
    /// Root certificates (DER) that are trusted besides those of the system, for `wss://`.
    pub extra_roots: Vec<Vec<u8>>,
    /// Time after a reconnect in which a subscriber's function may be missing before the subscriber counts as gone. When
    /// an engine restarts, all workers lose their connection, and SDKs wait up to 30 s between attempts.
    pub subscriber_grace: Duration,
    /// Time that running calls have to finish at shutdown.
    pub drain_timeout: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:49134".to_owned(),
            dialer: None,
            name: "worker".to_owned(),
            namespace: None,
            token: None,
            headers: Vec::new(),
            description: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extra_roots: Vec::new(),
            subscriber_grace: Duration::from_secs(45),
            drain_timeout: Duration::from_millis(1500),
        }
    }
}

// Manual implementation: neither the token nor a header may reach a log.
impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig")
            .field("url", &without_query(&self.url))
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("token", &self.token.as_ref().map(|_| "set"))
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

/// Invalid settings, found before the first connection attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The URL is not valid for an engine.
    #[error("{url} is not the address of an engine: {reason}; it looks like ws://127.0.0.1:49134")]
    BadUrl {
        /// The URL, without its query.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A header, or the token, has characters that HTTP does not allow.
    #[error("header {0}: HTTP does not allow its name or value")]
    BadHeader(String),
    /// The caller is outside a Tokio runtime.
    #[error("no Tokio runtime")]
    NoRuntime,
}

impl From<EndpointError> for EngineError {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::BadUrl { url, reason } => Self::BadUrl { url, reason },
            EndpointError::BadHeader(name) => Self::BadHeader(name),
        }
    }
}

impl EngineConfig {
    /// Validates the settings and returns those of the connection.
    pub(super) fn worker_options(&self) -> Result<WorkerOptions, EngineError> {
        let mut endpoint = Endpoint::new(&self.url)?.with_roots(self.extra_roots.clone());
        for (name, value) in &self.headers {
            endpoint = endpoint.with_header(name, value)?;
        }
        let identity = WorkerIdentity {
            name: self.name.clone(),
            version: self.version.clone(),
            description: Some(self.description.clone()).filter(|text| !text.is_empty()),
            namespace: self.namespace(),
        };
        // An explicit `Authorization` header overrides the token.
        let endpoint = endpoint.with_token(self.token.as_deref())?;
        Ok(WorkerOptions {
            dialer: self.dialer.clone(),
            drain_timeout: self.drain_timeout,
            ..WorkerOptions::new(endpoint, identity)
        })
    }

    /// Returns the namespace, unless it is blank.
    pub(super) fn namespace(&self) -> Option<String> {
        let namespace = self.namespace.as_deref().map(str::trim);
        namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn invalid_settings_are_rejected_without_their_secrets() {
        let config = EngineConfig { url: "http://h/?token=s3cret".into(), ..Default::default() };
        let error = config.worker_options().unwrap_err().to_string();
        assert!(error.contains("is not the address of an engine"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        let config = EngineConfig { token: Some("a\nb".into()), ..Default::default() };
        let error = config.worker_options().unwrap_err();
        assert_eq!(error, EngineError::BadHeader("Authorization".into()));
        assert!(!format!("{config:?}").contains("a\\nb"));
    }

    #[test]
    fn a_blank_namespace_is_none() {
        let namespace = |text: &str| {
            EngineConfig { namespace: Some(text.into()), ..Default::default() }.namespace()
        };
        assert_eq!((namespace(" "), namespace(" a ")), (None, Some("a".to_owned())));
    }
}
