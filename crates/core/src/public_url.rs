//! Address by which clients reach a server. The server itself may be behind a proxy that terminates TLS.

use std::{fmt, str::FromStr};

/// Address of a server: `http://` or `https://`, host, optional port and path, without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PublicUrl(String);

/// Text that is not the address of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an address such as https://skills.example, without a user, a query or a fragment")]
pub struct PublicUrlError;

impl PublicUrl {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the address has TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PublicUrl {
    type Err = PublicUrlError;

    fn from_str(text: &str) -> Result<Self, PublicUrlError> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let rest = rest.ok_or(PublicUrlError)?;
        let host = rest.split('/').next().unwrap_or_default();
        let is_refused = |c: char| {
            !c.is_ascii_graphic() || matches!(c, '@' | '?' | '#' | '"' | '<' | '>' | '\\' | '`')
        };
        if host.is_empty() || host.starts_with(':') || text.contains(is_refused) {
            return Err(PublicUrlError);
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_servers_are_accepted() {
        for (text, expected) in [
            ("https://skills.example", "https://skills.example"),
            ("https://skills.example/", "https://skills.example"),
            ("http://127.0.0.1:47372", "http://127.0.0.1:47372"),
            ("https://example/skills/", "https://example/skills"),
            ("http://[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(text.parse::<PublicUrl>().unwrap().as_str(), expected);
        }
        for text in [
            "",
            "skills.example",
            "ftp://x",
            "https://",
            "https://:80",
            "https://a@b",
            "https://a?b",
            "http://a b",
        ] {
            assert_eq!(text.parse::<PublicUrl>(), Err(PublicUrlError), "{text}");
        }
    }
}
