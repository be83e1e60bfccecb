//! A registry at the other end of a bus, spoken to through the functions of the iii contract.

mod answers;
mod listing;
mod mirror;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skills_bus::{Bus, CallError, Json, client::BusClient};
use skills_core::{HandlerId, PromptDefinition};

use self::answers::{Contents, Registered, Removed, Rendered};
pub use self::mirror::Mirror;
use crate::{
    Catalog, Changes, ExposedFunction, RegistryError, RenderedPrompt, Resource, Skills, functions,
};

/// Whatever can call a function on a bus.
#[async_trait]
pub trait Caller: Send + Sync {
    /// Calls a function and waits for its result.
    ///
    /// # Errors
    /// Each way in which a call can fail.
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError>;
}

#[async_trait]
impl Caller for BusClient {
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError> {
        Self::call(self, id, data, timeout).await
    }
}

/// A bus, as somebody who only calls.
pub struct OnBus(pub Arc<dyn Bus>);

#[async_trait]
impl Caller for OnBus {
    async fn call(&self, id: &str, data: Json, timeout: Duration) -> Result<Json, CallError> {
        self.0.call(id, data, timeout).await
    }
}

/// Speaks `skills::*` and `prompts::*`, and remembers nothing.
pub struct RemoteRegistry {
    caller: Box<dyn Caller>,
    timeout: Duration,
}

impl fmt::Debug for RemoteRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRegistry").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl RemoteRegistry {
    /// A registry at the other end of what `caller` calls.
    pub fn new(caller: impl Caller + 'static, timeout: Duration) -> Self {
        Self { caller: Box::new(caller), timeout }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        function_id: &str,
        payload: &Value,
    ) -> Result<T, RegistryError> {
        let result = self.caller.call(function_id, Json::from(payload), self.timeout).await;
        result.map_err(|error| remote(&error))?.parse().map_err(|error| {
            RegistryError::unexpected_answer(format!(
                "{function_id} answered something else than the contract says: {error}"
            ))
        })
    }
}

fn remote(error: &CallError) -> RegistryError {
    RegistryError::Remote { code: error.code().to_owned(), message: error.to_string() }
}

#[async_trait]
impl Skills for RemoteRegistry {
    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        listing::catalog(self).await.map(Arc::new)
    }

    fn changes(&self) -> Changes {
        futures_util::stream::pending().boxed()
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        functions::exposed(self.call(functions::LIST, &json!({})).await?)
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.call(function.as_str(), &arguments).await
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        let answer: Contents = self.call("skills::resources-read", &json!({ "uri": uri })).await?;
        let row = answer.contents.into_iter().next().ok_or_else(|| {
            RegistryError::unexpected_answer(format!(
                "skills::resources-read answered nothing for {uri}"
            ))
        })?;
        Ok(Resource { uri: row.uri, mime_type: row.mime_type, text: row.text.into() })
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let payload = json!({ "name": name, "arguments": arguments });
        let rendered: Rendered = self.call("prompts::mcp-get", &payload).await?;
        Ok(RenderedPrompt { description: rendered.description, messages: rendered.messages })
    }

    async fn register_skill(&self, id: &str, body: String) -> Result<String, RegistryError> {
        let payload = json!({ "id": id, "skill": body });
        let answer: Registered = self.call("skills::register", &payload).await?;
        Ok(answer.registered_at)
    }

    async fn remove_skill(&self, id: &str) -> Result<bool, RegistryError> {
        let answer: Removed = self.call("skills::unregister", &json!({ "id": id })).await?;
        Ok(answer.removed)
    }

    async fn register_prompt(
        &self,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        let PromptDefinition { description, arguments, function_id } = definition;
        let payload = json!({
            "name": name,
            "description": description,
            "arguments": arguments,
            "function_id": function_id,
        });
        let answer: Registered = self.call("prompts::register", &payload).await?;
        Ok(answer.registered_at)
    }

    async fn remove_prompt(&self, name: &str) -> Result<bool, RegistryError> {
        let answer: Removed = self.call("prompts::unregister", &json!({ "name": name })).await?;
        Ok(answer.removed)
    }
}
