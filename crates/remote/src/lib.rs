//! A registry behind a bus, called through the functions of the iii contract.
//!
//! - [`RemoteRegistry`]: the client, without a cache; [`Mirror`]: the client with a cached catalog
//! - `listing`: builds a catalog from listings; `rows`: parses their rows, which are untrusted
//! - `private_layer_snapshot`: polls the private layer of the key's user
//! - `versions`: history, labels and versions
//! - `search`: the registry's own search
//! - `collections`: functions of collections
//! - [`BusCaller`]: the connection; `responses`: results of the functions
//!
//! The registry does not know this crate. The owner of the connection notifies the mirror of changes.

mod bus_caller;
mod collections;
mod listing;
mod mirror;
mod private_layer_snapshot;
mod responses;
mod rows;
mod search;
mod versions;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use skills_agent_skills::Bundle;
use skills_bus::{CallError, Json};
use skills_core::{
    BundlePath, Caller, Code, Coded, EntryKind, HandlerId, PromptDefinition, SkillCollection, Tier,
    VersionSelector, json_size::compact_text,
};
use skills_registry::{
    BundlePublication, Catalog, ChangeEvents, CollectRequest, Collected, CollectionInfo,
    DiffRequest, Explanation, ExposedFunction, HistoryPage, HistoryRequest, LabelRequest, LogPage,
    LogRequest, PublishRequest, Published, ReadVersion, RegistryError, RejectedRows,
    RenderedPrompt, Resource, RollbackRequest, SectionAccess, SkillInfo, SkillRegistry, SkillRow,
    VersionInfo, VersionState, YankRequest,
    diff::VersionDiff,
    functions,
    live::LiveOperation,
    publish_one,
    search::{SearchPage, SearchRequest},
};

pub use self::{bus_caller::BusCaller, mirror::Mirror};
use self::{
    listing::RESOLVE,
    responses::{
        Capabilities, ContentRow, Contents, Executed, ManyResult, ManyResults, Removed, Rendered,
        ResolveResult,
    },
    versions::VersionOperation,
};

/// Function of registries that host live clients.
const LIST_PATHS: &str = LiveOperation::ListPaths.function_id();
/// Time limit of live clients where the registry does not report one.
const LIVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for the transport of a call to a live client.
const LIVE_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);
/// Function that registers skills together.
const REGISTER_MANY: &str = "skills::register-many";
/// Least time limit of a call that registers skills together.
const MANY_TIMEOUT: Duration = Duration::from_secs(120);
/// Registrations in flight where the registry has no function for many.
const CONCURRENT_WRITES: usize = 16;
/// Function that calls tools.
const EXECUTE: &str = "skills::execute";

/// Client of `skills::*` and `prompts::*`, without a cached catalog.
pub struct RemoteRegistry {
    caller: Box<dyn BusCaller>,
    timeout: Duration,
    /// Key of the user, sent with every call of the contract.
    key: Option<String>,
    /// Rule for sections that the remote registry applies.
    sections: SectionAccess,
    /// Cached capabilities of the remote registry.
    capabilities: Mutex<Option<Arc<Capabilities>>>,
    /// Dropped rows of the last listings.
    rejected: Mutex<RejectedRows>,
}

impl fmt::Debug for RemoteRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRegistry").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl RemoteRegistry {
    /// Creates a client that calls functions through `caller`.
    pub fn new(caller: impl BusCaller + 'static, timeout: Duration) -> Self {
        Self {
            caller: Box::new(caller),
            timeout,
            key: None,
            sections: SectionAccess::Any,
            capabilities: Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    /// Sends the key of a user with every call.
    #[must_use]
    pub fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// Reads sections under a rule. The remote registry applies it; other implementations ignore it and call all
    /// functions, as in the contract.
    #[must_use]
    pub fn with_sections(self, sections: SectionAccess) -> Self {
        Self { sections, ..self }
    }

    /// Calls a function of the contract.
    async fn call<T: DeserializeOwned>(
        &self,
        function_id: &str,
        payload: Value,
    ) -> Result<T, RegistryError> {
        self.call_with_timeout(function_id, payload, self.timeout).await
    }

    async fn call_with_timeout<T: DeserializeOwned>(
        &self,
        function_id: &str,
        mut payload: Value,
        timeout: Duration,
    ) -> Result<T, RegistryError> {
        if let Some(key) = &self.key {
            payload["key"] = json!(key);
        }
        let result = self.caller.call(function_id, Json::from(&payload), timeout).await;
        parse_result(function_id, result)
    }

    /// Calls a function without the key.
    async fn call_without_key<T: DeserializeOwned>(
        &self,
        function_id: &str,
        payload: &Value,
    ) -> Result<T, RegistryError> {
        let result = self.caller.call(function_id, Json::from(payload), self.timeout).await;
        parse_result(function_id, result)
    }
}

fn parse_result<T: DeserializeOwned>(
    function_id: &str,
    result: Result<Json, CallError>,
) -> Result<T, RegistryError> {
    let result = result.map_err(|error| RegistryError::from_remote(&error))?;
    result.parse().map_err(|error| {
        let message = format!("the result of {function_id} breaks the contract: {error}");
        RegistryError::unexpected_answer(message)
    })
}

/// Returns the fields of a bundle in `skills::register`.
fn bundle_payload(id: &str, bundle: Bundle<Bytes>) -> Value {
    let (meta, root, files) = bundle.into_parts();
    let file = |(path, bytes): (BundlePath, Bytes)| {
        let content = match compact_text(&bytes) {
            Some(text) => json!(text),
            None => json!({ "base64": BASE64.encode(&bytes) }),
        };
        (path.to_string(), content)
    };
    let files: serde_json::Map<String, Value> = files.into_iter().map(file).collect();
    let mut payload = json!({ "id": id, "skill": root });
    if !files.is_empty() {
        payload["files"] = Value::Object(files);
        let executable = meta.files.iter().filter(|file| file.executable == Some(true));
        let executable: Vec<&str> = executable.map(|file| file.path.as_str()).collect();
        payload["executable"] = json!(executable);
    }
    if let Some(provenance) = &meta.provenance {
        payload["source"] = json!(provenance);
    }
    payload
}

/// Returns whether an error code means that the registry could not be reached, so that a further call would fail too.
#[must_use]
pub const fn is_unreachable(code: Code) -> bool {
    matches!(
        code,
        Code::ConnectionLost
            | Code::FunctionNotFound
            | Code::InvocationStopped
            | Code::NotConnected
            | Code::ShuttingDown
            | Code::Timeout
    )
}

impl RemoteRegistry {
    /// Returns the capabilities of the registry, from a cache. Other implementations have none.
    async fn capabilities(&self) -> Result<Arc<Capabilities>, RegistryError> {
        let cached = self.capabilities.lock().clone();
        if let Some(capabilities) = cached {
            return Ok(capabilities);
        }
        let result: Result<Capabilities, _> =
            self.call_without_key("skills::capabilities", &json!({})).await;
        let capabilities = match result {
            Ok(capabilities) => capabilities,
            // A registry that is out of reach may have capabilities.
            Err(error)
                if error.code() != Code::FunctionNotFound && is_unreachable(error.code()) =>
            {
                return Err(error);
            }
            // Another implementation.
            Err(_) => Capabilities::default(),
        };
        Ok(Arc::clone(self.capabilities.lock().insert(Arc::new(capabilities))))
    }

    /// Drops the cached capabilities, since another registry may have taken over.
    fn reset_capabilities(&self) {
        *self.capabilities.lock() = None;
    }

    /// Returns the time limit of a call that a live client may have to answer.
    async fn live_timeout(&self) -> Duration {
        let Ok(capabilities) = self.capabilities().await else { return self.timeout };
        let timeout = match capabilities.client_ms {
            Some(ms) => Duration::from_millis(ms),
            None if capabilities.has(LIST_PATHS) => LIVE_TIMEOUT,
            None => return self.timeout,
        };
        self.timeout.max(timeout.saturating_add(LIVE_TIMEOUT_MARGIN))
    }

    /// Checks that the registry has a function. Other implementations would misread a payload for it.
    async fn require(&self, function: &str, message: &'static str) -> Result<(), RegistryError> {
        if self.capabilities().await?.has(function) {
            return Ok(());
        }
        Err(RegistryError::Unsupported(message))
    }

    /// Calls a stored tool through the registry's `skills::execute`.
    ///
    /// # Errors
    /// When the registry has no such function, or the call fails.
    pub async fn call_tool(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.require(EXECUTE, "the registry on this bus does not call tools").await?;
        let payload = json!({ "id": id, "arguments": arguments });
        let answer: Executed = self.call(EXECUTE, payload).await?;
        Ok(answer.data)
    }

    /// Returns whether the registry has tiers.
    async fn has_tiers(&self) -> Result<bool, RegistryError> {
        Ok(self.capabilities().await?.has(RESOLVE))
    }

    /// Adds a tier to a payload. Without one, a call means the official tier.
    async fn add_tier(&self, payload: &mut Value, tier: Tier) -> Result<(), RegistryError> {
        if tier != Tier::Official {
            self.require(RESOLVE, "the registry on this bus has no tiers").await?;
            payload["tier"] = json!(tier);
        }
        Ok(())
    }
}

/// Returns the view of a caller. The key identifies the caller of every call, so there is only the view of that key.
fn view<S: SkillRegistry + 'static>(
    skills: Arc<S>,
    caller: &Caller,
) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
    match caller {
        Caller::Anonymous => Ok(skills),
        _ => Err(RegistryError::Unsupported(
            "a remote registry has only the view of the key it was opened with",
        )),
    }
}

#[async_trait]
impl SkillRegistry for RemoteRegistry {
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
        view(self, caller)
    }

    async fn all_skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        listing::all_skills(self).await
    }

    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError> {
        self.require(RESOLVE, "the registry on this bus has no tiers").await?;
        let payload = json!({ "id": id, "explain": true });
        let explained: ResolveResult = self.call(RESOLVE, payload).await?;
        explained.into_explanation()
    }

    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        listing::catalog(self).await.map(Arc::new)
    }

    fn rejected_rows(&self) -> RejectedRows {
        self.rejected.lock().clone()
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchPage, RegistryError> {
        match self.search_remote(&request).await? {
            Some(page) => Ok(page),
            None => self.catalog().await?.search_rows(&request),
        }
    }

    fn changes(&self) -> ChangeEvents {
        futures_util::stream::pending().boxed()
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        functions::parse_exposed(self.call_without_key(functions::LIST, &json!({})).await?)
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.call_without_key(function.as_str(), &functions::without_bus_fields(arguments)).await
    }

    async fn hosts_live_clients(&self) -> bool {
        self.capabilities().await.is_ok_and(|capabilities| capabilities.has(LIST_PATHS))
    }

    async fn has_live_clients(&self) -> bool {
        if !self.hosts_live_clients().await {
            return false;
        }
        // Not from the cache, which holds what does not change.
        let current: Result<Capabilities, _> =
            self.call_without_key("skills::capabilities", &json!({})).await;
        // An earlier release does not say.
        current.is_ok_and(|current| current.has_live_clients.unwrap_or(true))
    }

    async fn call_live(
        &self,
        operation: LiveOperation,
        mut arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        // The function takes the key of the caller in a field of that name. An operation has no such argument.
        arguments.remove("key");
        let function = operation.function_id();
        let arguments = functions::without_bus_fields(Value::Object(arguments));
        let result = self.call_with_timeout(function, arguments, self.live_timeout().await).await;
        result.map_err(|error| match &error {
            RegistryError::Remote { message, .. } if error.code() == Code::InvalidInput => {
                let reason = message.strip_prefix(&format!("invalid input for {function}: "));
                let reason = reason.unwrap_or(message).to_owned();
                RegistryError::LiveArguments { operation, reason }
            }
            _ => error,
        })
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        let (function, mut payload) = ("skills::resources-read", json!({ "uri": uri }));
        if self.sections == SectionAccess::Linked {
            payload["sections"] = json!("linked");
        }
        let answer: Contents =
            self.call_with_timeout(function, payload, self.live_timeout().await).await?;
        let row = answer.contents.into_iter().next().ok_or_else(|| {
            RegistryError::unexpected_answer(format!(
                "skills::resources-read returned no content for {uri}"
            ))
        })?;
        let ContentRow { mime_type, text, blob, version, yanked, imported } = row;
        let body = match (text, blob) {
            (Some(text), _) => text.into(),
            (None, Some(blob)) => BASE64.decode(blob).map(Bytes::from).map_err(|error| {
                RegistryError::unexpected_answer(format!("{uri} is not in base64: {error}"))
            })?,
            (None, None) => {
                return Err(RegistryError::unexpected_answer(format!("{uri} has no content")));
            }
        };
        // The requested URI, whatever the result names.
        let version = version.map(|version| ReadVersion { version, yanked, imported });
        let mime_type = rows::media_type(mime_type);
        Ok(Resource { uri: uri.to_owned(), mime_type, body, version })
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let arguments = functions::without_bus_fields(arguments);
        let payload = json!({ "name": name, "arguments": arguments });
        let rendered: Rendered =
            self.call_with_timeout("prompts::mcp-get", payload, self.live_timeout().await).await?;
        Ok(RenderedPrompt { description: rendered.description, messages: rendered.messages })
    }

    async fn register_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        let published = self.publish_bundle(tier, id, bundle, PublishRequest::default()).await?;
        Ok(published.registered_at)
    }

    async fn publish_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        let mut payload = bundle_payload(id, bundle);
        // Other implementations would store only the root document of a bundle.
        if payload.get("files").is_some() {
            self.require("skills::files", "the registry on this bus does not take bundles").await?;
        }
        // Other implementations have no such field.
        if !self.has_tiers().await?
            && let Some(fields) = payload.as_object_mut()
        {
            fields.remove("source");
        }
        self.add_tier(&mut payload, tier).await?;
        self.add_publish_request(&mut payload, &request).await?;
        self.call("skills::register", payload).await
    }

    async fn publish_bundles(
        &self,
        tier: Tier,
        publications: Vec<BundlePublication>,
    ) -> Result<Vec<Result<Published, RegistryError>>, RegistryError> {
        let is_one = publications.len() < 2;
        if is_one || !self.capabilities().await?.has(REGISTER_MANY) {
            let publish = |publication| publish_one(self, tier, publication);
            let publishing = stream::iter(publications).map(publish).buffered(CONCURRENT_WRITES);
            return Ok(publishing.collect().await);
        }
        let skill = |publication| {
            let BundlePublication { id, bundle, request, label } = publication;
            let mut payload = bundle_payload(&id, bundle);
            payload["message"] = json!(request.message);
            payload["expected_version"] = json!(request.expected_version);
            payload["label"] = json!(label.map(|label| label.to_string()));
            payload
        };
        let skills: Vec<Value> = publications.into_iter().map(skill).collect();
        let count = skills.len();
        let payload = json!({ "skills": skills, "tier": tier });
        let timeout = self.timeout.max(MANY_TIMEOUT);
        let many: ManyResults = self.call_with_timeout(REGISTER_MANY, payload, timeout).await?;
        if many.results.len() != count {
            let message = format!("{REGISTER_MANY} returned results of other skills");
            return Err(RegistryError::unexpected_answer(message));
        }
        Ok(many.results.into_iter().map(ManyResult::into_result).collect())
    }

    async fn remove_skill(&self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
        let mut payload = json!({ "id": id });
        self.add_tier(&mut payload, tier).await?;
        let answer: Removed = self.call("skills::unregister", payload).await?;
        Ok(answer.removed)
    }

    async fn register_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        let request = PublishRequest::default();
        Ok(self.publish_prompt(tier, name, definition, request).await?.registered_at)
    }

    async fn publish_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        let PromptDefinition { description, arguments, function_id } = definition;
        let mut payload = json!({
            "name": name,
            "description": description,
            "arguments": arguments,
            "function_id": function_id,
        });
        self.add_tier(&mut payload, tier).await?;
        self.add_publish_request(&mut payload, &request).await?;
        self.call("prompts::register", payload).await
    }

    async fn remove_prompt(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        let mut payload = json!({ "name": name });
        self.add_tier(&mut payload, tier).await?;
        let answer: Removed = self.call("prompts::unregister", payload).await?;
        Ok(answer.removed)
    }

    async fn collections(&self) -> Result<Vec<CollectionInfo>, RegistryError> {
        self.require(collections::LIST, collections::MISSING).await?;
        let answer: collections::Listed = self.call(collections::LIST, json!({})).await?;
        Ok(answer.collections)
    }

    async fn collection(&self, name: &str) -> Result<CollectionInfo, RegistryError> {
        self.require(collections::GET, collections::MISSING).await?;
        self.call(collections::GET, json!({ "name": name })).await
    }

    async fn put_collection(
        &self,
        tier: Tier,
        name: &str,
        collection: SkillCollection,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.require(collections::PUT, collections::MISSING).await?;
        let SkillCollection { title, description, skills } = collection;
        let mut payload = json!({
            "name": name, "title": title, "description": description, "skills": skills,
        });
        self.add_tier(&mut payload, tier).await?;
        self.add_publish_request(&mut payload, &request).await?;
        self.call(collections::PUT, payload).await
    }

    async fn remove_collection(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.require(collections::REMOVE, collections::MISSING).await?;
        let mut payload = json!({ "name": name });
        self.add_tier(&mut payload, tier).await?;
        let answer: Removed = self.call(collections::REMOVE, payload).await?;
        Ok(answer.removed)
    }

    async fn history(
        &self,
        kind: EntryKind,
        request: &HistoryRequest,
    ) -> Result<HistoryPage, RegistryError> {
        self.call_versions(kind, VersionOperation::History, request).await
    }

    async fn version(
        &self,
        kind: EntryKind,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<VersionInfo, RegistryError> {
        let id = format!("{id}@{version}");
        let request = HistoryRequest { id, tier, limit: Some(1), after: None };
        let page = self.history(kind, &request).await?;
        page.data.into_iter().next().ok_or(RegistryError::NotFound { kind, id: request.id })
    }

    async fn skill_version(
        &self,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        self.version_row(tier, id, version).await
    }

    async fn diff(
        &self,
        kind: EntryKind,
        request: &DiffRequest,
    ) -> Result<VersionDiff, RegistryError> {
        self.call_versions(kind, VersionOperation::Diff, request).await
    }

    async fn set_label(
        &self,
        kind: EntryKind,
        request: &LabelRequest,
    ) -> Result<VersionState, RegistryError> {
        self.call_versions(kind, VersionOperation::Label, request).await
    }

    async fn rollback(
        &self,
        kind: EntryKind,
        request: &RollbackRequest,
    ) -> Result<Published, RegistryError> {
        self.call_versions(kind, VersionOperation::Rollback, request).await
    }

    async fn yank(
        &self,
        kind: EntryKind,
        request: &YankRequest,
    ) -> Result<VersionState, RegistryError> {
        self.call_versions(kind, VersionOperation::Yank, request).await
    }

    async fn log(&self, request: &LogRequest) -> Result<LogPage, RegistryError> {
        self.call_history(versions::LOG, request).await
    }

    async fn collect(&self, request: &CollectRequest) -> Result<Collected, RegistryError> {
        self.call_history(versions::COLLECT, request).await
    }
}
