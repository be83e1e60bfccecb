//! Secrets that are compared.

use std::fmt;

use subtle::ConstantTimeEq as _;

use crate::Digest;

/// A token that is asked for. Sums are compared, so that not even its length can be timed.
#[derive(Clone)]
pub struct Token(Digest);

impl Token {
    /// Asks for this one.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(Digest::of(token.as_bytes()))
    }

    /// Whether it is what was presented.
    #[must_use]
    pub fn is(&self, presented: &[u8]) -> bool {
        Digest::of(presented).as_bytes().ct_eq(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The sum of a weak token could be guessed from a log.
        f.write_str("Token(_)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_it() {
        let token = Token::new("s3cret");
        assert!(token.is(b"s3cret"));
        for other in ["", "s3cre", "s3crets", "S3cret"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(_)");
    }
}
