//! Interoperability client on iii-sdk 0.11.3: functions carry their id, changes arrive by trigger.

use iii_sdk::{
    III, IIIError, InitOptions, RegisterFunctionMessage, RegisterTriggerInput, TriggerRequest,
    register_worker,
};
use scenario::{Handler, Sdk};
use serde_json::{Value, json};

#[derive(Clone)]
struct Worker(III);

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
        let message = RegisterFunctionMessage::with_id(function_id.into());
        self.0.register_function_with(message, move |input: Value| {
            let output = handler(input).map_err(IIIError::Handler);
            async move { output }
        });
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
        let trigger = RegisterTriggerInput {
            trigger_type: source.into(),
            function_id: target.into(),
            config: json!({}),
            metadata: None,
        };
        self.0.register_trigger(trigger).map(drop).map_err(|error| error.to_string())
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

fn main() -> impl std::process::Termination {
    scenario::main::<Worker>()
}
