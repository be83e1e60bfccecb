//! Credentials in the `Authorization` header.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use skills_core::caller::KEY_PREFIX;

/// Credential of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PresentedCredential<'a> {
    /// No bearer token and no key.
    None,
    /// A token or a key, without the scheme.
    One(&'a [u8]),
    /// Several credentials with a key among them.
    SeveralWithAKey,
}

impl<'a> PresentedCredential<'a> {
    pub(super) fn from_headers(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(header::AUTHORIZATION);
        let mut iter = values.iter();
        match (iter.next(), iter.next()) {
            (Some(only), None) => bearer(only).map_or(Self::None, Self::One),
            (Some(_), Some(_)) if values.iter().filter_map(bearer).any(is_key) => {
                Self::SeveralWithAKey
            }
            _ => Self::None,
        }
    }
}

fn is_key(presented: &[u8]) -> bool {
    presented.starts_with(KEY_PREFIX.as_bytes())
}

/// Returns the bearer credential of a header value. The scheme is optional before a key.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    if is_key(value.trim_ascii()) {
        return Some(value.trim_ascii());
    }
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Returns the password of Basic credentials, or the user name if there is no password: some clients take the one part
/// before the `@` of a URL. `None` unless they are the only credential.
pub(super) fn basic(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (values.next(), values.next()) else { return None };
    let (scheme, encoded) = only.as_bytes().split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (user, password) = (&decoded[..colon], &decoded[colon + 1..]);
    Some(if password.is_empty() { user } else { password }.trim_ascii().to_vec())
}

#[cfg(test)]
mod tests {
    use skills_core::Token;

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
    fn only_the_exact_token_is_accepted() {
        let token = Token::new("s3cret");
        let is_presented =
            |values: &[&'static str]| match PresentedCredential::from_headers(&headers(values)) {
                PresentedCredential::One(presented) => token.matches(presented),
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
    fn a_key_needs_no_scheme_and_must_be_the_only_credential() {
        let of = |values: &[&'static str]| match PresentedCredential::from_headers(&headers(values))
        {
            PresentedCredential::One(key) => String::from_utf8_lossy(key).into_owned(),
            other => format!("{other:?}"),
        };
        for value in ["Bearer us-a", "bearer  us-a ", "us-a", " us-a"] {
            assert_eq!(of(&[value]), "us-a", "{value}");
        }
        assert_eq!(of(&["Basic us-a"]), "None");
        assert_eq!(of(&["Bearer a", "Bearer b"]), "None");
        assert_eq!(of(&["Bearer a", "us-b"]), "SeveralWithAKey");
    }

    #[test]
    fn the_password_of_basic_credentials_counts_whatever_the_user() {
        let of = |values: &[&'static str]| {
            basic(&headers(values)).map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        // x:us-a, us-a:, x:a:b
        assert_eq!(of(&["Basic eDp1cy1h"]).as_deref(), Some("us-a"));
        assert_eq!(of(&["basic dXMtYTo="]).as_deref(), Some("us-a"));
        assert_eq!(of(&["Basic eDphOmI="]).as_deref(), Some("a:b"));
        for values in [&["Bearer us-a"] as &[_], &["Basic !"], &["Basic eA=="], &["Basic"], &[]] {
            assert_eq!(of(values), None, "{values:?}");
        }
        assert_eq!(of(&["Basic eDp1cy1h", "Basic eDp1cy1h"]), None);
    }
}
