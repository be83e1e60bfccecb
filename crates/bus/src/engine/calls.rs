//! Calls of this process, and what their failures mean.

use std::time::Duration;

use iii_sdk::{
    Error,
    protocol::{TriggerRequest, TriggerRequestWithMetadata},
    runtime::IIIConnectionState,
};
use serde_json::Value;

use super::Inner;
use crate::{CallError, Json};

impl Inner {
    /// Calls a function. Without a connection it fails at once: the SDK would keep the call and
    /// make it whenever the engine is back, long after the caller was told that it failed.
    ///
    /// That can still happen to a call which is handed over in the moment in which the connection
    /// breaks and has timed out before the next one is up. Until then it may succeed.
    pub(super) async fn call(
        &self,
        namespace: Option<&str>,
        function_id: &str,
        data: &Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let disconnected = || CallError::Disconnected(function_id.to_owned());
        if self.client.get_connection_state() != IIIConnectionState::Connected {
            return Err(disconnected());
        }
        let request = request(namespace, function_id, data, timeout)?;
        let result = tokio::select! {
            () = self.closed.cancelled() => return Err(disconnected()),
            result = self.client.trigger(request) => result,
        };
        match result {
            Ok(value) => Ok(Json::from(&value)),
            Err(error) => Err(failure(function_id, timeout, error)),
        }
    }
}

/// A call as the SDK wants it.
pub(super) fn request(
    namespace: Option<&str>,
    function_id: &str,
    data: &Json,
    timeout: Duration,
) -> Result<TriggerRequestWithMetadata, CallError> {
    let payload: Value = data.parse().map_err(|error| {
        CallError::remote("serialization_error", format!("the payload of {function_id}: {error}"))
    })?;
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
    let request = TriggerRequest {
        function_id: function_id.to_owned(),
        payload,
        action: None,
        timeout_ms: Some(millis),
    };
    let request = TriggerRequestWithMetadata::from(request);
    Ok(match namespace {
        Some(namespace) => request.namespace(namespace),
        None => request,
    })
}

pub(super) fn failure(function_id: &str, timeout: Duration, error: Error) -> CallError {
    let name = || function_id.to_owned();
    match error {
        Error::Timeout => CallError::Timeout { function_id: name(), after: timeout },
        Error::NotConnected | Error::RegistrationRejected { .. } => CallError::Disconnected(name()),
        Error::Remote { code, message, .. } => match code.as_str() {
            "function_not_found" => CallError::NotFound(name()),
            "invocation_stopped" => CallError::Stopped(name()),
            "payload_too_large" => CallError::PayloadTooLarge(message),
            "channel_send_failed" => CallError::Congested(name()),
            _ => CallError::Remote { code, message },
        },
        other => CallError::remote("invocation_failed", other.to_string()),
    }
}
