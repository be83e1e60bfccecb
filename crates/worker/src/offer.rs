//! Offering a typed function on a bus.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use skills_bus::{Bus, Call, CallError, FunctionSpec, Json};
use skills_registry::RegistryError;

use crate::error;

/// Who is named in the log for a call: its connection, or this process.
pub(crate) fn actor(call: &Call) -> String {
    call.caller.as_ref().map_or_else(|| "local".to_owned(), |worker| format!("worker:{worker}"))
}

/// Offers a function whose input is parsed and whose output is written for it.
///
/// `start` runs when the call comes in, before any `await`: what it queues keeps the caller's order.
pub(crate) fn offer<I, O, F, Fut>(bus: &dyn Bus, spec: FunctionSpec, start: F)
where
    I: DeserializeOwned,
    O: Serialize,
    F: Fn(String, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, RegistryError>> + Send + 'static,
{
    offer_json(bus, spec, move |actor, input| {
        let started = start(actor, input);
        async move {
            let output = started.await.map_err(|failure| error::to_bus(&failure))?;
            Json::from_serialize(&output).map_err(|failure| error::bad_output(&failure))
        }
    });
}

/// The same for a function whose output is written already.
pub(crate) fn offer_json<I, F, Fut>(bus: &dyn Bus, spec: FunctionSpec, start: F)
where
    I: DeserializeOwned,
    F: Fn(String, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Json, CallError>> + Send + 'static,
{
    let id = spec.id.clone();
    let function = move |call: Call| {
        let started = match parse::<I>(&call.data) {
            Ok(input) => Ok(start(actor(&call), input)),
            Err(parse_error) => Err(error::bad_input(&id, &parse_error)),
        };
        async move { started?.await }
    };
    bus.register_function(spec, Arc::new(function));
}

/// Inputs are objects, or nothing. (An array would otherwise pass for the fields in their order.)
fn parse<I: DeserializeOwned>(data: &Json) -> Result<I, serde_json::Error> {
    if data.as_str().starts_with('[') {
        return Err(serde::de::Error::custom("expected an object"));
    }
    data.parse()
}

/// Offers a function that needs nothing of the caller, but may look at something, and answers at once. What is
/// not an object says nothing.
pub(crate) fn offer_listing<I, F>(bus: &dyn Bus, spec: FunctionSpec, list: F)
where
    I: DeserializeOwned + Default,
    F: Fn(I) -> Result<Json, RegistryError> + Send + Sync + 'static,
{
    let id = spec.id.clone();
    let answer = move |data: &Json| {
        let input = match data.as_str().starts_with('{') {
            true => data.parse().map_err(|failure| error::bad_input(&id, &failure))?,
            false => I::default(),
        };
        list(input).map_err(|failure| error::to_bus(&failure))
    };
    bus.register_function(spec, Arc::new(move |call: Call| std::future::ready(answer(&call.data))));
}
