//! The page at `/`, for people: programs keep what the fallback of all routes answers there.

use std::convert::Infallible;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, header},
    response::Response,
    routing::any,
};
use tower::ServiceExt as _;

/// Returns the route of `/`, which leads to `page` or to `fallback`.
pub(crate) fn route(page: Router, fallback: Router) -> Router {
    let handler = move |request: Request| {
        let is_for_page = accepts_html(request.method(), request.headers());
        let next = if is_for_page { page.clone() } else { fallback.clone() };
        async move {
            let mut response = ignore_infallible(next.oneshot(request).await);
            // A cache must not give a program the page.
            response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
            response
        }
    };
    Router::new().route("/", any(handler))
}

fn ignore_infallible(answer: Result<Response, Infallible>) -> Response {
    match answer {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Returns whether a request is a read by a client that names HTML in `Accept`; `*/*` alone is what programs send.
fn accepts_html(method: &Method, headers: &HeaderMap) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && names_html(headers) && !headers.contains_key(header::UPGRADE)
}

/// Returns whether a client names HTML in `Accept`.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    accepted.any(|value| {
        let mut types = value.split(',').map(|it| it.split(';').next().unwrap_or(it).trim());
        types.any(|it| it.eq_ignore_ascii_case("text/html"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_name_html_get_the_page() {
        let accepts = |method: Method, headers: &[(&'static str, &'static str)]| {
            let named = |&(name, value): &(&'static str, &'static str)| {
                (header::HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            accepts_html(&method, &headers.iter().map(named).collect())
        };
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert!(accepts(Method::GET, &[("accept", browser)]));
        assert!(accepts(Method::HEAD, &[("accept", "application/json, Text/HTML;q=0.1")]));
        assert!(!accepts(Method::POST, &[("accept", browser)]));
        assert!(!accepts(Method::GET, &[]));
        assert!(!accepts(Method::GET, &[("accept", "*/*")]));
        assert!(!accepts(Method::GET, &[("accept", "text/html2")]));
        assert!(!accepts(Method::GET, &[("accept", browser), ("upgrade", "websocket")]));
    }
}
