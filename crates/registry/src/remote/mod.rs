//! A registry at the other end of a bus, spoken to through the functions of the iii contract.

mod answers;
mod listing;
mod mirror;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skills_bus::{Bus, CallError, Json, client::BusClient};
use skills_core::{Bundle, BundlePath, HandlerId, PromptDefinition};

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
    /// What the registry has beside the contract, once it was asked.
    more: Mutex<Option<Arc<[String]>>>,
}

impl fmt::Debug for RemoteRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRegistry").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl RemoteRegistry {
    /// A registry at the other end of what `caller` calls.
    pub fn new(caller: impl Caller + 'static, timeout: Duration) -> Self {
        Self { caller: Box::new(caller), timeout, more: Mutex::default() }
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

/// Whether an error of this code says that the registry could not be asked, so that the next question is as vain.
#[must_use]
pub fn is_lost(code: &str) -> bool {
    const CODES: [&str; 6] = [
        "connection_lost",
        NO_SUCH_FUNCTION,
        "invocation_stopped",
        "not_connected",
        "shutting_down",
        "timeout",
    ];
    CODES.contains(&code)
}

const NO_SUCH_FUNCTION: &str = "function_not_found";

#[derive(serde::Deserialize)]
struct Capabilities {
    functions: Vec<String>,
}

impl RemoteRegistry {
    /// Whether the registry has a function beside those of the contract. It is asked once, and again when there may be
    /// another one at the other end.
    async fn has(&self, function: &str) -> Result<bool, RegistryError> {
        let known = self.more().clone();
        let more = match known {
            Some(more) => more,
            None => {
                let answer = self.call::<Capabilities>("skills::capabilities", &json!({})).await;
                let more: Arc<[String]> = match answer {
                    Ok(capabilities) => capabilities.functions.into(),
                    // One that could not be asked may have it.
                    Err(error) if error.code() != NO_SUCH_FUNCTION && is_lost(error.code()) => {
                        return Err(error);
                    }
                    // Another make.
                    Err(_) => Arc::default(),
                };
                self.more().insert(more).clone()
            }
        };
        Ok(more.iter().any(|known| known == function))
    }

    fn more(&self) -> MutexGuard<'_, Option<Arc<[String]>>> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be another registry now.
    fn forget(&self) {
        *self.more() = None;
    }

    async fn needs(&self, function: &str) -> Result<(), RegistryError> {
        if self.has(function).await? {
            return Ok(());
        }
        Err(RegistryError::Remote {
            code: "unsupported".to_owned(),
            message: "the registry on this bus does not take bundles".to_owned(),
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
        let body = match (row.text, row.blob) {
            (Some(text), _) => text.into(),
            (None, Some(blob)) => BASE64.decode(blob).map(Bytes::from).map_err(|error| {
                RegistryError::unexpected_answer(format!("{uri} is not in base64: {error}"))
            })?,
            (None, None) => {
                return Err(RegistryError::unexpected_answer(format!("{uri} has no content")));
            }
        };
        Ok(Resource { uri: row.uri, mime_type: row.mime_type, body })
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

    async fn register_bundle(
        &self,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        let (_, root, files) = bundle.into_parts();
        let file = |(path, bytes): (BundlePath, Bytes)| {
            let content = match std::str::from_utf8(&bytes) {
                Ok(text) => json!(text),
                Err(_) => json!({ "base64": BASE64.encode(&bytes) }),
            };
            (path.to_string(), content)
        };
        let files: serde_json::Map<String, Value> = files.into_iter().map(file).collect();
        let mut payload = json!({ "id": id, "skill": root });
        // A registry of another make would take a bundle for its root document.
        if !files.is_empty() {
            payload["files"] = Value::Object(files);
            self.needs("skills::files").await?;
        }
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
