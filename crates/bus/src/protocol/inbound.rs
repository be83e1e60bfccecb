//! Reads a frame in one flat pass: each field is found and its text borrowed, none is parsed
//! unless it must be understood here. Payloads are only checked to be JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::{
    Action, CallResult, Frame, Invoke, Malformed, Observe, Raw, RegisterFunction, RegisterTrigger,
    RegisterTriggerType, Sidecar, Text,
};

/// Longer ids are refused: they are echoed, kept and compared.
const MAX_ID: usize = 1024;

#[derive(Deserialize)]
struct Target {
    function_id: String,
}

/// Every field of every frame the hub acts on. Unknown fields are skipped; `null` is absent.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    id: Raw<'a>,
    #[serde(borrow)]
    invocation_id: Raw<'a>,
    #[serde(borrow)]
    function_id: Raw<'a>,
    #[serde(borrow)]
    data: Raw<'a>,
    #[serde(borrow)]
    result: Raw<'a>,
    #[serde(borrow)]
    error: Raw<'a>,
    #[serde(borrow)]
    action: Raw<'a>,
    #[serde(borrow)]
    traceparent: Raw<'a>,
    #[serde(borrow)]
    baggage: Raw<'a>,
    #[serde(borrow)]
    metadata: Raw<'a>,
    #[serde(borrow)]
    caller: Raw<'a>,
    #[serde(borrow)]
    description: Raw<'a>,
    #[serde(borrow)]
    request_format: Raw<'a>,
    #[serde(borrow)]
    response_format: Raw<'a>,
    #[serde(borrow)]
    private: Raw<'a>,
    #[serde(borrow)]
    trigger_type: Raw<'a>,
    #[serde(borrow)]
    config: Raw<'a>,
    #[serde(borrow)]
    trigger_request_format: Raw<'a>,
    #[serde(borrow)]
    call_request_format: Raw<'a>,
    #[serde(borrow)]
    source: Raw<'a>,
    #[serde(borrow)]
    target: Raw<'a>,
    #[serde(borrow)]
    max_fires: Raw<'a>,
    #[serde(borrow)]
    expires_in_ms: Raw<'a>,
    #[serde(borrow)]
    observe: Raw<'a>,
    #[serde(borrow)]
    observable: Raw<'a>,
    #[serde(borrow)]
    matched: Raw<'a>,
    #[serde(borrow)]
    delivered: Raw<'a>,
    #[serde(borrow)]
    items: Raw<'a>,
    #[serde(borrow)]
    previous_worker_id: Raw<'a>,
    #[serde(borrow)]
    reattach_token: Raw<'a>,
}

/// Reads one frame.
pub(crate) fn parse(text: &str) -> Result<Frame<'_>, Malformed> {
    let plain = |message: String| Malformed { message, call: None };
    // serde would also take an array for a struct.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(plain("a frame must be one JSON object".into()));
    }
    let fields: Fields<'_> = serde_json::from_str(text)
        .map_err(|error| plain(format!("the frame is not valid JSON: {error}")))?;
    let kind = match fields.kind.map(string) {
        Some(Some(kind)) => kind,
        Some(None) => return Err(plain("\"type\" must be a string".into())),
        None => return Err(plain("the frame has no \"type\"".into())),
    };
    fields.typed(&kind).map_err(|what| Malformed {
        message: format!("{kind}: {what}"),
        call: (kind == "invokefunction").then(|| fields.answerable()).flatten(),
    })
}

type Typed<T> = Result<T, String>;

impl<'a> Fields<'a> {
    fn typed(&self, kind: &str) -> Typed<Frame<'a>> {
        Ok(match kind {
            "invokefunction" => Frame::Invoke(self.invoke()?),
            "invocationresult" => Frame::Result(CallResult {
                invocation_id: need("invocation_id", self.invocation_id)?,
                function_id: self
                    .function_id
                    .filter(|raw| string(raw).is_some())
                    .map_or("\"\"", RawValue::get),
                result: self.result,
                error: self.error,
                matched: self.matched(),
                sidecar: Sidecar { metadata: None, caller: None, ..self.sidecar()? },
            }),
            "registerfunction" => Frame::RegisterFunction(self.register_function()?),
            "unregisterfunction" => Frame::UnregisterFunction(need("id", self.id)?),
            "registertriggertype" => Frame::RegisterTriggerType(RegisterTriggerType {
                id: key("id", self.id)?,
                description: optional("description", self.description)?,
                trigger_request_format: self.trigger_request_format,
                call_request_format: self.call_request_format,
            }),
            "unregistertriggertype" => Frame::UnregisterTriggerType(need("id", self.id)?),
            "registertrigger" => Frame::RegisterTrigger(RegisterTrigger {
                id: key("id", self.id)?,
                trigger_type: key("trigger_type", self.trigger_type)?,
                function_id: key("function_id", self.function_id)?,
                config: self.config,
                metadata: self.metadata,
            }),
            "unregistertrigger" => Frame::UnregisterTrigger(need("id", self.id)?),
            "triggerregistrationresult" => {
                Frame::TriggerResult { id: need("id", self.id)?, error: self.error }
            }
            "reattach" => Frame::Reattach {
                previous_worker_id: need("previous_worker_id", self.previous_worker_id)?,
                token: optional("reattach_token", self.reattach_token)?.unwrap_or_default(),
            },
            "observe" => Frame::Observe(Box::new(self.observe()?)),
            "unobserve" => Frame::Unobserve(need("id", self.id)?),
            "observerack" => Frame::ObserverAck { id: need("id", self.id)?, error: self.error },
            "invocationsobserved" => Frame::InvocationsObserved(match self.items {
                Some(raw) => serde_json::from_str(raw.get())
                    .map_err(|error| format!("\"items\": {error}"))?,
                None => Vec::new(),
            }),
            "ping" => Frame::Ping,
            other => Frame::Other(other.to_owned().into()),
        })
    }

    fn register_function(&self) -> Typed<RegisterFunction<'a>> {
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
            id: key("id", self.id)?,
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

    /// An answer is worth having even if what it says of observers is not understood.
    fn matched(&self) -> Option<Vec<String>> {
        if self.delivered.is_some_and(|raw| raw.get() == "true") {
            return Some(Vec::new());
        }
        serde_json::from_str(self.matched?.get()).ok()
    }

    fn invoke(&self) -> Typed<Invoke<'a>> {
        let function_id = need("function_id", self.function_id)?;
        let json = self.function_id.map_or("\"\"", RawValue::get);
        let invocation_id = match self.invocation_id {
            None => None,
            Some(raw) => {
                key("invocation_id", Some(raw))?;
                Some(raw.get())
            }
        };
        Ok(Invoke {
            invocation_id,
            function_id: Text { json, value: function_id },
            data: self.data,
            action: self.action()?,
            sidecar: self.sidecar()?,
        })
    }

    fn action(&self) -> Typed<Action> {
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
            Ok(other) => Err(format!("unknown \"action\" type {}", brief(other))),
            Err(_) => Err("\"action\" must be an object with a \"type\"".into()),
        }
    }

    fn sidecar(&self) -> Typed<Sidecar<'a>> {
        optional("traceparent", self.traceparent)?;
        optional("baggage", self.baggage)?;
        if self.caller.is_some_and(|raw| !raw.get().starts_with('{')) {
            return Err("\"caller\" must be an object".into());
        }
        Ok(Sidecar {
            traceparent: self.traceparent,
            baggage: self.baggage,
            metadata: self.metadata,
            caller: self.caller,
        })
    }

    fn observe(&self) -> Typed<Observe<'a>> {
        let source = self.source.ok_or("\"source\" is missing")?;
        let target = self.target.ok_or("\"target\" is missing")?;
        let target: Target =
            serde_json::from_str(target.get()).map_err(|error| format!("\"target\": {error}"))?;
        Ok(Observe {
            id: key("id", self.id)?,
            source: serde_json::from_str(source.get())
                .map_err(|error| format!("\"source\": {error}"))?,
            target: target.function_id,
            metadata: self.metadata,
            max_fires: value("max_fires", self.max_fires, "a whole number")?,
            expires_in_ms: value("expires_in_ms", self.expires_in_ms, "a whole number")?,
        })
    }

    /// The ids with which a call that could not be read can still be answered.
    fn answerable(&self) -> Option<(String, String)> {
        let invocation_id = self.invocation_id?;
        key("invocation_id", Some(invocation_id)).ok()?;
        let function_id = self.function_id.filter(|raw| string(raw).is_some());
        Some((invocation_id.get().to_owned(), function_id.map_or("\"\"", RawValue::get).to_owned()))
    }
}

fn string<'a>(raw: &'a RawValue) -> Option<Cow<'a, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

fn optional<'a>(name: &str, raw: Raw<'a>) -> Typed<Option<Cow<'a, str>>> {
    raw.map(|raw| string(raw).ok_or_else(|| format!("\"{name}\" must be a string"))).transpose()
}

fn need<'a>(name: &str, raw: Raw<'a>) -> Typed<Cow<'a, str>> {
    optional(name, raw)?.ok_or_else(|| format!("\"{name}\" is missing"))
}

/// A string that the hub will keep.
fn key<'a>(name: &str, raw: Raw<'a>) -> Typed<Cow<'a, str>> {
    let id = need(name, raw)?;
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

fn value<T: serde::de::DeserializeOwned>(name: &str, raw: Raw<'_>, what: &str) -> Typed<Option<T>> {
    raw.map(|raw| serde_json::from_str(raw.get()).map_err(|_| format!("\"{name}\" must be {what}")))
        .transpose()
}

/// A name from outside, short enough for a message.
pub(crate) fn brief(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", &name[..end]).into(),
        None => name.into(),
    }
}

/// The code and message of an error a peer sent. Its stack trace, which names paths of the peer's
/// machine, stays behind.
pub(crate) fn error_body(raw: &RawValue, default_code: &str) -> crate::ErrorBody {
    #[derive(Deserialize)]
    struct Loose {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default)]
        message: serde_json::Value,
    }
    let text = |value: serde_json::Value| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    let object =
        raw.get().starts_with('{').then(|| serde_json::from_str::<Loose>(raw.get()).ok()).flatten();
    let (code, message) = match object {
        Some(loose) => (text(loose.code), text(loose.message)),
        None => (None, string(raw).map(Cow::into_owned)),
    };
    crate::ErrorBody {
        code: code.unwrap_or_else(|| default_code.to_owned()),
        message: message.unwrap_or_else(|| "the worker gave no message".to_owned()),
    }
}
