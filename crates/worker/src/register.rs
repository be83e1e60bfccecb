//! Registration of typed functions on a bus.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use skills_bus::{Bus, CallError, FunctionCall, FunctionSpec, Json};
use skills_core::text::first_chars;
use skills_registry::RegistryError;

use crate::error;

/// Longest name of a worker in the change log, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Returns the actor of a call for the change log: the worker's name and connection, or this process.
pub(crate) fn actor(call: &FunctionCall) -> String {
    let Some(connection) = call.caller.worker_id() else { return "local".to_owned() };
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let name = call.caller.worker_name().map(|name| first_chars(name, MAX_NAME_CHARS));
    match name.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => {
            let name: String = name.chars().map(printable).collect();
            format!("worker:{name}/{connection}")
        }
        None => format!("worker:{connection}"),
    }
}

/// Registers functions on a bus that share a context.
pub(crate) struct Registrar<'a, C> {
    pub(crate) bus: &'a dyn Bus,
    pub(crate) context: C,
}

impl<C: Clone + Send + Sync + 'static> Registrar<'_, C> {
    /// Registers a function with a typed input and output.
    ///
    /// `start` runs when the call arrives, before any `await`: writes that it queues keep the caller's order.
    pub(crate) fn typed<I, O, F, Fut>(&self, spec: FunctionSpec, start: F)
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(&C, String, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, RegistryError>> + Send + 'static,
    {
        self.json(spec, move |context, actor, input| {
            let started = start(context, actor, input);
            async move {
                let output = started.await.map_err(|failure| error::to_bus(&failure))?;
                Json::from_serialize(&output).map_err(|failure| error::bad_output(&failure))
            }
        });
    }

    /// Registers a function with a typed input whose output is JSON text already. `start` runs before any `await`.
    pub(crate) fn json<I, F, Fut>(&self, spec: FunctionSpec, start: F)
    where
        I: DeserializeOwned,
        F: Fn(&C, String, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Json, CallError>> + Send + 'static,
    {
        let (id, context) = (spec.id.clone(), self.context.clone());
        let function = move |call: FunctionCall| {
            let started = match parse::<I>(&call.data) {
                Ok(input) => Ok(start(&context, actor(&call), input)),
                Err(parse_error) => Err(error::bad_input(&id, &parse_error)),
            };
            async move { started?.await }
        };
        self.bus.register_function(spec, Arc::new(function));
    }

    /// Registers a synchronous function with optional input. An input that is not an object counts as empty.
    pub(crate) fn listing<I, F>(&self, spec: FunctionSpec, list: F)
    where
        I: DeserializeOwned + Default,
        F: Fn(&C, I) -> Result<Json, RegistryError> + Send + Sync + 'static,
    {
        let (id, context) = (spec.id.clone(), self.context.clone());
        let list = move |data: &Json| {
            let input = if data.as_str().starts_with('{') {
                data.parse().map_err(|failure| error::bad_input(&id, &failure))?
            } else {
                I::default()
            };
            list(&context, input).map_err(|failure| error::to_bus(&failure))
        };
        let function = move |call: FunctionCall| std::future::ready(list(&call.data));
        self.bus.register_function(spec, Arc::new(function));
    }
}

/// Parses an input: an object, or nothing. Serde would accept an array as the fields in their order.
fn parse<I: DeserializeOwned>(data: &Json) -> Result<I, serde_json::Error> {
    if data.as_str().starts_with('[') {
        return Err(serde::de::Error::custom("expected an object"));
    }
    data.parse()
}

#[cfg(test)]
mod tests {
    use skills_bus::FunctionCaller;

    use super::*;

    #[test]
    fn the_actor_is_the_name_and_the_connection_of_a_worker() {
        let actor = |caller: Option<&str>, name: Option<&str>| {
            let name = name.map(str::to_owned);
            let caller = caller.map_or(FunctionCaller::Process, |id| FunctionCaller::Worker {
                id: id.to_owned(),
                name,
            });
            actor(&FunctionCall { data: Json::null(), caller })
        };
        assert_eq!(actor(None, None), "local");
        assert_eq!(actor(Some("c1"), None), "worker:c1");
        assert_eq!(actor(Some("c1"), Some(" ")), "worker:c1");
        assert_eq!(actor(Some("c1"), Some("brain")), "worker:brain/c1");
        assert_eq!(actor(Some("c1"), Some("a\nb")), "worker:a b/c1");
        assert_eq!(
            actor(Some("c1"), Some(&"é".repeat(200))),
            format!("worker:{}/c1", "é".repeat(64))
        );
    }
}
