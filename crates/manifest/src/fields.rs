//! Typed access to JSON fields, with diagnostics for wrong types.

use std::fmt;

use serde_json::{Map, Number, Value};

use super::diagnostic::Diagnostics;

/// Limits of tags.
const MAX_TAG_CHARS: usize = 64;
const MAX_TAGS: usize = 64;

/// Reads a text; `None` when it is absent, `null` or empty. A number becomes its digits.
pub(super) fn text(
    value: Option<&Value>,
    at: impl fmt::Display,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Number(number) => {
            diagnostics.error(
                "wrong_type",
                at,
                format!("must be text, and is the number {number}"),
            );
            Some(number.to_string())
        }
        other => wrong_type("text", other, at, diagnostics),
    }
}

/// Reads an object; `None` when it is absent or `null`.
pub(super) fn object<'a>(
    value: Option<&'a Value>,
    at: impl fmt::Display,
    diagnostics: &mut Diagnostics,
) -> Option<&'a Map<String, Value>> {
    match value? {
        Value::Null => None,
        Value::Object(fields) => Some(fields),
        other => wrong_type("an object", other, at, diagnostics),
    }
}

/// Reads a list of short texts.
pub(super) fn tags(
    value: Option<&Value>,
    at: impl fmt::Display,
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    let items = match value {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => {
            return wrong_type("a list of texts", other, at, diagnostics).unwrap_or_default();
        }
    };
    let short = |item: &Value| {
        item.as_str()
            .filter(|tag| (1..=MAX_TAG_CHARS).contains(&tag.chars().count()))
            .map(str::to_owned)
    };
    let tags: Vec<String> = items.iter().filter_map(short).take(MAX_TAGS).collect();
    if tags.len() < items.len() {
        let message =
            format!("tags must be at most {MAX_TAGS} texts of 1 to {MAX_TAG_CHARS} characters");
        diagnostics.error("invalid_tags", at, message);
    }
    tags
}

/// Reads the cost of a call. Quoted numbers are accepted for compatibility.
pub(super) fn credits(
    value: &Value,
    at: impl fmt::Display,
    diagnostics: &mut Diagnostics,
) -> Option<Number> {
    let number = match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let number = serde_json::from_str::<Number>(text.trim()).ok();
            if number.is_some() {
                diagnostics.warning(
                    "credits_as_text",
                    &at,
                    "credits are a number and should not be quoted",
                );
            }
            number
        }
        _ => None,
    };
    let credits =
        number.filter(|number| number.as_f64().is_some_and(|n| n.is_finite() && n >= 0.0));
    if credits.is_none() {
        diagnostics.error(
            "invalid_credits",
            at,
            "credits per call must be a number that is not negative",
        );
    }
    credits
}

pub(super) fn wrong_type<T>(
    wanted: &str,
    found: &Value,
    at: impl fmt::Display,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    diagnostics.error("wrong_type", at, format!("must be {wanted}, and is {found}"));
    None
}
