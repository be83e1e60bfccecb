//! Which functions of workers are offered to agents: those whose metadata asks for it.

use serde::Deserialize;
use serde_json::{Map, Value};
use skills_core::HandlerId;

use crate::RegistryError;

/// The function of a bus that lists all functions.
pub(crate) const LIST: &str = "engine::functions::list";

/// A function that a worker offers to agents.
#[derive(Debug, Clone, PartialEq)]
pub struct ExposedFunction {
    /// What it is called by.
    pub id: HandlerId,
    /// One sentence.
    pub description: Option<String>,
    /// JSON Schema of its input.
    pub request_format: Option<Value>,
    /// JSON Schema of its output.
    pub response_format: Option<Value>,
    /// What its worker says beside `expose`.
    pub wishes: Map<String, Value>,
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
}

/// The functions of a listing that ask to be offered, sorted by id. Functions of the infrastructure are
/// never among them, whatever they ask.
pub(crate) fn exposed(listing: Value) -> Result<Vec<ExposedFunction>, RegistryError> {
    let listing: Listing = serde_json::from_value(listing).map_err(|error| {
        RegistryError::unexpected_answer(format!("{LIST} answered something unknown: {error}"))
    })?;
    let mut exposed: Vec<_> = listing.functions.into_iter().filter_map(Row::exposed).collect();
    exposed.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    exposed.dedup_by(|one, other| one.id == other.id);
    Ok(exposed)
}

impl Row {
    fn exposed(self) -> Option<ExposedFunction> {
        let wishes = wishes(self.metadata?)?;
        Some(ExposedFunction {
            id: self.function_id.parse().ok()?,
            description: self.description.filter(|text| !text.trim().is_empty()),
            request_format: self.request_format.filter(Value::is_object),
            response_format: self.response_format.filter(Value::is_object),
            wishes,
        })
    }
}

/// What stands under `mcp`, if it asks to be exposed. `{"mcp.expose": true}` is the short form.
fn wishes(mut metadata: Value) -> Option<Map<String, Value>> {
    let is_set = |value: &Value| value.as_bool() == Some(true);
    let short = metadata.get("mcp.expose").is_some_and(is_set);
    let long = match metadata.get_mut("mcp").map(Value::take) {
        Some(Value::Object(wishes)) => wishes,
        _ => Map::new(),
    };
    (short || long.get("expose").is_some_and(is_set)).then_some(long)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids(rows: &[Value]) -> Vec<String> {
        let exposed = exposed(json!({ "functions": rows })).unwrap();
        exposed.iter().map(|function| function.id.to_string()).collect()
    }

    #[test]
    fn only_those_that_ask() {
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
    fn infrastructure_never() {
        let rows = ["engine::functions::list", "state::set", "skills::register", "iii::x"]
            .map(|id| json!({"function_id": id, "metadata": {"mcp": {"expose": true}}}));
        assert!(ids(&rows).is_empty());
    }

    #[test]
    fn a_listing_of_another_shape_is_an_error() {
        assert!(exposed(json!([])).is_err());
    }
}
