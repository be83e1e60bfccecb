//! Scheme, host and port: what a request is sent to.

use std::{fmt, str::FromStr};

use url::{Host, Url};

/// An origin such as `http://127.0.0.1:8080`. Two spellings of one origin are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub(crate) is_https: bool,
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// Text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin: name a scheme, a host and a port, such as http://127.0.0.1:8080")]
pub struct BadOrigin(String);

impl Origin {
    /// The origin of a URL; `None` when it is neither http nor https.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let is_https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = match url.host()? {
            // With the root's dot it is the same name.
            Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned()),
            Host::Ipv4(address) => Host::Ipv4(address),
            Host::Ipv6(address) => Host::Ipv6(address),
        };
        Some(Self { is_https, host, port: url.port_or_known_default()? })
    }

    /// As it stands in a `Host` header.
    pub(crate) fn authority(&self) -> String {
        match (self.is_https, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let bad = || BadOrigin(text.to_owned());
        let url = Url::parse(text).map_err(|_| bad())?;
        let bare = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        Self::of(&url).filter(|_| bare).ok_or_else(bad)
    }
}

impl fmt::Display for Origin {
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
        for (text, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://0x7f.1:8080/", "http://127.0.0.1:8080"),
            ("HTTP://Intranet.Test.", "http://intranet.test"),
            ("https://intranet.test:443", "https://intranet.test"),
            ("https://[::1]:80", "https://[::1]:80"),
        ] {
            let origin: Origin = text.parse().unwrap();
            assert_eq!(origin.to_string(), shown);
            assert_eq!(shown.parse(), Ok(origin));
        }
    }

    #[test]
    fn anything_more_is_no_origin() {
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
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
