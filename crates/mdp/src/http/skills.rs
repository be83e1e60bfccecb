//! Skills over plain HTTP: of live clients, who are asked for them, and of the registry, which has them here.

use axum::{
    Json,
    extract::{Query, Request},
    http::{
        Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header,
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use serde_json::{Map, Value};
use skills_core::{Caller, Digest, etag};
use tokio::time::timeout;

use super::{
    options,
    refusal::Refusal,
    target::{Malformed, Target},
};
use crate::{
    Answer, Call, CallError, Host, REGISTRY,
    auth::HEADER_PREFIX,
    stored::Stored,
    wire::{self, Code, Kind},
};

const METHODS: &str = "GET, HEAD, OPTIONS";
/// Of a skill that does not say.
const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// What a client wrote is not to run as if it were of this server.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
/// Headers with credentials of this server, which are none of a client's business.
const CREDENTIALS: [HeaderName; 3] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
const OTHER_CREDENTIALS: [&str; 2] = ["x-api-key", "x-mdp-session-id"];

pub(super) async fn answer(host: &Host, request: Request) -> Response {
    let (asked, _) = request.into_parts();
    let target = match Target::of(asked.uri.path()) {
        None => return Refusal::nothing_here().into_response(),
        Some(Err(Malformed)) => {
            let message =
                "the address has a percent sign that encodes nothing, or bytes that are not UTF-8";
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, Code::BadRequest, message);
            return refusal.into_response();
        }
        Some(Ok(target)) => target,
    };
    let response = match asked.method {
        Method::GET | Method::HEAD => read(host, &target, &asked).await,
        Method::OPTIONS => Ok(options(&asked.headers, METHODS)),
        _ => Ok(not_allowed()),
    };
    response.unwrap_or_else(|error| Refusal::from(error).into_response())
}

fn not_allowed() -> Response {
    let message = "skills can be read, and nothing else";
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, Code::BadRequest, message);
    let mut response = refusal.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}

async fn read(host: &Host, target: &Target, asked: &Parts) -> Result<Response, CallError> {
    let Parts { headers, uri, extensions, .. } = asked;
    let Some(stored) = host.stored().filter(|_| target.client == REGISTRY) else {
        return ask(host, target, headers, uri).await;
    };
    // It may not be there yet.
    let within = host.config().times.answer_within;
    let read = timeout(within, read_stored(stored, target, headers, extensions)).await;
    read.unwrap_or_else(|_| Err(CallError::Timeout(REGISTRY.to_owned())))
}

/// Reads what the registry has.
async fn read_stored(
    stored: &Stored,
    target: &Target,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Response, CallError> {
    let caller = extensions.get::<Caller>();
    let stored = stored.seen_by(caller.unwrap_or(&Caller::Anonymous))?;
    let mut missing = None;
    for path in target.documents() {
        match stored.read(&path).await {
            Ok(document) => {
                let media_type = content_type(Some(document.media_type));
                return Ok(tagged(headers, media_type, document.body, &document.digest));
            }
            Err(error @ CallError::NotFound { .. }) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(missing.unwrap_or(CallError::NoClients))
}

/// Asks the client that has the skill.
async fn ask(
    host: &Host,
    target: &Target,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Response, CallError> {
    let client = host.client(&target.client)?;
    let mut missing = None;
    for path in target.skills() {
        let found = match host.find(&client, wire::Method::Get, &path) {
            Ok((descriptor, params)) if descriptor.kind == Kind::Skill => {
                Some((descriptor, params))
            }
            Ok(_) => None,
            Err(error) => {
                missing = Some(error);
                None
            }
        };
        let Some((descriptor, params)) = found else { continue };
        let may_know = host.config().forward_credentials;
        let call = Call {
            query: Some(query(uri)),
            headers: Some(forwarded(headers, may_know)),
            auth: may_know.then(|| host.keys().credentials(headers)).flatten(),
            ..Call::new(wire::Method::Get, &*path)
        };
        let answer = host.ask(&client, &params, &call).await?;
        return Ok(served(headers, descriptor.content_type.as_deref(), &answer));
    }
    let not_found = || CallError::NotFound {
        client: target.client.clone(),
        method: wire::Method::Get,
        path: target.path.clone(),
    };
    Err(missing.unwrap_or_else(not_found))
}

/// The queries of a request. Of equal names the last counts.
fn query(uri: &Uri) -> Map<String, Value> {
    if uri.query().is_none_or(str::is_empty) {
        return Map::new();
    }
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs);
    pairs.unwrap_or_default().into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// The headers of a request, as a client gets them.
fn forwarded(headers: &HeaderMap, with_credentials: bool) -> Vec<(String, String)> {
    let is_secret = |name: &HeaderName| {
        CREDENTIALS.contains(name)
            || OTHER_CREDENTIALS.contains(&name.as_str())
            || name.as_str().starts_with(HEADER_PREFIX)
    };
    let names = headers.keys().filter(|name| with_credentials || !is_secret(name));
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
    names.map(|name| (name.to_string(), joined(name))).collect()
}

/// What a client answered, as the answer to a request.
fn served(headers: &HeaderMap, declared: Option<&str>, answer: &Answer) -> Response {
    let (media_type, body) = match answer.text() {
        Some(text) => (content_type(declared), Bytes::from(text)),
        None => match serde_json::to_vec(answer) {
            Ok(body) => (JSON, body.into()),
            Err(_) => return Json(Value::Null).into_response(),
        },
    };
    let digest = Digest::of(&body);
    tagged(headers, media_type, body, &digest)
}

/// A media type as a header; text is UTF-8 unless it says otherwise.
fn content_type(declared: Option<&str>) -> HeaderValue {
    let Some(declared) = declared else { return MARKDOWN };
    let lower = declared.to_ascii_lowercase();
    let named = match lower.starts_with("text/") && !lower.contains("charset=") {
        true => HeaderValue::try_from(format!("{declared}; charset=utf-8")),
        false => HeaderValue::from_str(declared),
    };
    named.unwrap_or(MARKDOWN)
}

/// An answer that can be asked for again without being sent again.
fn tagged(headers: &HeaderMap, media_type: HeaderValue, body: Bytes, digest: &Digest) -> Response {
    let tag = etag::of(digest);
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let is_known = etag::is_known(known.filter_map(|value| value.to_str().ok()), &tag);
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, media_type)], body).into_response(),
    };
    let answer = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.insert(header::ETAG, tag);
    }
    // It may be kept, but whoever has it asks whether it is still the same.
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for (declared, expected) in [
            (None, "text/markdown; charset=utf-8"),
            (Some("text/plain"), "text/plain; charset=utf-8"),
            (Some("Text/HTML; Charset=latin1"), "Text/HTML; Charset=latin1"),
            (Some("application/json"), "application/json"),
            (Some("text/\r\nx: y"), "text/markdown; charset=utf-8"),
        ] {
            assert_eq!(content_type(declared), expected);
        }
    }

    #[test]
    fn credentials_of_this_server_stay_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer s3cret"),
            ("cookie", "a=b"),
            ("x-mdp-auth-token", "t"),
            ("x-api-key", "k"),
            ("x-review-scope", "one"),
            ("x-review-scope", "two"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let scope = ("x-review-scope".to_owned(), "one, two".to_owned());
        assert_eq!(forwarded(&headers, false), [scope]);
        assert_eq!(forwarded(&headers, true).len(), 5);
    }

    #[test]
    fn the_last_of_equal_queries_counts() {
        let query = |text: &str| Value::Object(query(&text.parse().unwrap()));
        assert_eq!(
            query("/x?a=1&b=x+y%21&a=2&c"),
            serde_json::json!({"a": "2", "b": "x y!", "c": ""})
        );
        assert_eq!(query("/x?a=%zz%ff"), serde_json::json!({"a": "%zz\u{fffd}"}));
        assert_eq!(query("/x?"), serde_json::json!({}));
    }
}
