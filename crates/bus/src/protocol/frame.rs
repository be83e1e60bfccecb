//! Frames of a worker, as far as the hub handles them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Error of a frame that could not be parsed.
#[derive(Debug)]
pub(crate) struct MalformedFrame {
    /// Message that names the type and the field.
    pub(crate) message: String,
    /// `(invocation_id, function_id)` as JSON strings, if the frame is a call that can be answered.
    pub(crate) call: Option<(String, String)>,
}

/// JSON text of a field; `None` if it is absent or `null`.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// String field: its JSON text, to be passed on, and its value.
#[derive(Debug, Clone)]
pub(crate) struct Text<'a> {
    pub(crate) json: &'a str,
    pub(crate) value: Cow<'a, str>,
}

/// Context of a call or an answer besides its payload, passed on unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallContext<'a> {
    pub(crate) traceparent: Raw<'a>,
    pub(crate) baggage: Raw<'a>,
    pub(crate) metadata: Raw<'a>,
    pub(crate) caller: Raw<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Call,
    Void,
    Enqueue,
}

#[derive(Debug)]
pub(crate) struct Invoke<'a> {
    /// Invocation id of the caller as a JSON string; absent on a void call.
    pub(crate) invocation_id: Option<&'a str>,
    pub(crate) function_id: Text<'a>,
    pub(crate) data: Raw<'a>,
    pub(crate) action: Action,
    pub(crate) context: CallContext<'a>,
}

#[derive(Debug)]
pub(crate) struct CallResult<'a> {
    pub(crate) invocation_id: Cow<'a, str>,
    /// Function id as a JSON string; the hub needs it only of its own frames.
    pub(crate) function_id: &'a str,
    pub(crate) result: Raw<'a>,
    pub(crate) error: Raw<'a>,
    /// Observers to activate, as selected by the callee; `None` for all.
    pub(crate) matched: Option<Vec<String>>,
    pub(crate) context: CallContext<'a>,
}

#[derive(Debug)]
pub(crate) struct RegisterFunction<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) description: Option<Cow<'a, str>>,
    pub(crate) request_format: Raw<'a>,
    pub(crate) response_format: Raw<'a>,
    pub(crate) metadata: Raw<'a>,
    pub(crate) private: bool,
    /// True if other workers may observe it.
    pub(crate) observable: bool,
    /// True if its owner, not the hub, selects the observers of an event.
    pub(crate) owner_delivered: bool,
}

#[derive(Debug)]
pub(crate) struct RegisterTriggerType<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) description: Option<Cow<'a, str>>,
    pub(crate) trigger_request_format: Raw<'a>,
    pub(crate) call_request_format: Raw<'a>,
}

#[derive(Debug)]
pub(crate) struct RegisterTrigger<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) trigger_type: Cow<'a, str>,
    pub(crate) function_id: Cow<'a, str>,
    pub(crate) config: Raw<'a>,
    pub(crate) metadata: Raw<'a>,
}

#[derive(Debug)]
pub(crate) struct Observe<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) source: ObserveSource,
    pub(crate) target: String,
    pub(crate) metadata: Raw<'a>,
    pub(crate) max_fires: Option<u64>,
    pub(crate) expires_in_ms: Option<u64>,
}

/// Source of an `observe` frame.
#[derive(Debug, Deserialize)]
pub(crate) struct ObserveSource {
    pub(crate) function_id: String,
    #[serde(default)]
    pub(crate) args: serde_json::Value,
    #[serde(default)]
    pub(crate) filters: serde_json::Value,
    #[serde(default)]
    pub(crate) deliver: Option<String>,
    #[serde(default)]
    pub(crate) on: Option<String>,
    #[serde(default)]
    pub(crate) capture: Option<Vec<String>>,
}

/// Event of a function whose owner selects the observers.
#[derive(Debug, Deserialize)]
pub(crate) struct ObservedEvent<'a> {
    pub(crate) function_id: String,
    pub(crate) invocation_id: String,
    #[serde(default)]
    pub(crate) matched: Vec<String>,
    pub(crate) status: String,
    #[serde(borrow)]
    pub(crate) input: Raw<'a>,
    #[serde(borrow)]
    pub(crate) output: Raw<'a>,
    #[serde(borrow)]
    pub(crate) error: Raw<'a>,
    #[serde(borrow)]
    pub(crate) caller: Raw<'a>,
    #[serde(borrow)]
    pub(crate) metadata: Raw<'a>,
    #[serde(default)]
    pub(crate) started_at_ms: u64,
    #[serde(default)]
    pub(crate) duration_ms: f64,
}

/// Frame of a worker.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Invoke(Invoke<'a>),
    Result(CallResult<'a>),
    RegisterFunction(RegisterFunction<'a>),
    UnregisterFunction(Cow<'a, str>),
    RegisterTriggerType(RegisterTriggerType<'a>),
    UnregisterTriggerType(Cow<'a, str>),
    RegisterTrigger(RegisterTrigger<'a>),
    UnregisterTrigger(Cow<'a, str>),
    TriggerResult {
        id: Cow<'a, str>,
        error: Raw<'a>,
    },
    Reattach {
        previous_worker_id: Cow<'a, str>,
        token: Cow<'a, str>,
    },
    Observe(Box<Observe<'a>>),
    Unobserve(Cow<'a, str>),
    /// The owner of a function has accepted or rejected an observer.
    ObserverAck {
        id: Cow<'a, str>,
        error: Raw<'a>,
    },
    InvocationsObserved(Vec<ObservedEvent<'a>>),
    Ping,
    /// A type that the hub ignores or does not know.
    Other(Cow<'a, str>),
}
