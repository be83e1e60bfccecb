//! Checks of a tool's implementation before it is stored.
//!
//! A finding refuses a new manifest. An imported manifest is kept as it is, so a caller must check it again.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    credentials::find_literals, diagnostic::Diagnostics, endpoint, fields::object,
    implementation::Locate, spec::SkillSpec,
};
use crate::{schema::Schema, template::secret_requirements};
use skills_core::{Coded, limits::MAX_SECRETS_OF_SKILL};

/// HTTP methods that a tool may use.
pub const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
/// Headers that belong to the connection or to the caller, in lower case. Answers are not decompressed, so that their
/// size is what was read.
const CONNECTION_HEADERS: [&str; 12] = [
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

/// Returns whether a header (in lower case) belongs to the connection and must not be set by a manifest.
#[must_use]
pub fn is_connection_header(header: &str) -> bool {
    CONNECTION_HEADERS.contains(&header)
}

/// Checks that `parameters` is a usable schema of an object.
pub(super) fn parameters(schema: &Value, locate: Locate<'_>, diagnostics: &mut Diagnostics) {
    if let Err(error) = Schema::compile(schema) {
        diagnostics.error(error.code().as_str(), locate(error.pointer()), error.to_string());
    } else if schema.get("type").is_some_and(|kind| kind != "object") {
        let message = "arguments are always an object, so the type must be \"object\"";
        diagnostics.error("not_an_object_schema", locate("/type"), message);
    }
}

/// Checks the rest of an implementation.
pub(super) fn implementation(spec: &SkillSpec, locate: Locate<'_>, diagnostics: &mut Diagnostics) {
    let fields = &spec.implementation;
    for key in ["endpoint", "url", "method", "api_key"] {
        if fields.get(key).is_some_and(|value| !value.is_string() && !value.is_null()) {
            diagnostics.error("wrong_type", locate(&format!("/{key}")), "must be text");
        }
    }
    match spec.endpoint() {
        Some(template) => {
            let key = if fields.contains_key("endpoint") { "/endpoint" } else { "/url" };
            match endpoint::check(template) {
                Err(fault) => diagnostics.error("invalid_endpoint", locate(key), fault.to_string()),
                Ok(endpoint::Scheme::Http) => {
                    let message = "the endpoint is not encrypted; calls need an explicit allowance";
                    diagnostics.warning("insecure_endpoint", locate(key), message);
                }
                Ok(endpoint::Scheme::Https) => {}
            }
        }
        None => diagnostics.warning(
            "missing_endpoint",
            "",
            "there is no endpoint, so there is nothing to call",
        ),
    }
    let method = spec.method();
    if !METHODS.contains(&method.as_str()) {
        let message = format!("the method must be one of {}", METHODS.join(", "));
        diagnostics.error("invalid_method", locate("/method"), message);
    }
    let of_request = fields.get("request").and_then(|request| request.get("headers"));
    if let Some(found) = object(of_request, locate("/request/headers"), diagnostics) {
        headers(found, None, &|rest| locate(&format!("/request/headers{rest}")), diagnostics);
    }
    if let Some(found) = object(fields.get("headers"), locate("/headers"), diagnostics) {
        let checked = of_request.and_then(Value::as_object);
        headers(found, checked, &|rest| locate(&format!("/headers{rest}")), diagnostics);
    }
    let needed = secret_requirements(fields);
    if needed.required.len() + needed.optional.len() > MAX_SECRETS_OF_SKILL {
        let message = format!("a tool can have at most {MAX_SECRETS_OF_SKILL} secrets");
        diagnostics.error("too_many_secrets", locate(""), message);
    }
    // What came from the request is also there.
    let is_copy = |pointer: &str| {
        fields.get("request").is_some_and(|request| request.pointer(pointer).is_some())
    };
    let places: BTreeSet<String> = find_literals(fields)
        .into_iter()
        .filter(|(pointer, _)| !is_copy(pointer))
        .map(|(pointer, _)| locate(&pointer))
        .collect();
    for at in places {
        let message =
            "a credential is written out; store it as a secret and write {{SECRETS.NAME}}";
        diagnostics.warning("credential_in_manifest", at, message);
    }
}

/// Checks headers, except those in `checked`.
fn headers(
    headers: &Map<String, Value>,
    checked: Option<&Map<String, Value>>,
    locate: Locate<'_>,
    diagnostics: &mut Diagnostics,
) {
    let mut seen = BTreeSet::new();
    let is_new = |(name, value): &(&String, &Value)| {
        checked.and_then(|checked| checked.get(*name)) != Some(*value)
    };
    for (name, value) in headers.iter().filter(is_new) {
        let at = || locate(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            diagnostics.error(
                "invalid_header",
                locate(""),
                "a header has a name that no header can have",
            );
            continue;
        }
        if is_connection_header(&lower) {
            diagnostics.error(
                "forbidden_header",
                at(),
                "the header belongs to the connection; leave it out",
            );
        }
        let is_allowed = |c: char| c == '\t' || !c.is_control();
        match value {
            Value::String(text) if text.chars().all(is_allowed) => {}
            Value::String(_) => {
                diagnostics.error(
                    "invalid_header",
                    at(),
                    "the value has a character that no header can have",
                );
            }
            _ => diagnostics.error("invalid_header", at(), "the value must be text"),
        }
        if !seen.insert(lower) {
            diagnostics.error(
                "duplicate_header",
                at(),
                "the header is repeated in different cases",
            );
        }
    }
}

/// Returns whether a byte may be part of a header name (RFC 9110).
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
