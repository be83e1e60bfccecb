//! Interoperability client on iii-sdk 0.25.0, the last release with triggers and the first with observers. It
//! subscribes to skill changes in both ways and must receive each change once.

#![allow(deprecated, reason = "triggers are deprecated in this release and must go on working")]

use iii_sdk::protocol::{RegisterTriggerInput, TriggerRequest};
use iii_sdk::{Deliver, Error, IIIClient, InitOptions, RegisterFunction, Source, register_worker};
use scenario::{Handler, Sdk};
use serde_json::{Value, json};

#[derive(Clone)]
struct Worker(IIIClient);

impl Sdk for Worker {
    fn connect(url: &str) -> Self {
        Worker(register_worker(url, InitOptions::default()))
    }

    async fn call(&self, function_id: &str, payload: Value) -> Result<Value, String> {
        let request = TriggerRequest {
            function_id: function_id.into(),
            payload,
            action: None,
            timeout_ms: Some(10_000),
        };
        self.0.trigger(request).await.map_err(|error| error.to_string())
    }

    fn register_function(&self, function_id: &str, handler: Handler) {
        let function =
            RegisterFunction::new(move |input: Value| handler(input).map_err(Error::Handler));
        self.0.register_function(function_id, function);
    }

    async fn subscribe(
        &self,
        source: &str,
        target: &str,
        on_event: impl Fn(Value) + Send + Sync + 'static,
    ) -> Result<(), String> {
        let handler = move |event| {
            on_event(event);
            Ok(Value::Null)
        };
        self.register_function(target, Box::new(handler));
        let trigger = RegisterTriggerInput::new(source, target, json!({}));
        self.0.register_trigger(trigger).map_err(|error| error.to_string())?;
        if source == "skills::on-change" {
            let observer = self.0.observe(Source::function(source).deliver(Deliver::Input), target);
            observer.ready().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

fn main() -> impl std::process::Termination {
    scenario::main::<Worker>()
}
