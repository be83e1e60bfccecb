//! Allowed origins of web pages. Only browsers send `Origin`.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use skills_core::origin::WebOrigin;

use super::AccessRuleError;
use crate::error::{self, HttpError};

/// Relation between the page that caused a request and this server (Fetch Metadata). Pages cannot set it, and browsers
/// also send it where they send no `Origin`: navigations, images, scripts, frames.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Routes that a request may reach, by the page that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageReach {
    /// Any route: the request comes from no page of another site, or from one whose origin is listed by name.
    AllRoutes,
    /// Reads of public routes; all other routes respond with this error.
    PublicRoutes(HttpError),
}

/// Configured origins.
#[derive(Debug, Default)]
pub(super) struct Origins {
    any: bool,
    null: bool,
    listed: Vec<WebOrigin>,
}

impl Origins {
    pub(super) fn new(listed: &[String]) -> Result<Self, AccessRuleError> {
        let mut origins = Self::default();
        for text in listed {
            match text.as_str() {
                "*" => origins.any = true,
                "null" => origins.null = true,
                _ => {
                    let origin = WebOrigin::parse(text);
                    origins
                        .listed
                        .push(origin.ok_or_else(|| AccessRuleError::Origin(text.clone()))?);
                }
            }
        }
        Ok(origins)
    }

    pub(super) const fn is_empty(&self) -> bool {
        !self.any && !self.null && self.listed.is_empty()
    }

    /// Returns the configured wildcards.
    pub(super) fn wildcards(&self) -> impl Iterator<Item = &'static str> {
        [(self.any, "*"), (self.null, "null")]
            .into_iter()
            .filter_map(|(is_set, it)| is_set.then_some(it))
    }

    /// Returns the routes that a request may reach, by all its `Origin` headers, or without one by its site.
    ///
    /// # Errors
    /// When it may reach no route.
    pub(super) fn reach(&self, headers: &HeaderMap) -> Result<PageReach, HttpError> {
        let mut reach = None;
        for origin in headers.get_all(header::ORIGIN) {
            if self.is_named(origin) {
                reach = reach.or(Some(PageReach::AllRoutes));
            } else if self.any || (self.null && origin == "null") {
                reach = Some(PageReach::PublicRoutes(error::ORIGIN_NOT_ALLOWED));
            } else {
                return Err(error::ORIGIN_NOT_ALLOWED);
            }
        }
        match reach {
            Some(reach) => Ok(reach),
            None if !is_cross_site(headers) => Ok(PageReach::AllRoutes),
            None if self.any => Ok(PageReach::PublicRoutes(error::CROSS_SITE)),
            None => Err(error::CROSS_SITE),
        }
    }

    /// Returns whether an origin is local or listed by name.
    fn is_named(&self, origin: &HeaderValue) -> bool {
        let is_listed = |origin: WebOrigin| origin.is_local() || self.listed.contains(&origin);
        origin.to_str().ok().and_then(WebOrigin::parse).is_some_and(is_listed)
    }
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.any(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Result<PageReach, HttpError> = Ok(PageReach::AllRoutes);
    const PUBLIC: Result<PageReach, HttpError> =
        Ok(PageReach::PublicRoutes(error::ORIGIN_NOT_ALLOWED));
    const NONE: Result<PageReach, HttpError> = Err(error::ORIGIN_NOT_ALLOWED);

    fn reach_with(listed: &[&str], headers: &[(HeaderName, &str)]) -> Result<PageReach, HttpError> {
        let listed: Vec<_> = listed.iter().map(|&text| text.to_owned()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Origins::new(&listed).unwrap().reach(&map)
    }

    fn reach(listed: &[&str], origin: &str) -> Result<PageReach, HttpError> {
        reach_with(listed, &[(header::ORIGIN, origin)])
    }

    #[test]
    fn only_local_pages_are_allowed_by_default() {
        for origin in ["http://localhost", "https://localhost:3000", "https://[::1]:8443"] {
            assert_eq!(reach(&[], origin), ALL, "{origin}");
        }
        for origin in
            ["https://evil.example", "http://127.0.0.2", "http://a.localhost", "null", "*", ""]
        {
            assert_eq!(reach(&[], origin), NONE, "{origin}");
        }
    }

    #[test]
    fn listed_origins_are_compared_by_scheme_host_and_port() {
        let listed = ["https://App.Example", "http://10.0.0.7:3000", "chrome-extension://abcdef"];
        for (origin, expected) in [
            ("https://app.example", ALL),
            ("https://app.example:443", ALL),
            ("HTTPS://APP.EXAMPLE", ALL),
            ("http://app.example", NONE),
            ("https://app.example:8443", NONE),
            ("https://evil.app.example", NONE),
            ("http://10.0.0.7:3000", ALL),
            ("http://10.0.0.7", NONE),
            ("chrome-extension://abcdef", ALL),
            ("chrome-extension://abcdeg", NONE),
            ("http://localhost", ALL),
            ("null", NONE),
        ] {
            assert_eq!(reach(&listed, origin), expected, "{origin}");
        }
        assert_eq!(reach(&["http://a.example:80"], "http://a.example"), ALL);
    }

    #[test]
    fn null_and_wildcard_origins_reach_public_routes_only() {
        assert_eq!(reach(&["null"], "null"), PUBLIC);
        assert_eq!(reach(&["null"], "https://evil.example"), NONE);
        for origin in ["null", "https://evil.example", "what?"] {
            assert_eq!(reach(&["*"], origin), PUBLIC, "{origin}");
        }
        assert_eq!(reach(&["*", "https://app.example"], "https://app.example"), ALL);
        let not_ascii = HeaderValue::from_bytes(b"https://\xff").unwrap();
        let headers = HeaderMap::from_iter([(header::ORIGIN, not_ascii)]);
        assert_eq!(Origins::default().reach(&headers), NONE);
    }

    #[test]
    fn the_least_trusted_of_several_origins_counts() {
        let two = |listed: &[&str], one, other| {
            reach_with(listed, &[(header::ORIGIN, one), (header::ORIGIN, other)])
        };
        let (local, evil) = ("http://localhost", "https://evil.example");
        assert_eq!(two(&[], local, local), ALL);
        for (one, other) in [(local, evil), (evil, local)] {
            assert_eq!(two(&[], one, other), NONE);
            assert_eq!(two(&["*"], one, other), PUBLIC);
        }
    }

    #[test]
    fn requests_from_other_sites_need_a_listed_origin() {
        let cross_site = || (SEC_FETCH_SITE, "cross-site");
        let refused = Err(error::CROSS_SITE);
        assert_eq!(reach_with(&[], &[cross_site()]), refused);
        assert_eq!(reach_with(&["null", "https://app.example"], &[cross_site()]), refused);
        let public = Ok(PageReach::PublicRoutes(error::CROSS_SITE));
        assert_eq!(reach_with(&["*"], &[cross_site()]), public);
        // The page of a listed origin is on another site.
        let app = (header::ORIGIN, "https://app.example");
        assert_eq!(reach_with(&["https://app.example"], &[app, cross_site()]), ALL);
        assert_eq!(
            reach_with(&[], &[(header::ORIGIN, "http://127.0.0.1:3000"), cross_site()]),
            ALL
        );
        for site in ["same-origin", "same-site", "none", ""] {
            assert_eq!(reach_with(&[], &[(SEC_FETCH_SITE, site)]), ALL, "{site}");
        }
        let two = [(SEC_FETCH_SITE, "none"), (SEC_FETCH_SITE, "Cross-Site")];
        assert_eq!(reach_with(&[], &two), refused);
    }

    #[test]
    fn an_invalid_origin_is_rejected() {
        for wrong in
            ["app.example", "https://app.example/", "https://", "https://*.example", "", "Null"]
        {
            let refused = Origins::new(&[wrong.to_owned()]);
            assert!(
                matches!(refused, Err(AccessRuleError::Origin(named)) if named == wrong),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_values_do_not_panic(value in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                let _ = Origins::default().reach(&HeaderMap::from_iter([(header::ORIGIN, value)]));
            }
        }

        #[test]
        fn a_listed_origin_is_allowed(host in "[a-z][a-z0-9-]{0,9}\\.example", port in 1u16..) {
            let origin = format!("https://{host}:{port}");
            prop_assert_eq!(reach(&[&origin], &origin), ALL);
            prop_assert_eq!(reach(&[], &origin), NONE);
        }
    }
}
