//! Subscriptions that report changes of the engine's state and the return of the state worker.

use skills_bus::{CallError, Json};

use super::EventBuffer;
use crate::{
    EngineBus, StateScopes,
    trigger_listener::{FUNCTIONS_AVAILABLE, FunctionPresence, empty_config, listen},
};

/// Function that receives changes of the state.
const STATE_CHANGED: &str = "skills::state-changed";
/// Function that receives the list of functions.
const FUNCTIONS_CHANGED: &str = "skills::functions-changed";

/// Function whose absence means that there is no state worker.
const STATE_FUNCTION: &str = "state::get";

/// Subscribes to changes in the scopes of the registry. Requests a full comparison when the state worker returns: no
/// event reports what happened to its values meanwhile.
pub(crate) fn listen_to_state(
    engine: &EngineBus,
    scopes: &StateScopes,
) -> Result<EventBuffer, CallError> {
    let events = EventBuffer::default();
    let triggers = [&scopes.skills, &scopes.prompts]
        .map(|scope| ("state", Json::from(&serde_json::json!({ "scope": scope }))));
    let description = "Internal: receives changes in the registry's scopes from the state worker.";
    let buffer = events.clone();
    listen(engine, STATE_CHANGED, description, &triggers, move |event| {
        event.parse().map(|event| buffer.push(event))
    })?;
    let triggers = [(FUNCTIONS_AVAILABLE, empty_config())];
    let description = "Internal: receives the list of functions.";
    let (buffer, worker) = (events.clone(), FunctionPresence::new(STATE_FUNCTION));
    listen(engine, FUNCTIONS_CHANGED, description, &triggers, move |event| {
        if worker.has_returned(event)? {
            tracing::info!("the state worker is back; comparing all records");
            buffer.request_comparison();
        }
        Ok(())
    })?;
    Ok(events)
}
