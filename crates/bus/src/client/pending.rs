//! Calls that wait for their answer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use skills_core::Code;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{CallError, Json, protocol::server_frame::Answer, wire::invocation_ids::InvocationIds};

type Outcome = Result<Json, CallError>;

struct Waiting {
    function_id: String,
    answer: oneshot::Sender<Outcome>,
}

/// Calls without an answer, by invocation id. They outlive a connection, since a server may answer them on the next one.
#[derive(Default)]
pub(super) struct PendingCalls {
    ids: InvocationIds,
    waiting: Mutex<HashMap<Uuid, Waiting>>,
}

impl PendingCalls {
    /// Adds a call.
    pub(super) fn add(self: &Arc<Self>, function_id: &str) -> PendingCall {
        let (sender, answer) = oneshot::channel();
        let id = self.ids.next_id();
        let waiting = Waiting { function_id: function_id.to_owned(), answer: sender };
        self.waiting.lock().insert(id, waiting);
        PendingCall { id, calls: Arc::clone(self), answer, function_id: function_id.to_owned() }
    }

    fn finish(&self, id: Uuid, outcome: impl FnOnce(String) -> Outcome) {
        let waiting = self.waiting.lock().remove(&id);
        if let Some(Waiting { function_id, answer }) = waiting {
            let _ = answer.send(outcome(function_id));
        }
    }

    /// Completes the call that a frame answers. Answers to unknown calls, such as those that timed out, are ignored.
    pub(super) fn complete(&self, answer: Answer<'_>) {
        let Ok(id) = Uuid::try_parse(&answer.invocation_id) else { return };
        self.finish(id, |function_id| match answer.result {
            Ok(result) => Ok(result.map_or_else(Json::null, |raw| Json::from(raw.to_owned()))),
            Err(error) => Err(match Code::from_remote(&error.code) {
                Code::FunctionNotFound => CallError::NotFound(function_id),
                Code::InvocationStopped => CallError::Stopped(function_id),
                Code::PayloadTooLarge => CallError::PayloadTooLarge(error.message),
                Code::ChannelSendFailed => CallError::Congested(function_id),
                _ => error.into(),
            }),
        });
    }

    /// Fails a call that was not sent.
    pub(super) fn fail_unsent(&self, id: Uuid) {
        self.finish(id, |function_id| Err(CallError::Disconnected(function_id)));
    }

    /// Fails all calls.
    pub(super) fn fail_all(&self, error: impl Fn(String) -> CallError) {
        let calls = std::mem::take(&mut *self.waiting.lock());
        for Waiting { function_id, answer } in calls.into_values() {
            let _ = answer.send(Err(error(function_id)));
        }
    }
}

/// A call without an answer. Dropping it forgets the call.
#[must_use = "a call without a waiting caller is forgotten"]
pub struct PendingCall {
    pub(super) id: Uuid,
    calls: Arc<PendingCalls>,
    answer: oneshot::Receiver<Outcome>,
    function_id: String,
}

impl PendingCall {
    /// Waits for the answer.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn answer(mut self, timeout: Duration) -> Result<Json, CallError> {
        match tokio::time::timeout(timeout, &mut self.answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CallError::Disconnected(self.function_id.clone())),
            Err(_) => {
                Err(CallError::Timeout { function_id: self.function_id.clone(), after: timeout })
            }
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.calls.waiting.lock().remove(&self.id);
    }
}

impl std::fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingCall")
            .field("id", &self.id)
            .field("function_id", &self.function_id)
            .finish_non_exhaustive()
    }
}
