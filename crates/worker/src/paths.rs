//! `mdp::*`: what hosts ask about live clients and their paths, for those who ask over a bus.
//!
//! What is asked and answered is the registry's to say; nothing here knows by which protocol clients are
//! connected.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skills_bus::{Bus, CallError, FunctionSpec, Json};
use skills_core::Identify;
use skills_registry::{
    Registry,
    live::{Question, schema},
};

use crate::{
    contract::Asks,
    error::{bad_output, to_bus},
    offer::offer_json,
    who::Who,
};

/// The arguments of a question, and who asks it.
#[derive(Deserialize)]
struct Input {
    key: Option<String>,
    #[serde(flatten)]
    arguments: Map<String, Value>,
}

impl Asks for Input {
    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

/// Offers the four questions on a bus. To be called where live clients are hosted.
pub fn serve(bus: &dyn Bus, registry: &Arc<Registry>, keys: &Arc<dyn Identify>) {
    for shape in schema::shapes() {
        let Some(function) = Question::function(shape.tool) else { continue };
        let (door, who, tool) = (Arc::clone(registry), Who::new(keys), shape.tool);
        let mut input = shape.input;
        input["properties"]["key"] = json!({
            "type": "string",
            "description": "Who asks: a key of a user, which begins with `us-`.",
        });
        let spec = FunctionSpec {
            id: function.to_owned(),
            description: shape.description.to_owned(),
            request_format: Some(input),
            response_format: Some(shape.output),
            ..FunctionSpec::default()
        };
        offer_json(bus, spec, move |_, input: Input| {
            let asks = who.asks(&input);
            let question = Question::read(tool, input.arguments);
            let door = Arc::clone(&door);
            async move {
                let caller = asks.map_err(|error| to_bus(&error))?;
                let question = question.unwrap_or_else(|| Err("no such question".to_owned()));
                let question = question.map_err(|reason| {
                    let message = format!("invalid input for {function}: {reason}");
                    CallError::remote("invalid_input", message)
                })?;
                let answer = door.ask_paths(&caller, question).await;
                let answer = answer.map_err(|error| to_bus(&error))?;
                Json::from_serialize(&answer).map_err(|error| bad_output(&error))
            }
        });
    }
}
