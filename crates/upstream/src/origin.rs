//! Origin of an upstream: scheme, host and port.

use std::{fmt, str::FromStr};

use url::{Host, Url};

/// Origin of an upstream, such as `http://127.0.0.1:8080`. All spellings of one origin are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamOrigin {
    pub(crate) is_https: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// Failure to parse an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin: name a scheme, a host and a port, such as http://127.0.0.1:8080")]
pub struct ParseOriginError(String);

impl UpstreamOrigin {
    /// Returns the origin of a URL; `None` if the scheme is neither http nor https.
    #[must_use]
    pub fn from_url(url: &Url) -> Option<Self> {
        let is_https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = match url.host()? {
            // A trailing dot denotes the same name.
            Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned()),
            Host::Ipv4(address) => Host::Ipv4(address),
            Host::Ipv6(address) => Host::Ipv6(address),
        };
        Some(Self { is_https, host, port: url.port_or_known_default()? })
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match (self.is_https, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

impl FromStr for UpstreamOrigin {
    type Err = ParseOriginError;

    fn from_str(text: &str) -> Result<Self, ParseOriginError> {
        let bad = || ParseOriginError(text.to_owned());
        let url = Url::parse(text).map_err(|_| bad())?;
        let is_bare = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        Self::from_url(&url).filter(|_| is_bare).ok_or_else(bad)
    }
}

impl fmt::Display for UpstreamOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_origin_are_equal() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://0x7f.1:8080/", "http://127.0.0.1:8080"),
            ("HTTP://Intranet.Test.", "http://intranet.test"),
            ("https://intranet.test:443", "https://intranet.test"),
            ("https://[::1]:80", "https://[::1]:80"),
        ] {
            let origin: UpstreamOrigin = text.parse().unwrap();
            assert_eq!(origin.to_string(), expected, "{text}");
            assert_eq!(expected.parse(), Ok(origin), "{text}");
        }
    }

    #[test]
    fn text_with_more_than_an_origin_is_refused() {
        for text in [
            "",
            "127.0.0.1:8080",
            "ftp://a.test",
            "http://",
            "http://a.test/path",
            "http://a.test?q",
            "http://a.test#f",
            "http://user@a.test",
            "http://:word@a.test",
            "http://*.a.test:port",
        ] {
            assert!(text.parse::<UpstreamOrigin>().is_err(), "{text}");
        }
    }
}
