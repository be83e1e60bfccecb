//! Construction of the URL from the endpoint's template.
//!
//! Values may fill in a path or a query. They can neither choose the host nor leave the path of the manifest.

use serde_json::{Map, Value};
use skills_manifest::template::{Template, TemplatePart, ValueEncoding, endpoint_template};
use url::Url;

use crate::{UpstreamError, UpstreamOrigin, values::Values};

/// Characters that end the host in a URL. The parser treats a backslash as a slash, like browsers.
const HOST_END: [char; 4] = ['/', '\\', '?', '#'];

/// Expands an endpoint to a URL.
pub(crate) fn expand_url(
    template: &Template<'_>,
    values: &Values<'_>,
) -> Result<Url, UpstreamError> {
    let fixed = fixed_origin(template)?;
    let text = values
        .expand(template, ValueEncoding::Component)?
        .map_err(UpstreamError::MissingParameters)?;
    if template.placeholders().next().is_some() && has_dot_segment(&text) {
        let reason = "they would change the path (\".\" or \"..\")";
        return Err(UpstreamError::InvalidParameters { reason: reason.to_owned() });
    }
    let mut url = parse_url(&text)?;
    if fixed.is_some_and(|fixed| UpstreamOrigin::from_url(&url) != Some(fixed)) {
        return Err(placeholder_in_host());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Returns the origin that an implementation calls; `None` if it has no valid endpoint.
#[must_use]
pub fn origin_of(implementation: &Map<String, Value>) -> Option<UpstreamOrigin> {
    let endpoint = endpoint_template(implementation)?;
    match fixed_origin(&Template::parse(endpoint)).ok()? {
        Some(origin) => Some(origin),
        None => UpstreamOrigin::from_url(&parse_url(endpoint).ok()?),
    }
}

/// Returns the origin before the first placeholder of a template; `None` if there is no placeholder.
fn fixed_origin(template: &Template<'_>) -> Result<Option<UpstreamOrigin>, UpstreamError> {
    for piece in template.parts() {
        if let TemplatePart::Text(text) = piece {
            if text.contains("{{") {
                return Err(UpstreamError::invalid(
                    "its endpoint has {{ that opens no placeholder",
                ));
            }
            // URL parsers ignore line breaks, so they could hide the host.
            if text.contains(char::is_control) {
                return Err(UpstreamError::invalid("its endpoint has control characters"));
            }
        }
    }
    let start = match template.parts() {
        [] | [TemplatePart::Text(_)] => return Ok(None),
        [TemplatePart::Text(start), ..] => *start,
        [TemplatePart::Placeholder(_), ..] => return Err(placeholder_in_host()),
    };
    let host = start.find("://").map(|found| found + "://".len());
    match host.filter(|host| start[*host..].contains(HOST_END)) {
        Some(_) => Ok(UpstreamOrigin::from_url(&parse_url(start)?)),
        None => Err(placeholder_in_host()),
    }
}

fn placeholder_in_host() -> UpstreamError {
    UpstreamError::invalid(
        "its endpoint must name scheme, host and port before any placeholder, such as \
         https://example.com/{{path}}",
    )
}

fn parse_url(text: &str) -> Result<Url, UpstreamError> {
    Url::parse(text)
        .map_err(|error| UpstreamError::invalid(format!("its endpoint is no URL: {error}")))
}

/// Returns whether the path has a segment that a parser resolves as `.` or `..`.
fn has_dot_segment(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    path.split(['/', '\\']).skip(1).any(|segment| {
        matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;
    use crate::Secret;

    fn build(template: &str, value: &str) -> Result<String, &'static str> {
        let params = Map::from_iter([("v".to_owned(), json!(value))]);
        let secrets = BTreeMap::from([("K".to_owned(), Secret::new("s/s"))]);
        let values = Values { params: &params, secrets: &secrets, max: 200 };
        expand_url(&Template::parse(template), &values)
            .map(String::from)
            .map_err(|error| error.code().as_str())
    }

    #[test]
    fn values_fill_in_paths_and_queries() {
        for (template, value, wanted) in [
            ("https://a.test", "", "https://a.test/"),
            ("https://a.test/{{v}}", "x/../y?q#f", "https://a.test/x%2F..%2Fy%3Fq%23f"),
            ("https://a.test?q={{v}}&k=1", "1&k=2", "https://a.test/?q=1%26k%3D2&k=1"),
            ("https://a.test/{{v}}.json", "..", "https://a.test/...json"),
            ("https://a.test/?k={{SECRETS.K}}", "", "https://a.test/?k=s%2Fs"),
            ("https://a.test/{{none|x y}}", "", "https://a.test/x%20y"),
            ("https://a.test/#{{v}}", "x", "https://a.test/"),
            ("https://a.test:8443\\{{v}}", "x", "https://a.test:8443/x"),
        ] {
            assert_eq!(build(template, value).as_deref(), Ok(wanted), "{template}");
        }
    }

    #[test]
    fn values_choose_neither_host_nor_another_path() {
        for (template, value, wanted) in [
            ("{{v}}", "https://evil.test/", "invalid_implementation"),
            ("https://{{v}}/", "evil.test", "invalid_implementation"),
            ("https://{{none|a.test}}/", "", "invalid_implementation"),
            ("https://a.test{{v}}", ".evil.test", "invalid_implementation"),
            ("https://a.test:{{v}}/", "22", "invalid_implementation"),
            ("https://user:{{SECRETS.K}}@a.test/", "", "invalid_implementation"),
            ("https:///{{v}}/", "evil.test", "invalid_implementation"),
            ("https:{{v}}/", "evil.test", "invalid_implementation"),
            ("{{v}}://a.test/", "http", "invalid_implementation"),
            ("ht\ntps://a.test/{{v}}", "x", "invalid_implementation"),
            ("https://a.test/{{ v }}", "x", "invalid_implementation"),
            ("https://a.test/{{v|}}", "x", "invalid_implementation"),
            ("not a url", "", "invalid_implementation"),
            ("/relative", "", "invalid_implementation"),
            ("", "", "invalid_implementation"),
            ("https://a.test/{{v}}/admin", "..", "invalid_parameters"),
            ("https://a.test/.{{v}}/admin", ".", "invalid_parameters"),
            ("https://a.test/%2e{{v}}", ".", "invalid_parameters"),
            ("https://a.test/{{none}}", "", "missing_parameters"),
        ] {
            assert_eq!(build(template, value), Err(wanted), "{template}");
        }
        assert_eq!(build("https://a.test/{{v}}", &"x".repeat(200)), Err("request_too_large"));
    }

    #[test]
    fn the_origin_of_an_implementation_is_that_of_its_endpoint() {
        let of = |implementation: Value| {
            origin_of(implementation.as_object().unwrap()).map(|origin| origin.to_string())
        };
        for (endpoint, wanted) in [
            ("https://A.test/x?k={{SECRETS.K}}", Some("https://a.test")),
            (" https://a.test:8443 ", Some("https://a.test:8443")),
            ("https://a.test.:443/{{v|x}}", Some("https://a.test")),
            ("https://{{v}}/", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(of(json!({"endpoint": endpoint})).as_deref(), wanted, "{endpoint}");
        }
        assert_eq!(of(json!({"url": "http://b.test"})).as_deref(), Some("http://b.test"));
        assert_eq!(of(json!({})), None);
    }

    proptest! {
        #[test]
        fn values_change_neither_host_nor_segments(value in "\\PC{0,20}|[./\\\\@:?#%2eE]{0,8}") {
            if let Ok(built) = build("https://a.test/one/{{v}}/two", &value) {
                let url = Url::parse(&built).unwrap();
                prop_assert_eq!(url.host_str(), Some("a.test"));
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!(segments.len(), 3);
                prop_assert_eq!((segments[0], segments[2]), ("one", "two"));
                prop_assert_eq!(url.query(), None);
            }
        }
    }
}
