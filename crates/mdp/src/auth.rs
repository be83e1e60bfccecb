//! Who may register: the token, and the cookie that stands for it where no header can be sent.
//!
//! A cookie is what was posted to `/mdp/auth`, with the moment it ends, signed. One that is forged, changed or
//! too old is as if it were not there. Nothing here knows sessions or routes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use skills_core::{Digest, Token};
use uuid::Uuid;

use crate::{Config, Transport, wire::Auth};

/// The name of the cookie.
pub(crate) const COOKIE: &str = "mdp_auth";
/// Headers that begin so carry credentials.
pub(crate) const HEADER_PREFIX: &str = "x-mdp-auth-";

/// How many cookies of the name are looked at. A browser sends one for each path and domain it was set for.
const MAX_COOKIES: usize = 4;

/// What credentials are checked with.
pub(crate) struct Keys {
    token: Option<Token>,
    signing: Hmac<Sha256>,
    lifetime: Duration,
}

#[derive(Serialize, Deserialize)]
struct Signed {
    auth: Auth,
    /// Seconds since 1970.
    until: u64,
}

impl Keys {
    pub(crate) fn new(config: &Config) -> Self {
        let key = config.cookie_key.unwrap_or_else(|| {
            let random = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
            *Digest::of(random.as_flattened()).as_bytes()
        });
        // A key is filled up to the size of a block with zeros.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        let token = config.token.as_deref().map(Token::new);
        Self { token, signing: Hmac::new(&block.into()), lifetime: config.times.cookie }
    }

    /// Whether a token is what is asked for; anything is, where none is asked for.
    pub(crate) fn token_is_good(&self, token: Option<&str>) -> bool {
        let Some(wanted) = &self.token else { return true };
        token.is_some_and(|token| wanted.is(token.as_bytes()))
    }

    /// Whether a token is asked for.
    pub(crate) const fn token_is_needed(&self) -> bool {
        self.token.is_some()
    }

    /// The value of a cookie that stands for credentials from now on.
    pub(crate) fn sign(&self, auth: &Auth) -> String {
        let until = now().saturating_add(self.lifetime).as_secs();
        let signed = serde_json::to_vec(&Signed { auth: auth.clone(), until }).unwrap_or_default();
        let text = BASE64.encode(signed);
        let sum = self.signing.clone().chain_update(&text).finalize().into_bytes();
        format!("{text}.{}", BASE64.encode(sum))
    }

    /// What a cookie stands for.
    fn verify(&self, cookie: &str) -> Option<Auth> {
        let (text, sum) = cookie.split_once('.')?;
        let sum = BASE64.decode(sum).ok()?;
        self.signing.clone().chain_update(text).verify_slice(&sum).ok()?;
        let Signed { auth, until } = serde_json::from_slice(&BASE64.decode(text).ok()?).ok()?;
        (until > now().as_secs()).then_some(auth)
    }

    /// The credentials of a request: its headers, and beneath them its cookie.
    pub(crate) fn credentials(&self, headers: &HeaderMap) -> Option<Auth> {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let (scheme, token) = match text(&header::AUTHORIZATION).map(str::trim) {
            None | Some("") => (None, None),
            Some(value) => match value.split_once(' ') {
                Some((scheme, token)) => (Some(scheme.to_owned()), Some(token.trim().to_owned())),
                None => (None, Some(value.to_owned())),
            },
        };
        let is_own = |name: &HeaderName| {
            name.as_str().starts_with(HEADER_PREFIX) || name == header::AUTHORIZATION
        };
        let own = headers.iter().filter(|(name, _)| is_own(name));
        let own = own
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let own =
            Some(own.collect()).filter(|own: &std::collections::BTreeMap<_, _>| !own.is_empty());
        let auth = Auth { scheme, token, headers: own, metadata: None };
        let cookie = cookies(headers).take(MAX_COOKIES).find_map(|cookie| self.verify(cookie));
        let auth = auth.over(cookie.unwrap_or_default());
        (!auth.is_empty()).then_some(auth)
    }

    /// What a session is to know of a request.
    pub(crate) fn transport(&self, headers: &HeaderMap) -> Transport {
        let auth = self.credentials(headers);
        let is_authorized = !self.token_is_needed()
            || auth.as_ref().is_some_and(|auth| self.token_is_good(auth.token.as_deref()));
        Transport { has_auth: auth.is_some(), is_authorized }
    }
}

/// The values of all our cookies.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let cookies =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value.trim_matches('"'))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(token: Option<&str>, cookie_key: Option<[u8; 32]>) -> Keys {
        let token = token.map(str::to_owned);
        Keys::new(&Config { token, cookie_key, ..Config::default() })
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_the_token_itself_is_good() {
        let keys = keys(Some("s3cret"), None);
        assert!(keys.token_is_good(Some("s3cret")));
        for token in [None, Some(""), Some("s3cre"), Some("s3crets")] {
            assert!(!keys.token_is_good(token));
        }
        assert!(super::tests::keys(None, None).token_is_good(None));
    }

    #[test]
    fn a_request_presents_it_in_a_header_or_in_the_cookie() {
        let keys = keys(Some("s3cret"), None);
        let good = Auth { token: Some("s3cret".into()), ..Auth::default() };
        let cookie = format!("a=b; mdp_auth={}", keys.sign(&good));
        let is_authorized = |pairs: &[_]| keys.transport(&headers(pairs)).is_authorized;
        assert!(is_authorized(&[("authorization", "Bearer s3cret")]));
        assert!(is_authorized(&[("authorization", "bearer  s3cret")]));
        assert!(is_authorized(&[("cookie", &cookie)]));
        for pairs in [
            &[][..],
            &[("authorization", "Bearer other")],
            &[("authorization", "Bearer")],
            &[("cookie", "mdp_auth=eyJ0b2tlbiI6InMzY3JldCJ9")],
            &[("x-mdp-auth-token", "s3cret")],
        ] {
            assert!(!is_authorized(pairs), "{pairs:?}");
        }
    }

    #[test]
    fn a_cookie_of_another_key_or_another_text_says_nothing() {
        let (one, other) = (keys(None, Some([1; 32])), keys(None, Some([2; 32])));
        let auth = Auth { token: Some("t".into()), ..Auth::default() };
        let cookie = one.sign(&auth);
        assert_eq!(one.verify(&cookie), Some(auth.clone()));
        assert_eq!(keys(None, Some([1; 32])).verify(&cookie), Some(auth.clone()), "a restart");
        assert_eq!(other.verify(&cookie), None);
        let (text, sum) = cookie.split_once('.').unwrap();
        let forged = BASE64.encode(r#"{"auth":{"token":"x"},"until":99999999999}"#);
        for cookie in [format!("{forged}.{sum}"), format!("{text}."), text.to_owned(), ".".into()] {
            assert_eq!(one.verify(&cookie), None, "{cookie}");
        }
        let mut old = keys(None, Some([1; 32]));
        old.lifetime = Duration::ZERO;
        assert_eq!(one.verify(&old.sign(&auth)), None, "too old");
    }

    #[test]
    fn credentials_are_the_headers_over_the_cookie() {
        let keys = keys(None, None);
        let cookie =
            Auth { token: Some("c".into()), scheme: Some("Bearer".into()), ..Auth::default() };
        let cookie = format!("mdp_auth={}", keys.sign(&cookie));
        let read = |pairs: &[_]| keys.credentials(&headers(pairs));
        assert_eq!(read(&[("cookie", "session=1")]), None);
        assert_eq!(read(&[("cookie", &cookie)]).unwrap().token.as_deref(), Some("c"));
        let both = read(&[("cookie", &cookie), ("authorization", "word"), ("x-mdp-auth-a", "1")]);
        let both = both.unwrap();
        assert_eq!(both.token.as_deref(), Some("word"));
        assert_eq!(
            both.headers.unwrap().into_keys().collect::<Vec<_>>(),
            ["authorization", "x-mdp-auth-a"]
        );
    }
}
