//! A registry at the other end of a bus, spoken to through the functions of the iii contract.

mod answers;
mod listing;
mod mirror;
mod private;

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
use serde_json::{Map, Value, json};
use skills_bus::{Bus, CallError, Json, client::BusClient};
use skills_core::{Bundle, BundlePath, HandlerId, PromptDefinition, Tier};

pub use self::mirror::Mirror;
use self::{
    answers::{Capabilities, Contents, Executed, Explained, Registered, Removed, Rendered},
    listing::RESOLVE,
};
use crate::{
    Catalog, Changes, Explanation, ExposedFunction, RegistryError, RenderedPrompt, Resource,
    SkillInfo, Skills, functions, live::Question,
};

/// What a registry has that hosts live clients.
const LIST_PATHS: &str = "mdp::list-paths";
/// How long a live client may take to answer where nobody says so.
const CLIENT_WITHIN: Duration = Duration::from_secs(15);
/// What the way there and back may take.
const CLIENT_MARGIN: Duration = Duration::from_secs(5);
/// The function that calls tools.
const EXECUTE: &str = "skills::execute";

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
    /// What says who asks; passed on with every call that looks at it.
    key: Option<String>,
    /// What the registry says of itself, once it was asked.
    known: Mutex<Option<Arc<Capabilities>>>,
}

impl fmt::Debug for RemoteRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRegistry").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl RemoteRegistry {
    /// A registry at the other end of what `caller` calls.
    pub fn new(caller: impl Caller + 'static, timeout: Duration) -> Self {
        Self { caller: Box::new(caller), timeout, key: None, known: Mutex::default() }
    }

    /// The same, with the eyes of the user whose key it is.
    #[must_use]
    pub fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// Calls a function of the registry.
    async fn call<T: DeserializeOwned>(
        &self,
        function_id: &str,
        payload: Value,
    ) -> Result<T, RegistryError> {
        self.call_within(function_id, payload, self.timeout).await
    }

    async fn call_within<T: DeserializeOwned>(
        &self,
        function_id: &str,
        mut payload: Value,
        timeout: Duration,
    ) -> Result<T, RegistryError> {
        if let Some(key) = &self.key {
            payload["key"] = json!(key);
        }
        let result = self.caller.call(function_id, Json::from(&payload), timeout).await;
        read(function_id, result)
    }

    /// Calls whatever function, which need not see the key.
    async fn call_any<T: DeserializeOwned>(
        &self,
        function_id: &str,
        payload: &Value,
    ) -> Result<T, RegistryError> {
        read(function_id, self.caller.call(function_id, Json::from(payload), self.timeout).await)
    }
}

fn read<T: DeserializeOwned>(
    function_id: &str,
    result: Result<Json, CallError>,
) -> Result<T, RegistryError> {
    result.map_err(|error| remote(&error))?.parse().map_err(|error| {
        RegistryError::unexpected_answer(format!(
            "{function_id} answered something else than the contract says: {error}"
        ))
    })
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

impl RemoteRegistry {
    /// What the registry says of itself; nothing if it is of another make. It is asked once, and again when there may be
    /// another one at the other end.
    async fn capabilities(&self) -> Result<Arc<Capabilities>, RegistryError> {
        let known = self.known().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let answer = self.call_any::<Capabilities>("skills::capabilities", &json!({})).await;
        let capabilities = match answer {
            Ok(capabilities) => capabilities,
            // One that could not be asked may have more.
            Err(error) if error.code() != NO_SUCH_FUNCTION && is_lost(error.code()) => {
                return Err(error);
            }
            // Another make.
            Err(_) => Capabilities::default(),
        };
        Ok(Arc::clone(self.known().insert(Arc::new(capabilities))))
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<Capabilities>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be another registry now.
    fn forget(&self) {
        *self.known() = None;
    }

    /// How long an answer may take that a live client may have to give, which has longer than a registry.
    async fn with_client(&self) -> Duration {
        let Ok(known) = self.capabilities().await else { return self.timeout };
        let within = match known.client_ms {
            Some(ms) => Duration::from_millis(ms),
            None if known.has(LIST_PATHS) => CLIENT_WITHIN,
            None => return self.timeout,
        };
        self.timeout.max(within.saturating_add(CLIENT_MARGIN))
    }

    /// A registry of another make would take what it does not know of for something else.
    async fn needs(&self, function: &str, what: &'static str) -> Result<(), RegistryError> {
        if self.capabilities().await?.has(function) {
            return Ok(());
        }
        Err(RegistryError::Unsupported(what))
    }

    /// Whether the registry knows of tiers.
    async fn has_tiers(&self) -> Result<bool, RegistryError> {
        Ok(self.capabilities().await?.has(RESOLVE))
    }

    /// What names a tier in a call. The official one is where content goes unless another is named.
    async fn name_tier(&self, payload: &mut Value, tier: Tier) -> Result<(), RegistryError> {
        if tier != Tier::Official {
            self.needs(RESOLVE, "the registry on this bus has no tiers").await?;
            payload["tier"] = json!(tier);
        }
        Ok(())
    }
}

fn remote(error: &CallError) -> RegistryError {
    RegistryError::Remote { code: error.code().to_owned(), message: error.to_string() }
}

/// A bus knows who asks by the key that a call carries: there is one for all that this registry asks.
pub(super) fn view<S: Skills + 'static>(
    skills: Arc<S>,
    caller: &skills_core::Caller,
) -> Result<Arc<dyn Skills>, RegistryError> {
    match caller {
        skills_core::Caller::Anonymous => Ok(skills),
        _ => Err(RegistryError::Unsupported(
            "a registry on a bus is seen with the key it was opened with, and no other",
        )),
    }
}

#[async_trait]
impl Skills for RemoteRegistry {
    fn view(
        self: Arc<Self>,
        caller: &skills_core::Caller,
    ) -> Result<Arc<dyn Skills>, RegistryError> {
        view(self, caller)
    }

    async fn every_skill(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        listing::every_skill(self).await
    }

    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError> {
        self.needs(RESOLVE, "the registry on this bus has no tiers").await?;
        let payload = json!({ "id": id, "explain": true });
        let explained: Explained = self.call(RESOLVE, payload).await?;
        Ok(explained.into())
    }

    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        listing::catalog(self).await.map(Arc::new)
    }

    fn changes(&self) -> Changes {
        futures_util::stream::pending().boxed()
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        functions::exposed(self.call_any(functions::LIST, &json!({})).await?)
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.call_any(function.as_str(), &arguments).await
    }

    async fn has_paths(&self) -> bool {
        let known = self.capabilities().await;
        known.is_ok_and(|known| known.functions.iter().any(|function| function == LIST_PATHS))
    }

    async fn ask_paths(&self, question: Question) -> Result<Value, RegistryError> {
        let (function, arguments) = question.as_function();
        self.call_within(function, arguments, self.with_client().await).await
    }

    async fn call_tool(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.needs(EXECUTE, "the registry on this bus does not call tools").await?;
        let payload = json!({ "id": id, "arguments": arguments });
        let answer: Executed = self.call(EXECUTE, payload).await?;
        Ok(answer.data)
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        let (function, payload) = ("skills::resources-read", json!({ "uri": uri }));
        let answer: Contents =
            self.call_within(function, payload, self.with_client().await).await?;
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
        let rendered: Rendered =
            self.call_within("prompts::mcp-get", payload, self.with_client().await).await?;
        Ok(RenderedPrompt { description: rendered.description, messages: rendered.messages })
    }

    async fn register_bundle_in(
        &self,
        tier: Tier,
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
            self.needs("skills::files", "the registry on this bus does not take bundles").await?;
        }
        self.name_tier(&mut payload, tier).await?;
        let answer: Registered = self.call("skills::register", payload).await?;
        Ok(answer.registered_at)
    }

    async fn remove_skill_in(&self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
        let mut payload = json!({ "id": id });
        self.name_tier(&mut payload, tier).await?;
        let answer: Removed = self.call("skills::unregister", payload).await?;
        Ok(answer.removed)
    }

    async fn register_prompt_in(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        let PromptDefinition { description, arguments, function_id } = definition;
        let mut payload = json!({
            "name": name,
            "description": description,
            "arguments": arguments,
            "function_id": function_id,
        });
        self.name_tier(&mut payload, tier).await?;
        let answer: Registered = self.call("prompts::register", payload).await?;
        Ok(answer.registered_at)
    }

    async fn remove_prompt_in(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        let mut payload = json!({ "name": name });
        self.name_tier(&mut payload, tier).await?;
        let answer: Removed = self.call("prompts::unregister", payload).await?;
        Ok(answer.removed)
    }
}
