//! Skills over plain HTTP: those of live clients, which are called for them, and stored ones.

use axum::{
    extract::{Query, Request},
    http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value};
use skills_core::{Caller, content::MARKDOWN};
use skills_http::{TaggedBody, with_yank_warning};
use tokio::time::timeout;

use super::{
    error_response::MdpErrorResponse,
    forwarded_headers, options,
    target::{InvalidEncoding, Target},
};
use crate::{
    ClientCall, ClientCallError, ClientResponse, MdpHost, REGISTRY_CLIENT_ID,
    auth::RegistrationAuth,
    builtin_client::{BuiltinClient, StoredDocument},
    wire::{self, DescriptorKind, MdpErrorCode},
};

const METHODS: &str = "GET, HEAD, OPTIONS";
const JSON: &str = "application/json; charset=utf-8";
/// Caches may store a skill but must revalidate it.
const CACHE_CONTROL: &str = "no-cache";

pub(super) async fn handle(host: &MdpHost, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let target = match Target::parse(head.uri.path()) {
        None => return MdpErrorResponse::not_found().into_response(),
        Some(Err(InvalidEncoding)) => {
            let message = "the path has an invalid percent encoding or is not UTF-8";
            let refusal =
                MdpErrorResponse::new(StatusCode::BAD_REQUEST, MdpErrorCode::BadRequest, message);
            return refusal.into_response();
        }
        Some(Ok(target)) => target,
    };
    let response = match head.method {
        Method::GET | Method::HEAD => read(host, &target, &head).await,
        Method::OPTIONS => Ok(options(&head.headers, METHODS)),
        _ => Ok(method_not_allowed()),
    };
    response.unwrap_or_else(|error| MdpErrorResponse::from(error).into_response())
}

fn method_not_allowed() -> Response {
    let message = "method not allowed for this path";
    let refusal =
        MdpErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, MdpErrorCode::BadRequest, message);
    let mut response = refusal.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}

async fn read(host: &MdpHost, target: &Target, head: &Parts) -> Result<Response, ClientCallError> {
    let Parts { headers, extensions, .. } = head;
    let Some(builtin) = host.builtin_client().filter(|_| target.client == REGISTRY_CLIENT_ID)
    else {
        return call(host, target, head).await;
    };
    // The registry may not be open yet.
    let within = host.config().times.answer_within;
    let read = timeout(within, read_stored(builtin, target, headers, extensions)).await;
    read.unwrap_or_else(|_| Err(ClientCallError::Timeout(REGISTRY_CLIENT_ID.to_owned())))
}

/// Reads a stored document.
async fn read_stored(
    builtin: &BuiltinClient,
    target: &Target,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Response, ClientCallError> {
    let caller = extensions.get::<Caller>();
    let builtin = builtin.view(caller.unwrap_or(&Caller::Anonymous))?;
    let mut missing = None;
    for path in target.document_paths() {
        match builtin.read(&path).await {
            Ok(StoredDocument { document, yanked }) => {
                let media_type = valid_or_markdown(Some(document.media_type));
                let body = TaggedBody::with_digest(media_type, document.body, &document.digest);
                let response = body.respond(headers, CACHE_CONTROL);
                return Ok(with_yank_warning(response, yanked.as_deref()));
            }
            Err(error @ ClientCallError::NotFound { .. }) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(missing.unwrap_or(ClientCallError::NoClients))
}

/// Calls the live client of a skill.
async fn call(host: &MdpHost, target: &Target, head: &Parts) -> Result<Response, ClientCallError> {
    let Parts { headers, uri, extensions, .. } = head;
    let client = host.client(&target.client)?;
    let mut missing = None;
    for path in target.skill_paths() {
        let found = match host.find(&client, wire::Method::Get, &path) {
            Ok((descriptor, params)) if descriptor.kind == DescriptorKind::Skill => {
                Some((descriptor, params))
            }
            Ok(_) => None,
            Err(error) => {
                missing = Some(error);
                None
            }
        };
        let Some((descriptor, params)) = found else { continue };
        let may_forward = host.config().forward_credentials;
        let call = ClientCall {
            query: Some(query(uri)),
            headers: Some(forwarded_headers::select(headers, host.config())),
            auth: may_forward
                .then(|| RegistrationAuth::credentials_from_headers(headers))
                .flatten(),
            caller: extensions.get().cloned().unwrap_or_default(),
            ..ClientCall::new(wire::Method::Get, &*path)
        };
        let response = host.call_client(&client, &params, &call, &call.payload()).await?;
        return respond(headers, descriptor.content_type.as_deref(), response);
    }
    let not_found = || ClientCallError::NotFound {
        client: target.client.clone(),
        method: wire::Method::Get,
        path: target.path.clone(),
    };
    Err(missing.unwrap_or_else(not_found))
}

/// Returns the query parameters of a request; of equal names the last one counts.
fn query(uri: &Uri) -> Map<String, Value> {
    if uri.query().is_none_or(str::is_empty) {
        return Map::new();
    }
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs);
    pairs.unwrap_or_default().into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Builds the HTTP response from the response of a client.
fn respond(
    headers: &HeaderMap,
    declared: Option<&str>,
    response: ClientResponse,
) -> Result<Response, ClientCallError> {
    let (is_text, body) = response.into_body()?;
    let media_type = if is_text { valid_or_markdown(declared) } else { JSON };
    Ok(TaggedBody::new(media_type, body).respond(headers, CACHE_CONTROL))
}

/// Returns the declared media type; Markdown if it is missing or invalid.
fn valid_or_markdown(declared: Option<&str>) -> &str {
    declared.filter(|declared| HeaderValue::from_str(declared).is_ok()).unwrap_or(MARKDOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_media_type_is_used_if_it_is_valid() {
        for (declared, expected) in [
            (None, MARKDOWN),
            (Some("Text/HTML; Charset=latin1"), "Text/HTML; Charset=latin1"),
            (Some("application/json"), "application/json"),
            (Some("text/\r\nx: y"), MARKDOWN),
        ] {
            assert_eq!(valid_or_markdown(declared), expected, "{declared:?}");
        }
    }

    #[test]
    fn of_equal_query_parameters_the_last_one_counts() {
        let query = |text: &str| Value::Object(query(&text.parse().unwrap()));
        assert_eq!(
            query("/x?a=1&b=x+y%21&a=2&c"),
            serde_json::json!({"a": "2", "b": "x y!", "c": ""})
        );
        assert_eq!(query("/x?a=%zz%ff"), serde_json::json!({"a": "%zz\u{fffd}"}));
        assert_eq!(query("/x?"), serde_json::json!({}));
    }
}
