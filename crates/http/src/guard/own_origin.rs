//! Requests that only pages of this server may send: those of routes that a browser authenticates with a cookie.
//!
//! A cookie goes with the requests of every page on the same host, whatever its port, so the origin is compared exactly.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use skills_core::origin::{WebHost, WebOrigin};

use crate::error::{self, HttpError};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Scheme that the client of a proxy used.
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Routes that a browser authenticates with a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPages {
    /// Pages, which links of other sites may open.
    Linkable,
    /// Content and streams, which only pages of this server may request.
    Unlinkable,
}

/// Returns whether the browser opens a page in a tab, as after a click on a link: not in a frame, not for a script. The
/// page that has the link cannot read the answer.
fn is_top_level_navigation(headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, expected: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|value| value == expected) && values.next().is_none()
    };
    is(&SEC_FETCH_MODE, "navigate") && is(&SEC_FETCH_DEST, "document")
}

/// Returns whether a server that is addressed by these headers has an origin.
///
/// The server itself speaks plain HTTP and cannot see whether a proxy in front of it speaks TLS. A browser that sends
/// `Sec-Fetch-Site: same-origin` has compared the schemes; otherwise the scheme is the one that the proxy names, or `http`.
/// No page can send the header of a proxy to another origin.
fn is_own_origin(origin: &WebOrigin, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let Some((host, port)) = text(header::HOST).and_then(WebHost::parse_authority) else {
        return false;
    };
    let is_of = |scheme: &str| origin.is_of(scheme, &host, port);
    if text(SEC_FETCH_SITE) == Some("same-origin") {
        return is_of("http") || is_of("https");
    }
    // The first of several is that of the proxy next to the browser.
    let named = text(X_FORWARDED_PROTO).map(|list| list.split(',').next().unwrap_or(list).trim());
    is_of(&named.unwrap_or("http").to_ascii_lowercase())
}

/// Checks that no page of another origin caused a request. The host was checked before.
///
/// | request | needs |
/// |---|---|
/// | `GET`, `HEAD` | no `Origin`, or the server's own; not caused by a page of another origin, unless it opens a linkable page in a tab |
/// | all others | exactly one `Origin`, the server's own; caused by the same origin, where the browser says so |
pub(super) fn check(
    pages: OwnPages,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), HttpError> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(WebOrigin::parse);
        origin.is_some_and(|origin| is_own_origin(&origin, headers))
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
        "same-site" | "cross-site" => {
            is_read && pages == OwnPages::Linkable && is_top_level_navigation(headers)
        }
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
    use super::*;

    const OWN: &str = "http://127.0.0.1:47372";

    fn is_allowed(method: Method, host: &str, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        map.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            map.append(HeaderName::from_static(name), value);
        }
        check(OwnPages::Linkable, &method, &map).is_ok()
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
        for site in ["same-origin", "none"] {
            assert!(get(&[("sec-fetch-site", site)]), "{site}");
        }
        assert!(!get(&[("sec-fetch-site", "cross-site")]));
        assert!(!get(&[("sec-fetch-site", "same-site")]));
        assert!(!get(&[("origin", "http://127.0.0.1:3000")]) && !get(&[("origin", "null")]));
    }

    #[test]
    fn pages_of_other_origins_may_only_link_to_pages() {
        let request = |pages, method: Method, site, mode, dest| {
            let mut map = HeaderMap::new();
            map.insert(header::HOST, HeaderValue::from_static("127.0.0.1:47372"));
            for (name, value) in
                [(SEC_FETCH_SITE, site), (SEC_FETCH_MODE, mode), (SEC_FETCH_DEST, dest)]
            {
                map.append(name, HeaderValue::from_static(value));
            }
            check(pages, &method, &map).is_ok()
        };
        let (linkable, unlinkable) = (OwnPages::Linkable, OwnPages::Unlinkable);
        for site in ["same-site", "cross-site"] {
            assert!(request(linkable, Method::GET, site, "navigate", "document"), "{site}");
            assert!(!request(linkable, Method::POST, site, "navigate", "document"), "{site}");
            assert!(!request(unlinkable, Method::GET, site, "navigate", "document"), "{site}");
            for (mode, dest) in [
                ("navigate", "iframe"),
                ("navigate", "object"),
                ("no-cors", "image"),
                ("no-cors", "script"),
                ("cors", "empty"),
                ("cors", "document"),
                ("", ""),
            ] {
                assert!(!request(linkable, Method::GET, site, mode, dest), "{site} {mode} {dest}");
            }
        }
        assert!(request(unlinkable, Method::GET, "same-origin", "no-cors", "image"));
        assert!(request(unlinkable, Method::GET, "none", "navigate", "document"));
    }

    #[test]
    fn the_scheme_of_an_origin_is_that_of_the_server_as_the_browser_sees_it() {
        let post = |host: &str, origin: &str, headers: &[(&'static str, &str)]| {
            is_allowed(Method::POST, host, &[&[("origin", origin)], headers].concat())
        };
        let (plain, tls) = ("http://127.0.0.1:47372", "https://127.0.0.1:47372");
        assert!(post("127.0.0.1:47372", plain, &[]) && !post("127.0.0.1:47372", tls, &[]));
        for scheme in ["ftp", "ws", "chrome-extension", "tauri"] {
            assert!(!post("127.0.0.1:47372", &format!("{scheme}://127.0.0.1:47372"), &[]));
            assert!(!post("localhost", &format!("{scheme}://localhost"), &[]));
        }
        let same_origin = ("sec-fetch-site", "same-origin");
        let (plain, tls) = ("http://skills.example", "https://skills.example");
        for (headers, allows_plain, allows_tls) in [
            (&[][..], true, false),
            (&[("x-forwarded-proto", "https")], false, true),
            (&[("x-forwarded-proto", "HTTPS, http")], false, true),
            (&[("x-forwarded-proto", "http")], true, false),
            (&[("x-forwarded-proto", "what")], false, false),
            // The browser has compared the schemes, and a proxy may say nothing, or name its own scheme.
            (&[same_origin], true, true),
            (&[same_origin, ("x-forwarded-proto", "http")], true, true),
            (&[("sec-fetch-site", "cross-site"), ("x-forwarded-proto", "https")], false, false),
        ] {
            assert_eq!(post("skills.example", plain, headers), allows_plain, "{headers:?}");
            assert_eq!(post("skills.example", tls, headers), allows_tls, "{headers:?}");
        }
    }

    #[test]
    fn a_host_without_a_port_has_the_default_port_of_the_scheme() {
        let post = |host: &str, origin: &str| {
            let headers = [("origin", origin), ("sec-fetch-site", "same-origin")];
            is_allowed(Method::POST, host, &headers)
        };
        assert!(post("skills.example", "https://skills.example"));
        assert!(post("skills.example", "http://skills.example:80"));
        assert!(post("SKILLS.example:8443", "https://skills.example:8443"));
        assert!(!post("skills.example", "https://skills.example:8443"));
        assert!(!post("skills.example:8443", "https://skills.example"));
        assert!(!post("skills.example:443", "http://skills.example"));
    }
}
