//! Interoperability client on iii-sdk 0.26.0-rc.4, which has observers and no triggers. Skills are observed with the
//! default envelope, prompts with the bare input.

use iii_sdk::{
    CallRequest, Deliver, Error, IIIClient, InitOptions, RegisterFunction, Source, register_worker,
};
use scenario::{Handler, Sdk};
use serde_json::Value;

#[derive(Clone)]
struct Worker(IIIClient);

impl Sdk for Worker {
    fn connect(url: &str) -> Self {
        Worker(register_worker(url, InitOptions::default()))
    }

    async fn call(&self, function_id: &str, payload: Value) -> Result<Value, String> {
        let request = CallRequest {
            function_id: function_id.into(),
            payload,
            action: None,
            timeout_ms: Some(10_000),
        };
        self.0.call(request).await.map_err(|error| error.to_string())
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
        let enveloped = source == "skills::on-change";
        let handler = move |mut event: Value| {
            on_event(if enveloped { event["input"].take() } else { event });
            Ok(Value::Null)
        };
        self.register_function(target, Box::new(handler));
        let source = Source::function(source);
        let source = if enveloped { source } else { source.deliver(Deliver::Input) };
        let observer = self.0.observe(source, target);
        observer.ready().await.map_err(|error| error.to_string())
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

fn main() -> impl std::process::Termination {
    scenario::main::<Worker>()
}
