//! Round trip to the engine. It processes the messages of a connection in order: after the answer it has all earlier ones.

use serde_json::json;
use skills_bus::{
    CallError, Json,
    client::{PendingCall, WorkerCall},
};

use crate::client::Inner;

/// Starts a round trip on a connection.
pub(super) fn start(inner: &Inner, epoch: u64) -> Result<PendingCall, CallError> {
    inner.client.start_call(&WorkerCall {
        function_id: "engine::functions::info",
        data: &Json::from(&json!({ "function_id": "" })),
        namespace: None,
        metadata: None,
        epoch: Some(epoch),
    })
}

/// Returns whether the engine has answered, if only with an error.
pub(super) fn is_answer(outcome: &Result<Json, CallError>) -> bool {
    !matches!(outcome, Err(CallError::Disconnected(_) | CallError::Timeout { .. }))
}
