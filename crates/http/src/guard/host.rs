//! Which hosts a request may name.
//!
//! A page whose name is made to point at this machine (DNS rebinding) is of the same origin as we are for a
//! browser, which gives no `Origin` then; but it still names its own host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, Uri, header};

use super::BadRule;
use crate::refusal::{self, Refusal};

/// A name, in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Ip(IpAddr),
}

impl Host {
    /// Whether it is this machine, whatever the resolver says.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Ip(ip) => *ip == Ipv4Addr::LOCALHOST || *ip == Ipv6Addr::LOCALHOST,
        }
    }

    fn name(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse::<Ipv4Addr>() {
            return Some(Self::Ip(ip.into()));
        }
        // With the root's dot it is the same name.
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let fits = (1..=63).contains(&label.len());
            fits && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        };
        let valid = name.len() <= 253 && name.split('.').all(is_label);
        valid.then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

/// Reads `host` or `host:port`.
pub(super) fn authority(text: &str) -> Option<(Host, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (ip, rest) = rest.split_once(']')?;
        let ip = IpAddr::V6(ip.parse().ok()?).to_canonical();
        let port = if rest.is_empty() { "" } else { rest.strip_prefix(':')? };
        (Host::Ip(ip), port)
    } else {
        let (name, port) = text.split_once(':').unwrap_or((text, ""));
        (Host::name(name)?, port)
    };
    if port.is_empty() {
        return Some((host, None));
    }
    let digits = port.bytes().all(|c| c.is_ascii_digit());
    Some((host, Some(port.parse().ok().filter(|_| digits)?)))
}

/// The hosts that are listed.
#[derive(Debug, Default)]
pub(super) struct Hosts(Vec<Host>);

impl Hosts {
    pub(super) fn new(listed: &[String]) -> Result<Self, BadRule> {
        let read = |text: &String| match authority(text) {
            Some((host, None)) if !text.ends_with(':') => Ok(host),
            _ => Err(BadRule::Host(text.clone())),
        };
        Ok(Self(listed.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Whether a listener that is bound to an address may be called by a host. Rebinding needs a name, so
    /// where other machines may ask any address will do.
    fn allow(&self, host: &Host, bound: SocketAddr) -> bool {
        let itself = match host {
            Host::Name(_) => false,
            Host::Ip(ip) => {
                let bound = bound.ip().to_canonical();
                *ip == bound || !bound.is_loopback()
            }
        };
        itself || host.is_local() || self.0.contains(host)
    }

    /// Checks every host that a request names: in its `Host`, and in its target if that is absolute.
    pub(super) fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        bound: SocketAddr,
    ) -> Result<(), Refusal> {
        let mut named = headers.get_all(header::HOST).iter();
        let named = (named.next(), named.next());
        let header = match named {
            (Some(header), None) => Some(header.to_str().map_err(|_| refusal::BAD_HOST)?),
            (None, _) => None,
            (Some(_), Some(_)) => return Err(refusal::BAD_HOST),
        };
        let target = uri.authority().map(|authority| authority.as_str());
        if header.is_none() && target.is_none() {
            return Err(refusal::BAD_HOST);
        }
        for text in [header, target].into_iter().flatten() {
            let (host, _) = authority(text).ok_or(refusal::BAD_HOST)?;
            if !self.allow(&host, bound) {
                return Err(refusal::HOST_NOT_ALLOWED);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allowed(listed: &[&str], bound: &str, host: &str) -> Option<bool> {
        let listed: Vec<_> = listed.iter().map(|&text| text.to_owned()).collect();
        let (host, _) = authority(host)?;
        Some(Hosts::new(&listed).unwrap().allow(&host, bound.parse().unwrap()))
    }

    #[test]
    fn on_loopback_only_this_machine_and_what_is_listed() {
        let listed = ["skills.example", "10.0.0.7", "[2001:db8::1]"];
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:80", true),
            ("localhost.", true),
            ("localhost:", true),
            ("127.0.0.1:47372", true),
            ("[::1]", true),
            ("[::1]:1", true),
            ("[0:0:0:0:0:0:0:1]:1", true),
            ("[::ffff:127.0.0.1]", true),
            ("skills.example:443", true),
            ("SKILLS.example.", true),
            ("10.0.0.7", true),
            ("[2001:db8:0::1]", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("evil.localhost", false),
            ("a.skills.example", false),
            ("skills.example.evil", false),
            ("127.0.0.2", false),
            ("127.1", false),
            ("2130706433", false),
            ("0x7f.1", false),
            ("0.0.0.0", false),
            ("192.168.1.5", false),
            ("[fe80::1]", false),
        ] {
            assert_eq!(allowed(&listed, "127.0.0.1:80", host), Some(expected), "{host}");
        }
        assert_eq!(allowed(&[], "127.0.0.9:80", "127.0.0.9:80"), Some(true));
        assert_eq!(allowed(&[], "[::1]:80", "127.0.0.1"), Some(true));
    }

    #[test]
    fn where_others_may_ask_any_address_but_no_name() {
        for bound in ["0.0.0.0:80", "192.168.1.5:80", "[::]:80"] {
            for (host, expected) in [
                ("192.168.1.5", true),
                ("10.1.1.1:80", true),
                ("[fe80::1]:80", true),
                ("localhost", true),
                ("evil.example", false),
            ] {
                assert_eq!(allowed(&[], bound, host), Some(expected), "{bound} {host}");
            }
        }
    }

    #[test]
    fn what_is_no_host_is_not_read_as_one() {
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
            assert_eq!(authority(text), None, "{text}");
        }
    }

    #[test]
    fn a_rule_is_a_host_without_a_port() {
        for wrong in ["*", "a:80", "a:", "http://a", "a/", ""] {
            assert!(Hosts::new(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "\\PC{0,80}") {
            let _ = authority(&text);
        }

        #[test]
        fn what_nobody_listed_is_not_let_in(text in "[a-z0-9.:\\[\\]@-]{0,24}") {
            let known = ["localhost", "127.0.0.1", "[::1]"];
            if allowed(&[], "127.0.0.1:80", &text) == Some(true) && !text.contains("::") {
                let bare = text.split(':').next().unwrap().trim_end_matches('.');
                prop_assert!(known.contains(&bare), "{}", text);
            }
        }
    }
}
