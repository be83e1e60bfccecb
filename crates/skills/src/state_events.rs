//! What an engine tells of its state: changes in our scopes, and that the state worker is back.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde::Deserialize;
use skills_bus::{Bus as _, Call, CallError, FunctionSpec, Json, engine::EngineBus};
use skills_registry::state_store::sync::Ear;
use uuid::Uuid;

use crate::{Failure, config::Config};

/// The functions that are told. Each instance has its own under these names: an engine gives a function
/// to one worker only.
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
    let scopes = scopes.map(|scope| Json::from(&serde_json::json!({ "scope": scope })));
    let about = "Internal: told by the state worker of changes in the registry's scopes.";
    subscribe(engine, STATE_CHANGED, about, "state", &scopes, move |data| {
        data.parse().map(|event| hears.hear(event))
    })?;
    let (hears, was_there) = (ear.clone(), AtomicBool::new(true));
    let about = "Internal: told of the functions there are.";
    let all = [Json::from(&serde_json::json!({}))];
    subscribe(
        engine,
        FUNCTIONS_CHANGED,
        about,
        "engine::functions-available",
        &all,
        move |data| {
            let Available { functions } = data.parse()?;
            let is_there = functions.iter().any(|function| function.function_id == STATE_FUNCTION);
            if is_there && !was_there.swap(is_there, Ordering::SeqCst) {
                tracing::info!("the state worker is back; everything is compared");
                hears.compare();
            }
            was_there.store(is_there, Ordering::SeqCst);
            Ok(())
        },
    )?;
    Ok(ear)
}

#[derive(Deserialize)]
struct Available {
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    function_id: String,
}

/// Subscribes a function of ours for as long as the process lasts.
fn subscribe(
    engine: &EngineBus,
    name: &str,
    description: &str,
    trigger_type: &str,
    configs: &[Json],
    tell: impl Fn(&Json) -> Result<(), serde_json::Error> + Send + Sync + 'static,
) -> Result<(), Failure> {
    let id = format!("{name}::{}", Uuid::new_v4().simple());
    let spec = FunctionSpec {
        id: id.clone(),
        description: description.to_owned(),
        ..FunctionSpec::default()
    };
    let function = move |call: Call| {
        let answer = tell(&call.data).map(|()| Json::null()).map_err(|error| {
            CallError::remote("invalid_input", format!("not such an event: {error}"))
        });
        std::future::ready(answer)
    };
    engine.register_function(spec, Arc::new(function));
    for config in configs {
        engine
            .subscribe(trigger_type, &id, config)
            .map(std::mem::forget)
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
    }
    Ok(())
}
