//! From the template of an address to a URL.
//!
//! Values may fill in a path or a query; they never choose the host, another path above, or anything that
//! the manifest does not leave open.

use serde_json::{Map, Value};
use skills_core::template::{Encoding, Piece, Template, endpoint_of};
use url::Url;

use crate::{ExecuteError, Origin, values::Values};

/// What ends the host in a URL. Browsers take the backslash for a slash, and so does the parser.
const AFTER_HOST: [char; 4] = ['/', '\\', '?', '#'];

/// The URL that a template stands for.
pub(crate) fn url(template: &Template<'_>, values: &Values<'_>) -> Result<Url, ExecuteError> {
    let fixed = fixed_origin(template)?;
    let text =
        values.expanded(template, Encoding::Component)?.map_err(ExecuteError::MissingParameters)?;
    if template.placeholders().next().is_some() && has_dot_segment(&text) {
        let reason = "with them the path would lead to another place (\".\" or \"..\")";
        return Err(ExecuteError::InvalidParameters { reason: reason.to_owned() });
    }
    let mut url = parsed(&text)?;
    if fixed.is_some_and(|fixed| Origin::of(&url) != Some(fixed)) {
        return Err(placeholder_in_host());
    }
    url.set_fragment(None);
    Ok(url)
}

/// The origin that an implementation calls; `None` when it has no endpoint, or one that cannot be called.
#[must_use]
pub fn origin_of(implementation: &Map<String, Value>) -> Option<Origin> {
    let endpoint = endpoint_of(implementation)?;
    match fixed_origin(&Template::parse(endpoint)).ok()? {
        Some(origin) => Some(origin),
        None => Origin::of(&parsed(endpoint).ok()?),
    }
}

/// The origin that stands in the template before any placeholder; `None` when there is no placeholder.
fn fixed_origin(template: &Template<'_>) -> Result<Option<Origin>, ExecuteError> {
    for piece in template.pieces() {
        if let Piece::Text(text) = piece {
            if text.contains("{{") {
                return Err(ExecuteError::invalid("its endpoint has {{ that opens no placeholder"));
            }
            // A parser of URLs passes over line breaks, so they could hide what the text says.
            if text.contains(char::is_control) {
                return Err(ExecuteError::invalid("its endpoint has control characters"));
            }
        }
    }
    let start = match template.pieces() {
        [] | [Piece::Text(_)] => return Ok(None),
        [Piece::Text(start), ..] => *start,
        [Piece::Placeholder(_), ..] => return Err(placeholder_in_host()),
    };
    let host = start.find("://").map(|found| found + "://".len());
    match host.filter(|host| start[*host..].contains(AFTER_HOST)) {
        Some(_) => Ok(Origin::of(&parsed(start)?)),
        None => Err(placeholder_in_host()),
    }
}

fn placeholder_in_host() -> ExecuteError {
    ExecuteError::invalid(
        "its endpoint must name scheme, host and port before any placeholder, such as \
         https://example.com/{{path}}",
    )
}

fn parsed(text: &str) -> Result<Url, ExecuteError> {
    Url::parse(text)
        .map_err(|error| ExecuteError::invalid(format!("its endpoint is no URL: {error}")))
}

/// Whether the path has a segment that a parser takes for "here" or "above".
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

    use super::*;
    use crate::Secret;

    fn made(template: &str, value: &str) -> Result<String, &'static str> {
        let params = Map::from_iter([("v".to_owned(), json!(value))]);
        let secrets = BTreeMap::from([("K".to_owned(), Secret::new("s/s"))]);
        let values = Values { params: &params, secrets: &secrets, max: 200 };
        url(&Template::parse(template), &values).map(String::from).map_err(|error| error.code())
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
            assert_eq!(made(template, value).as_deref(), Ok(wanted), "{template}");
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
            assert_eq!(made(template, value), Err(wanted), "{template}");
        }
        assert_eq!(made("https://a.test/{{v}}", &"x".repeat(200)), Err("request_too_large"));
    }

    #[test]
    fn the_origin_of_an_implementation() {
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
        fn the_host_and_the_segments_stay(value in "\\PC{0,20}|[./\\\\@:?#%2eE]{0,8}") {
            if let Ok(made) = made("https://a.test/one/{{v}}/two", &value) {
                let url = Url::parse(&made).unwrap();
                prop_assert_eq!(url.host_str(), Some("a.test"));
                let segments: Vec<_> = url.path_segments().unwrap().collect();
                prop_assert_eq!(segments.len(), 3);
                prop_assert_eq!((segments[0], segments[2]), ("one", "two"));
                prop_assert_eq!(url.query(), None);
            }
        }
    }
}
