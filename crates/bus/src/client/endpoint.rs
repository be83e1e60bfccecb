//! Address of a bus and headers of its handshake, validated before the first attempt to connect.

use std::{fmt, sync::Arc};

use tokio::sync::OnceCell;
use tokio_rustls::{
    TlsConnector,
    rustls::pki_types::{InvalidDnsNameError, ServerName},
};
use tokio_tungstenite::tungstenite::{
    client::IntoClientRequest as _,
    handshake::client::Request,
    http::{HeaderName, HeaderValue, header},
};

use crate::address::without_query;

/// Address of a server and the headers of its handshake.
#[derive(Clone)]
pub struct Endpoint {
    url: String,
    is_secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    headers: Vec<(HeaderName, HeaderValue)>,
    extra_roots: Vec<Vec<u8>>,
    /// Created on first use: reading the certificates of the system is slow.
    tls: Arc<OnceCell<TlsConnector>>,
}

/// Invalid address or header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The URL is not valid for a bus.
    #[error("{url}: {reason}")]
    BadUrl {
        /// The URL, without its query.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A header, or the token, has characters that HTTP does not allow.
    #[error("header {0}: HTTP does not allow its name or value")]
    BadHeader(String),
}

impl Endpoint {
    /// Parses a URL such as `ws://127.0.0.1:49134` or `wss://bus.example`.
    ///
    /// # Errors
    /// [`EndpointError::BadUrl`].
    pub fn new(url: &str) -> Result<Self, EndpointError> {
        let bad = |reason: &str| EndpointError::BadUrl {
            url: without_query(url).to_owned(),
            reason: reason.to_owned(),
        };
        let request = url.into_client_request().map_err(|error| bad(&error.to_string()))?;
        let uri = request.uri();
        let is_secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(bad("it must start with ws:// or wss://")),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Self {
            url: url.to_owned(),
            is_secure,
            host,
            port,
            headers: Vec::new(),
            extra_roots: Vec::new(),
            tls: Arc::default(),
        })
    }

    /// Adds a header, which overrides an earlier one of the same name.
    ///
    /// # Errors
    /// [`EndpointError::BadHeader`].
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, EndpointError> {
        let bad = || EndpointError::BadHeader(name.to_owned());
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        self.headers.retain(|(other, _)| *other != parsed);
        self.headers.push((parsed, value));
        Ok(self)
    }

    /// Adds a token, unless an `Authorization` header is set. A blank token is none.
    ///
    /// # Errors
    /// [`EndpointError::BadHeader`].
    pub fn with_token(self, token: Option<&str>) -> Result<Self, EndpointError> {
        let has_authorization = self.headers.iter().any(|(name, _)| *name == header::AUTHORIZATION);
        match token.map(str::trim).filter(|token| !token.is_empty()) {
            Some(token) if !has_authorization => {
                self.with_header("Authorization", &format!("Bearer {token}"))
            }
            _ => Ok(self),
        }
    }

    /// Trusts root certificates (DER) besides those of the system.
    #[must_use]
    pub fn with_roots(mut self, roots: Vec<Vec<u8>>) -> Self {
        self.extra_roots = roots;
        self
    }

    /// Returns the URL without its query, which may hold a secret.
    #[must_use]
    pub fn display_url(&self) -> &str {
        without_query(&self.url)
    }

    /// Builds the request of the handshake.
    pub(super) fn request(&self) -> Result<Request, String> {
        let mut request =
            self.url.as_str().into_client_request().map_err(|error| error.to_string())?;
        request.headers_mut().extend(self.headers.iter().cloned());
        Ok(request)
    }

    /// Returns the TLS connector and the name of the server; `None` without TLS.
    pub(super) async fn tls(&self) -> Result<Option<(TlsConnector, ServerName<'static>)>, String> {
        if !self.is_secure {
            return Ok(None);
        }
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error: InvalidDnsNameError| error.to_string())?;
        let load = || async {
            let config = skills_net::tls::load_client_config(self.extra_roots.clone()).await?;
            Ok::<_, skills_net::tls::TlsError>(TlsConnector::from(Arc::new(config)))
        };
        let tls = self.tls.get_or_try_init(load).await.map_err(|error| error.to_string())?;
        Ok(Some((tls.clone(), name)))
    }
}

// Manual implementation: neither a header nor the query may reach a log.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.display_url())
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn urls_that_cannot_be_a_bus_are_rejected() {
        for (url, host, port) in [
            ("ws://127.0.0.1:49134", "127.0.0.1", 49134),
            ("wss://bus.example", "bus.example", 443),
            ("ws://[::1]/?token=s", "::1", 80),
        ] {
            let endpoint = Endpoint::new(url).unwrap();
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{url}");
        }
        for url in ["http://127.0.0.1:49134", "127.0.0.1:49134", "ws://", "", "ws://a b"] {
            assert!(Endpoint::new(url).is_err(), "{url}");
        }
        let error = Endpoint::new("http://h/?token=secret").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn an_explicit_authorization_header_overrides_the_token() {
        let endpoint = || Endpoint::new("ws://h").unwrap();
        let authorization = |endpoint: &Endpoint| {
            let request = endpoint.request().unwrap();
            let values: Vec<_> =
                request.headers().get_all(header::AUTHORIZATION).iter().cloned().collect();
            values
        };
        assert_eq!(authorization(&endpoint().with_token(Some(" t ")).unwrap()), ["Bearer t"]);
        assert!(authorization(&endpoint().with_token(Some(" ")).unwrap()).is_empty());
        let both = endpoint().with_header("authorization", "Basic x").unwrap();
        let both = both.with_token(Some("t")).unwrap();
        assert_eq!(authorization(&both), ["Basic x"]);
        assert!(!format!("{both:?}").contains("Basic"));
        let bad = |name: &str| EndpointError::BadHeader(name.to_owned());
        assert_eq!(endpoint().with_header("bad name", "x").unwrap_err(), bad("bad name"));
        assert_eq!(endpoint().with_token(Some("a\nb")).unwrap_err(), bad("Authorization"));
    }
}
