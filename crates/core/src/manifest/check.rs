//! What an implementation must look like before anything is called with it.
//!
//! What is found here refuses a manifest that is written now. Of one that is imported everything is kept as
//! it is: who calls it must look again.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    credentials::literals, diagnostic::Report, endpoint, fields::object, implementation::Place,
    spec::SkillSpec,
};
use crate::{limits::MAX_SECRETS_OF_SKILL, schema::Schema, template::needed_secrets};

/// What a tool may be called with.
pub const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
/// Headers that belong to the connection or to who calls, in lower case. Answers are not decompressed, so that
/// their size is what was read.
const OF_CONNECTION: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a header, in lower case, is not a manifest's to set.
#[must_use]
pub fn is_of_connection(header: &str) -> bool {
    OF_CONNECTION.contains(&header)
}

/// Whether `parameters` is a schema of an object that is usable here.
pub(super) fn parameters(schema: &Value, place: Place<'_>, report: &mut Report) {
    if let Err(error) = Schema::compile(schema) {
        report.error(error.code(), place(error.pointer()), error.to_string());
    } else if schema.get("type").is_some_and(|kind| kind != "object") {
        let message = "arguments are always an object, so the type must be \"object\"";
        report.error("not_an_object_schema", place("/type"), message);
    }
}

/// Everything else.
pub(super) fn implementation(spec: &SkillSpec, place: Place<'_>, report: &mut Report) {
    let fields = &spec.implementation;
    for key in ["endpoint", "url", "method", "api_key"] {
        if fields.get(key).is_some_and(|value| !value.is_string() && !value.is_null()) {
            report.error("wrong_type", place(&format!("/{key}")), "must be text");
        }
    }
    match spec.endpoint() {
        Some(template) => {
            let key = if fields.contains_key("endpoint") { "/endpoint" } else { "/url" };
            match endpoint::check(template) {
                Err(fault) => report.error("invalid_endpoint", place(key), fault.to_string()),
                Ok(endpoint::Scheme::Http) => {
                    let message =
                        "the endpoint is not encrypted; it is only called where that is allowed";
                    report.warning("insecure_endpoint", place(key), message);
                }
                Ok(endpoint::Scheme::Https) => {}
            }
        }
        None => report.warning(
            "missing_endpoint",
            "",
            "there is no endpoint, so there is nothing to call",
        ),
    }
    let method = spec.method();
    if !METHODS.contains(&method.as_str()) {
        let message = format!("the method must be one of {}", METHODS.join(", "));
        report.error("invalid_method", place("/method"), message);
    }
    let of_request = fields.get("request").and_then(|request| request.get("headers"));
    if let Some(found) = object(of_request, place("/request/headers"), report) {
        headers(found, None, &|rest| place(&format!("/request/headers{rest}")), report);
    }
    if let Some(found) = object(fields.get("headers"), place("/headers"), report) {
        let judged = of_request.and_then(Value::as_object);
        headers(found, judged, &|rest| place(&format!("/headers{rest}")), report);
    }
    let needed = needed_secrets(fields);
    if needed.required.len() + needed.optional.len() > MAX_SECRETS_OF_SKILL {
        let message = format!("a tool can have at most {MAX_SECRETS_OF_SKILL} secrets");
        report.error("too_many_secrets", place(""), message);
    }
    // What came from the request is also there.
    let is_copy = |pointer: &str| {
        fields.get("request").is_some_and(|request| request.pointer(pointer).is_some())
    };
    let places: BTreeSet<String> = literals(fields)
        .into_iter()
        .filter(|(pointer, _)| !is_copy(pointer))
        .map(|(pointer, _)| place(&pointer))
        .collect();
    for at in places {
        let message =
            "a credential is written out; store it as a secret and write {{SECRETS.NAME}}";
        report.warning("credential_in_manifest", at, message);
    }
}

/// Judges headers, but for those that are `judged` already.
fn headers(
    headers: &Map<String, Value>,
    judged: Option<&Map<String, Value>>,
    place: Place<'_>,
    report: &mut Report,
) {
    let mut seen = BTreeSet::new();
    let is_new = |(name, value): &(&String, &Value)| {
        judged.and_then(|judged| judged.get(*name)) != Some(*value)
    };
    for (name, value) in headers.iter().filter(is_new) {
        let at = || place(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            report.error(
                "invalid_header",
                place(""),
                "a header has a name that no header can have",
            );
            continue;
        }
        if is_of_connection(&lower) {
            report.error(
                "forbidden_header",
                at(),
                "the header belongs to the connection; leave it out",
            );
        }
        let is_allowed = |c: char| c == '\t' || !c.is_control();
        match value {
            Value::String(text) if text.chars().all(is_allowed) => {}
            Value::String(_) => {
                report.error(
                    "invalid_header",
                    at(),
                    "the value has a character that no header can have",
                );
            }
            _ => report.error("invalid_header", at(), "the value must be text"),
        }
        if !seen.insert(lower) {
            report.error("duplicate_header", at(), "the header is there twice, in different cases");
        }
    }
}

/// What the name of a header is made of (RFC 9110).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
