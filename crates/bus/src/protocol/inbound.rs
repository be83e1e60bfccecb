//! Parses a frame in one flat pass: the text of each field is borrowed, and only fields that the hub needs are parsed.
//! Payloads are only validated as JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use skills_core::{
    Code,
    text::{MAX_QUOTED_CHARS, truncate},
};

use super::frame::{
    Action, CallContext, CallResult, Frame, Invoke, MalformedFrame, Observe, Raw, RegisterFunction,
    RegisterTrigger, RegisterTriggerType, Text,
};
use crate::is_outcome_unknown;

/// Length limit of ids, which are echoed, stored and compared.
const MAX_ID: usize = 1024;
/// Length limit of the details of an error.
const MAX_DETAILS: usize = 1024;

#[derive(Deserialize)]
struct Target {
    function_id: String,
}

/// Defines the fields of a frame; serde borrows such types only with an attribute on each.
macro_rules! frame_fields {
    ($($field:ident),* $(,)?) => {
        /// All fields of all frames that the hub handles. Unknown fields are skipped; `null` counts as absent.
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, rename = "type")]
            kind: Raw<'a>,
            $(#[serde(borrow)]
            $field: Raw<'a>,)*
        }
    };
}

frame_fields! {
    id, invocation_id, function_id, data, result, error, action, traceparent, baggage, metadata,
    caller, description, request_format, response_format, private, trigger_type, config,
    trigger_request_format, call_request_format, source, target, max_fires, expires_in_ms, observe,
    observable, matched, delivered, items, previous_worker_id, reattach_token,
}

/// Parses one frame.
pub(crate) fn parse(text: &str) -> Result<Frame<'_>, MalformedFrame> {
    let malformed = |message: String| MalformedFrame { message, call: None };
    // serde would also accept an array for a struct.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(malformed("a frame must be one JSON object".into()));
    }
    let fields: Fields<'_> = serde_json::from_str(text)
        .map_err(|error| malformed(format!("the frame is not valid JSON: {error}")))?;
    let kind = match fields.kind.map(string) {
        Some(Some(kind)) => kind,
        Some(None) => return Err(malformed("\"type\" must be a string".into())),
        None => return Err(malformed("the frame has no \"type\"".into())),
    };
    fields.to_frame(&kind).map_err(|what| MalformedFrame {
        message: format!("{kind}: {what}"),
        call: (kind == "invokefunction").then(|| fields.call_ids()).flatten(),
    })
}

pub(super) type FieldResult<T> = Result<T, String>;

impl<'a> Fields<'a> {
    fn to_frame(&self, kind: &str) -> FieldResult<Frame<'a>> {
        Ok(match kind {
            "invokefunction" => Frame::Invoke(self.invoke()?),
            "invocationresult" => Frame::Result(CallResult {
                invocation_id: required("invocation_id", self.invocation_id)?,
                function_id: self
                    .function_id
                    .filter(|raw| string(raw).is_some())
                    .map_or("\"\"", RawValue::get),
                result: self.result,
                error: self.error,
                matched: self.matched(),
                context: CallContext { metadata: None, caller: None, ..self.context()? },
            }),
            "registerfunction" => Frame::RegisterFunction(self.register_function()?),
            "unregisterfunction" => Frame::UnregisterFunction(required("id", self.id)?),
            "registertriggertype" => Frame::RegisterTriggerType(RegisterTriggerType {
                id: required_id("id", self.id)?,
                description: optional("description", self.description)?,
                trigger_request_format: self.trigger_request_format,
                call_request_format: self.call_request_format,
            }),
            "unregistertriggertype" => Frame::UnregisterTriggerType(required("id", self.id)?),
            "registertrigger" => Frame::RegisterTrigger(RegisterTrigger {
                id: required_id("id", self.id)?,
                trigger_type: required_id("trigger_type", self.trigger_type)?,
                function_id: required_id("function_id", self.function_id)?,
                config: self.config,
                metadata: self.metadata,
            }),
            "unregistertrigger" => Frame::UnregisterTrigger(required("id", self.id)?),
            "triggerregistrationresult" => {
                Frame::TriggerResult { id: required("id", self.id)?, error: self.error }
            }
            "reattach" => Frame::Reattach {
                previous_worker_id: required("previous_worker_id", self.previous_worker_id)?,
                token: optional("reattach_token", self.reattach_token)?.unwrap_or_default(),
            },
            "observe" => Frame::Observe(Box::new(self.observe()?)),
            "unobserve" => Frame::Unobserve(required("id", self.id)?),
            "observerack" => Frame::ObserverAck { id: required("id", self.id)?, error: self.error },
            "invocationsobserved" => Frame::InvocationsObserved(match self.items {
                Some(raw) => serde_json::from_str(raw.get())
                    .map_err(|error| format!("\"items\": {error}"))?,
                None => Vec::new(),
            }),
            "ping" => Frame::Ping,
            other => Frame::Other(other.to_owned().into()),
        })
    }

    fn register_function(&self) -> FieldResult<RegisterFunction<'a>> {
        #[derive(Deserialize)]
        struct Descriptor {
            #[serde(default)]
            delivery: Option<String>,
            #[serde(default)]
            allow: Option<bool>,
        }
        let descriptor: Option<Descriptor> = value("observe", self.observe, "a descriptor")?;
        let allowed = value("observable", self.observable, "a boolean")?.unwrap_or(true);
        Ok(RegisterFunction {
            id: required_id("id", self.id)?,
            description: optional("description", self.description)?,
            request_format: self.request_format,
            response_format: self.response_format,
            metadata: self.metadata,
            private: value("private", self.private, "a boolean")?.unwrap_or(false),
            observable: allowed
                && descriptor.as_ref().and_then(|observe| observe.allow).unwrap_or(true),
            owner_delivered: descriptor
                .is_some_and(|observe| observe.delivery.as_deref() == Some("owner")),
        })
    }

    /// Parses the selected observers; an answer with an invalid selection still counts.
    fn matched(&self) -> Option<Vec<String>> {
        if self.delivered.is_some_and(|raw| raw.get() == "true") {
            return Some(Vec::new());
        }
        serde_json::from_str(self.matched?.get()).ok()
    }

    fn invoke(&self) -> FieldResult<Invoke<'a>> {
        let function_id = required("function_id", self.function_id)?;
        let json = self.function_id.map_or("\"\"", RawValue::get);
        let invocation_id = match self.invocation_id {
            None => None,
            Some(raw) => {
                required_id("invocation_id", Some(raw))?;
                Some(raw.get())
            }
        };
        Ok(Invoke {
            invocation_id,
            function_id: Text { json, value: function_id },
            data: self.data,
            action: self.action()?,
            context: self.context()?,
        })
    }

    fn action(&self) -> FieldResult<Action> {
        #[derive(Deserialize)]
        struct Tagged {
            r#type: String,
        }
        let Some(raw) = self.action else { return Ok(Action::Call) };
        match serde_json::from_str::<Tagged>(raw.get())
            .as_ref()
            .map(|action| action.r#type.as_str())
        {
            Ok("void") => Ok(Action::Void),
            Ok("enqueue") => Ok(Action::Enqueue),
            Ok(other) => Err(format!("unknown \"action\" type {}", truncate_name(other))),
            Err(_) => Err("\"action\" must be an object with a \"type\"".into()),
        }
    }

    fn context(&self) -> FieldResult<CallContext<'a>> {
        optional("traceparent", self.traceparent)?;
        optional("baggage", self.baggage)?;
        if self.caller.is_some_and(|raw| !raw.get().starts_with('{')) {
            return Err("\"caller\" must be an object".into());
        }
        Ok(CallContext {
            traceparent: self.traceparent,
            baggage: self.baggage,
            metadata: self.metadata,
            caller: self.caller,
        })
    }

    fn observe(&self) -> FieldResult<Observe<'a>> {
        let source = self.source.ok_or("\"source\" is missing")?;
        let target = self.target.ok_or("\"target\" is missing")?;
        let target: Target =
            serde_json::from_str(target.get()).map_err(|error| format!("\"target\": {error}"))?;
        Ok(Observe {
            id: required_id("id", self.id)?,
            source: serde_json::from_str(source.get())
                .map_err(|error| format!("\"source\": {error}"))?,
            target: target.function_id,
            metadata: self.metadata,
            max_fires: value("max_fires", self.max_fires, "a whole number")?,
            expires_in_ms: value("expires_in_ms", self.expires_in_ms, "a whole number")?,
        })
    }

    /// Returns the ids by which a malformed call can still be answered.
    fn call_ids(&self) -> Option<(String, String)> {
        let invocation_id = self.invocation_id?;
        required_id("invocation_id", Some(invocation_id)).ok()?;
        let function_id = self.function_id.filter(|raw| string(raw).is_some());
        Some((invocation_id.get().to_owned(), function_id.map_or("\"\"", RawValue::get).to_owned()))
    }
}

pub(super) fn string<'a>(raw: &'a RawValue) -> Option<Cow<'a, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

pub(super) fn optional<'a>(name: &str, raw: Raw<'a>) -> FieldResult<Option<Cow<'a, str>>> {
    raw.map(|raw| string(raw).ok_or_else(|| format!("\"{name}\" must be a string"))).transpose()
}

pub(super) fn required<'a>(name: &str, raw: Raw<'a>) -> FieldResult<Cow<'a, str>> {
    optional(name, raw)?.ok_or_else(|| format!("\"{name}\" is missing"))
}

/// Parses a string that the hub will store.
fn required_id<'a>(name: &str, raw: Raw<'a>) -> FieldResult<Cow<'a, str>> {
    let id = required(name, raw)?;
    if id.is_empty() {
        return Err(format!("\"{name}\" must be non-empty"));
    }
    if id.len() > MAX_ID {
        return Err(format!("\"{name}\" is too long: {} bytes, at most {MAX_ID}", id.len()));
    }
    if id.chars().any(char::is_control) {
        return Err(format!("\"{name}\" must not contain control characters"));
    }
    Ok(id)
}

pub(super) fn value<T: serde::de::DeserializeOwned>(
    name: &str,
    raw: Raw<'_>,
    what: &str,
) -> FieldResult<Option<T>> {
    raw.map(|raw| serde_json::from_str(raw.get()).map_err(|_| format!("\"{name}\" must be {what}")))
        .transpose()
}

/// Truncates a name from outside for a message.
pub(crate) fn truncate_name(name: &str) -> Cow<'_, str> {
    truncate(name, MAX_QUOTED_CHARS)
}

/// Returns whether the details of an error are those of an unknown outcome. Longer ones are not parsed.
fn has_unknown_outcome(details: &RawValue) -> bool {
    details.get().len() <= MAX_DETAILS
        && serde_json::from_str(details.get()).is_ok_and(|details| is_outcome_unknown(&details))
}

/// Parses the code and message of a peer's error, and whether the outcome is unknown. Its stack trace, which names paths of
/// the peer's machine, is dropped.
pub(crate) fn error_body(raw: &RawValue, default_code: Code) -> crate::ErrorBody {
    #[derive(Deserialize)]
    struct AnyError<'a> {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default)]
        message: serde_json::Value,
        #[serde(default, borrow)]
        details: Option<&'a RawValue>,
    }
    let text = |value: serde_json::Value| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    let object = raw
        .get()
        .starts_with('{')
        .then(|| serde_json::from_str::<AnyError<'_>>(raw.get()).ok())
        .flatten();
    let (code, message, is_outcome_unknown) = match object {
        Some(error) => {
            (text(error.code), text(error.message), error.details.is_some_and(has_unknown_outcome))
        }
        None => (None, string(raw).map(Cow::into_owned), false),
    };
    crate::ErrorBody {
        code: code.unwrap_or_else(|| default_code.into()),
        message: message.unwrap_or_else(|| "the worker gave no message".to_owned()),
        is_outcome_unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallError, protocol::outbound};

    fn parse(error: &str) -> CallError {
        let raw: Box<RawValue> = serde_json::from_str(error).unwrap();
        error_body(&raw, Code::InvocationFailed).into()
    }

    #[test]
    fn an_unknown_outcome_survives_the_wire() {
        let (code, message) = ("store_unavailable".to_owned(), "the connection broke".to_owned());
        let error = CallError::OutcomeUnknown { code: code.clone(), message: message.clone() };
        let frame = outbound::failure("\"i\"", "\"f\"", &error.body());
        let frame: serde_json::Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(frame["error"]["details"], serde_json::json!({ "outcome": "unknown" }));
        assert_eq!(parse(&frame["error"].to_string()), error);
        let known = CallError::Remote { code, message };
        assert!(!outbound::failure("\"i\"", "\"f\"", &known.body()).contains("details"));
    }

    #[test]
    fn other_details_of_a_peer_are_dropped() {
        let long = format!(r#"{{"outcome":"unknown","x":"{}"}}"#, "x".repeat(MAX_DETAILS));
        for details in ["5", "null", "{}", r#"{"outcome":"known"}"#, &long] {
            let error = format!(r#"{{"code":"c","message":"m","details":{details}}}"#);
            assert_eq!(parse(&error), CallError::remote("c", "m"), "{details}");
        }
    }
}
