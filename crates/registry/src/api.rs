//! The trait that surfaces are written against. They do not know whether the registry is in this process or behind a bus.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, Digest, EntryKind, HandlerId, PromptArgument, PromptDefinition, Provenance,
    SkillCollection, Tier, VersionSelector,
    content::media_type,
    skill::ROOT_PATH,
    uri::{SCHEME, SKILL_SCHEME},
    version::VERSION_SEPARATOR,
};
use skills_store::NO_HISTORY;

use crate::{
    BundlePublication, Catalog, ChangeEvents, CollectRequest, Collected, CollectionInfo,
    ConnectedWorker, DiffRequest, Explanation, ExposedFunction, HistoryPage, HistoryRequest,
    LabelRequest, LogPage, LogRequest, OwnedChangeEvent, OwnedChangeEvents, PublishRequest,
    Published, RegistryError, RejectedRows, RollbackRequest, SkillLogPage, SkillLogRequest,
    SkillRow, VersionInfo, VersionState, YankRequest,
    diff::VersionDiff,
    live::LiveOperation,
    search::{SearchPage, SearchRequest},
    skill_collections::NO_COLLECTIONS,
};

/// Message of [`RegistryError::Unsupported`] where no live clients are hosted.
pub(crate) const NO_LIVE_CLIENTS: &str = "this registry hosts no live clients";

/// Message of [`RegistryError::Unsupported`] where the workers are not known.
const NO_WORKERS: &str = "this registry does not list workers";

/// Row of a listing of skills.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkillInfo {
    /// Skill id.
    pub id: String,
    /// Tier of a stored skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// First heading, or the id.
    pub title: String,
    /// First paragraph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Size of the root document in bytes.
    pub bytes: u64,
    /// Time of registration in RFC 3339.
    pub registered_at: String,
    /// Live client that has the skill, unless it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
}

/// Row of a listing of prompts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PromptInfo {
    /// Prompt name.
    pub name: String,
    /// Description for a picker.
    pub description: String,
    /// Arguments of the prompt.
    pub arguments: Vec<PromptArgument>,
    /// Handler function.
    pub function_id: String,
    /// Time of registration in RFC 3339.
    pub registered_at: String,
}

/// Content of a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Requested URI, unchanged.
    pub uri: String,
    /// Media type.
    pub mime_type: String,
    /// Content. Only files of bundles may be binary.
    pub body: Bytes,
    /// Version of a stored skill that the content is of, where it is known.
    pub version: Option<ReadVersion>,
}

/// Version that content was read from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReadVersion {
    /// Number of the version.
    pub version: u64,
    /// Reason of a yank: the reader should be warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked: Option<String>,
    /// Import that created the version, if every reader may see where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Box<VersionImport>>,
}

impl ReadVersion {
    /// Creates a version that was not imported.
    #[must_use]
    pub const fn new(version: u64, yanked: Option<String>) -> Self {
        Self { version, yanked, imported: None }
    }
}

/// Import that created a version: place, commit and path, digest and time.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VersionImport {
    /// Place that the content came from.
    #[serde(flatten)]
    pub source: Provenance,
    /// Content digest of the version.
    pub digest: Digest,
    /// Time of the registration in RFC 3339.
    pub registered_at: String,
}

impl Resource {
    /// Returns the body if it is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }

    /// Converts the body to text; replaces invalid UTF-8.
    #[must_use]
    pub fn into_text(self) -> String {
        String::from_utf8(self.body.into())
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// A file of a stored skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Media type.
    pub media_type: &'static str,
    /// Content.
    pub body: Bytes,
    /// Digest of the content.
    pub digest: Digest,
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RenderedPrompt {
    /// Description of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Messages for the model.
    pub messages: Vec<Value>,
}

/// A registry as one caller sees it, in this process or behind a bus.
#[async_trait]
pub trait SkillRegistry: Send + Sync {
    /// Returns the registry as another caller sees it.
    ///
    /// # Errors
    /// When the registry has a fixed caller.
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn SkillRegistry>, RegistryError>;
    /// Returns the current catalog.
    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError>;
    /// Returns the rows that were dropped from the last listings of a remote registry because they break a rule.
    fn rejected_rows(&self) -> RejectedRows {
        RejectedRows::default()
    }
    /// Subscribes to change events from now on.
    fn changes(&self) -> ChangeEvents;
    /// Subscribes to the change events of all callers from now on, for a surface that notifies many of them from one
    /// subscription. Only its owner may be notified of an event that has one. A registry with a fixed caller has the events
    /// of that caller.
    fn changes_by_owner(&self) -> OwnedChangeEvents {
        self.changes().map(OwnedChangeEvent::from).boxed()
    }
    /// Lists the skills that their ids resolve to, sorted by id.
    async fn skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        Ok(self.catalog().await?.skills_after(None).map(|row| row.as_ref().into()).collect())
    }
    /// Lists the skills of all tiers, including shadowed ones, sorted by id and then by tier.
    async fn all_skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        Ok(self.catalog().await?.layered_after(None).map(|row| row.as_ref().into()).collect())
    }
    /// Explains the resolution of a skill's name.
    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError>;
    /// Lists the prompts that their names resolve to, sorted by name.
    async fn prompts(&self) -> Result<Vec<PromptInfo>, RegistryError> {
        Ok(self.catalog().await?.prompts_after(None).map(|row| row.as_ref().into()).collect())
    }
    /// Searches skills, tools and prompts. Without a search of the registry's own, the rows of its catalog are searched.
    async fn search(&self, request: SearchRequest) -> Result<SearchPage, RegistryError> {
        self.catalog().await?.search_rows(&request)
    }
    /// Reads a URI.
    async fn read(&self, uri: &str) -> Result<Resource, RegistryError>;
    /// Reads a file of a stored skill, given its row of the current catalog.
    async fn document(&self, row: &SkillRow, path: &str) -> Result<Document, RegistryError> {
        let body = self.read(&file_uri(row, path)).await?.body;
        let digest = Digest::of(&body);
        Ok(Document { media_type: media_type(path), body, digest })
    }
    /// Reads a file of a stored skill in a pass over many skills, which displaces nothing from caches. A pass on a blocking
    /// thread sets `may_block`: it is faster if that thread waits for the disk itself.
    async fn scanned_document(
        &self,
        row: &SkillRow,
        path: &str,
        _may_block: bool,
    ) -> Result<Bytes, RegistryError> {
        Ok(self.document(row, path).await?.body)
    }
    /// Renders a prompt.
    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError>;
    /// Returns whether the registry hosts live clients, so that [`call_live`](Self::call_live) can succeed.
    async fn hosts_live_clients(&self) -> bool {
        false
    }
    /// Returns whether a live client is connected. [`ChangeEvent::Tools`](crate::ChangeEvent::Tools) reports the first
    /// that comes and the last that goes.
    async fn has_live_clients(&self) -> bool {
        false
    }
    /// Carries out an operation on live clients and their paths.
    async fn call_live(
        &self,
        _: LiveOperation,
        _: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        Err(RegistryError::Unsupported(NO_LIVE_CLIENTS))
    }
    /// Lists the workers that are connected to the bus of the registry, for people who look at it.
    async fn workers(&self) -> Result<Vec<ConnectedWorker>, RegistryError> {
        Err(RegistryError::Unsupported(NO_WORKERS))
    }
    /// Lists the functions that workers expose to agents.
    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError>;
    /// Calls a function of a worker.
    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError>;
    /// Registers a skill of one document and returns the time in RFC 3339. The private tier is that of the caller.
    async fn register_skill(
        &self,
        tier: Tier,
        id: &str,
        body: String,
    ) -> Result<String, RegistryError> {
        self.register_bundle(tier, id, Bundle::new(body, vec![])?).await
    }
    /// Registers a skill of several files and returns the time in RFC 3339. The private tier is that of the caller.
    async fn register_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError>;
    /// Removes a skill from a tier. Returns whether it existed.
    async fn remove_skill(&self, tier: Tier, id: &str) -> Result<bool, RegistryError>;
    /// Registers a prompt in a tier and returns the time in RFC 3339.
    async fn register_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError>;
    /// Removes a prompt from a tier. Returns whether it existed.
    async fn remove_prompt(&self, tier: Tier, name: &str) -> Result<bool, RegistryError>;
    /// Registers a skill with a message, under a condition on its newest version.
    async fn publish_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        if !request.is_empty() {
            return Err(RegistryError::Unsupported(NO_HISTORY));
        }
        self.register_bundle(tier, id, bundle).await.map(Published::without_history)
    }
    /// Registers many skills in one commit of the store, where the registry has such commits; else one after the other.
    /// A skill that is refused does not affect the others. The results have the order of the publications.
    ///
    /// # Errors
    /// When nothing is stored, or the registry cannot be reached any more.
    async fn publish_bundles(
        &self,
        tier: Tier,
        publications: Vec<BundlePublication>,
    ) -> Result<Vec<Result<Published, RegistryError>>, RegistryError> {
        let mut results = Vec::with_capacity(publications.len());
        for publication in publications {
            results.push(publish_one(self, tier, publication).await);
        }
        Ok(results)
    }
    /// Registers a prompt with a message, under a condition on its newest version.
    async fn publish_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        if !request.is_empty() {
            return Err(RegistryError::Unsupported(NO_HISTORY));
        }
        self.register_prompt(tier, name, definition).await.map(Published::without_history)
    }
    /// Lists the versions of an entry, newest first. Those of a removed entry are still listed.
    async fn history(
        &self,
        _kind: EntryKind,
        _request: &HistoryRequest,
    ) -> Result<HistoryPage, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Returns the version that a selector means. Succeeds for a purged version too.
    async fn version(
        &self,
        _kind: EntryKind,
        _tier: Option<Tier>,
        _id: &str,
        _version: &VersionSelector,
    ) -> Result<VersionInfo, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Returns the row of one version of a skill. [`document`](Self::document) reads its files.
    async fn skill_version(
        &self,
        _tier: Option<Tier>,
        _id: &str,
        _version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Returns the difference of two versions of an entry.
    async fn diff(
        &self,
        _kind: EntryKind,
        _request: &DiffRequest,
    ) -> Result<VersionDiff, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Moves or removes a label.
    async fn set_label(
        &self,
        _kind: EntryKind,
        _request: &LabelRequest,
    ) -> Result<VersionState, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Registers the content of an older version again, as a new version.
    async fn rollback(
        &self,
        _kind: EntryKind,
        _request: &RollbackRequest,
    ) -> Result<Published, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Yanks or purges a version, or undoes a yank.
    async fn yank(
        &self,
        _kind: EntryKind,
        _request: &YankRequest,
    ) -> Result<VersionState, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Reads the change log of the entries that the caller sees, newest first.
    async fn log(&self, _request: &LogRequest) -> Result<LogPage, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Reads the change log of the skills that the caller sees, oldest first, with the content that each change served.
    async fn skill_log(&self, _request: &SkillLogRequest) -> Result<SkillLogPage, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
    /// Lists the collections that their names resolve to, sorted by name.
    async fn collections(&self) -> Result<Vec<CollectionInfo>, RegistryError> {
        Ok(self.catalog().await?.collection_infos())
    }
    /// Returns the collection that a name resolves to.
    async fn collection(&self, name: &str) -> Result<CollectionInfo, RegistryError> {
        self.catalog().await?.collection_info(name)
    }
    /// Stores a collection in a tier, under a condition on its newest version.
    async fn put_collection(
        &self,
        _tier: Tier,
        _name: &str,
        _collection: SkillCollection,
        _request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        Err(RegistryError::Unsupported(NO_COLLECTIONS))
    }
    /// Removes a collection from a tier. Returns whether it existed.
    async fn remove_collection(&self, _tier: Tier, _name: &str) -> Result<bool, RegistryError> {
        Err(RegistryError::Unsupported(NO_COLLECTIONS))
    }
    /// Removes the content of versions of all layers that a retention rule no longer keeps.
    async fn collect(&self, _request: &CollectRequest) -> Result<Collected, RegistryError> {
        Err(RegistryError::Unsupported(NO_HISTORY))
    }
}

/// Returns the URI of a file of a skill.
pub(crate) fn file_uri(row: &SkillRow, path: &str) -> String {
    let root = match &row.pinned {
        // A pinned row is of one tier's copy, whatever its id resolves to.
        Some(pinned) => {
            format!("{SKILL_SCHEME}{}/{}{VERSION_SEPARATOR}{}", row.tier, row.id, pinned.version)
        }
        None => format!("{SCHEME}{}", row.id),
    };
    if path == ROOT_PATH { root } else { format!("{root}/{path}") }
}

/// Registers one skill of several, and moves its label.
///
/// # Errors
/// When it is refused.
pub async fn publish_one<R: SkillRegistry + ?Sized>(
    registry: &R,
    tier: Tier,
    publication: BundlePublication,
) -> Result<Published, RegistryError> {
    let BundlePublication { id, bundle, request, label } = publication;
    let published = registry.publish_bundle(tier, &id, bundle, request).await?;
    if let (Some(label), Some(version)) = (label, published.version) {
        let version = Some(VersionSelector::Number(version));
        let request = LabelRequest { id, tier: Some(tier), label, version, expected: None };
        registry.set_label(EntryKind::Skill, &request).await?;
    }
    Ok(published)
}
