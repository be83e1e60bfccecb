//! Authentication of registrations: the token, and the cookie that replaces it where a client cannot send headers.
//!
//! A cookie is its expiry time, signed together with its purpose and the token; it contains neither. A cookie that is
//! forged, modified, expired or of another token is ignored. This module knows no sessions and no routes.

use std::time::Duration;

use axum::http::{Extensions, HeaderMap, HeaderName, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use skills_core::{Digest, Timestamp, Token};
use skills_net::{ConnectionAddresses, host_network};
use uuid::Uuid;

use crate::{Config, TransportAuth, wire::AuthContext};

/// Name of the cookie.
pub(crate) const COOKIE: &str = "mdp_auth";
/// Name prefix of headers with credentials.
pub(crate) const HEADER_PREFIX: &str = "x-mdp-auth-";

/// Purpose in the signature, so that a signature made for anything else is invalid here.
const PURPOSE: &[u8] = b"mdp registration cookie 1\n";

/// Cookies of the name that are checked. A browser sends one for each path and domain it was set for.
const MAX_COOKIES: usize = 4;

/// Checker of registration credentials.
pub(crate) struct RegistrationAuth {
    token: Option<Token>,
    /// MAC over the purpose and the token, to be continued with the expiry time.
    signing: Hmac<Sha256>,
    lifetime: Duration,
}

impl RegistrationAuth {
    pub(crate) fn new(config: &Config) -> Self {
        let key = config.cookie_key.unwrap_or_else(|| {
            let random = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
            *Digest::of(random.as_flattened()).as_bytes()
        });
        // HMAC pads a key with zeros to the block size.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(&key);
        let mut signing = Hmac::new(&block.into());
        signing.update(PURPOSE);
        // A cookie of a server without a token is invalid on a server with one.
        signing.update(&[u8::from(config.token.is_some())]);
        signing
            .update(Digest::of(config.token.as_deref().unwrap_or_default().as_bytes()).as_bytes());
        let token = config.token.as_deref().map(Token::new);
        Self { token, signing, lifetime: config.times.cookie }
    }

    /// Returns whether a token is valid; without a configured token, anything is.
    pub(crate) fn is_valid_token(&self, token: Option<&str>) -> bool {
        let Some(wanted) = &self.token else { return true };
        token.is_some_and(|token| wanted.matches(token.as_bytes()))
    }

    /// Returns whether a token is configured.
    pub(crate) const fn requires_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the value of a new cookie.
    pub(crate) fn issue_cookie(&self) -> String {
        let until = Timestamp::now().saturating_add(self.lifetime).as_secs().to_string();
        let sum = self.signing.clone().chain_update(&until).finalize().into_bytes();
        format!("{until}.{}", BASE64.encode(sum))
    }

    /// Returns whether a cookie is valid and not expired. The signature is compared in constant time.
    fn verify_cookie(&self, cookie: &str) -> bool {
        let Some((until, sum)) = cookie.split_once('.') else { return false };
        let Ok(sum) = BASE64.decode(sum) else { return false };
        self.signing.clone().chain_update(until).verify_slice(&sum).is_ok()
            && until.parse().is_ok_and(|until: u64| until > Timestamp::now().as_secs())
    }

    /// Returns whether a request has a valid cookie.
    fn has_valid_cookie(&self, headers: &HeaderMap) -> bool {
        cookies(headers).take(MAX_COOKIES).any(|cookie| self.verify_cookie(cookie))
    }

    /// Returns the credentials in the headers of a request. The cookie is none of them: it is for this server only.
    pub(crate) fn credentials_from_headers(headers: &HeaderMap) -> Option<AuthContext> {
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
        let auth = AuthContext { scheme, token, headers: own, metadata: None };
        (!auth.is_empty()).then_some(auth)
    }

    /// Checks the credentials of a request.
    pub(crate) fn transport_auth(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> TransportAuth {
        let auth = Self::credentials_from_headers(headers);
        let has_cookie = self.has_valid_cookie(headers);
        let is_authorized = !self.requires_token()
            || has_cookie
            || auth.as_ref().is_some_and(|auth| self.is_valid_token(auth.token.as_deref()));
        let caller = extensions.get().cloned().unwrap_or_default();
        let addresses = extensions.get::<ConnectionAddresses>();
        let address = addresses.map(|addresses| host_network(addresses.peer.ip()));
        TransportAuth { has_auth: has_cookie || auth.is_some(), is_authorized, caller, address }
    }
}

/// Returns the values of all cookies of the name.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let cookies =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(token: Option<&str>, cookie_key: Option<[u8; 32]>) -> RegistrationAuth {
        let token = token.map(str::to_owned);
        RegistrationAuth::new(&Config { token, cookie_key, ..Config::default() })
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn only_the_exact_token_is_valid() {
        let keys = keys(Some("s3cret"), None);
        assert!(keys.is_valid_token(Some("s3cret")));
        for token in [None, Some(""), Some("s3cre"), Some("s3crets")] {
            assert!(!keys.is_valid_token(token), "{token:?}");
        }
        assert!(super::tests::keys(None, None).is_valid_token(None));
    }

    #[test]
    fn a_request_is_authorized_by_a_header_or_a_cookie() {
        let keys = keys(Some("s3cret"), None);
        let cookie = format!("a=b; mdp_auth={}", keys.issue_cookie());
        let is_authorized =
            |pairs: &[_]| keys.transport_auth(&headers(pairs), &Extensions::new()).is_authorized;
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
    fn a_cookie_contains_no_token_and_is_bound_to_its_token_and_key() {
        let key = Some([1; 32]);
        let one = keys(Some("s3cret"), key);
        let cookie = one.issue_cookie();
        assert!(!cookie.contains("s3cret") && !cookie.contains(&BASE64.encode("s3cret")));
        assert!(
            one.verify_cookie(&cookie) && keys(Some("s3cret"), key).verify_cookie(&cookie),
            "a restart"
        );
        assert!(!keys(Some("s3cret"), Some([2; 32])).verify_cookie(&cookie), "another key");
        assert!(!keys(Some("other"), key).verify_cookie(&cookie), "another token");
        assert!(!one.verify_cookie(&keys(None, key).issue_cookie()), "of a server without a token");
        let (until, sum) = cookie.split_once('.').unwrap();
        for forged in [
            format!("99999999999.{sum}"),
            format!("{until}."),
            format!("+{until}.{sum}"),
            until.to_owned(),
            ".".into(),
        ] {
            assert!(!one.verify_cookie(&forged), "{forged}");
        }
        let mut old = keys(Some("s3cret"), key);
        old.lifetime = Duration::ZERO;
        assert!(!one.verify_cookie(&old.issue_cookie()), "expired");
    }

    #[test]
    fn credentials_come_from_headers_only() {
        let keys = keys(None, None);
        let cookie = format!("mdp_auth={}", keys.issue_cookie());
        let read = |pairs: &[_]| RegistrationAuth::credentials_from_headers(&headers(pairs));
        assert_eq!(read(&[("cookie", "session=1")]), None);
        assert_eq!(read(&[("cookie", &cookie)]), None);
        let has_auth =
            |pairs: &[_]| keys.transport_auth(&headers(pairs), &Extensions::new()).has_auth;
        assert!(has_auth(&[("cookie", &cookie)]) && !has_auth(&[("cookie", "mdp_auth=1.2")]));
        let both = read(&[("cookie", &cookie), ("authorization", "word"), ("x-mdp-auth-a", "1")]);
        let both = both.unwrap();
        assert_eq!(both.token.as_deref(), Some("word"));
        assert_eq!(
            both.headers.unwrap().into_keys().collect::<Vec<_>>(),
            ["authorization", "x-mdp-auth-a"]
        );
    }
}
