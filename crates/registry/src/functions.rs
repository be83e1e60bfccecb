//! Functions that workers expose to agents by their metadata.

use serde::Deserialize;
use serde_json::{Map, Value};
use skills_bus::CALLER_FIELD;
use skills_core::HandlerId;

use crate::RegistryError;

/// Bus function that lists all functions.
pub const LIST: &str = "engine::functions::list";
/// Bus function that describes one function.
pub(crate) const INFO: &str = "engine::functions::info";

/// Removes the fields that only a bus may set from the arguments of a client.
pub fn without_bus_fields(mut arguments: Value) -> Value {
    if let Value::Object(fields) = &mut arguments {
        fields.remove(CALLER_FIELD);
    }
    arguments
}

/// Function that a worker exposes to agents.
#[derive(Debug, Clone, PartialEq)]
pub struct ExposedFunction {
    /// Function id.
    pub id: HandlerId,
    /// Description in one sentence.
    pub description: Option<String>,
    /// JSON Schema of its input.
    pub request_format: Option<Value>,
    /// JSON Schema of its output.
    pub response_format: Option<Value>,
    /// Fields of the metadata beside `expose`.
    pub options: Map<String, Value>,
}

#[derive(Deserialize)]
struct Listing {
    functions: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    function_id: String,
    description: Option<String>,
    request_format: Option<Value>,
    response_format: Option<Value>,
    metadata: Option<Value>,
    /// True if only the registering worker may call it. A bus that does not report this refuses the call itself.
    #[serde(default)]
    private: Option<bool>,
}

#[derive(Deserialize)]
struct Info {
    metadata: Option<Value>,
    private: Option<bool>,
}

/// Returns whether a result of [`INFO`] describes an exposed function.
pub(crate) fn is_exposed(info: Value) -> bool {
    let Ok(info) = serde_json::from_value::<Info>(info) else { return false };
    info.private != Some(true) && info.metadata.and_then(expose_options).is_some()
}

/// Parses a result of [`LIST`] and returns the exposed functions, sorted by id. Reserved functions are never exposed.
///
/// # Errors
/// When the result has another form.
pub fn parse_exposed(listing: Value) -> Result<Vec<ExposedFunction>, RegistryError> {
    let listing: Listing = serde_json::from_value(listing).map_err(|error| {
        RegistryError::unexpected_answer(format!("{LIST} returned an unexpected result: {error}"))
    })?;
    let mut exposed: Vec<_> = listing.functions.into_iter().filter_map(Row::into_exposed).collect();
    exposed.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    exposed.dedup_by(|one, other| one.id == other.id);
    Ok(exposed)
}

impl Row {
    fn into_exposed(self) -> Option<ExposedFunction> {
        if self.private == Some(true) {
            return None;
        }
        let options = expose_options(self.metadata?)?;
        Some(ExposedFunction {
            id: self.function_id.parse().ok()?,
            description: self.description.filter(|text| !text.trim().is_empty()),
            request_format: self.request_format.filter(Value::is_object),
            response_format: self.response_format.filter(Value::is_object),
            options,
        })
    }
}

/// Returns the object under `mcp` if it sets `expose`. `{"mcp.expose": true}` is the short form.
fn expose_options(mut metadata: Value) -> Option<Map<String, Value>> {
    let is_set = |value: &Value| value.as_bool() == Some(true);
    let short = metadata.get("mcp.expose").is_some_and(is_set);
    let long = match metadata.get_mut("mcp").map(Value::take) {
        Some(Value::Object(options)) => options,
        _ => Map::new(),
    };
    (short || long.get("expose").is_some_and(is_set)).then_some(long)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids(rows: &[Value]) -> Vec<String> {
        let exposed = parse_exposed(json!({ "functions": rows })).unwrap();
        exposed.iter().map(|function| function.id.to_string()).collect()
    }

    #[test]
    fn only_functions_that_set_expose_are_exposed() {
        let rows = [
            json!({"function_id": "b::long", "metadata": {"mcp": {"expose": true, "title": "B"}}}),
            json!({"function_id": "a::short", "metadata": {"mcp.expose": true}}),
            json!({"function_id": "c::no", "metadata": {"mcp": {"expose": false}}}),
            json!({"function_id": "d::text", "metadata": {"mcp.expose": "true"}}),
            json!({"function_id": "e::none", "metadata": null}),
            json!({"function_id": "f::absent"}),
        ];
        assert_eq!(ids(&rows), ["a::short", "b::long"]);
    }

    #[test]
    fn a_private_function_is_never_exposed() {
        let metadata = json!({"mcp": {"expose": true}});
        let row = json!({"function_id": "a::b", "metadata": metadata, "private": true});
        assert!(ids(std::slice::from_ref(&row)).is_empty());
        assert!(!is_exposed(row));
        assert!(is_exposed(json!({"function_id": "a::b", "metadata": metadata})));
        assert!(!is_exposed(json!({"function_id": "a::b", "metadata": null})));
    }

    #[test]
    fn reserved_functions_are_never_exposed() {
        let rows = ["engine::functions::list", "state::set", "skills::register", "iii::x"]
            .map(|id| json!({"function_id": id, "metadata": {"mcp": {"expose": true}}}));
        assert!(ids(&rows).is_empty());
    }

    #[test]
    fn a_listing_of_another_form_is_an_error() {
        assert!(parse_exposed(json!([])).is_err());
    }
}
