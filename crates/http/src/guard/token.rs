//! Who asks, as far as a bearer token tells.

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

type Sum = [u8; 32];

fn sum(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

/// What a request presented, as an extension of every request: whatever is kept for one credential must
/// not be given to another. Says nothing about what it stands for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credential(Option<Sum>);

impl Credential {
    /// That of requests which present nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self(headers.get(header::AUTHORIZATION).map(|value| sum(value.as_bytes())))
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The sum of a weak token could be guessed from a log.
        f.write_str(if self.0.is_some() { "Credential(_)" } else { "Credential(none)" })
    }
}

/// The token that is asked for. Sums are compared, so that not even its length can be timed.
#[derive(Clone)]
pub(super) struct Token(Sum);

impl Token {
    pub(super) fn new(token: &str) -> Self {
        Self(sum(token.as_bytes()))
    }

    pub(super) fn is_presented(&self, headers: &HeaderMap) -> bool {
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (presented.next(), presented.next()) else { return false };
        bearer(value).is_some_and(|token| sum(token).ct_eq(&self.0).into())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(_)")
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let named = |&value| (header::AUTHORIZATION, HeaderValue::from_static(value));
        values.iter().map(named).collect()
    }

    #[test]
    fn only_the_token_itself_opens() {
        let token = Token::new("s3cret");
        for value in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret"] {
            assert!(token.is_presented(&headers(&[value])), "{value}");
        }
        for value in
            ["Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cretly", "Basic s3cret", "s3cret", ""]
        {
            assert!(!token.is_presented(&headers(&[value])), "{value}");
        }
        assert!(!token.is_presented(&headers(&[])));
        let mut two = headers(&["Bearer s3cret"]);
        two.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert!(!token.is_presented(&two));
    }

    #[test]
    fn credentials_are_equal_when_the_same_was_presented() {
        let of = |values| Credential::of(&headers(values));
        assert_eq!(of(&["Bearer a"]), of(&["Bearer a"]));
        assert_ne!(of(&["Bearer a"]), of(&["Bearer b"]));
        assert_eq!(of(&[]), Credential::none());
        assert_eq!(format!("{:?}", of(&["Bearer a"])), "Credential(_)");
    }
}
