//! What an operator can set of the connection to an engine, checked before anything is dialled.

use std::{collections::HashMap, fmt, time::Duration};

use tokio_tungstenite::tungstenite::{
    client::IntoClientRequest as _,
    http::{HeaderName, HeaderValue},
};

use crate::address::without_query;

/// Settings of an [`EngineBus`](super::EngineBus).
#[derive(Clone)]
pub struct EngineConfig {
    /// Where the engine is, such as `ws://127.0.0.1:49134`.
    pub url: String,
    /// The worker's name, unique in its namespace.
    pub name: String,
    /// The namespace of the worker; blank or `None` is the engine's default.
    pub namespace: Option<String>,
    /// Presented as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Further headers of the handshake, of telemetry too.
    pub headers: Vec<(String, String)>,
    /// One sentence about the worker.
    pub description: String,
    /// The worker's own version.
    pub version: String,
    /// Whether traces, metrics and logs are sent to the engine.
    pub telemetry: bool,
    /// How long, after the connection is back, a subscriber's function may be missing before the
    /// subscriber counts as gone: everyone has lost the connection when an engine restarts, and
    /// SDKs wait up to half a minute between attempts.
    pub settle: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:49134".to_owned(),
            name: "worker".to_owned(),
            namespace: None,
            token: None,
            headers: Vec::new(),
            description: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            telemetry: false,
            settle: Duration::from_secs(45),
        }
    }
}

// By hand: neither the token nor a header must reach a log.
impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineConfig")
            .field("url", &without_query(&self.url))
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("token", &self.token.as_ref().map(|_| "set"))
            .field("headers", &self.headers.len())
            .field("telemetry", &self.telemetry)
            .finish_non_exhaustive()
    }
}

/// Why no connection is even tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The address cannot be one of an engine.
    #[error("{url} is not the address of an engine: {reason}; it looks like ws://127.0.0.1:49134")]
    BadUrl {
        /// What was given, without its query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header, or the token, has characters that no header can carry.
    #[error("the header {0} has a name or a value that HTTP does not allow")]
    BadHeader(String),
    /// Called outside a Tokio runtime.
    #[error("there is no Tokio runtime to run on")]
    NoRuntime,
}

impl EngineConfig {
    /// What is wrong with the settings, if anything.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let bad = |reason: &str| EngineError::BadUrl {
            url: without_query(&self.url).to_owned(),
            reason: reason.to_owned(),
        };
        let request =
            self.url.as_str().into_client_request().map_err(|error| bad(&error.to_string()))?;
        match request.uri().scheme_str() {
            Some("ws" | "wss") => {}
            _ => return Err(bad("it must start with ws:// or wss://")),
        }
        if request.uri().host().is_none_or(str::is_empty) {
            return Err(bad("it names no host"));
        }
        for (name, value) in self.handshake_headers() {
            let known = HeaderName::from_bytes(name.as_bytes()).is_ok();
            if !known || HeaderValue::from_str(&value).is_err() {
                return Err(EngineError::BadHeader(name));
            }
        }
        Ok(())
    }

    /// The headers of every handshake. A header given by name outweighs the token.
    pub(super) fn handshake_headers(&self) -> HashMap<String, String> {
        let mut headers: HashMap<String, String> = self.headers.iter().cloned().collect();
        let token = self.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
        if let Some(token) = token
            && !headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
        {
            headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
        }
        headers
    }

    /// The namespace, unless it is blank.
    pub(super) fn namespace(&self) -> Option<String> {
        let named = self.namespace.as_deref().map(str::trim);
        named.filter(|namespace| !namespace.is_empty()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(url: &str) -> Result<(), EngineError> {
        EngineConfig { url: url.to_owned(), ..EngineConfig::default() }.check()
    }

    #[test]
    fn addresses() {
        for url in ["ws://127.0.0.1:49134", "wss://bus.example", "ws://[::1]:1/?token=s"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
        for url in ["http://127.0.0.1:49134", "127.0.0.1:49134", "ws://", "", "ws://a b"] {
            let error = check(url).unwrap_err().to_string();
            assert!(error.contains("is not the address of an engine"), "{url}: {error}");
        }
        let error = check("http://h/?token=secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn headers() {
        let mut config = EngineConfig { token: Some(" t ".into()), ..EngineConfig::default() };
        assert_eq!(config.handshake_headers()["Authorization"], "Bearer t");
        config.headers = vec![("authorization".into(), "Basic x".into())];
        assert_eq!(config.handshake_headers().len(), 1);
        config.headers = vec![("bad name".into(), "x".into())];
        assert_eq!(config.check(), Err(EngineError::BadHeader("bad name".into())));
        config.headers.clear();
        config.token = Some("a\nb".into());
        assert_eq!(config.check(), Err(EngineError::BadHeader("Authorization".into())));
        assert!(!format!("{config:?}").contains("a\\nb"));
    }
}
