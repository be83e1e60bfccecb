//! Web origins and the hosts in them, as browsers write them: the one rule for which pages count as pages of this
//! machine. Knows no headers and no listener; the HTTP guard and the bus apply it to theirs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Host of an origin or of a `Host` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebHost {
    /// A DNS name, in lower case and without the root's dot.
    Name(String),
    /// An address; IPv4 addresses in IPv6 form are IPv4 addresses.
    Ip(IpAddr),
}

impl WebHost {
    /// Returns whether it is `localhost`, `127.0.0.1` or `::1`, without a DNS lookup.
    ///
    /// Other names and addresses that reach this machine (`app.localhost`, `127.0.0.2`) do not count: other programs
    /// and containers serve pages there.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Ip(ip) => *ip == Ipv4Addr::LOCALHOST || *ip == Ipv6Addr::LOCALHOST,
        }
    }

    /// Parses `host` or `host:port`. Returns `None` for anything else, also for user information or a path.
    #[must_use]
    pub fn parse_authority(text: &str) -> Option<(Self, Option<u16>)> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (ip, rest) = rest.split_once(']')?;
            let ip = IpAddr::V6(ip.parse().ok()?).to_canonical();
            let port = if rest.is_empty() { "" } else { rest.strip_prefix(':')? };
            (Self::Ip(ip), port)
        } else {
            let (name, port) = text.split_once(':').unwrap_or((text, ""));
            (Self::parse_name(name)?, port)
        };
        if port.is_empty() {
            return Some((host, None));
        }
        let is_number = port.bytes().all(|c| c.is_ascii_digit());
        Some((host, Some(port.parse().ok().filter(|_| is_number)?)))
    }

    fn parse_name(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse::<Ipv4Addr>() {
            return Some(Self::Ip(ip.into()));
        }
        // With the root's dot it is the same name.
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let fits = (1..=63).contains(&label.len());
            fits && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        };
        let is_valid = name.len() <= 253 && name.split('.').all(is_label);
        is_valid.then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

/// Origin of a web page: scheme, host and port, compared as browsers compare them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin {
    scheme: String,
    host: WebHost,
    port: Option<u16>,
}

impl WebOrigin {
    /// Parses an origin as browsers send it, such as `https://app.example:8443`. `null` is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let mut letters = scheme.bytes();
        let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
        let continues = letters.all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
        if !starts || !continues {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let (host, port) = WebHost::parse_authority(rest)?;
        let port = port.or(match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        });
        Some(Self { scheme, host, port })
    }

    /// Returns whether pages of this origin are pages of this machine: http or https on a
    /// [local](WebHost::is_local) host, any port.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https") && self.host.is_local()
    }

    /// Returns whether a server that speaks `scheme` (`http` or `https`) and is addressed by a host and a port has this
    /// origin. Without a port the default of the scheme is meant.
    #[must_use]
    pub fn is_of(&self, scheme: &str, host: &WebHost, port: Option<u16>) -> bool {
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return false,
        };
        self.scheme == scheme
            && self.host == *host
            && self.port == Some(port.unwrap_or(default_port))
    }

    /// Returns whether pages of this origin come over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.scheme == "https"
    }

    /// Returns the port, also where it is the scheme's default.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_http_on_localhost_and_the_two_loopback_addresses_is_local() {
        for (origin, expected) in [
            ("http://localhost", true),
            ("https://localhost:3000", true),
            ("HTTP://LOCALHOST:1", true),
            ("http://localhost.", true),
            ("http://127.0.0.1:8080", true),
            ("https://[::1]:8443", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://app.localhost", false),
            ("http://localhost.evil.example", false),
            ("http://127.0.0.1.evil.example", false),
            ("http://127.0.0.2", false),
            ("http://127.1", false),
            ("http://0.0.0.0", false),
            ("https://evil.example", false),
            ("ftp://localhost", false),
            ("file://localhost", false),
            ("tauri://localhost", false),
            ("chrome-extension://localhost", false),
            ("ws://localhost", false),
            ("httpx://localhost", false),
        ] {
            assert_eq!(
                WebOrigin::parse(origin).map(|it| it.is_local()),
                Some(expected),
                "{origin}"
            );
        }
        for text in [
            "http://localhost/",
            "http://evil@localhost",
            "http://localhost http://evil.example",
            "localhost",
            "//localhost",
            "file://",
            "null",
            "*",
            "",
        ] {
            assert_eq!(WebOrigin::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_port_of_an_origin_is_that_of_its_scheme_unless_it_says_another() {
        for (origin, port) in [
            ("http://localhost", Some(80)),
            ("https://localhost", Some(443)),
            ("http://localhost:47372", Some(47372)),
            ("tauri://localhost", None),
        ] {
            assert_eq!(WebOrigin::parse(origin).unwrap().port(), port, "{origin}");
        }
    }

    #[test]
    fn text_that_is_no_host_does_not_parse() {
        let long = format!("{}.example", "a".repeat(64));
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ":80",
            "localhost:x",
            "localhost:99999",
            "localhost:+1",
            "::1",
            "[::1",
            "[::1]80",
            "[]",
            "[localhost]",
            "[127.0.0.1]",
            "[fe80::1%eth0]",
            "a b",
            "a/b",
            "user@localhost",
            "localhost,evil",
            "exämple",
            "*",
            "localhost:80:80",
            "localhost\\",
            &long,
        ] {
            assert_eq!(WebHost::parse_authority(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC{0,80}") {
            let _ = (WebHost::parse_authority(&text), WebOrigin::parse(&text));
        }
    }
}
