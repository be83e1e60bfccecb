//! Who asks, as far as a bearer token tells.

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest as _, Sha256};
pub(super) use skills_core::Token;
use skills_core::caller::KEY_PREFIX;

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

/// What a request presents as its credential.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Presented<'a> {
    /// Nothing that could be one.
    Nothing,
    /// A token or a key, without the word before it.
    One(&'a [u8]),
    /// More than one, and a key among them.
    SeveralWithAKey,
}

impl<'a> Presented<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (Some(only), None) => bearer(only).map_or(Self::Nothing, Self::One),
            (None, _) => Self::Nothing,
            (Some(_), Some(_)) => {
                let all = headers.get_all(header::AUTHORIZATION).iter().filter_map(bearer);
                if all.into_iter().any(is_key) { Self::SeveralWithAKey } else { Self::Nothing }
            }
        }
    }
}

fn is_key(presented: &[u8]) -> bool {
    presented.starts_with(KEY_PREFIX.as_bytes())
}

/// What follows the word `Bearer`, which may be left out before a key.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    if is_key(value.trim_ascii()) {
        return Some(value.trim_ascii());
    }
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let named = |&value| (header::AUTHORIZATION, HeaderValue::from_static(value));
        let mut headers = HeaderMap::new();
        for (name, value) in values.iter().map(named) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_the_token_itself_opens() {
        let token = Token::new("s3cret");
        let is_presented = |values: &[&'static str]| match Presented::of(&headers(values)) {
            Presented::One(presented) => token.is(presented),
            _ => false,
        };
        for value in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret"] {
            assert!(is_presented(&[value]), "{value}");
        }
        for value in
            ["Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cretly", "Basic s3cret", "s3cret", ""]
        {
            assert!(!is_presented(&[value]), "{value}");
        }
        assert!(!is_presented(&[]));
        assert!(!is_presented(&["Bearer s3cret", "Bearer x"]));
    }

    #[test]
    fn a_key_needs_no_word_before_it_and_stands_alone() {
        let of = |values: &[&'static str]| match Presented::of(&headers(values)) {
            Presented::One(key) => String::from_utf8_lossy(key).into_owned(),
            other => format!("{other:?}"),
        };
        for value in ["Bearer us-a", "bearer  us-a ", "us-a", " us-a"] {
            assert_eq!(of(&[value]), "us-a", "{value}");
        }
        assert_eq!(of(&["Basic us-a"]), "Nothing");
        assert_eq!(of(&["Bearer a", "Bearer b"]), "Nothing");
        assert_eq!(of(&["Bearer a", "us-b"]), "SeveralWithAKey");
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
