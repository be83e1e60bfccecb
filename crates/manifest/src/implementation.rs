//! Assembly of a tool's implementation from the blocks of a manifest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    diagnostic::Diagnostics,
    fields::{object, text},
    spec::non_empty_text,
};

/// Longest name of a hook, in bytes.
const MAX_HOOK_BYTES: usize = 64;
/// Most entries of a response mapping.
const MAX_MAPPED: usize = 256;

/// Maps a field of an implementation to its location in the manifest, for diagnostics.
pub(super) type Locate<'a> = &'a dyn Fn(&str) -> String;

/// Merges the `request` block: its URL and method win, its headers do not.
pub(super) fn merge_request(
    implementation: &mut Map<String, Value>,
    locate: Locate<'_>,
    diagnostics: &mut Diagnostics,
) {
    let block = implementation.get("request").cloned();
    let Some(request) = object(block.as_ref(), locate("/request"), diagnostics) else { return };
    for (from, to) in [("url", "endpoint"), ("method", "method")] {
        if let Some(value) = non_empty_text(request, from) {
            implementation.insert(to.to_owned(), value.into());
        }
    }
    let of_request = object(request.get("headers"), locate("/request/headers"), diagnostics);
    let own = object(implementation.get("headers"), locate("/headers"), diagnostics);
    let mut headers = own.cloned().unwrap_or_default();
    // The names of headers have no case.
    let taken: BTreeSet<String> = headers.keys().map(|name| name.to_ascii_lowercase()).collect();
    let is_free = |name: &str| !taken.contains(&name.to_ascii_lowercase());
    let added = of_request.into_iter().flatten().filter(|(name, _)| is_free(name));
    headers.extend(added.map(|(name, value)| (name.clone(), value.clone())));
    implementation.insert("headers".to_owned(), headers.into());
}

/// Returns whether an implementation names its type.
pub(super) fn has_type(implementation: &Map<String, Value>) -> bool {
    non_empty_text(implementation, "type").is_some_and(|kind| kind != "unknown")
}

/// Sets the type `unknown` if an implementation has none.
pub(super) fn set_default_type(
    implementation: &mut Map<String, Value>,
    locate: Locate<'_>,
    diagnostics: &mut Diagnostics,
) {
    let kind = text(implementation.get("type"), locate("/type"), diagnostics);
    implementation.insert("type".to_owned(), json!(kind.as_deref().unwrap_or("unknown")));
}

/// Reads the formatter from the first of two candidates.
pub(super) fn plugin_hook(
    candidates: [(Option<&Value>, String); 2],
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let (hook, at) = candidates
        .into_iter()
        .find_map(|(value, at)| Some((text(value, at.clone(), diagnostics)?, at)))?;
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if hook.len() > MAX_HOOK_BYTES || !hook.bytes().all(is_allowed) {
        let message = format!("plugin_hook must be 1 to {MAX_HOOK_BYTES} of A-Z a-z 0-9 _ . -");
        diagnostics.error("invalid_plugin_hook", at, message);
        return None;
    }
    Some(hook)
}

/// Reads the mapping of answer parts that are passed on.
pub(super) fn response_mapping(
    implementation: &Map<String, Value>,
    locate: Locate<'_>,
    diagnostics: &mut Diagnostics,
) -> BTreeMap<String, String> {
    let direct = implementation.get("response_mapping").filter(|value| !value.is_null());
    let (value, at) = match direct {
        Some(value) => (Some(value), locate("/response_mapping")),
        None => {
            let response = implementation.get("response").and_then(Value::as_object);
            let value = response.and_then(|response| response.get("output_mapping"));
            (value, locate("/response/output_mapping"))
        }
    };
    let mut mapping = BTreeMap::new();
    let written = object(value, at.clone(), diagnostics);
    if written.is_some_and(|written| written.len() > MAX_MAPPED) {
        let message = format!("at most {MAX_MAPPED} parts of an answer can be kept");
        diagnostics.error("too_many_mappings", &at, message);
    }
    for (name, path) in written.into_iter().flatten() {
        match path {
            Value::String(path) => {
                mapping.insert(name.clone(), path.clone());
            }
            _ => diagnostics.warning(
                "invalid_mapping",
                &at,
                format!("the path of {name:?} is not text and is left out"),
            ),
        }
    }
    mapping
}
