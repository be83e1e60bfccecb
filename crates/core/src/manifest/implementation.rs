//! How a tool is called: putting the parts of an implementation together, and what is taken out of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    diagnostic::Report,
    fields::{object, text},
    spec::text_of,
};

/// Longest name of a hook, in bytes.
const MAX_HOOK_BYTES: usize = 64;
/// Most parts of an answer that are kept.
const MAX_MAPPED: usize = 256;

/// Where a field of an implementation was written, for diagnostics.
pub(super) type Place<'a> = &'a dyn Fn(&str) -> String;

/// Spreads the `request` block: its address and method win, its headers do not.
pub(super) fn unfold_request(
    implementation: &mut Map<String, Value>,
    place: Place<'_>,
    report: &mut Report,
) {
    let block = implementation.get("request").cloned();
    let Some(request) = object(block.as_ref(), place("/request"), report) else { return };
    for (from, to) in [("url", "endpoint"), ("method", "method")] {
        if let Some(value) = text_of(request, from) {
            implementation.insert(to.to_owned(), value.into());
        }
    }
    let of_request = object(request.get("headers"), place("/request/headers"), report);
    let own = object(implementation.get("headers"), place("/headers"), report);
    let mut headers = own.cloned().unwrap_or_default();
    // The names of headers have no case.
    let taken: BTreeSet<String> = headers.keys().map(|name| name.to_ascii_lowercase()).collect();
    let is_free = |name: &str| !taken.contains(&name.to_ascii_lowercase());
    let added = of_request.into_iter().flatten().filter(|(name, _)| is_free(name));
    headers.extend(added.map(|(name, value)| (name.clone(), value.clone())));
    implementation.insert("headers".to_owned(), headers.into());
}

/// Whether an implementation says of what type it is.
pub(super) fn has_type(implementation: &Map<String, Value>) -> bool {
    text_of(implementation, "type").is_some_and(|kind| kind != "unknown")
}

/// Gives an implementation without a type the type that stands for none.
pub(super) fn settle_type(
    implementation: &mut Map<String, Value>,
    place: Place<'_>,
    report: &mut Report,
) {
    let kind = text(implementation.get("type"), place("/type"), report);
    implementation.insert("type".to_owned(), json!(kind.as_deref().unwrap_or("unknown")));
}

/// The formatter, from the implementation or from beside it.
pub(super) fn plugin_hook(
    candidates: [(Option<&Value>, String); 2],
    report: &mut Report,
) -> Option<String> {
    let (hook, at) = candidates
        .into_iter()
        .find_map(|(value, at)| Some((text(value, at.clone(), report)?, at)))?;
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if hook.len() > MAX_HOOK_BYTES || !hook.bytes().all(is_allowed) {
        let message = format!("plugin_hook must be 1 to {MAX_HOOK_BYTES} of A-Z a-z 0-9 _ . -");
        report.error("invalid_plugin_hook", at, message);
        return None;
    }
    Some(hook)
}

/// Which parts of the answer are kept.
pub(super) fn response_mapping(
    implementation: &Map<String, Value>,
    place: Place<'_>,
    report: &mut Report,
) -> BTreeMap<String, String> {
    let direct = implementation.get("response_mapping").filter(|value| !value.is_null());
    let (value, at) = match direct {
        Some(value) => (Some(value), place("/response_mapping")),
        None => {
            let response = implementation.get("response").and_then(Value::as_object);
            let value = response.and_then(|response| response.get("output_mapping"));
            (value, place("/response/output_mapping"))
        }
    };
    let mut mapping = BTreeMap::new();
    let written = object(value, at.clone(), report);
    if written.is_some_and(|written| written.len() > MAX_MAPPED) {
        let message = format!("at most {MAX_MAPPED} parts of an answer can be kept");
        report.error("too_many_mappings", &at, message);
    }
    for (name, path) in written.into_iter().flatten() {
        match path {
            Value::String(path) => {
                mapping.insert(name.clone(), path.clone());
            }
            _ => report.warning(
                "invalid_mapping",
                &at,
                format!("the path of {name:?} is not text and is left out"),
            ),
        }
    }
    mapping
}
