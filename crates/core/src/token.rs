//! Constant-time comparison of secrets.

use std::fmt;

use subtle::ConstantTimeEq as _;

use crate::Digest;

/// Expected token. Digests are compared, so that not even the length can be measured by timing.
#[derive(Clone)]
pub struct Token(Digest);

impl Token {
    /// Creates an expected token.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(Digest::of(token.as_bytes()))
    }

    /// Compares a presented token in constant time.
    #[must_use]
    pub fn matches(&self, presented: &[u8]) -> bool {
        constant_time_eq(Digest::of(presented).as_bytes(), self.0.as_bytes())
    }
}

/// Compares secrets or their digests in a time that depends on the lengths only.
#[must_use]
pub fn constant_time_eq(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A weak token could be guessed from its digest in a log.
        f.write_str("Token(_)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_matches() {
        let token = Token::new("s3cret");
        assert!(token.matches(b"s3cret"));
        for other in ["", "s3cre", "s3crets", "S3cret"] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(_)");
    }
}
