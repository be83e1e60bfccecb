//! Writer of frames: one JSON object, by concatenation.

use serde_json::value::RawValue;
use skills_core::UNKNOWN_OUTCOME;
use uuid::Uuid;

use super::frame::CallContext;
use crate::ErrorBody;

/// Writer of a JSON object.
pub(super) struct Object(String);

impl Object {
    pub(super) fn new(kind: &str, capacity: usize) -> Self {
        let mut text = String::with_capacity(capacity + kind.len() + 16);
        text.push_str("{\"type\":\"");
        text.push_str(kind);
        text.push('"');
        Self(text)
    }

    /// Starts an object without a type.
    pub(super) fn anonymous(capacity: usize) -> Self {
        let mut text = String::with_capacity(capacity);
        text.push('{');
        Self(text)
    }

    pub(super) fn name(&mut self, name: &str) {
        self.0.push_str(if self.0.len() > 1 { ",\"" } else { "\"" });
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    /// Returns the text so far, to append the value of the last name.
    pub(super) fn text_mut(&mut self) -> &mut String {
        &mut self.0
    }

    pub(super) fn json(mut self, name: &str, json: &str) -> Self {
        self.name(name);
        self.0.push_str(json);
        self
    }

    pub(super) fn json_if(self, name: &str, json: Option<&str>) -> Self {
        match json {
            Some(json) => self.json(name, json),
            None => self,
        }
    }

    pub(super) fn string(self, name: &str, value: &str) -> Self {
        let json = quote(value);
        self.json(name, &json)
    }

    pub(super) fn string_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.string(name, value),
            None => self,
        }
    }

    pub(super) fn error(self, name: &str, error: &ErrorBody) -> Self {
        let mut json =
            format!("{{\"code\":{},\"message\":{}", quote(&error.code), quote(&error.message));
        if error.is_outcome_unknown {
            let (name, value) = UNKNOWN_OUTCOME;
            json.push_str(&format!(",\"details\":{{\"{name}\":\"{value}\"}}"));
        }
        json.push('}');
        self.json(name, &json)
    }

    pub(super) fn uuid(mut self, name: &str, id: Uuid) -> Self {
        self.name(name);
        let mut buffer = [0; uuid::fmt::Hyphenated::LENGTH];
        self.0.push('"');
        self.0.push_str(id.hyphenated().encode_lower(&mut buffer));
        self.0.push('"');
        self
    }

    pub(super) fn context(self, context: &CallContext<'_>) -> Self {
        self.json_if("traceparent", context.traceparent.map(RawValue::get))
            .json_if("baggage", context.baggage.map(RawValue::get))
            .json_if("metadata", context.metadata.map(RawValue::get))
            .json_if("caller", context.caller.map(RawValue::get))
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Encodes a string as JSON.
pub(crate) fn quote(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}
