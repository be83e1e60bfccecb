//! Frames of a hub or an engine, as far as a client handles them. Payloads are borrowed as text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use skills_core::Code;

use super::{
    frame::Raw,
    inbound::{FieldResult, error_body, optional, required, string, value},
};
use crate::ErrorBody;

/// First frame of a server, which accepts the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) worker_id: String,
    /// Absent on engines before 0.21.8.
    pub(crate) reattach_token: Option<String>,
    /// Empty on engines before 0.25.
    pub(crate) features: Vec<String>,
}

/// Answer to a call.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) invocation_id: Cow<'a, str>,
    pub(crate) result: Result<Raw<'a>, ErrorBody>,
}

/// Call of a function of this worker.
#[derive(Debug)]
pub(crate) struct ServerCall<'a> {
    /// Invocation id as a JSON string; absent if no answer is wanted.
    pub(crate) invocation_id: Option<&'a str>,
    /// Function id as a JSON string.
    pub(crate) function_id_json: &'a str,
    pub(crate) function_id: Cow<'a, str>,
    pub(crate) data: Raw<'a>,
}

/// Subscription to a trigger type of this worker.
#[derive(Debug)]
pub(crate) struct TriggerAdded<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) trigger_type: Cow<'a, str>,
    pub(crate) function_id: Cow<'a, str>,
    pub(crate) config: Raw<'a>,
    pub(crate) namespace: Option<Cow<'a, str>>,
}

/// Observer of a function of this worker.
#[derive(Debug, Clone)]
pub(crate) struct ObserverView {
    pub(crate) id: String,
    pub(crate) target: String,
    pub(crate) has_args: bool,
    pub(crate) has_filters: bool,
    /// The whole view, to compare it with a later one.
    pub(crate) text: Box<RawValue>,
}

/// Rejection of the worker, or of one of its functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) code: String,
    pub(crate) namespace: Option<String>,
    pub(crate) worker_name: Option<String>,
    pub(crate) function_id: Option<String>,
    pub(crate) owner_worker_id: Option<String>,
}

/// Frame of a hub or an engine.
#[derive(Debug)]
pub(crate) enum ServerFrame<'a> {
    Greeting(Greeting),
    Answer(Answer<'a>),
    Call(ServerCall<'a>),
    TriggerAdded(TriggerAdded<'a>),
    TriggerRemoved {
        id: Cow<'a, str>,
        trigger_type: Cow<'a, str>,
    },
    /// The server has rejected a subscription of this worker.
    SubscriptionFailed {
        id: Cow<'a, str>,
        error: ErrorBody,
    },
    /// The server has accepted a function and lists its observers.
    FunctionRegistered {
        id: Cow<'a, str>,
        namespace: Option<Cow<'a, str>>,
        revision: u64,
        observers: Vec<ObserverView>,
    },
    ObserverAdded {
        function_id: Cow<'a, str>,
        namespace: Option<Cow<'a, str>>,
        revision: u64,
        observer: ObserverView,
    },
    ObserverRemoved {
        function_id: Cow<'a, str>,
        revision: u64,
        id: Cow<'a, str>,
    },
    Rejected(Rejection),
    /// Error without a call, such as a refused connection.
    Error(ErrorBody),
    Ping,
    /// A type that the client ignores or does not know.
    Other,
}

/// All fields of all frames that a client handles. Unknown fields are skipped; `null` counts as absent.
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
    trigger_type: Raw<'a>,
    #[serde(borrow)]
    config: Raw<'a>,
    #[serde(borrow)]
    namespace: Raw<'a>,
    #[serde(borrow)]
    worker_id: Raw<'a>,
    #[serde(borrow)]
    reattach_token: Raw<'a>,
    #[serde(borrow)]
    features: Raw<'a>,
    #[serde(borrow)]
    revision: Raw<'a>,
    #[serde(borrow)]
    observers: Raw<'a>,
    #[serde(borrow)]
    observer: Raw<'a>,
    #[serde(borrow)]
    code: Raw<'a>,
    #[serde(borrow)]
    worker_name: Raw<'a>,
    #[serde(borrow)]
    owner_worker_id: Raw<'a>,
}

/// Parses one frame.
///
/// # Errors
/// A message that names the field.
pub(crate) fn parse(text: &str) -> Result<ServerFrame<'_>, String> {
    // serde would also accept an array for a struct.
    if !text.trim_ascii_start().starts_with('{') {
        return Err("a frame must be one JSON object".to_owned());
    }
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let kind = required("type", fields.kind)?;
    fields.to_frame(&kind).map_err(|what| format!("{kind}: {what}"))
}

impl<'a> Fields<'a> {
    fn to_frame(&self, kind: &str) -> FieldResult<ServerFrame<'a>> {
        Ok(match kind {
            "invocationresult" => ServerFrame::Answer(Answer {
                invocation_id: required("invocation_id", self.invocation_id)?,
                result: match self.error {
                    Some(error) => Err(error_body(error, Code::InvocationFailed)),
                    None => Ok(self.result),
                },
            }),
            "invokefunction" => ServerFrame::Call(self.call()?),
            "workerregistered" => ServerFrame::Greeting(Greeting {
                worker_id: required("worker_id", self.worker_id)?.into_owned(),
                reattach_token: optional("reattach_token", self.reattach_token)?
                    .map(Cow::into_owned),
                features: value("features", self.features, "a list of strings")?
                    .unwrap_or_default(),
            }),
            "registertrigger" => ServerFrame::TriggerAdded(TriggerAdded {
                id: required("id", self.id)?,
                trigger_type: required("trigger_type", self.trigger_type)?,
                function_id: required("function_id", self.function_id)?,
                config: self.config,
                namespace: optional("namespace", self.namespace)?,
            }),
            "unregistertrigger" => ServerFrame::TriggerRemoved {
                id: required("id", self.id)?,
                trigger_type: optional("trigger_type", self.trigger_type)?.unwrap_or_default(),
            },
            "triggerregistrationresult" => match self.error {
                Some(error) => ServerFrame::SubscriptionFailed {
                    id: required("id", self.id)?,
                    error: error_body(error, Code::TriggerRegistrationFailed),
                },
                None => ServerFrame::Other,
            },
            "functionregistered" => ServerFrame::FunctionRegistered {
                id: required("id", self.id)?,
                namespace: optional("namespace", self.namespace)?,
                revision: self.revision()?,
                observers: value::<Vec<Box<RawValue>>>("observers", self.observers, "a list")?
                    .unwrap_or_default()
                    .into_iter()
                    .map(view)
                    .collect::<FieldResult<_>>()?,
            },
            "observeradded" => ServerFrame::ObserverAdded {
                function_id: required("function_id", self.function_id)?,
                namespace: optional("namespace", self.namespace)?,
                revision: self.revision()?,
                observer: view(self.observer.ok_or("\"observer\" is missing")?.to_owned())?,
            },
            "observerremoved" => ServerFrame::ObserverRemoved {
                function_id: required("function_id", self.function_id)?,
                revision: self.revision()?,
                id: required("id", self.id)?,
            },
            "registrationrejected" => {
                let text = |raw: Raw<'a>| raw.and_then(string).map(Cow::into_owned);
                ServerFrame::Rejected(Rejection {
                    code: text(self.code).unwrap_or_else(|| "unknown".to_owned()),
                    namespace: text(self.namespace),
                    worker_name: text(self.worker_name),
                    function_id: text(self.function_id),
                    owner_worker_id: text(self.owner_worker_id),
                })
            }
            "error" => ServerFrame::Error(match self.error {
                Some(error) => error_body(error, Code::InvocationFailed),
                None => ErrorBody { code: Code::InvocationFailed.into(), ..ErrorBody::default() },
            }),
            "ping" => ServerFrame::Ping,
            _ => ServerFrame::Other,
        })
    }

    fn call(&self) -> FieldResult<ServerCall<'a>> {
        let function_id = required("function_id", self.function_id)?;
        optional("invocation_id", self.invocation_id)?;
        Ok(ServerCall {
            invocation_id: self.invocation_id.map(RawValue::get),
            function_id_json: self.function_id.map_or("\"\"", RawValue::get),
            function_id,
            data: self.data,
        })
    }

    fn revision(&self) -> FieldResult<u64> {
        Ok(value("revision", self.revision, "a whole number")?.unwrap_or_default())
    }
}

fn view(text: Box<RawValue>) -> FieldResult<ObserverView> {
    #[derive(Deserialize)]
    struct View<'a> {
        id: String,
        target: String,
        #[serde(borrow, default)]
        args: Raw<'a>,
        #[serde(borrow, default)]
        filters: Raw<'a>,
    }
    let is_given = |raw: Raw<'_>| {
        raw.is_some_and(|raw| !raw.get().trim_matches(['{', '}']).trim_ascii().is_empty())
    };
    let View { id, target, args, filters } =
        serde_json::from_str(text.get()).map_err(|error| format!("observer: {error}"))?;
    let (has_args, has_filters) = (is_given(args), is_given(filters));
    Ok(ObserverView { id, target, has_args, has_filters, text })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    /// Greetings of engines from 0.11 to 0.26.
    #[test]
    fn greetings_of_all_engines_are_accepted() {
        for (text, token, features) in [
            (r#"{"type":"workerregistered","worker_id":"w"}"#, None, 0),
            (r#"{"type":"workerregistered","worker_id":"w","reattach_token":"t"}"#, Some("t"), 0),
            (
                r#"{"type":"workerregistered","worker_id":"w","reattach_token":"t",
                    "features":["observe.v1","local-dispatch.v1"]}"#,
                Some("t"),
                2,
            ),
            (
                r#"{"type":"workerregistered","worker_id":"w","reattach_token":null,"later":[],
                    "features":["observe.v1","observe.v2","local-dispatch.v1"]}"#,
                None,
                3,
            ),
        ] {
            let ServerFrame::Greeting(greeting) = parse(text).unwrap() else { panic!("{text}") };
            assert_eq!(greeting.worker_id, "w", "{text:?}");
            assert_eq!(greeting.reattach_token.as_deref(), token, "{text:?}");
            assert_eq!(greeting.features.len(), features, "{text:?}");
        }
    }

    #[test]
    fn malformed_frames_are_errors_and_unknown_ones_are_ignored() {
        for text in [
            "",
            "[]",
            "{",
            "7",
            r#"{"type":7}"#,
            r#"{"id":"x"}"#,
            r#"{"type":"workerregistered"}"#,
            r#"{"type":"workerregistered","worker_id":7}"#,
            r#"{"type":"invokefunction"}"#,
            r#"{"type":"invokefunction","function_id":"f","invocation_id":{}}"#,
            r#"{"type":"invocationresult"}"#,
            r#"{"type":"registertrigger","id":"t"}"#,
            r#"{"type":"observeradded","function_id":"f","revision":1}"#,
            r#"{"type":"functionregistered","id":"f","revision":-1}"#,
            r#"{"type":"functionregistered","id":"f","observers":[{"id":"o"}]}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [r#"{"type":"pong"}"#, r#"{"type":"later","id":7}"#] {
            assert!(matches!(parse(text), Ok(ServerFrame::Other)), "{text}");
        }
    }

    #[test]
    fn filters_and_arguments_of_an_observer_are_noticed() {
        let text = r#"{"type":"functionregistered","id":"f","observers":[
            {"id":"a","target":"t","args":{},"filters":{ }},
            {"id":"b","target":"t","args":{"x":1},"filters":null},
            {"id":"c","target":"t","filters":{"all":[]}}]}"#;
        let ServerFrame::FunctionRegistered { observers, .. } = parse(text).unwrap() else {
            panic!()
        };
        let found: Vec<_> = observers.iter().map(|it| (it.has_args, it.has_filters)).collect();
        assert_eq!(found, [(false, false), (true, false), (false, true)]);
    }
}
