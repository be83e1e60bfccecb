//! What an engine tells of its state: changes in our scopes, and that the state worker is back.

use skills_bus::{Json, engine::EngineBus};
use skills_registry::state_store::sync::Ear;

use crate::{
    Failure,
    config::Config,
    events::{FUNCTIONS_AVAILABLE, Presence, any, subscribe},
};

/// The functions that are told.
const STATE_CHANGED: &str = "skills::state-changed";
const FUNCTIONS_CHANGED: &str = "skills::functions-changed";

/// While the state has no such function, it has no worker.
const STATE_FUNCTION: &str = "state::get";

/// Has the engine tell us of every change in our scopes, and of a state worker that has come back: what
/// happened to its values meanwhile no event tells.
pub(crate) fn listen(engine: &EngineBus, config: &Config) -> Result<Ear, Failure> {
    let ear = Ear::default();
    let hears = ear.clone();
    let scopes = [&config.scopes.skills, &config.scopes.prompts];
    let scopes = scopes.map(|scope| ("state", Json::from(&serde_json::json!({ "scope": scope }))));
    let about = "Internal: told by the state worker of changes in the registry's scopes.";
    subscribe(engine, STATE_CHANGED, about, &scopes, move |event| {
        event.parse().map(|event| hears.hear(event))
    })?;
    let (hears, worker) = (ear.clone(), Presence::new(STATE_FUNCTION));
    let about = "Internal: told of the functions there are.";
    subscribe(engine, FUNCTIONS_CHANGED, about, &[(FUNCTIONS_AVAILABLE, any())], move |event| {
        if worker.is_back(event)? {
            tracing::info!("the state worker is back; everything is compared");
            hears.compare();
        }
        Ok(())
    })?;
    Ok(ear)
}
