//! Events of observable functions of this process.
//!
//! They are owner-delivered: the engine reports the observers, and this process selects those that an event is for. The
//! engine builds the envelopes. A worker that also subscribed by trigger has the same target; the notifier sees both and
//! sends each event once.
//!
//! An event has no answer. It counts as sent when the engine has answered a later call on the same connection; if the
//! connection breaks before, it is sent again with the same id.

use std::time::Duration;

use skills_bus::{
    Activation, CallError, Json,
    client::{ObserverEvent, PendingCall},
};
use skills_core::Code;
use uuid::Uuid;

use super::barrier;
use crate::client::Inner;

/// Time to wait for the answer that confirms an event, before asking again.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(5);

impl Inner {
    /// Activates one observer. The engine checks its limits and wraps the event.
    pub(crate) async fn activate(
        &self,
        data: &Json,
        activation: &Activation,
    ) -> Result<(), CallError> {
        let observer_id = activation.observer_id.as_str();
        let function_id = self.observers.lock().get(observer_id).cloned();
        let Some(function_id) = function_id else {
            let message = format!("the observer {observer_id} is not active");
            return Err(CallError::remote(Code::ObserverNotActive, message));
        };
        let event = ObserverEvent {
            function_id: &function_id,
            observer_id,
            event_id: Uuid::now_v7(),
            data,
        };
        loop {
            let epoch = self.client.emit(&event).await?;
            if self.confirm(epoch).await {
                return Ok(());
            }
        }
    }

    /// Waits until the engine has everything that was sent on a connection; `false` if the connection breaks before.
    async fn confirm(&self, epoch: u64) -> bool {
        let mut state = self.state.clone();
        while let Ok(call) = barrier::start(self, epoch) {
            // The state may be a moment behind the connection of the event.
            let is_lost = state.wait_for(|state| state.epoch().is_some_and(|now| now > epoch));
            tokio::select! {
                is_answered = answered(call) => {
                    if is_answered {
                        return true;
                    }
                }
                _ = is_lost => return false,
            }
        }
        false
    }
}

async fn answered(call: PendingCall) -> bool {
    barrier::is_answer(&call.answer(CONFIRM_TIMEOUT).await)
}
