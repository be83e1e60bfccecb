//! Allowed origins of the bus.

use axum::http::HeaderValue;
use skills_core::origin::WebOrigin;

/// Returns whether pages of an origin may connect to the bus: pages of this machine, except those of a port that serves
/// content.
///
/// Any web page can make a browser connect to a loopback port. The browser sends the page's origin, also after DNS
/// rebinding. SDKs send no `Origin`.
pub(super) fn is_allowed_origin(origin: &HeaderValue, content_ports: &[u16]) -> bool {
    origin.to_str().ok().and_then(WebOrigin::parse).is_some_and(|origin| {
        origin.is_local() && !origin.port().is_some_and(|port| content_ports.contains(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_may_connect_unless_their_port_serves_content() {
        for (origin, expected) in [
            ("http://localhost:3000", true),
            ("https://[::1]", true),
            ("http://localhost:8080", false),
            ("http://[::ffff:127.0.0.1]:8080", false),
            ("http://localhost", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let header = HeaderValue::from_static(origin);
            assert_eq!(is_allowed_origin(&header, &[80, 8080]), expected, "{origin}");
        }
    }
}
