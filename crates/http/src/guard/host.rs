//! Configured hosts, and the check of a request's host against them.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Uri};
use skills_core::origin::WebHost;
use skills_net::{HostError, check_host};

use super::AccessRuleError;
use crate::error::{self, HttpError};

/// Configured hosts.
#[derive(Debug, Default)]
pub(super) struct Hosts(Vec<WebHost>);

impl Hosts {
    pub(super) fn new(listed: &[String]) -> Result<Self, AccessRuleError> {
        let read = |text: &String| match WebHost::parse_authority(text) {
            Some((host, None)) if !text.ends_with(':') => Ok(host),
            _ => Err(AccessRuleError::Host(text.clone())),
        };
        Ok(Self(listed.iter().map(read).collect::<Result<_, _>>()?))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks every host of a request on a server bound to an address.
    pub(super) fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        bound: SocketAddr,
    ) -> Result<(), HttpError> {
        check_host(uri, headers, bound.ip(), &self.0).map_err(|error| match error {
            HostError::Invalid => error::BAD_HOST,
            HostError::NotAllowed => error::HOST_NOT_ALLOWED,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skills_net::is_allowed_host;

    use super::*;

    fn allowed(listed: &[&str], bound: &str, host: &str) -> Option<bool> {
        let listed: Vec<_> = listed.iter().map(|&text| text.to_owned()).collect();
        let (host, _) = WebHost::parse_authority(host)?;
        let bound: SocketAddr = bound.parse().unwrap();
        Some(is_allowed_host(&host, bound.ip(), &Hosts::new(&listed).unwrap().0))
    }

    #[test]
    fn on_loopback_only_local_and_configured_hosts_are_allowed() {
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
    fn on_other_addresses_any_ip_address_but_no_unlisted_name_is_allowed() {
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
    fn a_configured_host_has_no_port() {
        for wrong in ["*", "a:80", "a:", "http://a", "a/", ""] {
            assert!(Hosts::new(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn unlisted_hosts_are_rejected(text in "[a-z0-9.:\\[\\]@-]{0,24}") {
            let known = ["localhost", "127.0.0.1", "[::1]"];
            if allowed(&[], "127.0.0.1:80", &text) == Some(true) && !text.contains("::") {
                let bare = text.split(':').next().unwrap().trim_end_matches('.');
                prop_assert!(known.contains(&bare), "{}", text);
            }
        }
    }
}
