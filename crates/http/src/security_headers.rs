//! Response headers that keep browsers from running content. [`skills_core::content`] has the rule; this module applies
//! it to every response, so that no surface can forget it. Only a response that says so is a page ([`OwnPage`]).

use axum::{
    body::HttpBody as _,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
};
use skills_core::content::{NO_SNIFFING, PAGE_POLICY, SECURITY_POLICY, attachment, is_inline};

/// Headers that are added after the handler, here and by other parts of this crate; room for them is made once.
const ADDED_HEADERS: usize = 4;

/// Marker of a response as a page of this program, or a part of one, as an extension of the response. A browser shows
/// it and runs its scripts, so no part of it may be content that users wrote, unless it is escaped or sanitised.
#[derive(Debug, Clone, Copy)]
pub struct OwnPage;

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// Headers of pages. With `no-referrer` browsers would send forms with the origin `null`.
const PAGE_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY)),
    (header::REFERRER_POLICY, SAME_ORIGIN),
    (HeaderName::from_static("cross-origin-opener-policy"), SAME_ORIGIN),
    (RESOURCE_POLICY, SAME_ORIGIN),
];

/// Inserts the headers into the response for a path, replacing those of the surface. Routes for pages of this server
/// alone (`is_same_origin`) are not for the pages of other ports of this machine either, which a browser calls same-site.
pub(crate) fn insert(path: &str, is_same_origin: bool, response: &mut Response) {
    // Without a declared type a browser guesses one.
    let is_inline =
        has_inline_type(response.headers()).unwrap_or_else(|| response.body().is_end_stream());
    let is_own_page = response.extensions().get::<OwnPage>().is_some();
    let headers = response.headers_mut();
    headers.reserve(ADDED_HEADERS);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static(NO_SNIFFING));
    if is_own_page {
        headers.extend(PAGE_HEADERS);
        return;
    }
    if is_same_origin {
        headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SECURITY_POLICY));
    if !is_inline {
        let disposition = HeaderValue::try_from(attachment(path));
        let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
}

/// Returns whether a browser may display a body of the declared type; `None` without a declared type.
fn has_inline_type(headers: &HeaderMap) -> Option<bool> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let first = types.next()?;
    Some(types.next().is_none() && first.to_str().is_ok_and(is_inline))
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::StatusCode, response::IntoResponse as _};

    use super::*;

    fn disposition(types: &[&'static str], body: &'static str) -> Option<String> {
        let mut response = (StatusCode::OK, Body::from(body)).into_response();
        response.headers_mut().remove(header::CONTENT_TYPE);
        for &one in types {
            response.headers_mut().append(header::CONTENT_TYPE, HeaderValue::from_static(one));
        }
        insert("/skills/a/x.html", false, &mut response);
        assert!(!response.headers().contains_key(RESOURCE_POLICY));
        let text = |name: HeaderName| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(text(header::X_CONTENT_TYPE_OPTIONS).as_deref(), Some("nosniff"));
        assert!(text(header::CONTENT_SECURITY_POLICY).unwrap().contains("sandbox"));
        text(header::CONTENT_DISPOSITION)
    }

    #[test]
    fn types_not_known_to_be_inert_are_sent_as_attachments() {
        let saved = Some(r#"attachment; filename="x.html""#.to_owned());
        for types in [&["text/html"] as &[_], &[], &["text/plain", "text/html"], &["image/svg+xml"]]
        {
            assert_eq!(disposition(types, "x"), saved, "{types:?}");
        }
        for (types, body) in
            [(&["application/json"] as &[_], "{}"), (&["text/plain"], "x"), (&[], "")]
        {
            assert_eq!(disposition(types, body), None, "{types:?}");
        }
    }

    #[test]
    fn content_of_same_origin_routes_is_not_for_other_ports() {
        let mut response = ([(header::CONTENT_TYPE, "text/plain")], "x").into_response();
        insert("/ui/raw/a/x.txt", true, &mut response);
        assert_eq!(response.headers()[RESOURCE_POLICY], "same-origin");
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], SECURITY_POLICY);
    }

    #[test]
    fn only_a_page_of_this_program_may_run_scripts() {
        let mut response = ([(header::CONTENT_TYPE, "text/html")], "<p>").into_response();
        response.extensions_mut().insert(OwnPage);
        insert("/ui", true, &mut response);
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], PAGE_POLICY);
        assert_eq!(response.headers()[header::REFERRER_POLICY], "same-origin");
        assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(!response.headers().contains_key(header::CONTENT_DISPOSITION));
        assert!(!PAGE_POLICY.contains("unsafe"));
    }
}
