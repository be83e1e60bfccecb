//! Which web pages may ask. A browser says where a page is from; other clients send no `Origin`.

use axum::http::HeaderValue;

use super::{
    BadRule,
    host::{Host, authority},
};

/// Scheme, host and port, as a browser compares them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: Host,
    port: Option<u16>,
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let mut letters = scheme.bytes();
        let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
        let goes_on = letters.all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
        if !starts || !goes_on {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let (host, port) = authority(rest)?;
        let port = port.or(match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        });
        Some(Self { scheme, host, port })
    }

    fn is_local(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https") && self.host.is_local()
    }
}

/// The origins that are listed.
#[derive(Debug, Default)]
pub(super) struct Origins {
    any: bool,
    null: bool,
    listed: Vec<Origin>,
}

impl Origins {
    pub(super) fn new(listed: &[String]) -> Result<Self, BadRule> {
        let mut origins = Self::default();
        for text in listed {
            match text.as_str() {
                "*" => origins.any = true,
                "null" => origins.null = true,
                _ => {
                    let origin = Origin::parse(text);
                    origins.listed.push(origin.ok_or_else(|| BadRule::Origin(text.clone()))?);
                }
            }
        }
        Ok(origins)
    }

    pub(super) fn allow(&self, origin: &HeaderValue) -> bool {
        self.any || (self.null && origin == "null") || self.name(origin)
    }

    /// Whether an origin is of this machine or listed by its name, and not only among all that may ask.
    pub(super) fn name(&self, origin: &HeaderValue) -> bool {
        let known = |origin: Origin| origin.is_local() || self.listed.contains(&origin);
        origin.to_str().ok().and_then(Origin::parse).is_some_and(known)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(listed: &[&str], origin: &str) -> bool {
        let listed: Vec<_> = listed.iter().map(|&text| text.to_owned()).collect();
        Origins::new(&listed).unwrap().allow(&HeaderValue::from_str(origin).unwrap())
    }

    #[test]
    fn pages_of_this_machine_may_ask_and_no_others() {
        for (origin, expected) in [
            ("http://localhost", true),
            ("https://localhost:3000", true),
            ("HTTP://LOCALHOST:1", true),
            ("http://127.0.0.1:8080", true),
            ("https://[::1]:8443", true),
            ("http://localhost.evil.example", false),
            ("http://127.0.0.1.evil.example", false),
            ("http://127.0.0.2", false),
            ("https://evil.example", false),
            ("ftp://localhost", false),
            ("tauri://localhost", false),
            ("http://localhost/", false),
            ("http://evil@localhost", false),
            ("http://localhost http://evil.example", false),
            ("localhost", false),
            ("//localhost", false),
            ("null", false),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(allows(&[], origin), expected, "{origin}");
        }
    }

    #[test]
    fn listed_origins_are_compared_by_scheme_host_and_port() {
        let listed = ["https://App.Example", "http://10.0.0.7:3000", "chrome-extension://abcdef"];
        for (origin, expected) in [
            ("https://app.example", true),
            ("https://app.example:443", true),
            ("HTTPS://APP.EXAMPLE", true),
            ("http://app.example", false),
            ("https://app.example:8443", false),
            ("https://evil.app.example", false),
            ("http://10.0.0.7:3000", true),
            ("http://10.0.0.7", false),
            ("chrome-extension://abcdef", true),
            ("chrome-extension://abcdeg", false),
            ("http://localhost", true),
            ("null", false),
        ] {
            assert_eq!(allows(&listed, origin), expected, "{origin}");
        }
        assert!(allows(&["http://a.example:80"], "http://a.example"));
    }

    #[test]
    fn null_and_everyone_must_be_asked_for() {
        assert!(allows(&["null"], "null") && !allows(&["null"], "https://evil.example"));
        for origin in ["null", "https://evil.example", "what?"] {
            assert!(allows(&["*"], origin), "{origin}");
        }
        let beyond_ascii = HeaderValue::from_bytes(b"https://\xff").unwrap();
        assert!(!Origins::default().allow(&beyond_ascii));
    }

    #[test]
    fn a_rule_that_is_no_origin_is_refused() {
        for wrong in
            ["app.example", "https://app.example/", "https://", "https://*.example", "", "Null"]
        {
            let refused = Origins::new(&[wrong.to_owned()]);
            assert!(matches!(refused, Err(BadRule::Origin(named)) if named == wrong), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_harm(value in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                let _ = Origins::default().allow(&value);
            }
        }

        #[test]
        fn what_is_listed_is_allowed(host in "[a-z][a-z0-9-]{0,9}\\.example", port in 1u16..) {
            let origin = format!("https://{host}:{port}");
            prop_assert!(allows(&[&origin], &origin));
            prop_assert!(!allows(&[], &origin));
        }
    }
}
