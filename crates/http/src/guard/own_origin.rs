//! Requests that only pages of this server may send: those of routes that a browser authenticates with a cookie.
//!
//! A cookie goes with the requests of every page on the same host, whatever its port, so the origin is compared exactly.

use axum::http::{HeaderMap, HeaderName, Method, header};
use skills_core::origin::{WebHost, WebOrigin};

use crate::error::{self, HttpError};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks that no page of another origin caused a request. The host was checked before.
///
/// | request | needs |
/// |---|---|
/// | `GET`, `HEAD` | no `Origin`, or the server's own; not caused by another site |
/// | all others | exactly one `Origin`, the server's own; caused by the same origin, where the browser says so |
pub(super) fn check(method: &Method, headers: &HeaderMap) -> Result<(), HttpError> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(WebHost::parse_authority);
    let is_own = |origin: &axum::http::HeaderValue| {
        let origin = origin.to_str().ok().and_then(WebOrigin::parse);
        origin.zip(host.as_ref()).is_some_and(|(origin, (host, port))| origin.is_of(host, *port))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_from_own_page = match (origins.next(), origins.next()) {
        (None, _) => is_read,
        (Some(origin), None) => is_own(origin),
        (Some(_), Some(_)) => false,
    };
    let is_allowed_site = |site: &str| match site {
        "same-origin" => true,
        // Typed into the address bar, or opened from another program.
        "none" => is_read,
        // A link on a page of another port of this host. It cannot read the answer.
        "same-site" => is_read,
        _ => false,
    };
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    if !is_from_own_page || !sites.all(|site| site.to_str().is_ok_and(is_allowed_site)) {
        return Err(error::FOREIGN_PAGE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const OWN: &str = "http://127.0.0.1:47372";

    fn is_allowed(method: Method, host: &str, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        map.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            map.append(HeaderName::from_static(name), value);
        }
        check(&method, &map).is_ok()
    }

    #[test]
    fn only_the_exact_origin_may_change_something() {
        let post =
            |headers: &[(&'static str, &str)]| is_allowed(Method::POST, "127.0.0.1:47372", headers);
        assert!(post(&[("origin", OWN)]));
        assert!(post(&[("origin", OWN), ("sec-fetch-site", "same-origin")]));
        for origin in [
            "http://127.0.0.1:3000",
            "http://localhost:47372",
            "http://127.0.0.1",
            "http://[::1]:47372",
            "https://evil.example",
            "null",
            "*",
            "",
        ] {
            assert!(!post(&[("origin", origin)]), "{origin}");
        }
        assert!(!post(&[]));
        assert!(!post(&[("origin", OWN), ("origin", OWN)]));
        for site in ["same-site", "cross-site", "none", ""] {
            assert!(!post(&[("origin", OWN), ("sec-fetch-site", site)]), "{site}");
        }
        for method in [Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            assert!(!is_allowed(method, "127.0.0.1:47372", &[]));
        }
    }

    #[test]
    fn reads_need_no_origin_and_accept_no_other() {
        let get =
            |headers: &[(&'static str, &str)]| is_allowed(Method::GET, "127.0.0.1:47372", headers);
        assert!(get(&[]) && get(&[("origin", OWN)]));
        for site in ["same-origin", "same-site", "none"] {
            assert!(get(&[("sec-fetch-site", site)]), "{site}");
        }
        assert!(!get(&[("sec-fetch-site", "cross-site")]));
        assert!(!get(&[("origin", "http://127.0.0.1:3000")]) && !get(&[("origin", "null")]));
    }

    #[test]
    fn a_host_without_a_port_has_the_default_port_of_the_scheme() {
        let post = |host: &str, origin: &str| is_allowed(Method::POST, host, &[("origin", origin)]);
        assert!(post("skills.example", "https://skills.example"));
        assert!(post("skills.example", "http://skills.example:80"));
        assert!(post("SKILLS.example:8443", "https://skills.example:8443"));
        assert!(!post("skills.example", "https://skills.example:8443"));
        assert!(!post("skills.example:8443", "https://skills.example"));
    }
}
