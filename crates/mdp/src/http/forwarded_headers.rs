//! Selection of the request headers that reach the live client of a skill.
//!
//! A live client is not trusted with credentials, nor with headers that a proxy or an identity system adds. So this is an
//! allow list: content negotiation, conditional requests, and custom `x-` headers, except those that belong to
//! infrastructure or look like a credential. An administrator can add names.

use axum::http::{HeaderMap, HeaderName};
use skills_http::is_proxy_header;
use skills_manifest::is_credential_header;

use crate::{Config, auth::HEADER_PREFIX};

/// Headers for content negotiation and conditional requests.
const STANDARD: [&str; 10] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
];

/// Credentials for this server, forwarded with `forward_credentials`.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// Name prefixes that identity systems, platforms and this server use, besides [those of proxies](is_proxy_header).
const INFRASTRUCTURE_PREFIXES: [&str; 11] = [
    "x-consumer-",
    "x-datadog-",
    "x-endpoint-",
    "x-hasura-",
    "x-mcp-",
    "x-mdp-",
    "x-oidc-",
    "x-pomerium-",
    "x-saml-",
    "x-skills-",
    "x-user-",
];

/// Parts of names of credentials and identities.
const CREDENTIAL_PARTS: [&str; 25] = [
    "apikey",
    "assertion",
    "auth",
    "bearer",
    "cert",
    "claim",
    "cookie",
    "credential",
    "csrf",
    "email",
    "identity",
    "jwt",
    "kerberos",
    "ldap",
    "oidc",
    "passw",
    "principal",
    "saml",
    "secret",
    "session",
    "shib",
    "signature",
    "tenant",
    "token",
    "xsrf",
];

/// Last words of names of credentials and identities.
const CREDENTIAL_SUFFIXES: [&str; 15] = [
    "dn", "group", "groups", "key", "login", "otp", "pass", "pin", "pwd", "role", "roles", "sub",
    "uid", "user", "username",
];

/// Words of names of identity systems that are too short to be searched inside other words.
const IDENTITY_WORDS: [&str; 1] = ["sso"];

/// Full names that identity systems use.
const IDENTITY_HEADERS: [&str; 1] = ["x-userinfo"];

/// Returns whether a header, with its name in lower case, always reaches a client.
fn is_forwarded_by_default(name: &str) -> bool {
    STANDARD.contains(&name) || name.starts_with("x-") && !is_sensitive(name)
}

fn is_sensitive(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut words = name.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let ending = words.clone().next();
    is_proxy_header(name)
        || INFRASTRUCTURE_PREFIXES.iter().any(|start| name.starts_with(start))
        || IDENTITY_HEADERS.contains(&name)
        || words.any(|word| IDENTITY_WORDS.contains(&word))
        || ending.is_some_and(|word| CREDENTIAL_SUFFIXES.contains(&word))
        || CREDENTIAL_PARTS.iter().any(|part| plain.contains(part))
        || is_credential_header(name)
}

fn is_credential(name: &str) -> bool {
    CREDENTIALS.contains(&name) || name.starts_with(HEADER_PREFIX)
}

/// Returns the headers of a request that a client gets.
pub(super) fn select(headers: &HeaderMap, config: &Config) -> Vec<(String, String)> {
    let is_forwarded = |name: &&HeaderName| {
        let name = name.as_str();
        is_forwarded_by_default(name)
            || config.forward_headers.iter().any(|added| added == name)
            || config.forward_credentials && is_credential(name)
    };
    let joined = |name: &HeaderName| {
        let mut text = String::new();
        for value in headers.get_all(name) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&String::from_utf8_lossy(value.as_bytes()));
        }
        text
    };
    headers.keys().filter(is_forwarded).map(|name| (name.to_string(), joined(name))).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn credential_and_identity_headers_are_not_forwarded() {
        for name in [
            "api-key",
            "authorization",
            "cdn-loop",
            "cf-access-authenticated-user-email",
            "cf-access-jwt-assertion",
            "cf-connecting-ip",
            "cookie",
            "forwarded",
            "host",
            "mcp-session-id",
            "proxy-authorization",
            "remote-user",
            "true-client-ip",
            "via",
            "x-amzn-oidc-data",
            "x-amzn-trace-id",
            "x-api-key",
            "x-auth-request-access-token",
            "x-auth-request-email",
            "x-authentik-username",
            "x-bearer",
            "x-claims",
            "x-client-cert",
            "x-client-dn",
            "x-csrf-token",
            "x-envoy-external-address",
            "x-forwarded-access-token",
            "x-forwarded-for",
            "x-forwarded-user",
            "x-functions-key",
            "x-goog-authenticated-user-email",
            "x-goog-iap-jwt-assertion",
            "x-groups",
            "x-hasura-role",
            "x-hasura-user-id",
            "x-jwt-sub",
            "x-master-key",
            "x-master_key",
            "x-mcp-session",
            "x-mdp-auth-token",
            "x-mdp-session-id",
            "x-ms-client-principal",
            "x-my-secret-thing",
            "x-oidc-sub",
            "x-org-role",
            "x-original-url",
            "x-pomerium-claim-email",
            "x-real-ip",
            "x-remote-user",
            "x-rapidapi-key",
            "x-roles",
            "x-saml-name-id",
            "x-session",
            "x-subject-dn",
            "x-team-groups",
            "x-tenant-id",
            "x-tls-client-subject",
            "x-tls-client-verified",
            "x-user",
            "x-user-groups",
            "x-user-id",
            "x-user-name",
            "x-user-roles",
            "x-vault-token",
            "x-webauth-user",
            "x-acting-user",
            "x-account-uid",
            "x-corp-login",
            "x-corp-username",
            "x-haproxy-ssl-client",
            "x-kerberos-name",
            "x-ldap-mail",
            "x-my-otp",
            "x-my-pass",
            "x-my-pin",
            "x-my-pwd",
            "x-shib-affiliation",
            "x-sso-name",
            "x-varnish",
        ] {
            assert!(!is_forwarded_by_default(name), "{name}");
        }
    }

    #[test]
    fn content_negotiation_and_custom_headers_are_forwarded() {
        for name in [
            "accept",
            "accept-language",
            "if-none-match",
            "range",
            "x-review-scope",
            "x-request-id",
            "x-requested-with",
            "x-group-by",
            "x-key-count",
            "x-keyboard",
            "x-lesson",
            "x-pinned",
            "x-user1",
            "x-shipping",
            "x-subscribe",
            "x-trace",
        ] {
            assert!(is_forwarded_by_default(name), "{name}");
        }
    }

    #[test]
    fn an_administrator_can_add_names_and_credentials() {
        let mut given = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer s3cret"),
            ("cookie", "a=b"),
            ("x-mdp-auth-token", "t"),
            ("x-forwarded-user", "ann"),
            ("user-agent", "curl"),
            ("x-review-scope", "one"),
            ("x-review-scope", "two"),
        ] {
            given.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let names = |config: &Config| -> Vec<String> {
            select(&given, config).into_iter().map(|(name, _)| name).collect()
        };
        let scope = ("x-review-scope".to_owned(), "one, two".to_owned());
        assert_eq!(select(&given, &Config::default()), [scope]);
        let added = Config { forward_headers: vec!["user-agent".to_owned()], ..Config::default() };
        assert_eq!(names(&added), ["user-agent", "x-review-scope"]);
        let trusting = Config { forward_credentials: true, ..Config::default() };
        let trusted = names(&trusting);
        assert_eq!(trusted.len(), 4, "{trusted:?}");
        assert!(!trusted.contains(&"x-forwarded-user".to_owned()));
    }
}
